"""A release that is taken out of the facts and added again by a maintainer's command leaves them as they were."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import add_cuda
import add_torch
import package_index
import pytest
import watch
from git_repos import GitRepo
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from torch_symbols import TorchWheel

from wheelsmith.frameworks import framework, torch_releases
from wheelsmith.model import PinnedFile
from wheelsmith.platforms import cuda_toolkits
from wheelsmith.platforms.header_libraries import header_libraries
from wheelsmith.wheel.symbols import symbol_table

ROOT = Path(__file__).parent.parent.parent
TORCH = ROOT / "wheelsmith/frameworks/torch.json"
CUDA = ROOT / "wheelsmith/platforms/cuda.json"
MATRIX = """
| PyTorch version | Python | Stable CUDA | Experimental CUDA |
| --- | --- | --- | --- |
| 2.16 | >=3.11 | CUDA 13.0 (CUDNN 9.20.0.48), CUDA 12.6 | CUDA 13.2, CUDNN 9 |
| 2.15 | >=3.10 | none | none |
"""


def pin(filename, project="kernel"):
    return PinnedFile(project=project, version="1", filename=filename, sha256="0" * 64, size=1)


def without(path, key, word, newest, tmp_path):
    """Copy the facts without one item; return the copy and the item."""
    data = json.loads(path.read_text())
    item = next(each for each in data[key] if each[word] == newest)
    data[key].remove(item)
    copy = tmp_path / path.name
    copy.write_text(json.dumps(data, indent=1) + "\n")
    return copy, item


def test_torch(tmp_path, monkeypatch):
    minor, release = list(torch_releases().items())[-1]
    copy, item = without(TORCH, "releases", "minor", minor, tmp_path)
    written = []
    monkeypatch.setattr(add_torch, "TARGET", copy)
    monkeypatch.setattr(add_torch, "published", lambda project: {Version(release.version): release.wheels.values()})
    monkeypatch.setattr(add_torch, "cuda_of_wheel", lambda pin: release.cuda[0])
    monkeypatch.setattr(add_torch, "read_wheel", lambda pin: known_wheel(pin, minor))
    monkeypatch.setattr(add_torch, "make_partial_pin", package_index.make_pin)
    monkeypatch.setattr(add_torch, "write_symbols", lambda arch, fresh, date: written.append((arch, *fresh)))
    monkeypatch.setattr(add_torch.generate_reference, "main", lambda: None)
    words = [word for cuda in item["cuda"] for word in ("--cuda", cuda)]
    words += ["--cuda-source", item["cuda_source"], "--source", item["source"], "--date", item["date"]]
    monkeypatch.setattr(sys, "argv", ["add_torch.py", release.version, *words])
    add_torch.main()
    before, after = json.loads(TORCH.read_text()), json.loads(copy.read_text())
    before["releases"][-1]["cuda_date"] = item["date"]
    assert json.dumps(after) == json.dumps(before)
    assert written == [("x86_64", minor), ("aarch64", minor)]


def known_wheel(pin, minor):
    table = symbol_table("aarch64" if "aarch64" in pin.filename else "x86_64")
    return TorchWheel(libraries=table.libraries[minor], exports=table.exports_of(minor))


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_the_abi_and_cuda_are_read_from_a_wheels_libraries(arch):
    first = next(iter(torch_releases()))
    read = {arch: known_wheel(torch_releases()[first].wheels[arch], first)}
    assert add_torch.find_abi(read) == {"cxx11_abi": {arch: torch_releases()[first].cxx11_abi[arch]}}
    assert add_torch.find_cpu_only(read) == ({"without_cuda": ["aarch64"]} if arch == "aarch64" else {})


def test_cuda(tmp_path, monkeypatch):
    version = next(reversed(cuda_toolkits()))
    copy, item = without(CUDA, "toolkits", "version", version, tmp_path)
    wheels, known = {}, cuda_toolkits()[version]
    # Headers are the same for both architectures: those of one are pinned.
    others = [replace(pin, filename=pin.filename.replace("x86_64", "aarch64")) for pin in known.development]
    for pins in (*known.packages.values(), known.development, others):
        for each in pins:
            wheels.setdefault(each.project, {}).setdefault(Version(each.version), []).append(each)
    named = {project: SpecifierSet(f"=={next(iter(found))}.*") for project, found in wheels.items()}
    monkeypatch.setattr(add_cuda, "TARGET", copy)
    monkeypatch.setattr(add_cuda, "published", lambda project: {Version("1"): [], **wheels[project]})
    monkeypatch.setattr(add_cuda, "make_partial_pin", add_cuda.make_pin)
    monkeypatch.setattr(add_cuda, "packages_of_release", lambda version: named)
    monkeypatch.setattr(add_cuda, "run_ptxas", lambda pin: (item["capabilities"], item["ptx"]))
    before = copy.read_bytes()

    def find_cxx_standard(toolkit):
        assert copy.read_bytes() == before  # nothing is written before everything is known
        assert toolkit.version == version
        return item["cxx_std"]

    monkeypatch.setattr(add_cuda, "find_cxx_standard", find_cxx_standard)
    monkeypatch.setattr(sys, "argv", ["add_cuda.py", version, "--source", item["source"], "--date", item["date"]])
    add_cuda.main()
    assert copy.read_bytes() == CUDA.read_bytes()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--matrix", "RELEASE.md"], (["12.6", "13.0", "13.2"], add_torch.MATRIX)),
        ([], "pass --matrix RELEASE.md of pytorch/pytorch, or --cuda and --cuda-source"),
        (["--cuda", "13.2"], "--cuda requires --cuda-source"),
    ],
)
def test_who_says_for_which_cuda_a_torch_was_built(words, answer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("RELEASE.md").write_text(MATRIX)
    monkeypatch.setattr(sys, "argv", ["add_torch.py", "2.16.0", *words])
    options = add_torch._options()
    if isinstance(answer, str):
        with pytest.raises(SystemExit, match=answer):
            add_torch.find_cuda_releases("2.16", [], options)
    else:
        assert add_torch.find_cuda_releases("2.16", [], options) == answer


def test_a_patch_release_keeps_what_was_known_of_its_minor(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["add_torch.py", "2.9.9"])
    releases = json.loads(TORCH.read_text())["releases"]
    known = torch_releases()["2.9"]
    assert add_torch.find_cuda_releases("2.9", releases, add_torch._options()) == (list(known.cuda), known.cuda_source)
    assert add_torch.find_cxx_standard(Version("2.9.9"), releases) == known.cxx_std
    assert add_torch.find_cxx_standard(Version("2.12.9"), releases) == 20
    assert [each["minor"] for each in add_torch.replace_release({"minor": "2.9"}, releases)] == list(torch_releases())


def test_what_is_new_is_listed_and_added(tmp_path, monkeypatch, capsys):
    torch, tvm_ffi = list(torch_releases().values())[-1], framework("tvm-ffi").releases().values()
    newest = {
        "torch": [torch.version, f"{torch.minor}.99", "2.99.0", "1.9.9"],
        "cuda-toolkit": [*cuda_toolkits(), "11.8.0", "13.99.1", "13.99.0"],
        "apache-tvm-ffi": [*(release.version for release in tvm_ffi), "9.9"],
        "jaxlib": [*(release.version for release in framework("jax").releases().values()), "9.8.0", "9.8.1"],
        # A patch release of a known minor changes nothing.
        "tensorflow": [*(each.version for each in framework("tensorflow").releases().values()), "2.21.9"],
        "mindspore": [each.version for each in framework("mindspore").releases().values()],
    }
    monkeypatch.setattr(watch, "published", lambda name: dict.fromkeys(sorted(map(Version, newest[name])), ()))
    known = [f'"{name}" = [' for name in header_libraries()]
    depends = {
        "general": {"einops": {}, "newer": {}},
        "backends": {"cuda": {"nvidia-cutlass-dsl": {}}, "xpu": {"x": {}}},
    }
    files = {
        watch.HEADERS: "\n".join([*known, '"cutlass_9_1" = [', '"torch" = [']),
        watch.PYTHON_DEPENDS: json.dumps(depends),
    }
    kernels, cutlass = (GitRepo.make(tmp_path / name) for name in ("kernels", "cutlass"))
    kernels.commit(files)
    for tag in ("v9.1.2", "v9.1.10", "v9.10.0"):
        cutlass.tag(tag, cutlass.commit({"include/c.h": tag}))
    argv = ["watch.py", "--kernels", kernels.url, "--cutlass", cutlass.url]
    monkeypatch.setattr(sys, "argv", argv)
    watch.main()
    news = [f"torch {torch.minor}.99", "torch 2.99.0", "CUDA 13.99", "tvm-ffi 9.9", "jax 9.8.1", "CUTLASS 9.1.10"]
    last = "python-depends newer of kernel-builder"
    assert capsys.readouterr().out.splitlines() == [f"- {each}: new" for each in (*news, last)]

    monkeypatch.setattr(sys, "argv", [*argv, "--add"])
    monkeypatch.setattr(watch, "script", lambda name, *_: (sys.executable, "-c", name.endswith("ffi.py") * "no"))
    watch.main()
    told = capsys.readouterr().out.splitlines()
    assert told[:3] == [f"- {each}: added" for each in news[:3]]
    assert told[3].startswith("- tvm-ffi 9.9: not added: NameError")
    assert told[4:] == ["- jax 9.8.1: added", "- CUTLASS 9.1.10: added", f"- {last}: add it by hand"]


def test_what_ptxas_says():
    text = "Allowed values: 'compute_90','sm_100','sm_100f','sm_100a','sm_90a','sm_75','lto_75','sm_90'."
    assert add_cuda.parse_capabilities(text) == ["7.5", "9.0", "9.0a", "10.0", "10.0a", "10.0f"]
    assert add_cuda.parse_ptx_version("fatal   : Unsupported .version 99.0; current version is '9.5'\n") == "9.5"
    with pytest.raises(SystemExit, match="does not report its PTX"):
        add_cuda.parse_ptx_version("")


def test_a_wheel_for_each_architecture():
    arm = pin("kernel-1-cp311-cp311-manylinux_2_28_aarch64.whl")
    intel = pin("kernel-1-cp311-cp311-manylinux1_x86_64.whl")
    strangers = [
        pin(f"kernel-1-{tag}.whl")
        for tag in ("cp311-cp311t-manylinux_2_28_x86_64", "cp311-cp311-musllinux_1_2_x86_64", "cp311-cp311-win_amd64")
    ]
    assert package_index.wheel_for_each_arch("kernel", [arm, intel, *strangers], "cp311") == {
        "x86_64": intel,
        "aarch64": arm,
    }
    with pytest.raises(SystemExit, match="no wheel of kernel for x86_64"):
        package_index.wheel_for_each_arch("kernel", [arm, *strangers], "cp311")
