"""Follow the links of a tree within that tree, as a file system would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wheelsmith.base.errors import SourceError

_MOST_HOPS = 40  # as the kernel's own
MOST_LINKS = 2000
LONGEST_LINK = 1024  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkResolver:
    """Finds what is at the end of a link.

    :param links: path of each link → what it says.
    :param files: all paths that have content.
    :param folders: all that have something below them.
    """

    links: Mapping[str, str]
    files: frozenset[str]
    folders: frozenset[str]

    def end_of(self, link: str) -> str:
        """Return the path of the file or folder that a link leads to.

        :raises SourceError: it leads to none in the tree, or to a folder that it is in.
        """
        end = self._walk(link)
        if not end or link.startswith(f"{end}/"):
            raise SourceError(f"{link} is a link to a folder that it is in")
        return end

    def file_of(self, link: str) -> str:
        """Return the path of the file that a link leads to.

        :raises SourceError: it leads to none in the tree.
        """
        end = self.end_of(link)
        if end in self.folders:
            raise SourceError(f"{link} is a link to a folder; wheelsmith follows none")
        return end

    def _walk(self, link: str) -> str:
        here: list[str] = []
        todo, hops = link.split("/")[::-1], 0
        while todo:
            part = todo.pop()
            if part == ".." and not here:
                raise SourceError(f"{link} is a link that leads out of the source")
            if part == "..":
                here.pop()
            if part in {"", ".", ".."}:
                continue
            here.append(part)
            path = "/".join(here)
            if (text := self.links.get(path)) is not None:
                here.pop()
                hops += 1
                todo += _steps(link, text, hops)
            elif path not in self.folders and (todo or path not in self.files):
                raise SourceError(f"{link} is a link to nothing")
        return "/".join(here)


def _steps(link: str, text: str, hops: int) -> Iterator[str]:
    if hops > _MOST_HOPS:
        raise SourceError(f"{link} is a link that leads to itself")
    if text.startswith("/"):
        raise SourceError(f"{link} is a link that leads out of the source")
    return reversed(text.split("/"))
