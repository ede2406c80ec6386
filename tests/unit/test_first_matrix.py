"""What stands in a first matrix.yaml, and the sources that it may be of."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.base.errors import MatrixError
from wheelsmith.frameworks import frameworks
from wheelsmith.matrix.expand import expand, project_settings
from wheelsmith.matrix.load import parse_matrix
from wheelsmith.matrix.types import KernelRef
from wheelsmith.plan.recipe.project_hints import hint_for, project_hints
from wheelsmith.platforms import CPU
from wheelsmith.run.init_matrix import Draft, render
from wheelsmith.run.project_source import parse_source


@pytest.mark.parametrize(
    ("word", "kernel"),
    [
        (".", {"path": "."}),
        ("thing-1.0.tar.gz", {"path": "thing-1.0.tar.gz"}),
        ("torch-scatter==2.1.2", {"sdist": "torch-scatter==2.1.2"}),
        (
            "git+https://h/o/p@v1/x#subdirectory=a/b",
            {"git": "https://h/o/p", "revision": "v1/x", "subdirectory": "a/b"},
        ),
        ("https://h/o/p.git", {"git": "https://h/o/p.git", "revision": "HEAD"}),
        ("git@h:o/p.git", {"git": "git@h:o/p.git", "revision": "HEAD"}),
        ("hub:org/name@v3", {"hub": "org/name", "revision": "v3"}),
    ],
)
def test_a_source_as_it_is_written(word, kernel, tmp_path):
    (tmp_path / "thing-1.0.tar.gz").touch()
    found = parse_source(word, tmp_path)
    assert found == KernelRef(**kernel)
    draft = Draft(kernel=found, framework="torch", releases=("2.10",), computes=(CPU, "13.0"), pythons=("3.10", "3.11"))
    made = parse_matrix(render(draft))
    assert made.kernel == found
    assert (made.releases, made.computes, made.python) == (("2.10",), (CPU, "cu130"), ("3.10", "3.11"))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("no such folder", "is not a source"),
        ("\0", "is not a source"),
        ("https://[x/y", "no valid host"),
        ("git+ext::sh -c x", "git would run a program"),
        ("ftp://h/p", "ftp:// is not one of"),
        ("torch-scatter>=2", "is not a release"),
        ("torch-scatter==2+cu130", "is not a release"),
        ("hub:x", "'x' is not a Hub repo"),
    ],
)
def test_what_is_no_source_is_refused(word, said, tmp_path, newest):
    newest.clear()
    with pytest.raises(MatrixError) as raised:
        parse_source(word, tmp_path)
    assert said in raised.value.message
    assert raised.value.remedy
    assert newest == []


PIECES = ("hub:", "git+", "sdist:", "https://", "ssh://", "git@h:", "a", "Ab-c", "/", "@", "#subdirectory=", "==")
ODD = (">=", "[x]", ";", "*", "1.0", "v2", "..", ".", "~", " ", ":", "?", "\0", "\n", "\x1b", "\udcff", "[", "n" * 90)


@given(word=st.lists(st.sampled_from(PIECES + ODD) | st.text(max_size=3), max_size=8).map("".join))
def test_any_word_is_a_source_that_a_matrix_takes_or_a_mistake_that_is_told(word, newest, tmp_path_factory):
    newest.clear()
    try:
        kernel = parse_source(word, tmp_path_factory.getbasetemp())
    except MatrixError as error:
        kernel, remedy = None, error.remedy
    if kernel:
        draft = Draft(kernel=kernel, framework="torch", releases=("2.13",), computes=(CPU,))
        assert parse_matrix(render(draft)).kernel == kernel
    else:
        assert remedy


@pytest.fixture(scope="session")
def newest():
    """Answer for the network, and tell what it is asked."""
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wheelsmith.source.hub.newest_branch", lambda repo: asked.append(repo) or "v7")
        patch.setattr("wheelsmith.source.sdist.newest_release", lambda name: asked.append(name) or ("1.5", "1.5"))
        yield asked


def test_where_none_is_named_the_newest_is_taken(newest, tmp_path):
    newest.clear()
    assert parse_source("hub:a/b", tmp_path) == KernelRef(hub="a/b", revision="v7")
    assert parse_source("Torch_Scatter", tmp_path) == KernelRef(sdist="torch-scatter==1.5")
    assert newest == ["a/b", "Torch_Scatter"]


@pytest.mark.parametrize("text", ["true", "No", "a: b", "a #b", "1.0", "*x", "ä", 'a"b', "a\nb", "- x", "~"])
def test_any_text_is_read_as_it_was_written(text):
    draft = Draft(kernel=KernelRef(path=text), framework="torch", releases=("2.13",), computes=(CPU,))
    assert parse_matrix(render(draft)).kernel.path == text


@pytest.mark.parametrize("name", list(project_hints()))
def test_what_a_project_is_told_can_be_read(name):
    hint = hint_for(name.upper().replace("-", "_"))
    draft = Draft(kernel=KernelRef(path="."), framework="torch", releases=("2.13",), computes=("13.0",), hint=hint)
    text = render(draft)
    made = parse_matrix(text)
    assert made.project.env == hint.env
    assert made.project.build_requires == hint.build_requires
    assert made.project.before_build == (hint.before_build if hint.needs_before_build else None)
    if hint.before_build:
        told = parse_matrix(text.replace("# before-build:", "before-build:"))
        assert told.project.before_build == hint.before_build


def test_settings_of_cells_with_cuda_are_a_rule():
    hint = replace(hint_for("natten"), cuda_env={"CMAKE_ARGS": '-DD="x y"'}, cuda_why="CMakeLists.txt:1 sets D to cpu")
    draft = Draft(kernel=KernelRef(path="."), framework="torch", releases=("2.13",), computes=(CPU, "13.0"), hint=hint)
    matrix = parse_matrix(render(draft))
    found = {cell.toolkit: project_settings(matrix, cell).env for cell in expand(matrix)}
    assert found == {None: hint.env, "13.0": hint.env | hint.cuda_env}


def test_every_framework_has_a_first_matrix():
    for name, calls in frameworks().items():
        releases = tuple(calls.releases())
        draft = Draft(kernel=KernelRef(path="."), framework=name, releases=releases, computes=(CPU,))
        assert parse_matrix(render(draft)).releases == releases
