"""Run uv with the settings of pip. uv does not read pip's configuration."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import CompletedProcess
from threading import Event

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.offline import is_offline
from wheelsmith.base.redact import redact
from wheelsmith.base.sanitize import visible
from wheelsmith.frameworks import prerelease_indexes
from wheelsmith.model import TORCH
from wheelsmith.toolchain.pip import PipSettings, local_folder
from wheelsmith.toolchain.program import run_program

NEWEST_GLIBC = 28  # minor version; a build environment must run in manylinux_2_28
TIMEOUT = 7200.0  # seconds; torch with CUDA has up to 5 GB, which takes an hour on a slow connection
_OWN_PYTHONS = "UV_PYTHON_INSTALL_DIR"
_NO_SOLUTION = "No solution found when resolving dependencies: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Uv:
    """uv for one target. It takes wheels only, and runs no code of a package.

    :param python: ``major.minor``. Only a free-threaded one, such as ``3.14t``, must be installed.
    :param cache: uv's cache. Several processes may use it at the same time.
    :param cancel: stops uv when it is set.
    """

    settings: PipSettings
    python: str
    arch: str
    cache: Path
    cancel: Event

    def compile(self, requirements: Iterable[str], *options: str) -> CompletedProcess[str]:
        """Choose releases for requirements. stdout is a pylock.toml with all of their wheels that fit."""
        # Without --refresh, index pages may be ten minutes old.
        options = ("--format", "pylock.toml", "--no-header", "--no-annotate", "--refresh", *options, "-")
        lines = tuple(requirements)
        indexes = (*prerelease_indexes(_torch_builds(lines)), *self.settings.indexes)
        settings = replace(self.settings, indexes=indexes)
        return self._run("compile", *options, stdin="\n".join(lines), settings=settings)

    def install(self, requirement: str, folder: Path, check: Callable[[], None]) -> CompletedProcess[str]:
        """Install one wheel into a folder.

        :param requirement: with an address and a hash.
        :param check: see ``run_program``.
        """
        options = ("--target", str(folder), "--link-mode", "hardlink", "--no-deps", "--require-hashes", "-r", "-")
        settings = replace(self.settings, constraints=())
        completed = self._run("install", *options, stdin=requirement, settings=settings, check=check)
        (folder / ".lock").unlink(missing_ok=True)
        return completed

    def _run(
        self,
        verb: str,
        *argv: str,
        stdin: str,
        settings: PipSettings,
        check: Callable[[], None] = lambda: None,
    ) -> CompletedProcess[str]:
        """Run a command of ``uv pip``.

        :param stdin: requirements. No address is on the command line, where other users would see its password.
        :raises ToolchainError: uv is not installed, exceeded the time limit or was cancelled.
        """
        options = [
            *("--python-version", self.python.removesuffix("t")),
            # uv asks a free-threaded Python itself for its tags. It finds those on PATH and its own.
            *("--python", self.python if self.python.endswith("t") else sys.executable),
            *("--python-platform", f"{self.arch}-manylinux_2_{NEWEST_GLIBC}", "--only-binary", ":all:"),
        ]
        return _run_uv(verb, *options, *argv, stdin=stdin, settings=settings, cache=self.cache, cancel=self.cancel,
                       check=check)  # fmt: skip


def install_into(
    environment: Path, requirement: str, *, settings: PipSettings, cache: Path, cancel: Event
) -> CompletedProcess[str]:
    """Install one wheel into a virtual environment, without its requirements.

    :param requirement: with an address and a hash.
    """
    options = ("--python", str(environment / "bin" / "python"), "--link-mode", "hardlink", "--no-deps",
               "--require-hashes", "-r", "-")  # fmt: skip
    settings = replace(settings, constraints=())
    return _run_uv("install", *options, stdin=requirement, settings=settings, cache=cache, cancel=cancel)


def _run_uv(
    verb: str,
    *argv: str,
    stdin: str,
    settings: PipSettings,
    cache: Path,
    cancel: Event,
    check: Callable[[], None] = lambda: None,
) -> CompletedProcess[str]:
    options = [
        *("--no-config", "--no-progress", "--color", "never", "--cache-dir", str(cache), "--no-python-downloads"),
        *("--index-strategy", "unsafe-best-match"),  # as pip does
        *(["--offline"] if is_offline() else []),
        *([] if settings.indexes else ["--no-index"]),
    ]
    # uv's own variables would override pip's settings.
    others = {name: value for name, value in os.environ.items() if not name.startswith("UV_") or name == _OWN_PYTHONS}
    return run_program(
        [_find_uv(), "pip", verb, *options, *argv],
        f"uv pip {verb}",
        env={**others, **dict(_translated(settings)), "UV_CONSTRAINT": " ".join(settings.constraints)},
        seconds=TIMEOUT,
        stdin=stdin,
        cancel=cancel,
        check=check,
    )


def _torch_builds(requirements: Iterable[str]) -> Iterator[str]:
    """Yield the versions of torch that requirements pin."""
    for line in map(Requirement, requirements):
        if canonicalize_name(line.name) == TORCH:
            yield from (each.version for each in line.specifier if each.operator in {"==", "==="})


def _find_uv() -> str:
    from uv import find_uv_bin

    try:
        return find_uv_bin()
    except FileNotFoundError:
        raise ToolchainError(
            f"uv is not installed in wheelsmith's environment ({sys.executable})",
            remedy=f"{sys.executable} -m pip install --force-reinstall uv",
        ) from None


def _translated(settings: PipSettings) -> Iterator[tuple[str, str]]:
    """Yield uv's environment variables for pip's settings. They may contain passwords."""
    if settings.indexes:
        # uv asks the default index last. pip prefers the files of earlier indexes, too.
        yield "UV_INDEX", " ".join(settings.indexes[:-1])
        yield "UV_DEFAULT_INDEX", settings.indexes[-1]
    # uv fails if a folder is missing. pip does not.
    links = {link: local_folder(link) for link in settings.find_links}
    places = [link if folder is None else folder.absolute() for link, folder in links.items()]
    yield "UV_FIND_LINKS", ",".join(str(place) for place in places if isinstance(place, str) or place.is_dir())
    yield "UV_INSECURE_HOST", " ".join(settings.trusted_hosts)
    yield "UV_HTTP_TIMEOUT", str(max(1, round(settings.timeout)))
    yield "UV_NO_INSTALLER_METADATA", "1"  # it contains times and addresses
    yield ("SSL_CERT_FILE", settings.cert) if settings.cert else ("UV_SYSTEM_CERTS", "1")
    if settings.client_cert:
        yield "SSL_CLIENT_CERT", settings.client_cert
    if settings.proxy:
        yield from ((name, settings.proxy) for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"))
    if settings.keyring != "disabled" and shutil.which("keyring"):
        yield "UV_KEYRING_PROVIDER", "subprocess"
    if settings.prereleases:
        yield "UV_PRERELEASE", "allow"
    if settings.uploaded_before:
        yield "UV_EXCLUDE_NEWER", settings.uploaded_before


def uv_reason(stderr: str) -> str:
    """Return the reason in uv's stderr on one line, with all causes and without passwords."""
    text = f"\n{stderr}".partition("\nerror: ")[2].partition("\n\nhint: ")[0]
    sentences = " ".join(text.split()).replace(" cause: ", ": ").removeprefix(_NO_SOLUTION)
    return visible(redact(sentences)).rstrip(".") or "uv failed"
