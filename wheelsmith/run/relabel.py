"""Relabel checked wheels: without the local version for PyPI, or under the names that a setup.py downloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from wheelsmith.base.errors import Place, SettingError, WheelError
from wheelsmith.base.files import atomic_copy
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.units import numbers, show_binary_size
from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.index.entries.metadata import parse_headers
from wheelsmith.index.entries.side_files import CORE_METADATA
from wheelsmith.index.publish.input_folders import external_wheels, read_releases
from wheelsmith.index.publish.release import WheelUpload
from wheelsmith.index.resolve.choose import PYTHONS
from wheelsmith.matrix.expand import select
from wheelsmith.model import Cell, read_wheel_name
from wheelsmith.wheel.reader import WheelReader
from wheelsmith.wheel.requirements import environments, parse_requires_python

PYPI_LIMIT = 100 << 20  # bytes of a file, unless PyPI has raised it for the project


@dataclass(frozen=True, slots=True, kw_only=True)
class RelabelledWheel(Record):
    """A relabelled wheel.

    :param wheel: file name of the original.
    :param files: names of the new files, which are equal.
    :param size: in bytes.
    :param requires_torch: as in ``IndexEntry``.
    """

    wheel: str
    files: tuple[str, ...]
    size: int
    requires_torch: str | None


def relabel(
    uploads: Sequence[WheelUpload], out: Path, *, template: str | None, max_size: int, declared: Sequence[str]
) -> tuple[RelabelledWheel, ...]:
    """Relabel wheels, and check each before and after. Write all of them or none.

    :param out: folder for the new wheels.
    :param template: template of their names; None for PyPI.
    :param max_size: bytes of a file that PyPI accepts.
    :param declared: as for ``check_wheel``.
    :raises SettingError: two wheels would get the same name or version, or the template is wrong.
    :raises WheelError: a wheel fails the check, or PyPI would refuse it.
    """
    entries = [upload.entry for upload in uploads]
    if template is None:
        names = [_pypi_name(upload) for upload in uploads]
        _refuse_two((f"{entry.project} {entry.version.public}", entry) for entry in entries)
    else:
        names = [_file_names(template, entry) for entry in entries]
        _refuse_two((name, entry) for own, entry in zip(names, entries, strict=True) for name in own)
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".relabel-", dir=out) as work, WheelReader(beside=Path(work)) as reader:
        made: list[Path] = []
        for upload in uploads:
            _require_good(upload.wheel, reader, declared)
            new = reader.relabel(upload.wheel)
            _require_good(new, reader, declared)
            if template is None and (size := new.stat().st_size) > max_size:
                message = f"it has {show_binary_size(size)}, and the limit of PyPI is {show_binary_size(max_size)}"
                remedy = "build for fewer gpu-archs; or ask PyPI for more, and then use --max-size"
                raise WheelError(message, where=Place(file=new.name), remedy=remedy)
            made.append(new.replace(Path(work, f"{len(made)}.whl")))
        for new, own in zip(made, names, strict=True):
            for name in own:
                atomic_copy(new, out / name)
        return tuple(
            RelabelledWheel(
                wheel=entry.filename, files=own, size=new.stat().st_size, requires_torch=entry.requires_torch
            )
            for new, own, entry in zip(made, names, entries, strict=True)
        )


def choose_wheels(
    places: Sequence[Path], *, arch: str | None = None, only: Sequence[str] = (), skip: Sequence[str] = ()
) -> tuple[list[WheelUpload], int]:
    """Return the plain wheels that serve a selected cell, with these cells only, and the number of older wheels.

    Wheels of an older source are left out. A pattern may begin with the name of a project, as in ``relu/torch213-*``.

    :param places: wheels, and folders with wheels or an index.
    :raises SelectionError: the selection matches no cell.
    """
    release = read_releases([place for place in places if place.is_dir()])
    found = [*release.uploads, *external_wheels(place for place in places if not place.is_dir())]
    plain = {upload.entry.sha256: upload for upload in found if upload.entry.variant is None}.values()
    every: dict[str, dict[Cell, None]] = {}
    for upload in plain:
        every.setdefault(upload.entry.project, {}).update(dict.fromkeys(upload.entry.cells))
    cells = {project: tuple(each) for project, each in every.items()}
    selected = select(cells, arch=arch, only=only, skip=skip)
    everything, chosen = not (arch or only or skip), []
    for upload in plain:
        kept = tuple(cell for cell in upload.entry.cells if cell in selected.get(upload.entry.project, ()))
        if kept or everything:
            chosen.append(replace(upload, entry=replace(upload.entry, cells=kept)))
    return chosen, len(release.left_out)


def _refuse_two(claims: Iterable[tuple[str, IndexEntry]]) -> None:
    """Raise if wheels of several versions claim the same name or version."""
    first: dict[str, IndexEntry] = {}
    for claimed, entry in claims:
        known = first.setdefault(claimed, entry)
        if known.version != entry.version:
            cells = [f"--only '{cell.id.rpartition('/')[2].partition(f'-{cell.arch}')[0]}-*'" for cell in entry.cells]
            raise SettingError(
                f"{known.filename} and {entry.filename} would both be {claimed}",
                remedy=f"choose one of them, for example by {cells[-1]}" if cells else "name only one of them",
            )


def _pypi_name(upload: WheelUpload) -> tuple[str, ...]:
    """Return the name without the local version.

    :raises WheelError: PyPI refuses the wheel, or pip could not install it from there.
    """
    filename = upload.entry.filename
    tags = (tag.platform for tag in read_wheel_name(filename).tags)
    needs = map(Requirement, parse_headers(upload.side_files[CORE_METADATA]).get("requires_dist", ()))
    mistakes = [f"PyPI refuses the platform {tag}: it is no manylinux platform" for tag in tags if tag[:6] == "linux_"]
    for need in needs:
        mistakes += [f"PyPI refuses a requirement with a URL: {need}"] if need.url else []
        mistakes += [f"PyPI has no local versions, such as in {need}"] if "+" in str(need.specifier) else []
    if mistakes:
        raise WheelError(mistakes[0], where=Place(file=filename), remedy="change it in the project, and build again")
    name, version, tags_of_file = filename.split("-", 2)
    return (f"{name}-{version.partition('+')[0]}-{tags_of_file}",)


def _file_names(template: str, entry: IndexEntry) -> tuple[str, ...]:
    """Return the names of a wheel, one for each cell and Python whose values differ in the template.

    :raises SettingError: a placeholder has no value, or the result is not a file name of a wheel.
    """
    wheel, allowed = read_wheel_name(entry.filename), parse_requires_python(entry.requires_python)
    pythons = {each["python_version"] for each in environments(wheel.tags, allowed or SpecifierSet())} & {*PYTHONS}
    threads = "t" if all(tag.abi.endswith("t") for tag in wheel.tags) else ""
    names: dict[str, None] = {}
    for cell, python in product(entry.cells, sorted(pythons, key=numbers)):
        values = {
            "name": entry.filename.partition("-")[0],
            "version": entry.version.public,
            "torch": cell.release,
            "cuda": cell.toolkit,
            "cuda_major": cell.toolkit and cell.toolkit.partition(".")[0],
            "compute": cell.compute,
            "abi": None if cell.cxx11_abi is None else str(cell.cxx11_abi).upper(),
            "python": f"cp{python.replace('.', '')}",
            "python_abi": f"cp{python.replace('.', '')}{threads}",
            "platform": ".".join(sorted({tag.platform for tag in wheel.tags})),
            "arch": cell.arch,
        }
        names[_fill(template, {key: value for key, value in values.items() if value}, entry.filename)] = None
    if not names:
        raise SettingError(f"{entry.filename} does not tell its torch and CUDA", remedy="name a wheel that does")
    return tuple(names)


def _fill(template: str, values: Mapping[str, str], wheel: str) -> str:
    try:
        name = template.format_map(values)
    except KeyError as error:
        remedy = f"it has {{{'}, {'.join(values)}}}; leave wheels out with --skip"
        raise SettingError(f"{wheel} has no value for {{{error.args[0]}}}", remedy=remedy) from None
    except (ValueError, LookupError, AttributeError) as error:
        raise SettingError(f"--name-template is not a template: {error}") from None
    # The name of TransformerEngine is not one of the binary distribution format: it has two "+".
    if "/" in name or not name.endswith(".whl"):
        raise SettingError(f"--name-template makes {name}, which is not the file name of a wheel")
    return name


def _require_good(wheel: Path, reader: WheelReader, declared: Sequence[str]) -> None:
    for found in reader.check(wheel, declared=declared).findings:
        if not found.ok:
            raise WheelError(f"the check failed: {found.rule}: {found.message}", where=Place(file=wheel.name))
