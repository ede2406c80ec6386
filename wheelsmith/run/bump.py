"""Take newer releases into a matrix: edit its text, plan the result, lock what is new, and write both at the end."""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from wheelsmith.base.errors import MatrixError, Place, WheelsmithError
from wheelsmith.base.files import atomic_write
from wheelsmith.base.suggest import did_you_mean
from wheelsmith.matrix.edit import add_release, find_axes, included, set_value
from wheelsmith.matrix.expand import cell_of, expand
from wheelsmith.matrix.load import load_matrix, parse_matrix
from wheelsmith.matrix.types import Matrix
from wheelsmith.model import Listener, Notice
from wheelsmith.plan.lock import Lock, lock_path, read_lock
from wheelsmith.run.lock import LockedInputs, reject_dropped_cells, with_addresses
from wheelsmith.run.outdated import KERNEL, axes_of, is_newer, newest_kernel, newest_on_axis
from wheelsmith.run.prepare import Prepared, Request, prepare_matrix
from wheelsmith.toolchain import Toolchains


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedMatrix:
    """A matrix file, the files that it includes, and their new texts, which are not written yet.

    :param before: file → text; names are relative to the folder of the matrix file.
    :param after: the texts with the changes so far.
    :param steps: a line for each change.
    """

    file: Path
    before: dict[str, str]
    after: dict[str, str]
    steps: tuple[str, ...] = ()

    @classmethod
    def read(cls, file: Path) -> EditedMatrix:
        """Read a matrix file and the files that it includes.

        :raises MatrixError: a file has mistakes or cannot be read.
        """
        load_matrix(file)
        text = file.read_bytes().decode()
        others = {name: (file.parent / name).read_bytes().decode() for name in included(text, file=file.name)}
        return cls(file=file, before={file.name: text, **others}, after={file.name: text, **others})

    @property
    def matrix(self) -> Matrix:
        """The matrix with the changes.

        :raises MatrixMistakesError: a change is a mistake, such as an unknown release.
        """
        text = self.after[self.file.name]
        return replace(parse_matrix(text, file=self.file.name), sha256=hashlib.sha256(text.encode()).hexdigest())

    def with_release(self, axis: str, release: str | None, *, instead_of: str | None = None) -> EditedMatrix:
        """Add a release to every axis of a name that lacks it.

        :param release: None for the newest one that wheelsmith knows.
        :param instead_of: a release that the new one replaces.
        :raises MatrixError: there is no such axis or no such release.
        """
        known, found = axes_of(self.matrix), find_axes(self.after, axis)
        if axis not in known:
            place = Place(file=self.file.name)
            raise MatrixError(f"there is no axis {axis}", where=place, remedy=did_you_mean(axis, [*known, KERNEL]))
        if instead_of and not any(instead_of in each.values for each in found):
            remedy = did_you_mean(instead_of, known[axis])
            raise MatrixError(f"the axis {axis} has no {instead_of}", where=found[0].place, remedy=remedy)
        release = release or newest_on_axis(self.matrix, axis)
        if release is None:
            raise MatrixError(f"no {axis} can be combined with the other axes", where=found[0].place)
        texts = add_release(self.after, axis, release, instead_of=instead_of)
        return self._changed(texts, f"{axis} {release}" + (f" instead of {instead_of}" if instead_of else ""))

    def with_kernel(self, revision: str | None) -> EditedMatrix:
        """Take another revision of the repository, or another release of the sdist.

        :param revision: None for the newest.
        :raises MatrixError: the kernel has none, because it is a folder.
        :raises SourceError: the newest one cannot be found.
        """
        kernel = self.matrix.kernel
        if kernel.path:
            raise MatrixError("the kernel is a folder or file without revisions", where=Place(file=self.file.name))
        key = "sdist" if kernel.sdist else "revision"
        if revision and kernel.sdist:
            revision = f"{kernel.sdist.partition('==')[0]}=={revision}"
        new = revision or newest_kernel(kernel, self.file.resolve().parent)
        file = self.file.name
        text = set_value(self.after[file], (KERNEL, key), new, file=file)
        return self._changed({**self.after, file: text}, f"{KERNEL} {new} instead of {kernel.sdist or kernel.revision}")

    def with_newest(self, listen: Listener) -> EditedMatrix:
        """Take everything that is newer. What cannot be asked for is a warning."""
        edited = self
        for axis in axes_of(self.matrix):
            newest = newest_on_axis(edited.matrix, axis)
            if newest and is_newer(newest, axes_of(edited.matrix)[axis]):
                edited = edited.with_release(axis, newest)
        if self.matrix.kernel.path:
            return edited
        try:
            return edited.with_kernel(None)
        except WheelsmithError as error:
            listen(Notice(level="warning", text=f"the kernel stays as it is: {error}"))
            return edited

    def diff(self) -> str:
        """Return the changes as a unified diff."""
        found: list[str] = []
        for name in self.before:
            before, after = (texts[name].splitlines(keepends=True) for texts in (self.before, self.after))
            found += difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
        return "".join(found)

    def write(self) -> None:
        """Write the changed files."""
        for name, text in self.after.items():
            if text != self.before[name]:
                atomic_write((self.file.parent / name).resolve(), text.encode())

    def _changed(self, texts: dict[str, str], step: str) -> EditedMatrix:
        if texts == self.after:
            return self
        edited = replace(self, after=texts, steps=(*self.steps, step))
        _ = edited.matrix  # a mistake is reported before the next step
        return edited


@dataclass(frozen=True, slots=True, kw_only=True)
class Bumped:
    """A planned change of a matrix.

    :param prepared: the plan of the whole new matrix.
    :param new: IDs of the cells that are new or have another source.
    :param lock: the new lock; None if the matrix has none.
    """

    edited: EditedMatrix
    prepared: Prepared
    new: frozenset[str]
    lock: Lock | None


def plan_bump(edited: EditedMatrix, request: Request, listen: Listener) -> Bumped:
    """Plan an edited matrix, and lock what its lock lacks. Nothing is written.

    :raises WheelsmithError: it cannot be planned or locked.
    """
    matrix, old = edited.matrix, replace(edited, after=edited.before).matrix
    existing, toolchains = read_lock(lock_path(edited.file)), Toolchains(request.cache, listen)
    inputs = LockedInputs(kernel=matrix.kernel, lock=existing, toolchains=toolchains)
    prepared = prepare_matrix(matrix, request, inputs, listen)
    lock = None
    if existing:
        reject_dropped_cells(existing, prepared.excluded)
        lock = with_addresses(inputs.new_lock(prepared.source, prepared.plans), existing, toolchains)
    known = {*(cell_of(answer).id for answer in expand(old)), *(existing.cells if existing else ())}
    known = known if matrix.kernel == old.kernel else set()
    return Bumped(edited=edited, prepared=prepared, new=frozenset(prepared.cells) - known, lock=lock)
