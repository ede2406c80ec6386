"""The one place that decides which wheel a combination gets, or why it gets none and what is nearest.

What is chosen is what pip would choose in the same root: the newest version that is not yanked, the best tag of it. The
page and ``wheelsmith pick`` only show what is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.tags import Tag
from packaging.version import Version

from wheelsmith.index.entries.catalogue import Catalogue, CatalogueCell, Unserved
from wheelsmith.index.entries.entry import NoWheel, ProjectStatus
from wheelsmith.index.entries.listing import EVERYTHING
from wheelsmith.index.resolve.fits import accepts, numbers, platforms_for, tag_ranks
from wheelsmith.index.resolve.nearest import Axes, compute_order, nearest
from wheelsmith.index.resolve.obstacles import gpu_note, obstacle
from wheelsmith.index.resolve.target import Choice, KnownWheel, Refusal, Wish, compute_name, listed

NO_REASON = "no reason is given"
# Those that were released, by November 2026, and are not older than what torch 2.6 runs on.
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")


class Chooser:
    """Answers every wish from one catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._wheels = [KnownWheel(wheel) for wheel in catalogue.wheels]
        standing = [known for known in self._wheels if known.wheel.yanked is None]
        released = [known for known in standing if not known.version.is_prerelease]
        self._newest = max((Version(known.version.public) for known in released or standing), default=None)
        self._by_cell: dict[tuple[str, str, str], list[tuple[KnownWheel, CatalogueCell]]] = {}
        for known in self._wheels:
            for cell in known.wheel.cells:
                self._by_cell.setdefault((cell.torch, cell.compute, cell.arch), []).append((known, cell))
        self._unserved = {_key(item.cell): item for item in catalogue.unserved}
        self._platforms = tuple(sorted({name for known in self._wheels for name in known.platforms}))
        self._decided: dict[Wish, KnownWheel | None] = {}
        cells = [*(cell for k in standing for cell in k.wheel.cells), *(item.cell for item in catalogue.unserved)]
        self.axes = Axes(
            torches=tuple(sorted({cell.torch for cell in cells}, key=numbers)),
            computes=tuple(sorted({cell.compute for cell in cells}, key=compute_order)),
            archs=tuple(sorted({cell.arch for cell in cells}, reverse=True)),
            pythons=tuple(sorted({*PYTHONS, *(cell.python for cell in cells if cell.python)}, key=numbers)),
        )

    @property
    def warning(self) -> str | None:
        """Say what the project's owner says against it, if anything."""
        status, reason = self.catalogue.status, self.catalogue.status_reason
        if status is ProjectStatus.ACTIVE:
            return None
        return f"{self.catalogue.project} is {status}" + (f": {reason}" if reason else "")

    def choose(self, wish: Wish) -> Choice | Refusal:
        """Return the wheel for a wish, or why there is none."""
        known = self._decide(wish)
        if known is None:
            return self._refusal(wish)
        return Choice(
            wheel=known.wheel,
            root=wish.compute if wish.compute in known.wheel.roots else EVERYTHING,
            exact=self.named_by_equals(known.version),
            notes=tuple(self._notes(known, wish)),
        )

    def _decide(self, wish: Wish) -> KnownWheel | None:
        if wish not in self._decided:
            self._decided[wish] = self._best(wish)
        return self._decided[wish]

    def _best(self, wish: Wish) -> KnownWheel | None:
        ranks = self._ranks(wish)
        for candidates in (self._of_cell(wish), self._beyond_cells(wish)):
            fitting = [k for k in candidates if k.wheel.yanked is None and not obstacle(k, wish, ranks)]
            if fitting:
                return max(fitting, key=lambda known: _preference(known, ranks))
        return None

    def _ranks(self, wish: Wish) -> dict[Tag, int]:
        glibc = numbers(wish.glibc) if wish.glibc else None
        platforms = platforms_for(self._platforms, wish.arch, (glibc[0], glibc[1]) if glibc else None)
        return tag_ranks(wish.python, free_threaded=wish.free_threaded, platforms=platforms)

    def _of_cell(self, wish: Wish) -> list[KnownWheel]:
        """Return every wheel that was made for the combination."""
        found = self._by_cell.get((wish.torch, wish.compute, wish.arch), ())
        return [known for known, cell in found if cell.python in {None, wish.python_minor}]

    def _beyond_cells(self, wish: Wish) -> Iterator[KnownWheel]:
        """Yield the wheels whose own metadata takes a combination that the index says nothing of."""
        if self._answer(wish):
            return
        for known in self._wheels:
            if not accepts(known.wheel.requires_torch, wish.torch_version or wish.torch):
                continue
            if not known.wheel.cells:
                # A local version would say what it was made for, in words that we do not know.
                if known.version.local is None:
                    yield known
            elif known.pure or any(
                (cell.compute, cell.arch) == (wish.compute, wish.arch) and cell.python in {None, wish.python_minor}
                for cell in known.wheel.cells
            ):
                yield known

    def _answer(self, wish: Wish) -> Unserved | None:
        place = (wish.torch, wish.compute, wish.arch)
        return self._unserved.get((*place, None)) or self._unserved.get((*place, wish.python_minor))

    def named_by_equals(self, version: Version) -> bool:
        """Say whether ``==`` takes this version alone: 1.0 takes 1.0+cu130 too, and pip prefers that."""
        return version.local is not None or not any(
            other.version.local and other.version.public == version.public for other in self._wheels
        )

    def _notes(self, known: KnownWheel, wish: Wish) -> Iterator[str]:
        if self._newest and Version(known.version.public) < self._newest:
            answer = self._answer(wish)
            why = f" ({answer.status}: {answer.reason})" if answer else ""
            yield f"{self._newest} has no wheel for this{why}; {known.version.public} is the newest that has one"
        yield from self._yanks(known, wish)
        if known.wheel.cells and known not in self._of_cell(wish):
            wants = known.wheel.requires_torch or "of any version"
            yield f"nobody built it for just this combination; it says of itself that it takes torch {wants}"
        if note := gpu_note(known, wish):
            yield note

    def _yanks(self, known: KnownWheel, wish: Wish) -> Iterator[str]:
        """Say which wheels would have been chosen before this one, and why they are not."""
        ranks = self._ranks(wish)
        for other in sorted(self._of_cell(wish), key=lambda each: each.version, reverse=True):
            better = other.wheel.yanked is not None and not obstacle(other, wish, ranks)
            if better and _preference(other, ranks) > _preference(known, ranks):
                yield f"{self.catalogue.project} {other.version} was yanked: {other.wheel.yanked or NO_REASON}"

    # --- why not ---------------------------------------------------------------------------------------------------

    def _refusal(self, wish: Wish) -> Refusal:
        code, reason, tail = self._reason(wish)
        near = nearest(wish, self.axes, lambda other: self._decide(other) is not None)
        return Refusal(code=code, reason=reason, tail=tail, nearest=near)

    def _reason(self, wish: Wish) -> tuple[str, str, tuple[str, ...]]:
        project, of_cell = self.catalogue.project, self._of_cell(wish)
        if self.catalogue.status is ProjectStatus.QUARANTINED:
            return "quarantined", f"{self.warning}; nothing of it may be installed", ()
        if obstructed := self._obstructed(of_cell, wish):
            return obstructed
        if answer := self._answer(wish):
            what = "the build of" if answer.status is NoWheel.FAILED else "there is no wheel of"
            how = "failed" if answer.status is NoWheel.FAILED else "for this"
            return str(answer.status), f"{what} {project} {answer.version} {how}: {answer.reason}", answer.tail
        if obstructed := self._obstructed(self._beyond_cells(wish), wish):
            return obstructed
        if of_cell:
            last = max(of_cell, key=lambda known: known.version)
            return "yanked", f"{project} {last.version} was yanked: {last.wheel.yanked or NO_REASON}", ()
        return (*self._not_served(wish), ())

    def _obstructed(self, candidates: Iterable[KnownWheel], wish: Wish) -> tuple[str, str, tuple[str, ...]] | None:
        """Say what keeps the newest of some wheels, none of which fits, from fitting."""
        standing = [known for known in candidates if known.wheel.yanked is None]
        if not standing:
            return None
        best = max(standing, key=lambda known: known.version)
        found = obstacle(best, wish, self._ranks(wish))
        return (
            (found.code, f"{self.catalogue.project} {best.version} does not fit: {found.reason}", ()) if found else None
        )

    def _not_served(self, wish: Wish) -> tuple[str, str]:
        """Say which of the axes has no wheel at all; else it is their combination."""
        project = self.catalogue.project
        cells = [cell for known in self._wheels if known.wheel.yanked is None for cell in known.wheel.cells]
        if not cells:
            return "empty", f"{project} has no wheel whose combination is known"
        torches = sorted({cell.torch for cell in cells}, key=numbers)
        computes = sorted({cell.compute for cell in cells}, key=compute_order)
        archs = sorted({cell.arch for cell in cells})
        pythons = sorted({cell.python for cell in cells if cell.python}, key=numbers)
        if wish.torch not in torches:
            return "torch", f"torch {wish.torch} is not served; there are wheels for torch {listed(torches)}"
        if wish.compute not in computes:
            there = listed([compute_name(name) for name in computes])
            return "compute", f"{compute_name(wish.compute)} is not served; there are wheels for {there}"
        if wish.arch not in archs:
            return "arch", f"{wish.arch} is not served; there are wheels for {listed(archs)}"
        if pythons and wish.python_minor not in pythons:
            return "python", f"Python {wish.python_minor} is not served; there are wheels for {listed(pythons)}"
        what = f"torch {wish.torch} with {compute_name(wish.compute)} on {wish.arch}"
        return "combination", f"{what} is not in the matrix that {project} is built from"


def _key(cell: CatalogueCell) -> tuple[str, str, str, str | None]:
    return cell.torch, cell.compute, cell.arch, cell.python


def _preference(known: KnownWheel, ranks: dict[Tag, int]) -> tuple[object, ...]:
    """Order wheels as pip does: released before pre-released, newest, best tag, highest build."""
    rank = min(ranks[tag] for tag in known.tags if tag in ranks)
    return not known.version.is_prerelease, known.version, -rank, known.build
