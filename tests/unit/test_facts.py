import re
from pathlib import Path

import pytest
from torch_symbols import write_table

from wheelsmith.base.units import numbers
from wheelsmith.frameworks import framework, torch_releases
from wheelsmith.plan.recipe.project_hints import dependencies, project_hints
from wheelsmith.platforms import cuda_drivers, cuda_packages, cuda_prefix, cuda_toolkits, parse_capability
from wheelsmith.wheel.symbols import (
    TorchLibrary,
    cuda_exports,
    fingerprint,
    read_table,
    symbol_table,
)

DATE = re.compile(r"20\d\d-\d\d-\d\d")


def pins():
    for release in torch_releases().values():
        yield from release.wheels.values()
    for toolkit in cuda_toolkits().values():
        yield from toolkit.headers
        yield from toolkit.target_runtime.values()
        for packages in toolkit.packages.values():
            yield from packages


def test_every_fact_has_a_source_and_a_date():
    facts = (
        *torch_releases().values(),
        *cuda_toolkits().values(),
        *dependencies(),
        *project_hints().values(),
        cuda_drivers(),
        cuda_packages(),
    )
    for fact in facts:
        assert fact.source
        assert DATE.fullmatch(fact.date)
    for release in torch_releases().values():
        assert release.cuda_source
        assert DATE.fullmatch(release.cuda_date)


@pytest.mark.parametrize("pin", {pin.filename: pin for pin in pins()}.values(), ids=lambda pin: pin.filename)
def test_pins_are_whole(pin):
    assert re.fullmatch(r"[0-9a-f]{64}", pin.sha256)
    assert pin.size > 0
    name, version, *_ = pin.filename.split("-")
    assert name.replace("_", "-") == pin.project
    assert version == pin.version


def test_torch_releases():
    known = ["2.6", "2.7", "2.8", "2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15"]
    assert list(torch_releases())[: len(known)] == known
    for minor, release in torch_releases().items():
        assert release.version.startswith(minor + ".")
        assert set(release.wheels) == {"x86_64", "aarch64"}
        assert release.cxx_std in {17, 20}
        assert set(release.cxx11_abi) == set(release.wheels)


def test_toolkits():
    assert list(cuda_toolkits()) == sorted(cuda_toolkits(), key=numbers)
    assert [v for v, toolkit in cuda_toolkits().items() if toolkit.prefers_image] == ["12.4", "12.6", "12.8", "12.9"]
    assert [v for v, toolkit in cuda_toolkits().items() if not toolkit.static_runtime] == ["12.4", "12.6", "12.8"]
    assert [v for v, toolkit in cuda_toolkits().items() if toolkit.cxx_std > 17] == ["13.3", "13.4"]
    for toolkit in cuda_toolkits().values():
        for text in (*toolkit.capabilities, *toolkit.default_capabilities):
            parse_capability(text)
        assert {c.removesuffix("+PTX") for c in toolkit.default_capabilities} <= set(toolkit.capabilities)
        x86, arm = (toolkit.packages.get(arch, ()) for arch in ("x86_64", "aarch64"))
        assert [pin.project for pin in x86] == [pin.project for pin in arm]
        assert set(toolkit.compilers) in (set(), set(toolkit.packages))
        for machine, pin in toolkit.compilers.items():
            assert pin.url.endswith(f"/{pin.filename}")
            names = {"x86_64": ("_amd64.deb", "-linux-x86_64-"), "aarch64": ("_arm64.deb", "-linux-sbsa-")}
            assert any(name in pin.filename for name in names[machine])
            assert re.fullmatch(r"[0-9a-f]{64}", pin.sha256)


def test_the_readme_names_what_is_known():
    """By where it begins: the newest release is in the facts alone."""
    text = " ".join((Path(__file__).parent.parent.parent / "README.md").read_text().split())
    majors = dict.fromkeys(numbers(version)[0] for version in cuda_toolkits())
    assert f"{' and '.join(f'CUDA {major}' for major in majors)} are assembled from pinned packages" in text
    assert f"of torch, from {next(iter(torch_releases()))} on, only the headers are fetched" in text


def test_a_prefix_is_named_by_its_pins():
    toolkits, releases = list(cuda_toolkits().values()), torch_releases()
    names = {cuda_prefix(t, "x86_64", target).digest for t in toolkits for target in ("x86_64", "aarch64")}
    assert len(names) == 2 * len(toolkits)
    assert len({framework("torch").prefix(release, "x86_64").digest for release in releases.values()}) == len(releases)


def test_a_symbol_table_gives_back_what_it_was_made_from():
    base, more = (
        TorchLibrary(soname="libbase.so", needed=()),
        TorchLibrary(soname="libmore.so.1", needed=("libbase.so",)),
    )
    libraries = {"2.1": {"libbase.so": base}, "2.2": {"libbase.so": base, "libmore-0.so": more}}
    exports = {
        "2.1": {"libbase.so": {fingerprint("a"), fingerprint("b")}},
        "2.2": {"libbase.so": {fingerprint("b")}, "libmore-0.so": {fingerprint("b"), fingerprint("c")}},
    }
    table = read_table(write_table(libraries, exports, source="x", date="2026-01-01"))
    assert table.releases == ("2.1", "2.2")
    assert table.exported_by("b", ["libmore-0.so"]) == {"2.2"}
    assert table.exported_by("c", ["libbase.so"]) == frozenset()
    assert table.find_library("2.2", "libmore.so.1") == "libmore-0.so"
    assert table.find_library("2.1", "libmore.so.1") is None
    assert table.libraries == libraries
    assert {release: table.exports_of(release) for release in table.releases} == exports
    assert fingerprint("a") != fingerprint("b")


def test_the_package_of_each_library_of_cudas_is_known():
    """But of the driver's and OpenCL's, and what only its own package loads."""
    known = {stem for stems in cuda_packages().libraries.values() for stem in stems}
    numbered = {
        re.match(r"lib(.+?)(\.alt)?\.so", name)[1]
        for major in (12, 13)
        for name in cuda_exports(major).symbols
        if name.startswith("lib")
    }
    assert numbered - known == {"cuda", "nvidia-ml"}


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_the_shipped_tables_know_torch(arch):
    table = symbol_table(arch)
    assert table.releases == tuple(torch_releases())
    assert table.exported_by("_ZTIN3c105ErrorE", ["libtorch_cpu.so"]) == frozenset()
    assert all("libc10.so" in table.libraries[release]["libtorch_cpu.so"].needed for release in table.releases)
    # c10::Error, in every release; torch's stable ABI, of 2.10 and later; nobody's.
    assert table.exported_by("_ZTIN3c105ErrorE") == set(torch_releases())
    assert "2.9" not in table.exported_by("torch_library_impl")
    assert {"2.11", "2.15"} <= table.exported_by("torch_library_impl")
    assert table.exported_by("wheelsmith_exports_nothing") == frozenset()
    # An error's message is a std::string, which has two names: the facts say which torch has which.
    for name, new in (("Ss", False), ("NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", True)):
        having = {minor for minor, release in torch_releases().items() if release.cxx11_abi[arch] is new}
        assert table.exported_by(f"_ZN3c105ErrorC1ENS_14SourceLocationE{name}") == having
