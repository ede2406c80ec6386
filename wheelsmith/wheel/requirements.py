"""What a wheel requires of torch: every line of it, in every environment that its tags allow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelsmith.frameworks import patches_of
from wheelsmith.wheel.marker_environments import MOST_NAMED, Environment, named_extras, named_pythons

# Characters of one line, and lines: more than any real wheel has, and little enough to take apart at leisure.
_LONGEST = 8192
_MOST = 5000
# Of what is required of torch and of Python, which is followed through every environment.
_MOST_OF_TORCH, _LONGEST_FOLLOWED, _MOST_CLAUSES, _MOST_WAYS = 20, 1000, 50, 20
# Python refuses to make a number of more than 4300 digits, and is slow long before.
LONG_NUMBER = re.compile(r"\d{100}")
_NUMBERS = 3  # of torch's versions, as 2.11.0
_OF_THE_MACHINE = re.compile(r"\bplatform_(?:release|version)\b")
_PLATFORM = re.compile(r"cpu|xpu|cu\d{2,4}|rocm\d*")  # as torch's own builds begin their local versions
# Characters of markers, times the environments that they are asked in: about a second.
_MOST_MARKERS = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelRequirements:
    """The Requires-Dist lines of a wheel.

    :param wrong: lines that no installer understands.
    """

    lines: tuple[Requirement, ...]
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchRequirement:
    """What a wheel requires of torch, all lines together.

    :param text: as it is told, e.g. ``torch>=2.11,<2.12``.
    :param releases: known releases, as ``major.minor``, that some environment may have beside the wheel, in order.
    :param beyond: releases that may be there too, and of which nothing is known, in words: ``later than 2.15``.
    :param absent: environments that need no torch at all, in words.
    :param platforms: compute platforms of the builds that it names, of ``torch==2.11.0+cu130`` ``cu130``.
    :param wrong: why what is required cannot be had, or cannot be known.
    """

    text: str
    releases: tuple[str, ...]
    beyond: tuple[str, ...]
    absent: tuple[str, ...]
    platforms: tuple[str, ...]
    wrong: tuple[str, ...]


def read_requirements(values: Sequence[str]) -> WheelRequirements:
    """Read the values of Requires-Dist."""
    lines, wrong = [], []
    for value in values[:_MOST]:
        short = value if len(value) <= 80 else f"{value[:80]}…"  # noqa: PLR2004  # characters that a person reads
        if len(value) > _LONGEST or LONG_NUMBER.search(value):
            wrong.append(f"Requires-Dist {short!r} is longer than {_LONGEST} characters, or has a number of 100 digits")
            continue
        try:
            lines.append(Requirement(value))
        except (InvalidRequirement, InvalidSpecifier, InvalidVersion, ValueError) as error:
            wrong.append(f"Requires-Dist {short!r} cannot be read: {str(error).splitlines()[0][:200]}")
        except RecursionError:
            wrong.append(f"Requires-Dist {short!r} is nested too deeply")
    if len(values) > _MOST:
        wrong.append(f"there are {len(values)} Requires-Dist lines: more than {_MOST} are not read")
    return WheelRequirements(lines=tuple(lines), wrong=tuple(wrong))


def requires_python(value: str | None) -> SpecifierSet | None:
    """Return what Requires-Python says; None where no installer understands it, or would want to."""
    if len(value or "") > _LONGEST_FOLLOWED or LONG_NUMBER.search(value or ""):
        return None
    try:
        return SpecifierSet(value or "")
    except (InvalidSpecifier, ValueError):
        return None


def torch_requirement(
    lines: Iterable[Requirement], environments: Sequence[Environment], known: Sequence[str]
) -> TorchRequirement | None:
    """Return what is required of torch; None where no environment needs any.

    :param environments: that the wheel's tags allow.
    :param known: torch releases, as ``major.minor``, in ascending order.
    """
    needs = _for_torch(lines)
    if not needs:
        return None
    if why := _not_followed(needs, environments):
        return _unknown("torch", why)
    try:
        texts, absent = _ways(needs, environments)
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion, ValueError, RecursionError) as error:
        return _unknown("torch", f"no one can say when torch is required: {str(error)[:200]}")
    if texts is None:
        return _unknown("torch", "torch is required from a URL: which release that is, nobody can know")
    if not texts:
        return None
    if len(texts) > _MOST_WAYS or any(len(specifiers) > _MOST_CLAUSES for specifiers in texts.values()):
        return _unknown("torch", "what is required of torch has too many clauses to follow")
    empty = list[str]()
    releases, beyond = set[str](), dict[str, None]()
    for text, specifiers in texts.items():
        admitted, others = _admitted(specifiers, known)
        releases |= admitted
        beyond.update(dict.fromkeys(others))
        if not admitted and not others:
            empty.append(f"no release can be torch{text}")
    return TorchRequirement(
        text=" or ".join(f"torch{text}" for text in list(texts)[:3]),
        releases=tuple(name for name in known if name in releases),
        beyond=tuple(beyond),
        absent=tuple(dict.fromkeys(map(_where, absent))),
        platforms=tuple(dict.fromkeys(platform for found in texts.values() for platform in _platforms(found))),
        wrong=tuple(empty),
    )


def torch_markers(lines: Iterable[Requirement]) -> list[str]:
    """Return the markers of the lines that require torch, as far as they are followed."""
    markers = [str(line.marker) for line in _for_torch(lines) if line.marker]
    return [marker for marker in markers[:_MOST_OF_TORCH] if len(marker) <= _LONGEST_FOLLOWED]


def _for_torch(lines: Iterable[Requirement]) -> list[Requirement]:
    return [line for line in lines if canonicalize_name(line.name) == "torch"]


def _not_followed(needs: Sequence[Requirement], environments: Sequence[Environment]) -> str | None:
    if len(needs) > _MOST_OF_TORCH:
        return f"there are {len(needs)} lines that require torch: more than {_MOST_OF_TORCH}"
    if any(len(str(need)) > _LONGEST_FOLLOWED for need in needs):
        return f"a line that requires torch is longer than {_LONGEST_FOLLOWED} characters"
    ways = len(environments) * (2 + len(named_extras(needs)))
    if ways * sum(map(len, torch_markers(needs))) > _MOST_MARKERS:
        return f"there are {len(environments)} environments to ask whether torch is required"
    if any(_OF_THE_MACHINE.search(marker) for marker in torch_markers(needs)):
        return "torch is required by the release of the machine's kernel: which one that is, no tag says"
    if len(named_pythons(torch_markers(needs))) > MOST_NAMED // 2:
        return "what is required of torch names too many versions of Python to follow"
    return None


def _ways(
    needs: Sequence[Requirement], environments: Sequence[Environment]
) -> tuple[dict[str, SpecifierSet] | None, list[Environment]]:
    """Return each set of clauses that holds in some environment, and the environments that need no torch.

    What an extra asks for besides is another set of clauses; there are none where a URL is asked for.
    """
    texts: dict[str, SpecifierSet] = {}
    absent = [where for where in environments if not _active(needs, where)]
    # Whoever asks for an extra of a wheel that needs no torch else gets what they asked for.
    extras = named_extras(needs) if len(absent) < len(environments) else []
    for where in [{**where, "extra": extra} for extra in ("", *extras) for where in environments]:
        active = _active(needs, where)
        if any(need.url for need in active):
            return None, absent
        if active:
            clauses = dict.fromkeys(str(need.specifier) for need in active if need.specifier)
            together = SpecifierSet(",".join(clauses))
            texts[str(together)] = together
    return texts, absent


def _active(needs: Iterable[Requirement], where: Environment) -> list[Requirement]:
    return [need for need in needs if need.marker is None or need.marker.evaluate(where)]


def _admitted(specifiers: SpecifierSet, known: Sequence[str]) -> tuple[set[str], list[str]]:
    """Return the known releases that a requirement admits, and which others, in words."""
    first, last = _parts(known[0]), _parts(known[-1])
    named = _named(specifiers)
    to_the_letter = any(specifier.operator == "===" for specifier in specifiers)
    admitted, others = set[str](), dict[str, None]()
    for candidate in [*_releases(first, last), *named]:
        if not specifiers.contains(candidate, prereleases=True) or (to_the_letter and not _is_spelt(candidate)):
            continue
        version = Version(candidate)
        minor = (version.major, version.minor)
        name = f"{version.major}.{version.minor}"
        if version.epoch:
            others[f"of another epoch: {candidate}"] = None
        elif version.is_prerelease:
            # What it exports is not known, and it is installed only when it is asked for by name.
            if any(specifier.operator in {"==", "==="} for specifier in specifiers):
                others[f"the pre-release {candidate}"] = None
        elif name in known:
            admitted.add(name)
        elif minor < first:
            others[f"older than {known[0]}"] = None
        else:
            others[f"later than {known[-1]}" if minor > last else name] = None
    return admitted, list(others)


def _is_spelt(text: str) -> bool:
    """Say whether a release of torch is written so, ``2.11.0``: ``===2.11`` asks for a file that is called 2.11."""
    version = Version(text)
    return str(version) == text.lower() and len(version.release) == _NUMBERS


def _releases(first: tuple[int, int], last: tuple[int, int]) -> list[str]:
    """Return versions of every release that there was, and some of those that there may be."""
    minors = [(0, 4), *((1, minor) for minor in range(14))]
    minors += [(2, minor) for minor in range(max(last[1] if last[0] == 2 else 0, first[1]) + 3)]  # noqa: PLR2004
    minors += [(last[0], last[1] + more) for more in (1, 10, 50)] + [(last[0] + 1, 0), (last[0] + 8, 0), (999, 0)]
    return [version for major, minor in dict.fromkeys(minors) for version in patches_of(f"{major}.{minor}")]


def _named(specifiers: SpecifierSet) -> list[str]:
    """Return the versions that a requirement itself names, and those next to them."""
    found = []
    for specifier in specifiers:
        text = specifier.version.removesuffix(".*")
        try:
            version = Version(text)
        except InvalidVersion:
            continue
        found += [text, f"{version.public}.post1" if version.post is None and not version.is_prerelease else text]
        release = version.release
        found.append(".".join(str(part) for part in (*release[:-1], release[-1] + 1)))
    return found


def _platforms(specifiers: SpecifierSet) -> list[str]:
    """Return the compute platforms of the builds of torch that a requirement pins by their local versions."""
    found = []
    for specifier in specifiers:
        if specifier.operator in {"==", "==="}:
            try:
                local = Version(specifier.version.removesuffix(".*")).local or ""
            except InvalidVersion:
                continue
            if _PLATFORM.fullmatch(platform := local.partition(".")[0]):
                found.append(platform)
    return found


def _unknown(text: str, why: str) -> TorchRequirement:
    return TorchRequirement(text=text, releases=(), beyond=(), absent=(), platforms=(), wrong=(why,))


def _where(environment: Environment) -> str:
    full = environment["python_full_version"]
    python = environment["python_version"] if full.endswith((".0", ".99")) else full
    return f"Python {python} on {environment['sys_platform']} {environment['platform_machine']}"


def _parts(release: str) -> tuple[int, int]:
    major, minor = release.split(".")
    return int(major), int(minor)
