"""What a kernel's code comes to, whatever is written about it: the name of its operators' namespace rests on this."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from wheelsmith.plan.recipe.comments import without_c_comments, without_hash_comments
from wheelsmith.plan.recipe.compile import is_known_source
from wheelsmith.plan.recipe.make import is_licence
from wheelsmith.plan.recipe.spec import KernelSpec

_WORDS = frozenset({".md", ".rst"})
_BESIDE = frozenset({"benchmarks", "docs", "examples", "media", "tests"})
# Bytes of one file, and of all: what is longer was written by a program, and counts as it is.
_LONGEST, _MOST = 1 << 20, 32 << 20
_HASH_COMMENTS = frozenset({".py", ".pyi", ".toml"})


def code_digest(spec: KernelSpec, files: Mapping[str, str], read: Callable[[str], bytes | None]) -> str:
    """Return the sha256 of all that may be compiled or imported, without comments.

    Documentation, licences, tests and hidden files do not count, unless build.toml names them as sources. What is not
    known to be without effect counts.

    :param files: every file of the kernel, path → sha256.
    :param read: gives what a file holds; None where that is too long to be read.
    """
    sources = {path for group in (spec.binding, *spec.sections) if group for path in group.src}
    digest, left = hashlib.sha256(), _MOST
    for path in sorted(files):
        if path in sources or _counts(path):
            text = read(path) if left and _without_comments(path) else None
            if text is not None:
                left = max(left - len(text), 0)
            digest.update(f"{path}\0{_of_file(path, text, files[path])}\n".encode())
    return digest.hexdigest()


def _counts(path: str) -> bool:
    parts = PurePosixPath(path).parts
    if is_licence(path) or PurePosixPath(path).suffix in _WORDS:
        return False
    return parts[0] not in _BESIDE and not any(part.startswith(".") for part in parts)


def _of_file(path: str, text: bytes | None, sha256: str) -> str:
    cut = _without_comments(path)
    if cut is None or text is None or len(text) > _LONGEST:
        return sha256
    return hashlib.sha256(cut(text)).hexdigest()


def _without_comments(path: str) -> Callable[[bytes], bytes] | None:
    if is_known_source(path):
        return without_c_comments
    return without_hash_comments if PurePosixPath(path).suffix in _HASH_COMMENTS else None
