"""What users have: torch per compute platform, as torch's own index and PyPI offer it; and kernels for all of them.

The torches are stand-ins of a kilobyte with the real names, versions and layout: one root a compute platform, HTML
alone, file names with ``%2B``; on PyPI a version without a local part.
"""

from __future__ import annotations

import hashlib
import platform
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from loopback import serving, serving_files
from wheels import make_wheel, offer

from wheelsmith.index.entries.state import yank
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell

NOW = "2026-01-02T03:04:05Z"
HERE = platform.machine()
ARCHS = ("x86_64", "aarch64")
# torch release → the compute platforms that it is offered for.
TORCHES = {
    "2.9": ("cpu", "cu128", "cu130"),
    "2.10": ("cpu", "cu128", "cu130"),
    "2.11": ("cpu", "cu128", "cu130"),
    "2.12": ("cpu", "cu130", "cu132"),
}
COMBINATIONS = tuple((torch, compute) for torch, computes in TORCHES.items() for compute in computes)
# On PyPI a torch has no local version; these are the compute platforms that theirs are built for.
PYPI = {"2.9": "cu128", "2.10": "cu128", "2.11": "cu130", "2.12": "cu130"}
YANKED = "wrong results for odd sizes"


def right_wheel(torch: str, compute: str, version: str = "2") -> str:
    """Return the version of the kernel's wheel that serves a torch of a compute platform.

    From torch 2.11 on there is one wheel of the stable ABI for CUDA 13: made with 13.0, it serves 13.2 as well.
    """
    if compute in {"cu130", "cu132"} and torch in {"2.11", "2.12"}:
        return f"{version}+cu130.torchstable"
    return f"{version}+{compute}.torch{torch}"


@dataclass(frozen=True)
class World:
    """What runs on the loopback: ``index`` is ours; ``whl`` and ``pypi`` stand for torch's and the public one."""

    folder: Path
    index: str
    whl: str
    pypi: str


@contextmanager
def world(folder: Path):
    """Make everything, and serve it."""
    publish_kernels(folder / "index", folder / "wheels")
    publish_torches(folder)
    with serving(folder / "index") as ours, serving_files(folder) as theirs:
        yield World(folder=folder, index=ours, whl=f"{theirs}/whl", pypi=f"{theirs}/pypi/simple/")


def publish_kernels(root: Path, wheels: Path) -> None:
    """Publish two versions of a kernel for every torch, a third that is yanked, and a kernel with nothing compiled."""
    offers = [each for version in ("1", "2") for each in _offers(wheels, version)]
    offers += [_offer(wheels, "3+cu130.torchstable", (("2.11", "cu130"), ("2.12", "cu130")), "torch>=2.11", HERE)]
    nothing_compiled = make_wheel(wheels, "triton_only", "1", requires=("torch>=2.9",))
    every = tuple(_cell(*each, arch) for each in COMBINATIONS for arch in ARCHS)
    index = Index(Folder(root))
    index.add([*offers, offer(nothing_compiled, *every)], upload_time=NOW)
    index.change("kernel", lambda state: yank(state, "3+cu130.torchstable", YANKED))


def _offers(wheels: Path, version: str):
    serves: dict[str, list[tuple[str, str]]] = {}
    for torch, compute in COMBINATIONS:
        serves.setdefault(right_wheel(torch, compute, version), []).append((torch, compute))
    for name, served_ in serves.items():
        requirement = "torch>=2.11" if name.endswith("torchstable") else f"torch=={served_[0][0]}.*"
        for arch in ARCHS:
            yield _offer(wheels, name, tuple(served_), requirement, arch)


def _offer(wheels: Path, version: str, serves: tuple[tuple[str, str], ...], requirement: str, arch: str):
    tag = f"cp39-abi3-manylinux_2_17_{arch}"
    path = make_wheel(wheels, "kernel", version, requires=(requirement,), tag=tag)
    return offer(path, *(_cell(*each, arch) for each in serves))


def _cell(torch: str, compute: str, arch: str) -> Cell:
    cuda = None if compute == "cpu" else f"{compute[2:-1]}.{compute[-1]}"
    return Cell(release=torch, toolkit=cuda, arch=arch)


def publish_torches(folder: Path) -> None:
    """Lay out ``whl/<compute>/torch/`` and ``pypi/simple/torch/``, two patch releases of each torch."""
    for torch, computes in TORCHES.items():
        for compute in computes:
            for patch in (0, 1):
                make_wheel(folder / "whl" / compute / "torch", "torch", f"{torch}.{patch}+{compute}")
        for patch in (0, 1):
            make_wheel(folder / "pypi" / "simple" / "torch", "torch", f"{torch}.{patch}")
    for page in (*(folder / "whl").glob("*/torch"), folder / "pypi" / "simple" / "torch"):
        links = "".join(f'<a href="{_link(path)}">{path.name}</a><br>\n' for path in sorted(page.glob("*.whl")))
        (page / "index.html").write_text(f"<!DOCTYPE html>\n<html><body>\n{links}</body></html>\n")


def _link(path: Path) -> str:
    return f"{quote(path.name)}#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}"
