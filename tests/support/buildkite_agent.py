"""A stand-in of buildkite-agent: of its commands those that written pipelines use, by files in $BUILDKITE_STAND_IN.

What Buildkite's documentation says is kept: a pipeline that is uploaded has variables put in the place of names behind
one dollar; an artefact keeps its path; in a query that downloads, a star stands for slashes, too.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import sys
from pathlib import Path

PLACE = Path(os.environ.get("BUILDKITE_STAND_IN", os.devnull))


def interpolated(text: str, known: dict[str, str]) -> str:
    """Put variables in the place of their names; two dollars are one."""
    return re.sub(r"\$(?:(\$)|\{(\w+)\}|(\w+))", lambda m: m[1] or known.get(m[2] or m[3], ""), text)


def upload(pattern: str, root: Path, place: Path, step: str, *, lose: str = "") -> list[Path]:
    """Keep the files of a folder that a pattern matches, but for those that are lost; return where they are kept.

    :param step: the key of the step that leaves them.
    """
    found = [path.relative_to(root) for path in root.glob(pattern) if path.is_file()]
    kept = [path for path in found if not fnmatch.fnmatch(str(path), lose)]
    places = [folder / path for path in kept for folder in (place / "artifacts", place / "steps" / (step or "-"))]
    for target, path in zip(places, (path for path in kept for _ in range(2)), strict=True):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, target)
    return places


def download(query: str, to: str, kept: Path = PLACE / "artifacts") -> None:
    found = [path for path in kept.rglob("*") if path.is_file() and fnmatch.fnmatch(str(path.relative_to(kept)), query)]
    for path in found:
        target = Path(to, path.relative_to(kept))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    if not found:
        sys.exit(f"no artifacts found for {query}")


def main(words: list[str]) -> None:
    match words:
        case ["pipeline", "upload", file]:
            (PLACE / "uploaded.yml").write_text(interpolated(Path(file).read_text(), dict(os.environ)))
        case ["artifact", "upload", pattern]:
            upload(pattern, Path(), PLACE, os.environ.get("BUILDKITE_STEP_KEY", ""))
        case ["artifact", "download", query, to, "--step", step]:
            download(query, to, PLACE / "steps" / step)
        case ["artifact", "download", query, to]:
            download(query, to)
        case ["annotate", "--context", context, "--style", style]:
            (PLACE / "annotations").mkdir(exist_ok=True)
            (PLACE / "annotations" / f"{context}-{style}.md").write_text(sys.stdin.read())
        case _:
            sys.exit(f"the stand-in does not know: {words}")


if __name__ == "__main__":
    main(sys.argv[1:])
