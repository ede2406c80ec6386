"""Take newer releases into a matrix: edit its text, plan the result, lock what is new, and write both at the end."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path

from wheelsmith.base.errors import MatrixError, Place, WheelsmithError
from wheelsmith.base.files import atomic_write
from wheelsmith.base.suggest import did_you_mean
from wheelsmith.frameworks import frameworks
from wheelsmith.matrix.edit import add_release, find_axes, find_kernels, included, set_value
from wheelsmith.matrix.expand import cell_of, expand
from wheelsmith.matrix.load import load_matrices
from wheelsmith.matrix.types import Matrix
from wheelsmith.model import BuildPlan, Excluded, Folded, Listener, Notice, ignore
from wheelsmith.plan.lock import Lock, lock_path, read_lock
from wheelsmith.platforms import platforms
from wheelsmith.run.lock import reject_dropped_cells, with_addresses, with_waiting
from wheelsmith.run.outdated import KERNEL, axes_of, find_newer, is_newer, newest_kernel, newest_on_axis
from wheelsmith.run.prepare import Request
from wheelsmith.run.prepared_set import PreparedSet, new_lock, plan_set
from wheelsmith.toolchain import Toolchains


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedMatrix:
    """A matrix file, the files that it includes, and their new texts, which are not written yet.

    :param before: file → text; names are relative to the folder of the matrix file.
    :param after: the texts with the changes so far.
    :param steps: a line for each change.
    :param moved: the kernels whose newest commit is taken; the matrix names a branch.
    :param left: a line for each newer release that is not taken, with the reason.
    """

    file: Path
    before: dict[str, str]
    after: dict[str, str]
    steps: tuple[str, ...] = ()
    moved: frozenset[str] = frozenset()
    left: tuple[str, ...] = ()

    @classmethod
    def read(cls, file: Path) -> EditedMatrix:
        """Read a matrix file and the files that it includes.

        :raises MatrixError: a file has mistakes or cannot be read.
        """
        load_matrices(file)
        text = file.read_bytes().decode()
        others = {name: (file.parent / name).read_bytes().decode() for name in included(text, file=file.name)}
        return cls(file=file, before={file.name: text, **others}, after={file.name: text, **others})

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """The matrix of each kernel with the changes.

        :raises MatrixMistakesError: a change is a mistake, such as an unknown release.
        """
        return load_matrices(self.file, self.after)

    @property
    def kernels(self) -> frozenset[str]:
        """The names of the kernels; ``kernel`` for the only one of a file."""
        return frozenset(find_kernels(self.after))

    def with_release(self, axis: str, release: str | None, *, instead_of: str | None = None) -> EditedMatrix:
        """Add a release to every axis of a name that lacks it.

        :param release: None for the newest one that wheelsmith knows.
        :param instead_of: a release that the new one replaces.
        :raises MatrixError: there is no such axis or no such release.
        """
        names, found = (*frameworks(), *platforms()), find_axes(self.after, axis)
        if axis not in names or not found:
            others = [*(name for name in names if find_axes(self.after, name)), *sorted(self.kernels)]
            place = Place(file=self.file.name)
            raise MatrixError(
                f"{axis} is neither an axis with releases nor a kernel", where=place, remedy=did_you_mean(axis, others)
            )
        if instead_of and not any(instead_of in each.values for each in found):
            remedy = did_you_mean(instead_of, found[0].values)
            raise MatrixError(f"the axis {axis} has no {instead_of}", where=found[0].place, remedy=remedy)
        release = release or newest_on_axis(self.matrices, axis)
        if release is None:
            raise MatrixError(f"no {axis} can be combined with the other axes", where=found[0].place)
        texts = add_release(self.after, axis, release, instead_of=instead_of)
        return self._changed(texts, f"{axis} {release}" + (f" instead of {instead_of}" if instead_of else ""))

    def with_kernel(self, name: str, revision: str | None) -> EditedMatrix:
        """Take another revision of a kernel's repository, or another release of its sdist.

        :param name: ``kernel`` for the only kernel of a file.
        :param revision: None for the newest.
        :raises MatrixError: the kernel has none, because it is a folder.
        :raises SourceError: the newest one cannot be found.
        """
        file, path = find_kernels(self.after)[name]
        kernel = next(matrix.kernel for matrix in self.matrices if (matrix.name or KERNEL) == name)
        if kernel.path:
            raise MatrixError("the kernel is a folder or file without revisions", where=Place(file=file))
        if revision and kernel.sdist:
            revision = f"{kernel.sdist.partition('==')[0]}=={revision}"
        new = revision or newest_kernel(kernel, self.file.resolve().parent)
        text = set_value(self.after[file], (*path, "sdist" if kernel.sdist else "revision"), new, file=file)
        return self._changed({**self.after, file: text}, f"{name} {new} instead of {kernel.sdist or kernel.revision}")

    def with_newest(self, listen: Listener) -> EditedMatrix:
        """Take everything that is newer. What cannot be asked for is a warning."""
        edited = self
        for row in find_newer(self.matrices, self.file):
            if row.name in axes_of(self.matrices):
                newest = newest_on_axis(edited.matrices, row.name)  # a new torch may allow a newer CUDA
                if newest and is_newer(newest, axes_of(edited.matrices)[row.name]):
                    edited = edited.with_release(row.name, newest)
            elif row.revision:
                edited = edited.with_kernel(row.name, row.revision)
            elif row.command and row.name in self.kernels:
                step = f"{row.name} {row.newest} instead of {row.current}"
                edited = replace(edited, moved=edited.moved | {row.name}, steps=(*edited.steps, step))
            elif row.problem or row.command:
                newer = f"{row.name} {row.newest} is newer than {row.current}: {row.command}"
                reason = f"the newest {row.name} is not known: {row.problem}" if row.problem else newer
                listen(Notice(level="warning", text=reason))
                edited = replace(edited, left=(*edited.left, reason))
        return edited

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of the files that change."""
        return tuple(name for name, text in self.after.items() if text != self.before[name])

    def diff(self) -> str:
        """Return the changes as a unified diff."""
        found: list[str] = []
        for name in self.before:
            before, after = (texts[name].splitlines(keepends=True) for texts in (self.before, self.after))
            found += difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
        return "".join(found)

    def write(self) -> None:
        """Write the changed files."""
        for name in self.changed:
            atomic_write((self.file.parent / name).resolve(), self.after[name].encode())

    def _changed(self, texts: dict[str, str], step: str) -> EditedMatrix:
        if texts == self.after:
            return self
        edited = replace(self, after=texts, steps=(*self.steps, step))
        _ = edited.matrices  # a mistake is reported before the next step
        return edited


@dataclass(frozen=True, slots=True, kw_only=True)
class Bumped:
    """A planned change of a matrix.

    :param prepared: the plan of all kernels.
    :param new: IDs of the cells that are new or have another source.
    :param lock: the new lock; None if there is none.
    """

    prepared: PreparedSet
    new: frozenset[str]
    lock: Lock | None

    @property
    def plans(self) -> tuple[BuildPlan, ...]:
        """The plans of new cells."""
        return tuple(plan for plan in self.prepared.plans if plan.cell.id in self.new)

    @property
    def excluded(self) -> tuple[Excluded, ...]:
        """The new cells that are not built."""
        return tuple(item for item in self.prepared.excluded if item.cell.id in self.new)

    @property
    def folded(self) -> dict[str, Folded]:
        """ID of a new cell with a shared wheel → the cell that builds it."""
        return {name: shared for name, shared in self.prepared.folded.items() if name in self.new}


def plan_before(edited: EditedMatrix, request: Request) -> PreparedSet | None:
    """Plan a matrix without the changes; None if that is no longer possible, for instance if a tag is gone."""
    lock, matrices = read_lock(lock_path(request.matrix)), load_matrices(edited.file, edited.before)
    try:
        return plan_set(request, lock, ignore, matrices=matrices)[0]
    except WheelsmithError:
        return None


def plan_bump(edited: EditedMatrix, request: Request, listen: Listener) -> Bumped:
    """Plan an edited matrix, and lock what its lock lacks. Nothing is written.

    :raises WheelsmithError: it cannot be planned or locked.
    """
    matrices, before = edited.matrices, load_matrices(edited.file, edited.before)
    stays = [(new.name, new.kernel) for new in matrices if (new.name or KERNEL) not in edited.moved]
    same = [old for old in before if (old.name, old.kernel) in stays]
    known = {replace(cell_of(answer), kernel=old.name).id for old in same for answer in expand(old)}
    existing, lock = read_lock(lock_path(request.matrix)), None
    kept = _without_sources(existing, edited.moved) if existing else None
    prepared, inputs = plan_set(request, kept, listen, matrices=matrices)
    # With a lock, all kernels must be planned.
    for name in prepared.failures.keys() - {old.name for old in same if existing is None}:
        raise MatrixError(f"{name}: {prepared.failures[name]}")
    if existing:
        reject_dropped_cells(existing, prepared.excluded)
        lock = with_addresses(new_lock(prepared, inputs), existing, Toolchains(request.cache, listen))
        lock = with_waiting(lock, existing, prepared.excluded)
    answers = (*(plan.cell.id for plan in prepared.plans), *(item.cell.id for item in prepared.excluded))
    return Bumped(prepared=prepared, new=frozenset(answers) - known, lock=lock)


def _without_sources(lock: Lock, kernels: frozenset[str]) -> Lock:
    """Return a lock without the sources of some kernels, so that their newest commits are fetched."""
    sources = {name: source for name, source in lock.sources.items() if name not in kernels}
    return replace(lock, source=None if KERNEL in kernels else lock.source, sources=sources)
