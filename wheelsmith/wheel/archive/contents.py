"""A wheel in memory, for those who make another one of it."""

from __future__ import annotations

from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import cast

from wheelsmith.base.errors import Place, WheelError
from wheelsmith.base.zip_archive import Archive
from wheelsmith.model import read_wheel_name
from wheelsmith.wheel.archive.record import compare_record, digest_of, read_record

RECORDS = ("METADATA", "WHEEL", "RECORD")


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelContents:
    """A wheel in memory.

    :param info: the name of the ``.dist-info`` folder.
    :param files: path → content, of every member that is not a folder.
    """

    filename: str
    info: str
    files: dict[str, bytes]

    @property
    def metadata(self) -> EmailMessage:
        """Return METADATA's headers."""
        return self._headers("METADATA")

    @property
    def wheel(self) -> EmailMessage:
        """Return WHEEL's headers."""
        return self._headers("WHEEL")

    def _headers(self, name: str) -> EmailMessage:
        # email.message_from_bytes gives what its policy makes.
        return cast("EmailMessage", message_from_bytes(self.files[f"{self.info}/{name}"], policy=policy.compat32))


def open_wheel(path: Path) -> WheelContents:
    """Read a wheel.

    :raises WheelError: it is no wheel, or holds what a wheel must not hold.
    """
    with open_archive(path) as archive:
        info = info_folder(archive)
        return WheelContents(filename=path.name, info=info, files={name: archive.read(name) for name in archive.files})


def open_archive(path: Path) -> Archive:
    """Open a wheel's archive.

    :raises WheelError: it has no wheel's name, or cannot be read.
    """
    try:
        read_wheel_name(path.name)
    except ValueError as error:
        raise WheelError(str(error), where=Place(file=path.name)) from None
    return Archive(path)


def info_folder(archive: Archive) -> str:
    """Return the name of the one ``.dist-info`` folder.

    :raises WheelError: there is none, or another one, or it lacks one of the files that every wheel has.
    """
    where = Place(file=archive.path.name)
    infos = sorted({name.split("/")[0] for name in archive.members if name.split("/")[0].endswith(".dist-info")})
    if len(infos) != 1:
        raise WheelError(f"it has {len(infos)} .dist-info folders, not one{_listed(infos)}", where=where)
    for name in RECORDS:
        if f"{infos[0]}/{name}" not in archive.members:
            raise WheelError(f"it has no {infos[0]}/{name}", where=where)
    return infos[0]


def record_mistakes(contents: WheelContents) -> list[str]:
    """Compare every file with RECORD; return what is wrong."""
    record = read_record(contents.files[f"{contents.info}/RECORD"], 2 * len(contents.files))
    files = {}
    for name, data in contents.files.items():
        files[name] = digest_of(data, record.algorithm(name))
    return compare_record(record, contents.info, files)


def _listed(infos: list[str]) -> str:
    return f": {', '.join(infos[:5])}" if infos else ""
