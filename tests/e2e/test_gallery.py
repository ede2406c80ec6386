"""The gallery: each matrix can be planned, is built by a test, and is the one that the page shows."""

import re
import sys
from pathlib import Path

import pytest
from factory import ROOT, gallery

MATRICES = sorted((ROOT / "examples" / "gallery").glob("*/matrix.yaml"))
NAMES = [path.parent.name for path in MATRICES]
PAGE = (ROOT / "docs" / "how-to" / "gallery.md").read_text()
SECTIONS = {re.search(r"examples/gallery/([\w-]+)`", part)[1]: part for part in PAGE.split("\n## ")[1:]}
PLANNED = re.compile(r"^\d+ combinations? → \d+ builds?", re.MULTILINE)


@pytest.mark.e2e
@pytest.mark.network
@pytest.mark.parametrize("path", MATRICES, ids=NAMES)
def test_each_is_planned_as_the_page_says(path, tmp_path):
    # Of a project's combinations only those of this Python: others may not be installed.
    only = ["--only", f"*-cp3{sys.version_info.minor}"] if "python: [" in path.read_text() else []
    answer = gallery(tmp_path, path.parent.name).run_in_process("plan", *only)
    assert answer.returncode == 0, answer.stderr
    assert f"{PLANNED.search(answer.stdout)[0]}." in " ".join(SECTIONS[path.parent.name].split())


@pytest.mark.parametrize("path", MATRICES, ids=NAMES)
def test_the_page_shows_it(path):
    assert f"```yaml\n{path.read_text()}```" in SECTIONS[path.parent.name]


def test_each_is_built_by_a_test():
    texts = (path.read_text() for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__))
    built = re.findall(r'gallery\(.+, "([\w-]+)"\)', "".join(texts))
    assert sorted(built) == sorted(SECTIONS) == NAMES
