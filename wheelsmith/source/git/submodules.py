"""All that a commit holds, with what its submodules hold in their places."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from wheelsmith.base.errors import SourceError
from wheelsmith.base.git_address import GitAddress, submodule_address
from wheelsmith.model import Listener
from wheelsmith.source.git.entries import TreeEntry
from wheelsmith.source.git.repository import Repository
from wheelsmith.source.tree import check_path

_MOST_ENTRIES = 200_000  # of a whole repository, of which the source may be a part; folders, too
_MOST_MODULES = 100
_DEEPEST = 8
_MOST_FETCHED = 4 << 30  # bytes of all submodules, where one alone may have a quarter of it
_LARGEST_LIST = 1 << 20  # bytes of a .gitmodules
_LIST = ".gitmodules"
_MOST_TOLD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """One file or link, and the repository that it is from."""

    repository: Repository
    entry: TreeEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class _Module:
    """A commit whose files stand below a folder; ``folder`` ends with a slash, or is empty."""

    folder: str
    repository: Repository
    commit: str
    depth: int = 0


def repository_of(address: GitAddress, cache: Path, listen: Listener) -> Repository:
    """Return where the cache keeps what is fetched from an address, whoever asks for it."""
    digest = hashlib.sha256((address.text if address.is_local else address.shown).encode()).hexdigest()
    return Repository(address=address, root=cache / "git" / digest[:32], listen=listen)


@dataclass(slots=True, kw_only=True)
class ContentsReader:
    """Reads a commit and its submodules.

    :param cache: keeps what is fetched.
    :param wanted: says of a submodule's path whether it is fetched.
    :param found: path from the top of the repository → what is there.
    :param modules: the paths of all submodules that were met.
    """

    cache: Path
    wanted: Callable[[str], bool]
    found: dict[str, Placed] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    _met: int = 0
    _bytes: int = 0

    def read(self, repository: Repository, commit: str) -> None:
        """Read all of it.

        :raises SourceError: it holds what must not be used, or a submodule cannot be had.
        :raises DamagedError: what is in the cache cannot be read.
        """
        todo = [_Module(folder="", repository=repository, commit=commit)]
        while todo:
            module = todo.pop()
            # One lock at a time: two runs may meet the same repositories in another order.
            with module.repository.held():
                submodules = self._read_one(module)
                addresses = self._addresses(module) if submodules else {}
            todo += [self._fetched(entry, module, addresses) for entry in submodules if addresses.get(entry.path) != ""]
        folders = {parent for path in self.found for parent in parents(path)}
        if clash := folders & self.found.keys():
            raise SourceError(f"{min(clash)} in the repository is both a file and a folder")

    def _read_one(self, module: _Module) -> list[TreeEntry]:
        """Take what is in a commit; return the submodules to go into."""
        submodules = []
        for entry in module.repository.entries(module.commit):
            # Folders count, though nothing is in them: a few can be in one another as often as one likes.
            self._met += 1
            if not entry.is_folder and self._take(entry, module):
                submodules.append(entry)
            if self._met > _MOST_ENTRIES or len(self.modules) > _MOST_MODULES:
                raise SourceError(
                    f"the repository has more than {_MOST_ENTRIES} files and folders, or {_MOST_MODULES} submodules",
                    remedy=self._choice(),
                )
        return submodules

    def _take(self, entry: TreeEntry, module: _Module) -> bool:
        """Note what an entry is; say whether it is a submodule to go into."""
        path = module.folder + entry.path
        check_path(path)
        if path in self.found or path in self.modules:
            raise SourceError(f"{path} stands twice in the repository")
        if entry.is_submodule:
            self.modules.add(path)
            return self.wanted(path)
        self.found[path] = Placed(repository=module.repository, entry=entry)
        return False

    def _addresses(self, module: _Module) -> dict[str, str]:
        """Return where submodules are fetched from: path → address, nothing for those that are never fetched."""
        placed = self.found.get(module.folder + _LIST)
        if placed is None or placed.entry.is_link or placed.entry.size > _LARGEST_LIST:
            return {}
        told: dict[str, dict[str, str]] = {}
        for name, value in module.repository.settings(placed.entry.name):
            section, _, key = name.rpartition(".")
            if section.startswith("submodule."):
                told.setdefault(section, {})[key] = value
        return {
            each["path"].rstrip("/"): "" if each.get("update") == "none" else each["url"]
            for each in told.values()
            if "path" in each and each.get("url")
        }

    def _fetched(self, entry: TreeEntry, parent: _Module, addresses: dict[str, str]) -> _Module:
        path = parent.folder + entry.path
        try:
            repository = self._repository(entry.path, parent, addresses)
            with repository.held():
                commit = self._commit(repository, entry.name)
        except (SourceError, ValueError) as error:
            own = f"{error.remedy}; or " if isinstance(error, SourceError) and error.remedy else ""
            raise SourceError(f"submodule {path}: {error}", remedy=own + self._choice()) from None
        return _Module(folder=f"{path}/", repository=repository, commit=commit, depth=parent.depth + 1)

    def _commit(self, repository: Repository, revision: str) -> str:
        """Fetch a submodule, and count what came."""
        before = repository.stored()
        commit = repository.commit_of(revision)
        self._bytes += repository.stored() - before
        if self._bytes > _MOST_FETCHED:
            raise SourceError(f"with it, more than {_MOST_FETCHED >> 20} MiB of submodules were fetched")
        return commit

    def _repository(self, path: str, parent: _Module, addresses: dict[str, str]) -> Repository:
        if path not in addresses:
            raise SourceError(f"{parent.folder}{_LIST} does not say where it is")
        if parent.depth == _DEEPEST:
            raise SourceError(f"more than {_DEEPEST} submodules within one another")
        address = submodule_address(parent.repository.address, addresses[path])
        return repository_of(address, self.cache, parent.repository.listen)

    def _choice(self) -> str:
        """Return how to do with fewer submodules."""
        some = ", ".join(sorted(self.modules)[:_MOST_TOLD])
        needed = f"name those that are needed, under kernel: submodules: [{some}], or submodules: false"
        return f"{needed}; wheelsmith init takes --submodules"


def parents(path: str) -> Iterator[str]:
    """Yield the folders that a path is in."""
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)
