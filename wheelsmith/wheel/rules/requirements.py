"""What is required of other projects can be had."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelsmith.base.units import counted
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.marker_environments import holds, named_extras
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

_MOST_CLAUSES = 200  # on one project
_MOST_PAIRS = 300_000  # of clauses: about a second
_MOST_TOLD = 10
# Characters of markers, times the environments that they are asked in: about a second.
_MOST_MARKERS = 2_000_000


def _examine(wheel: Inspection) -> Iterator[Finding]:
    required: dict[str, list[Requirement]] = {}
    for line in wheel.requirements.lines:
        required.setdefault(canonicalize_name(line.name), []).append(line)
    required.pop("torch", None)  # `torch-requirement` asks more of it
    if not required:
        return
    if sum(map(_cost, required.values())) > _MOST_PAIRS:
        yield finding("requirements", ["what it requires has too many clauses to follow"], "")
        return
    # Whoever can meet all lines for a project can meet some of them.
    hopeless = {name: lines for name, lines in required.items() if _mistake(lines)}
    wrong = list(_where_they_hold(wheel, hopeless))
    more = [f"and {len(wrong) - _MOST_TOLD} more"] if len(wrong) > _MOST_TOLD else []
    right = f"it requires {counted(len(required), 'other project')}"
    yield finding("requirements", [*wrong[:_MOST_TOLD], *more], right)


def _cost(lines: Iterable[Requirement]) -> int:
    """Return how many pairs of clauses there are to compare: each is compared with each."""
    return sum(len(line.specifier) for line in lines) ** 2


def _where_they_hold(wheel: Inspection, hopeless: dict[str, list[Requirement]]) -> Iterator[str]:
    """Return what is wrong with the lines for each project that hold at once in some environment."""
    markers, pairs = _MOST_MARKERS, _MOST_PAIRS
    for name, lines in hopeless.items():
        extras = ["", *named_extras(lines)]
        markers -= len(wheel.environments) * len(extras) * sum(len(str(line.marker or "")) for line in lines)
        pairs -= _cost(lines)
        if markers < 0 or pairs < 0:
            yield _endless(name)
            return
        contexts = ({**environment, "extra": extra} for environment in wheel.environments for extra in extras)
        together = dict.fromkeys(tuple(line for line in lines if holds(line, context)) for context in contexts)
        pairs -= sum(map(_cost, together))
        if pairs < 0:
            yield _endless(name)
        elif why := next(filter(None, map(_mistake, together)), None):
            yield why


def _endless(name: str) -> str:
    return f"when {name} is required, and which one, has too many answers to follow"


def _mistake(lines: Sequence[Requirement]) -> str | None:
    """Return why nobody can meet requirements of one project at once; None where somebody may."""
    if not lines:
        return None
    text = " and ".join(dict.fromkeys(_short(line) for line in lines))
    if local := next((line for line in lines if line.url and line.url.lower().startswith("file:")), None):
        return f"Requires-Dist says {_short(local)}: that is a file of one machine"
    if len({line.url for line in lines if line.url}) > 1:
        return f"Requires-Dist says {text}: it comes from one place"
    clauses = [clause for line in lines for clause in line.specifier]
    if len(clauses) > _MOST_CLAUSES:
        return (
            f"Requires-Dist has {len(clauses)} clauses on {lines[0].name}: more than {_MOST_CLAUSES} are not followed"
        )
    if any(clause.operator == "===" and not _is_a_version(clause.version) for clause in clauses):
        return f"Requires-Dist says {text}: that is no version, and installers know no other"
    if SpecifierSet(",".join(map(str, clauses))).is_unsatisfiable():
        return f"Requires-Dist says {text}: no version is all of that"
    return None


def _is_a_version(text: str) -> bool:
    try:
        return bool(Version(text))
    except InvalidVersion:
        return False


def _short(line: Requirement) -> str:
    text = f"{line.name}{line.specifier}" if not line.url else f"{line.name} @ {line.url}"
    return text if len(text) <= 80 else f"{text[:80]}…"  # noqa: PLR2004  # characters that a person reads


RULE = Rule(
    name="requirements",
    proves="no project is required in versions that contradict each other, all `Requires-Dist` lines for it together, "
    "their markers evaluated for every Python and machine that the tags allow, and for each extra: `numpy<1,>2` is "
    "nobody's",
    leaves_open="whether such a version was ever published, and whether two projects can be installed together; a "
    "requirement by URL, which PyPI refuses, is accepted where the URL is no file of a machine",
    examine=_examine,
)
