"""What a publisher may be given that lies or is damaged: nothing of it may reach an index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wheels import make_wheel, offer

from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.index.storage.protocol import Storage
from wheelsmith.model import Cell

NOW = "2026-01-02T03:04:05Z"
CELL = Cell(release="2.9", toolkit=None, arch="x86_64")
# It is published before anything else, and every forger would like to have it otherwise.
HONEST = "1!2+cpu.torch2.9"


def publish_honest(storage: Storage, folder: Path) -> str:
    """Publish the wheel whose place forgers want; returns its file name."""
    path = make_wheel(folder / "honest", "k0", HONEST)
    Index(storage).add([offer(path, CELL)], upload_time=NOW)
    return path.name


def _wheel(index: Path) -> Path:
    return next((index / "files").rglob("*.whl"))


def _flip(index: Path) -> None:
    data = bytearray(_wheel(index).read_bytes())
    data[len(data) // 2] ^= 1
    _wheel(index).write_bytes(data)


def _cut(index: Path) -> None:
    _wheel(index).write_bytes(_wheel(index).read_bytes()[:-1])


def _link(index: Path) -> None:
    wheel = _wheel(index)
    wheel.rename(index.parent / "elsewhere")
    wheel.symlink_to(index.parent / "elsewhere")


def _say(old: str, new: str) -> Callable[[Path], None]:
    def change(index: Path) -> None:
        state = index / "_state" / "k0.json"
        text = state.read_text()
        assert old in text
        state.write_text(text.replace(old, new))

    return change


def _say_hash(index: Path) -> None:
    _say(_wheel(index).parent.name, "ab" * 32)(index)


def _lead_out(index: Path) -> None:
    _say(_wheel(index).parent.name, "../../../../../../../tmp/forged")(index)


FORGERIES: dict[str, Callable[[Path], object]] = {
    "a flipped byte": _flip,
    "a wheel that is cut": _cut,
    "a wheel that is gone": lambda index: _wheel(index).unlink(),
    "a wheel that is a link": _link,
    "another side-car": lambda index: next((index / "files").rglob("*.metadata")).write_text("Name: k0\n"),
    "another hash": _say_hash,
    "a hash that leads out": _lead_out,
    "another project": _say('"project": "k0"', '"project": "k1"'),
    "a state that is cut": lambda index: (index / "_state" / "k0.json").write_text('{"entries": ['),
    "a name that was published": lambda index: None,
}


def make_forged(folder: Path, number: int) -> Path:
    """Make an input of the kind that comes in this place; returns its index."""
    kind = list(FORGERIES)[number % len(FORGERIES)]
    taken = kind == "a name that was published"
    version = HONEST if taken else f"666.{number}+cpu.torch2.9"
    path = make_wheel(folder / "made", "k0", version, files={"forged.py": b"1"} if taken else {})
    Index(Folder(folder / "index")).add([offer(path, CELL)], upload_time=NOW)
    FORGERIES[kind](folder / "index")
    return folder / "index"
