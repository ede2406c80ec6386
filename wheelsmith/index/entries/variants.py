"""What an index says of the variants of each version: one file, which the page that lists them names by its hash.

It follows from the state, as pages do, but stands under the hash of its content, as wheels do. An installer compares it
with the page's hash: under a name that stays, every reader between the writing of this file and of the page, or with a
page that is a minute old, would meet the wrong one. So it is written first, and what older pages name stays readable
until it is collected.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from packaging.version import Version

from wheelsmith.index.entries.entry import ProjectState, file_key
from wheelsmith.index.entries.listing import roots
from wheelsmith.index.entries.state import by_version
from wheelsmith.wheel.variant_format import dump_variants


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantsFile:
    """``{name}-{version}-variants.json``.

    :param upload_time: of the oldest wheel that it describes: who asks for wheels until then must be able to read it.
    """

    version: Version
    filename: str
    data: bytes
    upload_time: str

    @property
    def sha256(self) -> str:
        """Return the hash (hex) of its content."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def path(self) -> str:
        """Return its path in the index."""
        return file_key(self.sha256, self.filename)


def variants_files(state: ProjectState) -> tuple[VariantsFile, ...]:
    """Return the file of every version that has variant wheels on a page."""
    found = []
    for version, entries in by_version(entry for entry in state.entries if entry.variant and roots(entry)).items():
        name, written, _ = entries[0].filename.split("-", 2)
        file = VariantsFile(
            version=version,
            filename=f"{name}-{written}-variants.json",
            data=dump_variants(entry.variant for entry in entries if entry.variant),
            upload_time=min(entry.upload_time for entry in entries),
        )
        found.append(file)
    return tuple(found)
