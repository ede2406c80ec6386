"""The documentation site: every link and anchor is good, and each page has the same content as on GitHub."""

import shutil
import subprocess

import check_site
import pytest
from factory import ROOT
from wants import script

pytestmark = pytest.mark.release("builds the whole documentation site")


def build(folder):
    """Build the site of a copy of the documentation."""
    return subprocess.run([script("zensical"), "build", "--strict"], cwd=folder, capture_output=True, text=True)


@pytest.fixture
def project(tmp_path):
    """A copy of the documentation."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    return tmp_path


def test_the_site_is_built_without_a_warning_and_its_links_are_good(project):
    answer = build(project)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert check_site.problems(project) == []


@pytest.mark.parametrize("link", ["nowhere.md", "lock.md#nowhere", "#nowhere"])
def test_a_strict_build_fails_for_a_broken_link_to_a_page(link, project):
    with (project / "docs/how-to/cache.md").open("a") as page:
        page.write(f"\n[broken]({link})\n")
    assert build(project).returncode != 0


def test_other_problems_are_found(project):
    with (project / "docs/how-to/cache.md").open("a") as page:
        page.write("\n[broken](serve/nowhere.conf) ![broken](../images/nowhere.png)\n\n")
        page.write("- a list\n  - and a list in it, which only GitHub shows as such\n")
    with (project / "zensical.toml").open("a") as settings:
        settings.write('\n[[project.extra_javascript]]\npath = "https://example.org/x.js"\n')
    assert build(project).returncode == 0
    found = "\n".join(check_site.problems(project))
    for words in ("nowhere.conf", "nowhere.png", "cache.md: '<ul>' on GitHub", "loads https://example.org/x.js"):
        assert words in found
