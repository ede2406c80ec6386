"""What a kernel's code comes to, whatever is written about it: the name of its operators' namespace rests on this."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from wheelsmith.plan.recipe.comments import without_c_comments, without_python_comments
from wheelsmith.plan.recipe.compile import is_known_source
from wheelsmith.plan.recipe.recipe import is_licence
from wheelsmith.plan.recipe.spec import KernelSpec

# What people write to people, at whatever place, and what is beside the code at the top.
_WORDS = re.compile(r"(README|CHANGELOG|CHANGES|HISTORY|NEWS|AUTHORS|CONTRIBUTING|CITATION)([.-].*)?", re.IGNORECASE)
_OF_WORDS = frozenset({".lock", ".md", ".nix", ".rst", ".txt"})
_BESIDE = frozenset({"benchmark", "benchmarks", "doc", "docs", "example", "examples", "media", "test", "tests"})
# Bytes of one file, and of all: what is longer was written by a program, and counts as it is.
_LONGEST, _MOST = 1 << 20, 16 << 20


def code_digest(spec: KernelSpec, files: Mapping[str, str], read: Callable[[str], bytes | None]) -> str:
    """Return the sha256 of all that may be compiled, included or shipped, without comments.

    Elsewhere documentation, licences, tests and hidden files do not count. What is not known to be without effect does.

    :param files: every file of the kernel, path → sha256.
    :param read: gives what a file holds; None where that is too long to be read.
    """
    digest, left = hashlib.sha256(), _MOST
    for path in sorted(files):
        if is_known_source(path) or path.startswith(f"{spec.root}/") or _counts(path):
            cut = _without_comments(path)
            text = read(path) if left and cut else None
            left = max(left - len(text or b""), 0)
            code = cut(text) if cut and text is not None and len(text) <= _LONGEST else None
            known = files[path] if code is None else hashlib.sha256(code).hexdigest()
            digest.update(f"{path}\0{known}\n".encode())
    return digest.hexdigest()


def _counts(path: str) -> bool:
    parts = PurePosixPath(path).parts
    if is_licence(parts[-1]) or _WORDS.fullmatch(parts[-1]) or PurePosixPath(path).suffix in _OF_WORDS:
        return False
    return parts[0] not in _BESIDE and not any(part.startswith(".") for part in parts)


def _without_comments(path: str) -> Callable[[bytes], bytes | None] | None:
    suffix = PurePosixPath(path).suffix
    if is_known_source(path):
        return without_c_comments
    if suffix == ".toml":
        return _toml
    return without_python_comments if suffix in {".py", ".pyi"} else None


def _toml(text: bytes) -> bytes | None:
    try:
        return json.dumps(tomllib.loads(text.decode()), sort_keys=True, default=str).encode()
    except (ValueError, RecursionError):
        return None
