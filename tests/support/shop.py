"""An index with every kind of wheel, the torches that they are for, and a PyPI that would lead astray."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from states import provenance, unserved
from wheels import make_wheel, offer

from wheelsmith.index.entries.entry import NoWheel, ProjectStatus
from wheelsmith.index.entries.state import set_status, yank
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell

README = """Project-URL: Source, https://github.com/example/rmsnorm
Description-Content-Type: text/markdown

# rmsnorm

[![CI](https://ci.example/badge.svg)](https://ci.example/) <img src="logo.png"> Norms of `rows`; see [notes](notes.md).

### Speed

| GPU | with a long name, without an empty cell | times |
|-----|:---:|------:|
| `A100-SXM4-80GB` | 1 | 4.5 |

```python
y = rmsnorm.rmsnorm(x, weight, eps=1e-6)  # a comment that makes this line too long for a phone, so that it has to wrap
```

1. one
   > two
"""
NOW = "2026-01-02T03:04:05Z"
HERE = "cp39-abi3-manylinux_2_17_x86_64"
ARM = "cp39-abi3-manylinux_2_17_aarch64"
# What facts say of these torches: the patch release that stands for each, and its CUDA.
TORCHES = {"2.9": ("2.9.1", ("12.8",)), "2.11": ("2.11.0", ("13.0",)), "2.13": ("2.13.0", ("12.6", "13.0", "13.2"))}


def name_of(cuda: str | None) -> str:
    """Return the compute platform of a CUDA."""
    return "cpu" if cuda is None else "cu" + cuda.replace(".", "")


def torch_files(version: str, cuda: str | None) -> dict[str, bytes]:
    """Return a torch of which there is no more than it takes to be recognised."""
    text = f"__version__ = {version!r}\ncuda: str | None = {cuda!r}\nhip: str | None = None\n"
    return {"torch/__init__.py": b"raise ImportError('nobody should import this')\n", "torch/version.py": text.encode()}


def torch_wheel(folder: Path, version: str, cuda: str | None) -> Path:
    """Write a stand-in for a torch wheel."""
    return make_wheel(folder, "torch", version, files=torch_files(version, cuda))


def make_torches(root: Path) -> None:
    """Write what download.pytorch.org has, under ``whl/``."""
    offers = []
    for torch, (version, cudas) in TORCHES.items():
        for cuda in (None, *cudas):
            path = torch_wheel(root / "made", f"{version}+{name_of(cuda)}", cuda)
            offers.append(offer(path, Cell(release=torch, toolkit=cuda, arch="x86_64")))
    Index(Folder(root / "whl")).add(offers, upload_time=NOW)


def make_pypi(root: Path) -> None:
    """Write a PyPI: torches without a local version, einops, and strangers with our projects' names."""
    made = [torch_wheel(root / "made", version, "13.0") for version in ("2.11.0", "2.13.0", "2.99.0")]
    made += [make_wheel(root / "made", name, "99.0") for name in ("activation", "layers", "rmsnorm", "fused")]
    made.append(make_wheel(root / "made", "einops", "0.8.1"))
    Index(Folder(root)).add([offer(path) for path in made], upload_time=NOW)


def make_shop(root: Path) -> None:
    """Write the index: compiled for each torch, stable, pure, with other requirements; failed, excluded and yanked."""
    made, offers, answers = root.with_name("made"), [], []
    for torch, (_, cudas) in TORCHES.items():
        for version in ("1.0", "1.1"):
            for cuda in (None, *cudas):
                if cuda == "13.2":
                    continue
                for arch, tag in (("x86_64", HERE), ("aarch64", ARM)):
                    cell = Cell(release=torch, toolkit=cuda, arch=arch)
                    if (version, torch, cuda, arch) == ("1.1", "2.13", "12.6", "aarch64"):
                        tail = ("x.cu(3): error: </script><b>", "stopped")
                        answers.append(unserved(cell, NoWheel.FAILED, "compile: exit code 2", version="1.1", tail=tail))
                        continue
                    local = f"{name_of(cuda)}.torch{torch}"
                    path = make_wheel(
                        made, "activation", f"{version}+{local}", requires=(f"torch=={torch}.*",), tag=tag
                    )
                    folded = (
                        (Cell(release=torch, toolkit="13.2", arch=arch),) if (torch, cuda) == ("2.13", "13.0") else ()
                    )
                    given = offer(path, cell, *folded)
                    offers.append(replace(given, entry=replace(given.entry, provenance=provenance(cell))))
    answers += [
        unserved(
            Cell(release="2.9", toolkit=cuda, arch="x86_64"), NoWheel.EXCLUDED, "torch 2.9 has CUDA 12.8", version="1.1"
        )
        for cuda in ("12.6", "13.0")
    ]
    for cuda in (None, "13.0"):
        cells = [Cell(release=torch, toolkit=cuda, arch="x86_64") for torch in ("2.11", "2.13")]
        path = make_wheel(made, "rmsnorm", f"0.3+{name_of(cuda)}", requires=("torch>=2.10",), tag=HERE, about=README)
        offers.append(offer(path, *cells))
    everywhere = [
        Cell(release=t, toolkit=c, arch=a)
        for t in ("2.11", "2.13")
        for c in (None, "13.0")
        for a in ("x86_64", "aarch64")
    ]
    offers.append(offer(make_wheel(made, "layers", "2.0", requires=("torch", "einops")), *everywhere))
    mixed = Cell(release="2.11", toolkit="13.0", arch="x86_64")
    offers.append(
        offer(make_wheel(made, "fused", "1.0", requires=("torch",)), Cell(release="2.11", toolkit=None, arch="x86_64"))
    )
    path = make_wheel(made, "fused", "1.0+cu130.torch2.11", requires=("torch==2.11.*", "einops>=0.8"), tag=HERE)
    offers.append(offer(path, mixed))
    index = Index(Folder(root))
    index.add(offers, upload_time=NOW, answers={"activation": answers})
    index.change("activation", lambda state: yank(state, "1.1+cpu.torch2.9", "wrong results"))
    index.change("fused", lambda state: set_status(state, ProjectStatus.DEPRECATED, "use rmsnorm"))
