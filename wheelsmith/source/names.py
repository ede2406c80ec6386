"""The names of files that are never source, of secrets, and of files that a build can use."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from wheelsmith.base.beneath import open_file
from wheelsmith.plan.recipe.compile import is_known_source
from wheelsmith.plan.recipe.recipe import is_licence

_NEVER_SOURCE = re.compile(
    # Locks, vendored folders and shard plans, and their temporary files
    r"(.*/)?([^/]*\.)?wheelsmith\.(lock|vendor|shards\.json)(\.[^/]*)?(/.*)?"
    r"|(.*/)?(\.git|\.venv|\.wheelsmith-(slurm|kubernetes)|__pycache__|node_modules|\.(pytest|mypy|ruff)_cache)(/.*)?"
    # At the top: pipelines, logs, the matrix, and the public keys that it names
    r"|\.(github|gitlab|buildkite|circleci|forgejo|gitea|woodpecker)/.*"
    r"|\.gitlab-ci\.yml|\.travis\.yml|azure-pipelines\.yml|Jenkinsfile|log|[^/]*\.log|nohup\.out|matrix\.yaml"
    r"|wheels\.(slurm\.sh|kubernetes\.yaml)|[^/]*\.pub"
)
_MATRIX = re.compile(rb"^kernel:.*^axes:|^axes:.*^kernel:", re.MULTILINE | re.DOTALL)
_SECRET = re.compile(
    r"\.env(\.(?!example|sample|template).+)?|.+\.(pem|key|p12|pfx|jks|keystore)|id_(rsa|dsa|ecdsa|ed25519)|[._]netrc"
    r"|\.pypirc|\.npmrc|\.git-credentials|\.htpasswd|credentials(\.json)?|secrets?\.(json|toml|ya?ml)",
    re.IGNORECASE,
)
_BUILD_FILE = re.compile(
    r"[^.].*\.(asm|cfg|cl|cmake|def|f|f90|go|hip|in|ipp|j2|jinja2?|metal|mk|patch|proto|ptx|pxd|pxi|py|pyi|pyx|rs|s|sh"
    r"|template|toml|tpp|typed)|CMakeLists\.txt|(GNU)?makefile|meson\.build|meson[._]options(\.txt)?"
    r"|(requirements.*|version)\.txt|version|README.*|CARD\.md|\.git(attributes|ignore|modules)",
    re.IGNORECASE,
)


def is_never_source(path: str, entry: os.DirEntry[str], *, built: Collection[str]) -> bool:
    """Return True if a file or folder is not source, although it is in the folder or repository of the source.

    A change to a matrix or a pipeline must not change the digest of the source.

    :param path: the path in the source.
    :param built: the names of folders at the top that contain the results of builds.
    """
    folders = path if Path(entry.path).is_dir() else path.rpartition("/")[0]
    if folders.partition("/")[0] in built or _is_matrix(entry):
        return True
    return _NEVER_SOURCE.fullmatch(f"{path}/" if folders == path else path) is not None


def _is_matrix(entry: os.DirEntry[str]) -> bool:
    if not entry.name.endswith((".yaml", ".yml")):
        return False
    try:
        with open_file(entry.path) as file:
            return _MATRIX.search(file.read(1 << 16)) is not None
    except OSError:
        return False


def is_secret(path: str) -> bool:
    """Return True if a file has the name of a private key or of a file with passwords."""
    return _SECRET.fullmatch(path.rpartition("/")[2]) is not None


def is_build_file(path: str) -> bool:
    """Return True if a build can use a file with this name: code, a build script, a description or a licence."""
    name = path.rpartition("/")[2]
    return is_known_source(name) or is_licence(name) or _BUILD_FILE.fullmatch(name) is not None
