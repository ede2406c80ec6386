"""Take newer releases into a matrix: edit its text, plan the result, lock what is new, and write both at the end."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from wheelsmith.base.errors import MatrixError, Place, WheelsmithError
from wheelsmith.base.files import atomic_write
from wheelsmith.base.suggest import did_you_mean
from wheelsmith.matrix.edit import add_release, find_axes, set_value
from wheelsmith.matrix.expand import cell_of, expand
from wheelsmith.matrix.load import load_matrix, parse_matrix
from wheelsmith.matrix.types import Matrix
from wheelsmith.model import Listener, Notice
from wheelsmith.plan.lock import Lock, lock_path, read_lock, write_lock
from wheelsmith.run.lock import LockedInputs, reject_dropped_cells, with_addresses
from wheelsmith.run.outdated import KERNEL, axes_of, is_newer, newest_kernel, newest_on_axis
from wheelsmith.run.prepare import Prepared, Request, prepare_matrix
from wheelsmith.toolchain import Toolchains


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedMatrix:
    """A matrix file and its new text, which is not written yet.

    :param before: the text of the file.
    :param after: the text with the changes so far.
    :param steps: a line for each change.
    """

    file: Path
    before: str
    after: str
    steps: tuple[str, ...] = ()

    @classmethod
    def read(cls, file: Path) -> EditedMatrix:
        """Read a matrix file.

        :raises MatrixError: it has mistakes or cannot be read.
        """
        load_matrix(file)
        text = file.read_bytes().decode()
        return cls(file=file, before=text, after=text)

    @property
    def matrix(self) -> Matrix:
        """The matrix with the changes.

        :raises MatrixMistakesError: a change is a mistake, such as an unknown release.
        """
        sha256 = hashlib.sha256(self.after.encode()).hexdigest()
        return replace(parse_matrix(self.after, file=self.file.name), sha256=sha256)

    def with_release(self, axis: str, release: str | None, *, instead_of: str | None = None) -> EditedMatrix:
        """Add a release to an axis, unless it is there.

        :param release: None for the newest one that wheelsmith knows.
        :param instead_of: a release that the new one replaces.
        :raises MatrixError: there is no such axis or no such release.
        """
        file, matrix = self.file.name, self.matrix
        axes = find_axes(self.after, axis, file=file)
        if axis not in axes_of(matrix) or not axes:
            raise MatrixError(
                f"the matrix has no axis {axis}",
                where=Place(file=file),
                remedy=did_you_mean(axis, [*axes_of(matrix), KERNEL]),
            )
        release = release or newest_on_axis(matrix, axis)
        if release is None:
            raise MatrixError(f"no release of {axis} can be combined with the other axes", where=axes[0].place)
        if instead_of and not any(instead_of in each.values for each in axes):
            raise MatrixError(
                f"the axis {axis} has no {instead_of}",
                where=axes[0].place,
                remedy=did_you_mean(instead_of, axes[0].values),
            )
        text = add_release(self.after, axis, release, file=file, instead_of=instead_of)
        return self._changed(text, f"{axis} {release}" + (f" instead of {instead_of}" if instead_of else ""))

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
        text = set_value(self.after, (KERNEL, key), new, file=self.file.name)
        return self._changed(text, f"{KERNEL} {new} instead of {kernel.sdist or kernel.revision}")

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
        before, after = (text.splitlines(keepends=True) for text in (self.before, self.after))
        return "".join(difflib.unified_diff(before, after, f"a/{self.file.name}", f"b/{self.file.name}"))

    def _changed(self, text: str, step: str) -> EditedMatrix:
        edited = replace(self, after=text, steps=self.steps if text == self.after else (*self.steps, step))
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

    def write(self) -> Iterator[Path]:
        """Write the matrix and the lock. Yield their paths."""
        atomic_write(self.edited.file.resolve(), self.edited.after.encode())
        yield self.edited.file
        if self.lock:
            write_lock(lock_path(self.edited.file), self.lock)
            yield lock_path(self.edited.file)


def plan_bump(edited: EditedMatrix, request: Request, listen: Listener) -> Bumped:
    """Plan an edited matrix, and lock what its lock lacks. Nothing is written.

    :raises WheelsmithError: it cannot be planned or locked.
    """
    matrix, old = edited.matrix, parse_matrix(edited.before, file=edited.file.name)
    existing, toolchains = read_lock(lock_path(edited.file)), Toolchains(request.cache, listen)
    inputs = LockedInputs(kernel=matrix.kernel, lock=existing, toolchains=toolchains)
    prepared = prepare_matrix(matrix, request, inputs, listen)
    lock = None
    if existing:
        reject_dropped_cells(existing, prepared.excluded)
        lock = with_addresses(inputs.new_lock(prepared.source, prepared.plans), existing, toolchains)
    known = {cell_of(answer).id for answer in expand(old)} if matrix.kernel == old.kernel else set()
    return Bumped(edited=edited, prepared=prepared, new=frozenset(prepared.cells) - known, lock=lock)
