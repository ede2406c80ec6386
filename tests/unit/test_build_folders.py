"""What is made of a build folder on the Hub is decided by its name and by what it says, and never by trust."""

import hashlib
import json
import re

import pytest
from build_folders import SHIM, pure, said

from wheelsmith.base.errors import SourceError
from wheelsmith.model import SourceId
from wheelsmith.plan.kernel import WheelNames
from wheelsmith.plan.recipe.recipe import KernelSource
from wheelsmith.plan.repack.folders import (
    BuildFacts,
    BuildFolder,
    BuiltPackage,
    built_package,
    check_digests,
    read_build_facts,
)
from wheelsmith.plan.repack.plans import plan_folders
from wheelsmith.plan.repack.variants import NoWheelError, cells_of, read_variant_name

NAMES = WheelNames(distribution="relu", version="1", module="relu", repo="org/relu")


def folder(name: str, content: str = "same", **facts) -> BuildFolder:
    return BuildFolder(
        variant=read_variant_name(name),
        facts=BuildFacts(**facts),
        package=BuiltPackage(module="relu", files={"__init__.py": "__init__.py"}),
        source=KernelSource(
            id=SourceId(origin="hub:org/relu", revision="v1", commit="c0" * 20, tree="7e" * 32),
            paths=("LICENSE",),
            readme=None,
        ),
        hashes={"__init__.py": content},
    )


def wheels(*folders: BuildFolder) -> dict[str, list[str]]:
    """Return the version of each wheel that is planned, with the cells that it serves."""
    found: dict[str, list[str]] = {}
    for plan in plan_folders(folders, NAMES, None).plans:
        found.setdefault(plan.wheel.version, []).append(plan.cell.id)
    return found


def reasons(*folders: BuildFolder) -> dict[str, str | None]:
    return {answer.variant: answer.reason for answer in plan_folders(folders, NAMES, None).results}


def headers(*folders: BuildFolder) -> list[str]:
    metadata = plan_folders(folders, NAMES, None).plans[0].wheel.metadata or ""
    return metadata.partition("\n\n")[0].splitlines()


# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("torch211-cu130-x86_64-linux", ["torch211-cxx11-cu130-x86_64-linux"]),
        ("torch26-cxx98-cpu-x86_64-linux", ["torch26-cxx98-cpu-x86_64-linux"]),
        ("tvm-ffi01-cu130-x86_64-linux", ["tvm-ffi01-cu130-x86_64-linux"]),
        (
            "torch-stable-abi213-cpu-x86_64-linux",
            [f"torch2{minor}-cxx11-cpu-x86_64-linux" for minor in (13, 14, 15)],
        ),
    ],
)
def test_a_name_says_which_cells_are_served(name, cells):
    variant = read_variant_name(name)
    assert [cell.id for cell in cells_of(variant)] == cells


@pytest.mark.parametrize(
    ("name", "backends"),
    [("torch-cuda", {"cuda"}), ("torch-cpu", {"cpu"}), ("torch-universal", {"cpu", "cuda"})],
)
def test_what_is_not_compiled_serves_every_known_torch(name, backends):
    cells = cells_of(read_variant_name(name))
    assert {cell.backend for cell in cells} == backends
    assert {cell.arch for cell in cells} == {"x86_64", "aarch64"}
    assert len({cell.release for cell in cells}) > 5


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("torch212-cxx11-rocm71-x86_64-linux", "it is for rocm71, but wheelsmith repacks builds for the CPU and CUDA"),
        ("torch212-metal-aarch64-darwin", "it is for darwin, but wheelsmith makes wheels for Linux"),
        ("torch27-cxx98-cpu-x86_64-linux", "torch 2.7 for cpu on x86_64 has the C++11 ABI"),
        ("torch26-cxx11-cpu-x86_64-linux", "torch 2.6 for cpu on x86_64 has the C++ ABI from before C++11"),
        ("torch28-cxx11-cu130-x86_64-linux", "torch 2.8 was built with CUDA"),
        ("torch-stable-abi299-cpu-x86_64-linux", "it is for torch 2.99 and newer, but wheelsmith knows none"),
        ("jax05-cpu-x86_64-linux", "'jax05-cpu-x86_64-linux' is not a variant name"),
        ("\x1b[31m", r"x1b[31m' is not a variant name"),
    ],
)
def test_what_no_wheel_is_made_of_has_its_reason(name, reason):
    with pytest.raises(NoWheelError, match=re.escape(reason)):
        cells_of(read_variant_name(name))


# --- what the wheels say: the faults of kernels' own to-wheel, gone ----------------------------------------------


@pytest.mark.parametrize(
    ("name", "version", "requires"),
    [
        ("torch210-cxx11-cu130-x86_64-linux", "1+cu130.torch2.10", "torch==2.10.*"),
        ("torch-stable-abi211-cu130-x86_64-linux", "1+cu130.torchstable", "torch>=2.11"),
        ("tvm-ffi01-cu130-x86_64-linux", "1+cu130.tvmffi0.1", "apache-tvm-ffi==0.1.*"),
        ("torch-cuda", "1", "torch"),
    ],
)
def test_a_wheel_names_its_platform_and_requires_its_framework(name, version, requires):
    plan = plan_folders([folder(name)], NAMES, None).plans[0]
    assert plan.wheel.version == version
    said_ = headers(folder(name))
    assert f"Version: {version}" in said_
    required = [line for line in said_ if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert required == [f"Requires-Dist: {requires}"]


def test_licence_upstream_and_dependencies_come_along():
    facts = {"license": "apache-2.0", "upstream": "https://example.org/relu"}
    found = headers(
        folder("torch-cpu", python_depends=("einops",), **facts),
        folder("torch-cuda", python_depends=("einops", "nvidia-cutlass-dsl"), **facts),
    )
    assert {"License-Expression: Apache-2.0", "License-File: LICENSE"} <= set(found)
    assert "Project-URL: Upstream, https://example.org/relu" in found
    assert "Requires-Dist: einops" in found
    assert 'Requires-Dist: nvidia-cutlass-dsl; extra == "cuda"' in found


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"kernel_depends": ("org/other",)}, "it needs org/other from the Hub at run time"),
        ({"python_depends": ("evil",)}, "the kernel depends on 'evil', which is not on kernel-builder's list"),
    ],
)
def test_what_a_wheel_cannot_require_is_refused(facts, reason):
    answers = plan_folders([folder("torch-cuda", **facts)], NAMES, None).results
    assert [answer.refused for answer in answers] == [True]
    assert reason in (answers[0].reason or "")


# --- which folder has which cell ---------------------------------------------------------------------------------


def test_the_stable_abi_goes_before_one_torch_as_for_installers():
    stable, late = "torch-stable-abi210-cpu-x86_64-linux", "torch-stable-abi213-cpu-x86_64-linux"
    one, older = "torch211-cxx11-cpu-x86_64-linux", "torch29-cxx11-cpu-x86_64-linux"
    builds = [folder(name) for name in (late, one, older, stable)]
    assert reasons(*builds) == {
        stable: None,
        late: f"{stable} serves all its cells",
        one: f"{stable} serves all its cells",
        older: None,
    }
    assert list(wheels(*builds)) == ["1+cpu.torchstable", "1+cpu.torch2.9"]
    assert len(wheels(*builds)["1+cpu.torchstable"]) == 6


def test_what_is_not_compiled_serves_what_nothing_else_does():
    found = wheels(folder("torch-cpu"), folder("torch213-cxx11-cpu-x86_64-linux"))
    assert found["1+cpu.torch2.13"] == ["torch213-cxx11-cpu-x86_64-linux"]
    assert "torch213-cxx11-cpu-x86_64-linux" not in found["1"]
    assert "torch213-cxx11-cpu-aarch64-linux" in found["1"]


def test_two_folders_with_nothing_compiled_are_one_wheel_or_none():
    assert list(wheels(folder("torch-cpu"), folder("torch-cuda"))) == ["1"]
    answers = plan_folders([folder("torch-cpu"), folder("torch-cuda", "other")], NAMES, None).results
    assert [answer.refused for answer in answers] == [True, True]


# --- what the folder holds -----------------------------------------------------------------------------------------


def package(files: dict[str, bytes], name: str | None = None) -> BuiltPackage:
    return built_package(sorted(files), name=name, fallback="the-repo", read=files.__getitem__)


def test_the_folder_is_the_package_and_the_way_back_to_it_is_left_out():
    found = package({**pure(), "relu/__init__.py": SHIM.encode(), "layers/__init__.py": b""}, "relu")
    assert found.module == "relu"
    assert sorted(found.files) == ["__init__.py", "_ops.py", "layers/__init__.py"]


def test_older_folders_hold_the_package():
    found = package({f"relu/{path}": data for path, data in pure().items()})
    assert (found.module, found.files["_ops.py"]) == ("relu", "relu/_ops.py")


@pytest.mark.parametrize(
    ("more", "module"),
    [
        ({"relu/__init__.py": SHIM.encode()}, "relu"),
        ({"_silu_and_mul_cuda_0a1b2c3.abi3.so": b""}, "silu_and_mul"),
        ({"_relu_0a1b2c3_dirty.abi3.so": b""}, "relu"),
        ({}, "the_repo"),
    ],
)
def test_without_a_name_the_folder_or_the_repo_gives_it(more, module):
    assert package({**pure(), **more}).module == module


def test_bytecode_and_what_the_loader_reads_are_left_out():
    files = {**pure(), "metadata.json": b"", "metadata.json.sigstore": b"", "x.pyc": b"", "__pycache__/y.pyc": b""}
    assert sorted(package(files, "relu").files) == ["__init__.py", "_ops.py"]


@pytest.mark.parametrize(
    ("files", "name", "reason"),
    [
        ({"relu/__init__.py": b"", "evil.pth": b""}, None, "it contains evil.pth next to its package relu"),
        ({"x.py": b""}, None, "it has no package to import"),
        ({"relu/__init__.py": b""}, "gelu", "metadata.json calls the kernel gelu, but its package is relu"),
        ({"a b/__init__.py": b""}, None, "'a b' is not an import name"),
    ],
)
def test_what_cannot_be_imported_alone_is_refused(files, name, reason):
    with pytest.raises(SourceError, match=reason):
        package(files, name)


# --- what metadata.json says ---------------------------------------------------------------------------------------


def test_what_kernel_builder_writes_is_read():
    files = pure()
    facts = read_build_facts(json.dumps(said("relu", files, "cuda", upstream="https://x.org/y")).encode())
    assert (facts.name, facts.version, facts.license, facts.backend) == ("relu", 1, "Apache-2.0", "cuda")
    hashes = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
    assert facts.digests == hashes
    check_digests(facts, hashes, files)


def test_what_is_left_out_stays_open():
    assert read_build_facts(b"{}") == BuildFacts()
    assert read_build_facts(b'{"license": "unknown", "name": null}') == BuildFacts()


@pytest.mark.parametrize(
    ("hashes", "reason"),
    [
        ({"a": "00" * 32, "b": "11" * 32}, "a does not match its digest in metadata.json"),
        ({"b": "11" * 32}, "a is missing, but metadata.json has its digest"),
        ({"a": "11" * 32, "b": "11" * 32, "c": "22" * 32}, "metadata.json has no digest of c"),
    ],
)
def test_files_are_held_against_their_digests(hashes, reason):
    facts = BuildFacts(digests={"a": "11" * 32, "b": "11" * 32})
    with pytest.raises(SourceError, match=reason):
        check_digests(facts, hashes, hashes)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"name": "../x"}',
        '{"version": 99999999999999999999}',
        '{"license": "a\\nRequires-Dist: evil"}',
        '{"python-depends": "einops"}',
        '{"digest": {"algorithm": "md5", "files": {}}}',
        '{"digest": {"algorithm": "sha256", "files": {"a": "AAAA"}}}',
    ],
)
def test_a_metadata_of_another_shape_is_refused(text):
    with pytest.raises(SourceError, match=r"^metadata\.json: "):
        read_build_facts(text.encode())
