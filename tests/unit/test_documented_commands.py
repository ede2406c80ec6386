"""The installing commands that the documentation gives: none lets a stranger's project take a kernel's place."""

import re
import shlex
from pathlib import Path

import pytest

from wheelsmith.index.resolve.install_commands import (
    Installer,
    Presence,
    fill_template,
    template_for,
    template_for_group,
)

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
INSTALLS = re.compile(r"(?:python -m |uv )?pip install [^`]*")
OURS = re.compile(r"https://kernels\.example\.org/|<index>/|http://127\.0\.0\.1:")
# What has an argument; the last of these look beside the index that is asked already.
INSTEAD = {"--index-url", "-i", "--default-index"}
BESIDE = {"--extra-index-url", "--index", "--find-links", "-f"}
OTHER = {"--constraint", "-c", "--requirement", "-r", "-o", "--group", "--python"}
WARNING = "can put it into an environment"


def commands(text):
    """Yield each installing command of a page, in blocks and in its text, with its place."""
    for found in INSTALLS.finditer(text.replace("\\\n", "  ")):
        line = found[0].split("\n")[0].strip()
        # Of texts only whole commands: they name an index.
        if "…" not in line and "--" in line:
            yield found.start(), shlex.split(line)


def read(words):
    """Return the indexes that a command asks, and the projects that it names."""
    indexes, projects, instead = [], [], False
    rest = iter(words[words.index("install") + 1 :])
    for word in rest:
        option, _, value = word.partition("=")
        if option in INSTEAD | BESIDE | OTHER:
            value = value or next(rest)
            indexes += [value] if option in INSTEAD | BESIDE else []
            instead |= option in INSTEAD
        elif not word.startswith("-"):
            projects.append(word)
    return indexes if instead else ["https://pypi.org/simple", *indexes], projects


def loose(words):
    """Return the kernels for which a stranger's index is asked, and which are not named by their whole version."""
    indexes, projects = read(words)
    if all(map(OURS.match, indexes)) or not any(map(OURS.match, indexes)):
        return []
    return [each for each in projects if not re.match(r"torch\b", each) and not re.search(r"==[^+]+\+|@ ", each)]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("pip install kernel --extra-index-url https://kernels.example.org/cu128/", ["kernel"]),
        ("pip install kernel==2 --extra-index-url=https://kernels.example.org/cu128/", ["kernel==2"]),
        ("uv pip install kernel --index <index>/cpu/", ["kernel"]),
        ("pip install kernel==2+cpu.torch2.9 torch --extra-index-url <index>/cpu/", []),
        ("pip install -i <index>/cpu/ kernel", []),
        ("uv pip install --default-index <index>/cpu/ --index https://pypi.org/simple kernel", ["kernel"]),
        ("pip install --constraint torch.txt einops", []),
    ],
)
def test_a_command_that_a_stranger_may_answer_is_known(command, found):
    assert loose(shlex.split(command)) == found


def test_the_guide_to_installing_leads_with_the_pinned_command():
    (_, first), *others = commands((ROOT / "docs" / "how-to" / "install.md").read_text())
    assert any(re.fullmatch(r"kernel==2\+cu\d+\.torch[\d.]+", word) for word in first), first
    assert len(others) > 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_command_lets_a_stranger_answer(page):
    assert [words for _, words in commands(page.read_text()) if loose(words)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_warning_stands_before_the_first_command_that_asks_pypi_too(page):
    text = page.read_text()
    both = [
        place
        for place, words in commands(text)
        if any("pypi.org" in index for index in read(words)[0]) and any(map(OURS.match, read(words)[0]))
    ]
    assert not both or 0 <= text.replace("\\\n", "  ").find(WARNING) < min(both)


@pytest.mark.parametrize("template", [template_for, template_for_group])
@pytest.mark.parametrize("others", [False, True], ids=["alone", "with-others"])
@pytest.mark.parametrize("torch", Presence)
@pytest.mark.parametrize("installer", [Installer.PIP, Installer.UV, Installer.DOCKERFILE])
def test_nor_does_a_command_that_is_written_for_somebody(installer, torch, others, template):
    slots = {
        "name": "k",
        "requirement": "k==1+cu130.torch2.11",
        "root": "cu130",
        "path": "files/k.whl",
        "sha256": "ab",
        "requires": ("einops",),
        "framework": "torch==2.11.*",
        "torch_index": "https://download.pytorch.org/whl/cu130",
        "base": "https://kernels.example.org/",
    }
    lines = fill_template(template(installer, torch, others=others), slots).lines
    assert [found for words in lines if (found := loose(list(words)))] == []
    assert any(word.startswith("k") for words in lines for word in words)
