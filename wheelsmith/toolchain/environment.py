"""The Python environment that a project's own build system runs in: resolved once, then made from exact wheels."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.files import atomic_write
from wheelsmith.base.record import canonical_digest
from wheelsmith.model import LockedWheel
from wheelsmith.toolchain.pip import run_pip

_PATIENCE = 7200.0  # seconds: a whole torch with CUDA is up to 5 GB, and a slow line takes an hour for it
_OLDEST_GLIBC, _NEWEST_GLIBC = 17, 28  # minor versions: a build environment must run in manylinux_2_28


def lock_environment(
    requirements: tuple[str, ...], python: str, arch: str, folder: Path
) -> tuple[LockedWheel, ...] | str:
    """Return the exact wheels that pip takes for these requirements, or pip's reason why there are none.

    What was resolved once stays so: the answer is kept in ``folder``, and a build on another day has the same bytes.

    :param python: ``major.minor``.
    :raises ToolchainError: pip did not answer as pip does.
    """
    kept = folder / f"{canonical_digest([requirements, python, arch])[:32]}.json"
    try:
        return tuple(LockedWheel.from_json(item) for item in json.loads(kept.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        pass
    with tempfile.TemporaryDirectory() as nowhere:
        answer = run_pip(
            *("install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-", "--target", nowhere),
            *(*_platform(python, arch), *requirements),
            seconds=_PATIENCE,
        )
    if answer.returncode:
        errors = [line.removeprefix("ERROR: ") for line in answer.stderr.splitlines() if line.startswith("ERROR")]
        return errors[0] if errors else "pip failed"
    try:
        found = json.loads(answer.stdout)["install"]
        if named := [item["metadata"]["name"] for item in found if item.get("is_direct")]:
            return f"something requires {named[0]} at an address, not from an index"
        locked = tuple(_locked(item) for item in found)
    except (ValueError, KeyError, TypeError):
        raise ToolchainError("pip's report is not readable", remedy="python3 -m pip install --upgrade pip") from None
    atomic_write(kept, json.dumps([wheel.to_json() for wheel in locked]).encode())
    return locked


def install_environment(wheels: tuple[LockedWheel, ...], python: str, arch: str, folder: Path) -> None:
    """Install exactly these wheels under ``folder``; nothing of them is run.

    :raises ToolchainError: pip could not.
    """
    with tempfile.TemporaryDirectory() as scratch:
        lock = Path(scratch) / "requirements.txt"
        lines = (f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n" for wheel in wheels)
        lock.write_text("".join(lines), encoding="utf-8")
        answer = run_pip(
            *("install", "--quiet", "--no-compile", "--no-deps", "--require-hashes", "--target", str(folder)),
            *(*_platform(python, arch), "--requirement", str(lock)),
            seconds=_PATIENCE,
        )
    if answer.returncode:
        errors = [line for line in answer.stderr.splitlines() if line.startswith("ERROR")]
        raise ToolchainError(f"the build environment cannot be made: {errors[0] if errors else 'pip failed'}")


def _platform(python: str, arch: str) -> tuple[str, ...]:
    """Ask for wheels of another Python than the one that runs pip, and for nothing that would have to be built."""
    platforms = (f"manylinux_2_{minor}_{arch}" for minor in range(_NEWEST_GLIBC, _OLDEST_GLIBC - 1, -1))
    return (
        *("--only-binary", ":all:", "--implementation", "cp", "--python-version", python),
        *(word for platform in (*platforms, f"manylinux2014_{arch}") for word in ("--platform", platform)),
    )


def _locked(item: dict[str, dict[str, str]]) -> LockedWheel:
    info: dict[str, dict[str, dict[str, str]]] = item["download_info"]  # type: ignore[assignment]  # pip's report nests
    return LockedWheel(
        name=item["metadata"]["name"].lower(),
        version=item["metadata"]["version"],
        sha256=info["archive_info"]["hashes"]["sha256"],
    )
