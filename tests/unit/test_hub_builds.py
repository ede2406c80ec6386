import base64
import hashlib
import json
from dataclasses import replace

import pytest
import states
from hub_kernels import contents

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.publish.kernels_layout import NoHubBuildError, build_layout, is_superseded
from wheelsmith.index.storage.hub import kernel_branch, parse_target
from wheelsmith.model import Cell

CPU = Cell(release="2.11", toolkit=None, arch="x86_64")
CUDA = Cell(release="2.11", toolkit="13.0", arch="x86_64")
NEWER = Cell(release="2.12", toolkit="13.2", arch="x86_64")


def entry(version, *cells, platform="manylinux_2_28_x86_64", torch=None, archs=()):
    tags = f"cp39-abi3-{platform}" if "+" in version else "py3-none-any"
    made = states.entry(version, *cells, tag=tags, requires_torch=torch, gpu_archs=archs)
    return replace(made, filename=f"my_relu-{version}-{tags}.whl")


def laid_out(version, *cells, files=None, **more):
    return build_layout(files or contents("my_relu", version), entry(version, *cells, **more))


@pytest.mark.parametrize(
    ("version", "cells", "torch", "folders"),
    [
        ("1+cu130.torch2.11", (CUDA,), "==2.11.*", {"torch211-cxx11-cu130-x86_64-linux"}),
        # One that was compiled for the oldest minor of its CUDA, and serves a newer one.
        ("1+cu130.torch2.12", (NEWER,), "==2.12.*", {"torch212-cxx11-cu130-x86_64-linux"}),
        ("1+cu130.torchstable", (CUDA, NEWER), ">=2.10", {"torch-stable-abi210-cu130-x86_64-linux"}),
        # As such wheels were called before.
        ("1+cu130", (CUDA, NEWER), ">=2.10", {"torch-stable-abi210-cu130-x86_64-linux"}),
        ("1", (CPU, CUDA, NEWER), "", {"torch-cpu", "torch-cuda"}),
        (
            "1+cpu.torch2.5",
            (Cell(release="2.5", toolkit=None, arch="x86_64", cxx11_abi=False),),
            "==2.5.*",
            {"torch25-cxx98-cpu-x86_64-linux"},
        ),
    ],
)
def test_a_variant_is_called_after_what_was_compiled(version, cells, torch, folders):
    assert {path.split("/")[1] for path in laid_out(version, *cells, torch=torch)} == folders


def test_the_package_becomes_the_folder_and_the_metadata_tells_its_hashes():
    fields = "License-Expression: MIT\nProject-URL: Upstream, https://example.org/relu\n"
    requires = ("torch==2.11.*", "einops", 'nvidia-cutlass-dsl; extra == "cuda"')
    files = contents("my_relu", "3+cu130.torch2.11", fields=fields, requires=requires)
    layout = laid_out("3+cu130.torch2.11", CUDA, files=files, archs=("8.0", "9.0+PTX"))
    root = "build/torch211-cxx11-cu130-x86_64-linux/"
    own = {path.removeprefix(root): data for path, data in layout.items()}
    extension = "_my_relu_cuda_0123456789.abi3.so"
    assert set(own) == {"__init__.py", "_ops.py", extension, "my_relu/__init__.py", "metadata.json"}
    assert own[extension] == files[f"my_relu/{extension}"]
    metadata = json.loads(own.pop("metadata.json"))
    digest = metadata.pop("digest")
    assert digest["algorithm"] == "sha256"
    assert digest["files"] == {
        path: base64.b64encode(hashlib.sha256(data).digest()).decode() for path, data in own.items()
    }
    assert metadata.pop("wheelsmith")["wheel"].startswith("my_relu-3+cu130")
    assert metadata == {
        "name": "my-relu",
        "id": "_my_relu_cuda_0123456789",
        "version": 3,
        "license": "MIT",
        "upstream": "https://example.org/relu",
        "python-depends": ["einops", "nvidia-cutlass-dsl"],
        "kernel-depends": [],
        "backend": {"type": "cuda", "archs": ["8.0", "9.0+PTX"]},
    }


def test_a_kernel_with_nothing_compiled_has_a_name_for_each_backend():
    layout = laid_out("1", CPU, CUDA)
    ids = {name: json.loads(layout[f"build/torch-{name}/metadata.json"])["id"] for name in ("cpu", "cuda")}
    assert ids == {name: f"_my_relu_{name}_0123456789" for name in ids}


V = "1+cpu.torch2.11"


@pytest.mark.parametrize(
    ("version", "cells", "files", "why"),
    [
        (V, (CPU,), {"my_relu/_ops.py": None}, "one package with an _ops.py"),
        (V, (CPU,), {"my_relu.libs/libgomp.so": b""}, "my_relu.libs outside its package"),
        (V, (CPU,), {"my_relu/x.py": b"def f():\n    from my_relu._ops import ops\n"}, "my_relu/x.py imports my_relu"),
        (V, (CPU,), {"my_relu/other.abi3.so": b""}, "exactly one extension"),
        ("1+abc", (CPU,), {}, "not one of wheelsmith's"),
        ("1+cpu.torchstable", (CPU,), {}, "a release of torch"),
        (V, (), {}, "name a framework and a CUDA release"),
        (V, (replace(CPU, python="3.12"),), {}, "one Python"),
        ("1", (CPU,), {"my_relu/_ops.py": b""}, "namespace of its operators"),
        (
            V,
            (CPU,),
            {f"my_relu-{V}.dist-info/METADATA": b"Metadata-Version: 2.1\nRequires-Dist: numpy\n"},
            "requires numpy",
        ),
    ],
)
def test_what_the_library_could_not_load_is_left_out(version, cells, files, why):
    with pytest.raises(NoHubBuildError, match=why):
        laid_out(version, *cells, files=contents("my_relu", version, more=files))


def test_neither_relative_imports_nor_broken_sources_are_refused():
    more = {
        "my_relu/a.py": b"from . import _ops\nfrom .my_relu import x\nimport my_relu_more\n",
        "my_relu/b.py": b"print 'Python 2'\n",
        "my_relu/a.pyc": b"",
    }
    layout = laid_out(V, CPU, files=contents("my_relu", V, more=more))
    assert {path.rpartition("/")[2] for path in layout} >= {"a.py", "b.py"}
    assert not any(path.endswith(".pyc") for path in layout)


def metadata(version, wheel=None):
    extra = {"wheelsmith": {"wheel": f"k-{wheel}-py3-none-any.whl"}} if wheel else {}
    return json.dumps({"version": version, **extra}).encode()


@pytest.mark.parametrize(
    ("known", "new", "answer"),
    [
        (metadata(1, "1+cpu"), metadata(1, "1+cpu"), False),
        (metadata(1, "1+cpu"), metadata(1, "1.1+cpu"), True),
        (metadata(1, "1.10+cpu"), metadata(1, "1.9+cpu"), False),
        (metadata(1), metadata(1, "1+cpu"), True),
        (metadata(2), metadata(1, "1+cpu"), False),
        (b"\xff{", metadata(1, "1+cpu"), True),
    ],
)
def test_only_an_older_build_gives_way(known, new, answer):
    assert is_superseded(known, new) is answer


@pytest.mark.parametrize(
    ("target", "kind", "repo", "branch", "folder"),
    [
        ("hf://org/name", "model", "org/name", "main", ""),
        ("hf://datasets/org/name@dev", "dataset", "org/name", "dev", ""),
        ("hf://spaces/org/name/whl/", "space", "org/name", "main", "whl/"),
        ("hf://kernels/org/na.me@v1/a/b", "kernel", "org/na.me", "v1", "a/b/"),
    ],
)
def test_targets(target, kind, repo, branch, folder):
    place = parse_target(target)
    assert (place.kind, place.repo, place.branch, place.folder) == (kind, repo, branch, folder)
    assert parse_target(place.name) == place


@pytest.mark.parametrize(
    "target",
    [
        *("hf://", "hf://name", "hf://kernels/name", "hf://org/name@", "hf://org/na me", "hf://../x", "hf://a/b/../c"),
        *("hf://buckets/org/name", "hf://org/name//x", "hf://org/name/.git", "hf://org/name/a\x1b[31m"),
        "hf://user:hf_abcdefghijkl@org/name",
    ],
)
def test_a_wrong_target_is_refused_and_not_repeated(target):
    with pytest.raises(PackageIndexError) as caught:
        parse_target(target)
    assert caught.value.remedy.startswith("write hf://")
    assert "hf_abc" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "branch"),
    [
        ("hf://kernels/org/name", "main"),
        ("hf://kernels/org/name@v1", "v1"),
        ("hf://kernels/org/name@v1/whl", None),
        ("hf://org/name", None),
        ("dist/index", None),
    ],
)
def test_builds_are_for_the_top_of_kernel_repos(target, branch):
    assert kernel_branch(target) == branch
