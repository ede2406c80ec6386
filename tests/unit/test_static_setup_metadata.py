"""What setup.py and setup.cfg say is read, and nothing of them is run."""

import warnings

import pytest

from wheelsmith.plan.recipe.project import ProjectSpec, read_project, with_setup_metadata
from wheelsmith.plan.recipe.static_setup_metadata import (
    SetupMetadata,
    parse_code,
    read_setup_cfg,
    read_setup_py,
    used_names,
)

SETUP = """
import os
from setuptools import setup
__version__ = "2.1.2"
NEEDS = ["numpy", "torch<2.8"]
setup(name="torch_scatter", version=__version__, setup_requires=["ninja", "psutil"], install_requires=NEEDS,
      python_requires=f">={os.name}", **{"license": "MIT"})
raise SystemExit("it was run")
"""


def test_what_stands_there_plainly():
    assert read_setup_py(SETUP.encode()) == SetupMetadata(
        name="torch_scatter",
        version="2.1.2",
        setup_requires=("ninja", "psutil"),
        install_requires=("numpy", "torch<2.8"),
    )


@pytest.mark.parametrize(
    "code",
    [
        "setup(name=NAME, version=get_version())",
        "V = '1'\nif x:\n    V = '2'\nsetup(version=V)",
        "setup(version='1')\nsetup(version='2')",
        "setup(version='1'",
    ],
)
def test_what_is_computed_is_not_known(code):
    assert read_setup_py(code.encode()) == SetupMetadata()


def test_an_escape_that_is_none_is_not_told_to_who_builds():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert parse_code(b"x = '\\d'") is not None
    assert told == []


def test_a_name_that_is_only_imported_is_not_used():
    code = "from a import Unused, Called, Alias\nimport b\nCalled()\nkind = Alias if b.deep.attribute else b.Other\n"
    assert {"Called", "Alias", "attribute", "Other"} <= used_names(code.encode())
    assert "Unused" not in used_names(code.encode())
    assert used_names(b"print 'Python 2'") == frozenset()


def test_setup_cfg():
    text = "[metadata]\nname = p\nversion = attr: p.__version__\n[options]\nsetup_requires =\n  ninja\n  cmake>=3.26\n"
    assert read_setup_cfg(text.encode()) == SetupMetadata(name="p", setup_requires=("ninja", "cmake>=3.26"))
    for broken in ("no section", "[metadata\nname=x", "[metadata]\nname = %(home)s x", "[options]\n\0"):
        read_setup_cfg(broken.encode())


def files(**contents):
    return {name.replace("__", "."): text.encode() for name, text in contents.items()}


def read(contents):
    return read_project(contents, contents.__getitem__)


def test_the_first_that_says_something_is_heard():
    """As pip has it: pyproject.toml, then what the sdist was made with, then what setup.py says."""
    found = read(files(setup__py=SETUP))
    assert (found.name, found.version, found.torch) == ("torch_scatter", "2.1.2", "<2.8")
    assert found.requires == ("setuptools>=40.8", "wheel", "ninja", "psutil")
    both = files(setup__py=SETUP, pyproject__toml="[project]\nname = 'scatter'\ndynamic = ['version']\n")
    assert (read(both).name, read(both).version) == ("scatter", "2.1.2")
    sdist = both | {"PKG-INFO": b"Metadata-Version: 2.1\nName: x\nVersion: 3+cu130\nRequires-Dist: Torch>=2.4\n\ntext"}
    named = ("setuptools", "wheel", "torch", "ninja", "psutil", "numpy")
    assert read(sdist) == ProjectSpec(
        name="scatter", version="3", requires=found.requires, torch="<2.8,>=2.4", named=named
    )


@pytest.mark.parametrize(
    ("path", "content", "likely"),
    [
        ("pkg/__init__.py", "__version__ = '1.2.post1'\n", "1.2.post1"),
        ("src/pkg/_version.py", "__version__ = '1.2+cu130'\n", "1.2"),
        ("build_tools/VERSION.txt", "2.5.0.dev0\n", "2.5.0.dev0"),
        ("version.txt", "0.2\n", "0.2"),
        ("pkg/__init__.py", "__version__ = read()\n", None),
        ("pkg/deeper/__init__.py", "__version__ = '1'\n", None),
        ("version.txt", "see setup.py\n", None),
    ],
)
def test_a_version_in_another_file_is_likely(path, content, likely):
    found = read({"setup.py": b"setup(name='x', version=read())", "tests/__init__.py": b"", path: content.encode()})
    assert found.version is None
    assert found.likely_version == (likely and (likely, path))
    named = read({"setup.py": b"setup(name='x', version='3')", path: content.encode()})
    assert (named.version, named.likely_version) == ("3", None)


def test_half_of_a_requirement_is_not_taken_for_one():
    start, line = "Metadata-Version: 2.1\nName: x\nVersion: 3\nKeywords: ", "\nRequires-Dist: torch<2.15\n"
    text = start + "k" * ((1 << 14) - len(start) - len(line) + 2) + line
    assert text[: 1 << 14].endswith("torch<2.1")
    assert read({"PKG-INFO": text.encode(), "setup.py": b""}).torch == ""


def test_a_guess_that_is_none_is_left_for_the_build_to_say():
    spec = ProjectSpec(name=None, version=None, requires=("setuptools",))
    words = SetupMetadata(
        name="no name", version="one", setup_requires=("a b", "x @ https://h/x.whl", "ninja", "torch>=2")
    )
    assert with_setup_metadata(spec, words) == ProjectSpec(
        name=None,
        version=None,
        requires=("setuptools", "ninja"),
        torch=">=2",
        builds_with_torch=True,
        named=("ninja", "torch"),
    )


def test_a_line_of_spaces_is_read_in_no_time():
    """The parser of such files takes a day for it, and gives the same."""
    text = "[metadata]\nname = thing\n[other]\na" + " \t" * 500_000 + "\x0bb\n"
    assert read_setup_cfg(text.encode()).name is None  # it is no line of such a file
    assert read_setup_cfg(text.replace("b\n", "= b\n").encode()).name == "thing"
