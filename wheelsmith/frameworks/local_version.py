"""The local part of a wheel's version: wheelsmith's own form, and a parser for everyone's forms.

``cu130.torch2.11`` is for one torch release, ``cu130.torch2.16.0rc2`` for one pre-release.
``cu130.torchstable`` is for every torch from its floor on, ``cpu.jaxstable`` for every jaxlib from its floor on.

Among wheels of one version, installers choose the one that sorts highest. Letters sort above digits, so ``torchstable``
sorts above every ``torch2.11``. Users who pin no torch thus get the wheel that the newest torch can run. Older
wheelsmith wheels have only ``cu130``, which sorts below both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from packaging.version import Version

from wheelsmith.frameworks.known import framework, frameworks
from wheelsmith.model import CUDA, TORCH, Cell
from wheelsmith.platforms import CPU, cuda_toolkits, platform_of, platforms

# ``cu130.torch2.11`` is ours, ``cu12torch2.11cxx11abitrue`` flash-attn's, ``pt2.11cu126`` pytorch3d's.
_TORCH = re.compile(
    r"(?<![a-z])(?:(?:py)?torch|pt)\.?(?P<major>\d)(?:\.(?P<minor>\d{1,4})|(?P<digits>\d{1,2}))(?!\d)"
    r"(?P<prerelease>\.\d{1,4}(?:(?:a|b|rc)\d{1,4}|\.dev\d{1,12})(?![a-z\d]))?"
)
_CUDA = re.compile(r"(?<![a-z])cu(?:da)?(?P<digits>\d+)(?:\.(?P<minor>\d)(?!\d))?")
_CPU = re.compile(r"(?<![a-z])cpu(?:only)?(?=[^a-z]|cxx|$)")
_MAJOR, _RELEASE = 2, 3  # digits of ``12`` and of ``126``
_TOO_OLD = {"75", "80", "90", "91", "92"}  # CUDA versions with a one-digit major, in versions of old torch builds
_OLDEST = 10
_LAST_MINORS = {10: 2, 11: 8, 12: 9}  # of CUDA majors that get no new minor


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalVersion:
    """The parsed content of a local version.

    :param compute: ``cpu``, ``cu130``, or ``cu12`` without a minor version; None if there is none or more than one.
    :param framework: the framework of the release, e.g. ``tvm-ffi``; torch by default.
    :param release: e.g. ``2.11``; None if there is none or more than one.
    :param stable: the wheel uses the framework's stable ABI.
    :param own: the text has exactly wheelsmith's form.
    :param wrong: unknown or contradictory parts.
    """

    compute: str | None = None
    framework: str = TORCH
    release: str | None = None
    stable: bool = False
    own: bool = False
    wrong: tuple[str, ...] = ()

    @property
    def torch(self) -> str | None:
        """The torch release, or None."""
        return self.release if self.framework == TORCH else None

    @property
    def framework_part(self) -> str | None:
        """The part that names a framework, e.g. ``torch2.11`` or ``torchstable``; None if there is none."""
        named = framework(self.framework)
        return named.local_part(self.release) if self.release else named.stable_part if self.stable else None


def local_version_of(cell: Cell, *, stable_abi: bool) -> str:
    """Return the local part of the version of a cell's wheel, e.g. ``cu130.torch2.11``.

    Dots separate the parts, because local segments compare numerically only if they contain nothing but digits (PEP
    440).

    :param stable_abi: the wheel uses the framework's stable ABI, so it serves more than one release.
    """
    used = framework(cell.framework)
    named = used.stable_part if stable_abi else used.local_part(cell.release)
    return f"{cell.compute}.{named}" if named else cell.compute


def read_local_version(local: str | None) -> LocalVersion:
    """Parse a local version or a variant label.

    :param local: the local version in PEP 440's normal form, lower case with dots between its parts; None for none.
    """
    text = local or ""
    stable = [name for name, each in frameworks().items() if each.stable_part in text.split(".")]
    torch = tuple(
        dict.fromkeys(
            f"{found['major']}.{found['minor'] or found['digits']}{found['prerelease'] or ''}"
            for found in _TORCH.finditer(text)
        )
    )
    rest = _TORCH.sub("|", text)
    named = ["cpu"] if _CPU.search(rest) else []
    wrong = []
    for found in _CUDA.finditer(rest):
        compute = _parse_cuda(found["digits"], found["minor"] or "")
        if compute and compute not in named:
            named.append(compute)
        if compute is None:
            wrong.append(f"the version says {found[0][:20]}, but no such CUDA is known")
    others = (each for each in platforms().values() if each.name != CUDA)
    named += [name for each in others for name in re.findall(rf"(?<![a-z]){each.compute_shape}(?!\d)", rest)]
    # In ``cu12.cu126`` the first part only repeats the second.
    exact = [one for one in named if not any(other != one and other.startswith(one) for other in named)]
    wrong += [f"the version says {' and '.join(exact)}"] if len(exact) > 1 else []
    # For other frameworks, only wheelsmith's own form is known.
    releases: dict[str, tuple[str, ...]] = {TORCH: torch}
    releases |= {name: tuple(dict.fromkeys(each.findall(text))) for name, each in _release_patterns().items()}
    wrong += [f"the version says {name} {' and '.join(found)}" for name, found in releases.items() if len(found) > 1]
    mentioned = [name for name, found in releases.items() if found or name in stable]
    wrong += [
        f"the version says {framework(name).stable_part} and {name} {releases[name][0]}"
        for name in stable
        if releases[name]
    ]
    wrong += [f"the version says {' and '.join(mentioned)}"] if len(mentioned) > 1 else []
    one = releases[mentioned[0]] if len(mentioned) == 1 and not stable else ()
    read = LocalVersion(
        compute=exact[0] if len(exact) == 1 and not wrong else None,
        framework=mentioned[-1] if mentioned else TORCH,
        release=one[0] if len(one) == 1 else None,
        stable=bool(stable),
        wrong=tuple(wrong),
    )
    return replace(read, own=text == _own_form(read))


def find_outranked(versions: Iterable[Version]) -> dict[Version, Version]:
    """Return the stable-ABI wheels with an old local version that sort below a wheel for one torch release.

    Only wheels of the newest public version count.

    :param versions: the versions of the wheels that may be chosen.
    :returns: ``2+cu130`` → ``2+cu130.torch2.10``, which installers choose if no torch is pinned. A compute platform
        that has a ``torchstable`` wheel is left out.
    """
    known = sorted(versions)
    newest = [version for version in known if version.public == known[-1].public]
    read = {version: read_local_version(version.local) for version in newest}
    found = {}
    for old in (version for version in newest if version.local == read[version].compute):
        own_versions = [version for version in newest if read[version].own and read[version].compute == old.local]
        if any(read[version].torch for version in own_versions) and not any(
            read[version].stable for version in own_versions
        ):
            found[old] = own_versions[-1]
    return found


def names_cuda(compute: str | None) -> bool:
    """Return True if the name of a compute platform is CUDA's, e.g. ``cu130`` or ``cu13``."""
    return compute is not None and compute[:2] == "cu" and compute[2:].isdecimal()


def cuda_major(compute: str) -> int:
    """Return 13 for ``cu130`` and ``cu13``."""
    return int(compute[2:4])


def cuda_release(compute: str) -> str | None:
    """Return ``13.0`` for ``cu130``; None for ``cu13``, which has no minor version."""
    return f"{compute[2:4]}.{compute[4:]}" if compute[4:] else None


def _own_form(read: LocalVersion) -> str | None:
    """Return wheelsmith's form of a parsed local version, or None if there is none.

    There is none for ``cu13``, which has no minor version.
    """
    if read.compute is None or (read.compute != CPU and platform_of(read.compute) is None):
        return None
    named = read.framework_part
    return f"{read.compute}.{named}" if named else read.compute


@cache
def _release_patterns() -> dict[str, re.Pattern[str]]:
    names = (name for name in frameworks() if name != TORCH)
    return {name: re.compile(rf"(?<![a-z0-9]){framework(name).local_part('')}(\d+\.\d+)(?!\.?\d)") for name in names}


def _parse_cuda(digits: str, minor: str) -> str | None:
    """Return ``cu126`` for ``126``, ``1260``, or ``12`` and ``6``.

    :returns: "" for a CUDA that is too old to check; None for an unknown one.
    """
    if digits in _TOO_OLD:
        return ""
    digits = digits + minor if len(digits) == _MAJOR else digits
    newest = max(int(version.partition(".")[0]) for version in cuda_toolkits())
    if not _MAJOR <= len(digits) <= _RELEASE + 1 or not _OLDEST <= int(digits[:_MAJOR]) <= newest:
        return None
    # The fourth digit is the patch version.
    digits = digits[:_RELEASE]
    if len(digits) == _RELEASE and int(digits[_MAJOR:]) > _LAST_MINORS.get(int(digits[:_MAJOR]), 9):
        return None
    return f"cu{digits}"
