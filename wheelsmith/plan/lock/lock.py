"""What a lock holds."""

from __future__ import annotations

from dataclasses import dataclass

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import LockedWheel


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSource(Record):
    """Which source, exactly.

    :param kernel: as the matrix names it: ``hub:org/name``, ``git:https://…``, ``sdist:name==version``, ``path:…``.
    :param revision: what the matrix asks for; None where it asks for none.
    :param commit: that it named, or an archive's sha256.
    :param tree: the digest of its files.
    """

    kernel: str
    revision: str | None
    commit: str
    tree: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin(Record):
    """Something that wheelsmith itself, an engine or the machine pins.

    :param name: for people, and what tells it from others: ``torch 2.11.0 for x86_64``.
    :param digest: over all that it is made from.
    """

    name: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedWheel(Record):
    """One wheel of an environment, and where an index has it.

    :param url: without credentials.
    """

    name: str
    version: str
    sha256: str
    url: str

    @property
    def wheel(self) -> LockedWheel:
        """Return it as a plan has it."""
        return LockedWheel(name=self.name, version=self.version, sha256=self.sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Record):
    """What is asked of pip to make an environment.

    :param requirements: that it must come to.
    :param rather: what is asked for before the first of them, where an index has it.
    """

    requirements: tuple[str, ...]
    rather: tuple[str, ...]
    python: str
    arch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedEnvironment(Record):
    """What a project's build system finds installed.

    :param name: of the first cell that has it.
    """

    name: str
    question: Question
    wheels: tuple[IndexedWheel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock(Record):
    """All that decides what a matrix's wheels are made from.

    :param source: None where it is a folder, which is under the user's own version control.
    :param cells: the names of those that it was made for.
    """

    source: LockedSource | None
    cells: tuple[str, ...]
    pins: tuple[Pin, ...]
    environments: tuple[LockedEnvironment, ...]

    def answer(self, question: Question) -> LockedEnvironment | None:
        """Return what was found for a question."""
        return next((known for known in self.environments if known.question == question), None)
