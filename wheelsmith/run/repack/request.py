"""Which builds are asked for, and what their wheels are to be called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wheelsmith.base.errors import MatrixError, Place, SelectionError
from wheelsmith.matrix import KernelRef, check_kernel, matches
from wheelsmith.matrix.values import public_version
from wheelsmith.run.prepare import Request

_HUB = "hub:"
_DEFAULT_REVISION = "main"
_SHOWN = 30  # variants that a mistake lists


@dataclass(frozen=True, slots=True, kw_only=True)
class RepackRequest:
    """Which repo, and what its wheels are called.

    :param repo: ``hub:org/name``, with ``@revision`` or without, or a folder with ``build/`` in it.
    :param run: how the wheels are made; its matrix is not read, and its globs are of variants.
    :param distribution: the project's name; None takes the kernel's.
    :param module: the import name; None takes the kernel's own.
    :param version: None takes the one that the builds name.
    """

    repo: str
    run: Request
    distribution: str | None = None
    module: str | None = None
    version: str | None = None

    @property
    def kernel(self) -> KernelRef:
        """Return the repo that is named.

        :raises MatrixMistakesError: a name is none.
        :raises MatrixError: nor is the version.
        """
        place: dict[str, str | None] = {"path": self.repo}
        if self.repo.startswith(_HUB):
            hub, _, revision = self.repo.removeprefix(_HUB).partition("@")
            place = {"hub": hub, "revision": revision or _DEFAULT_REVISION}
        try:
            if self.version is not None:
                public_version(self.version)
        except ValueError as error:
            raise MatrixError(str(error), where=Place(file="version")) from None
        return check_kernel(place | {"distribution": self.distribution, "module": self.module})

    @property
    def short_name(self) -> str:
        """Return the last part of the repo's name."""
        return str(self.kernel.hub or self.kernel.path).rstrip("/").rpartition("/")[2]

    def select(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the variants that are asked for.

        :raises SelectionError: a glob matches none, or nothing is left.
        """
        remedy = f"it has: {', '.join(names[:_SHOWN])}"
        for pattern in (*self.run.only, *self.run.skip):
            if not any(matches(pattern, name) for name in names):
                raise SelectionError(f"{pattern!r} matches no variant", remedy=remedy)
        kept = tuple(name for name in names if self._takes(name))
        if not kept:
            raise SelectionError("the selection leaves no variant", remedy=remedy)
        return kept

    def _takes(self, name: str) -> bool:
        only, skip = self.run.only, self.run.skip
        return (not only or any(matches(p, name) for p in only)) and not any(matches(p, name) for p in skip)
