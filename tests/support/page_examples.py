"""What the pages of the documentation have a reader write and type, and what they show as the answer."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent.parent
PAGES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]
_PROMPTS = ("$ ", "# ")
_TITLE = re.compile(r'title="(.+)"')
# Times, sizes, digests and facts about the machine: each run has others.
_VARYING = [
    (re.compile(r"^ +\S+-linux\S*  \d+ of \d+: .*\n", re.MULTILINE), ""),  # the progress of a slow build
    (re.compile(r"\d+(\.\d+)?(s|m|h|d)( \d+(s|m|h))?(?!\w)"), "TIME"),
    (re.compile(r"\d+(\.\d+)? ?(B|[kMGT]B)\b"), "SIZE"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,64}\b"), "DIGEST"),
    (re.compile(r"\b[0-9a-f]{2}/DIGEST"), "DIGEST"),
    (re.compile(r"\b(Python|glibc) [\d.]+\d"), r"\1 VERSION"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r" +"), " "),
    (re.compile(r" ?\n ?"), "\n"),
]
_OF_BUILD = re.compile(r"^✓ \S+-linux|started$")


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A block with a title, which is the path of a file."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command after a prompt.

    :param text: as it is typed, on several lines if it continues.
    :param shown: what the page shows as its output, if it shows any.
    """

    page: str
    line: int
    text: str
    shown: str

    @property
    def wheelsmith(self) -> list[str] | None:
        """The arguments, if this is a ``wheelsmith`` command."""
        words = shlex.split(self.text.replace("\\\n", " "), comments=True)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words.pop(0)
        return [word for word in words[1:] if word != "&"] if words[:1] == ["wheelsmith"] else None


def read_page(page: str) -> list[File | Command]:
    """Return the files and commands of a page in their order."""
    found: list[File | Command] = []
    for token in MarkdownIt().parse((ROOT / page).read_text()):
        if token.type != "fence" or token.map is None:
            continue
        language, _, rest = token.info.partition(" ")
        if title := _TITLE.search(rest):
            found.append(File(path=title[1], text=token.content))
        elif language in {"console", "bash", "shell", "sh"}:
            found += _commands(page, token.map[0] + 2, token.content.splitlines())
    return found


def commands() -> list[Command]:
    """Return the commands of all pages."""
    return [item for page in PAGES for item in read_page(page) if isinstance(item, Command)]


def _commands(page: str, first: int, lines: list[str]) -> Iterator[Command]:
    starts = [number for number, line in enumerate(lines) if line.startswith(_PROMPTS)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        last = next(last for last in range(start + 1, end + 1) if _is_whole("\n".join(lines[start:last])))
        text = "\n".join(lines[start:last])[2:]
        yield Command(page=page, line=first + start, text=text, shown="\n".join(lines[last:end]))


def _is_whole(text: str) -> bool:
    try:
        shlex.split(text[2:], comments=True)
    except ValueError:  # an open quotation, or a backslash at the end
        return False
    return True


def agrees(shown: str, output: str) -> bool:
    """Compare an output with what a page shows of it: ``…`` alone on a line is any lines, within a line any text."""
    pattern = "".join(
        r"(.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n" for line in _lines(shown)
    )
    return bool(re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(output))))


def _lines(text: str) -> list[str]:
    """Return the lines without what varies, and neighbours that report builds in one order."""
    for pattern, mask in _VARYING:
        text = pattern.sub(mask, text)
    runs = groupby(text.strip().split("\n"), lambda line: bool(_OF_BUILD.search(line)))
    return [line for of_build, run in runs for line in (sorted(run) if of_build else run)]
