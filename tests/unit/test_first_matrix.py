"""What stands in a first matrix.yaml, and the sources that it may be of."""

import pytest

from wheelsmith.base.errors import SourceError
from wheelsmith.frameworks import frameworks
from wheelsmith.matrix import KernelRef, parse_matrix
from wheelsmith.plan.recipe.project_hints import hint_for, project_hints
from wheelsmith.platforms import CPU
from wheelsmith.run.first_matrix import Draft, render
from wheelsmith.run.source_word import kernel_of


@pytest.mark.parametrize(
    ("word", "kernel"),
    [
        (".", {"path": "."}),
        ("thing-1.0.tar.gz", {"path": "thing-1.0.tar.gz"}),
        ("torch-scatter==2.1.2", {"sdist": "torch-scatter==2.1.2"}),
        ("sdist:torch-scatter==2.1.2", {"sdist": "torch-scatter==2.1.2"}),
        (
            "git+https://h/o/p@v1/x#subdirectory=a/b",
            {"git": "https://h/o/p", "revision": "v1/x", "subdirectory": "a/b"},
        ),
        ("https://h/o/p.git", {"git": "https://h/o/p.git", "revision": "HEAD"}),
        ("ssh://git@h:22/o/p.git@main", {"git": "ssh://git@h:22/o/p.git", "revision": "main"}),
        ("git@h:o/p.git", {"git": "git@h:o/p.git", "revision": "HEAD"}),
        ("git@h:o/p.git@v1", {"git": "git@h:o/p.git", "revision": "v1"}),
        ("file:///o/p", {"git": "file:///o/p", "revision": "HEAD"}),
        ("hub:org/name@v3", {"hub": "org/name", "revision": "v3"}),
    ],
)
def test_a_source_as_it_is_written(word, kernel, tmp_path):
    (tmp_path / "thing-1.0.tar.gz").touch()
    found = kernel_of(word, tmp_path)
    assert found == KernelRef(**kernel)
    draft = Draft(kernel=found, framework="torch", releases=("2.10",), computes=(CPU, "13.0"), python="3.11")
    made = parse_matrix(render(draft))
    assert made.kernel == found
    assert (made.releases, made.computes, made.python) == (("2.10",), (CPU, "cu130"), ("3.11",))


@pytest.mark.parametrize(
    "word", ["no such folder", "a b", "https://[x/y", "git+https://h/p#a=x", "-x", "\0", "n" * 300]
)
def test_what_is_no_source_is_refused(word, tmp_path):
    with pytest.raises(SourceError) as raised:
        kernel_of(word, tmp_path)
    assert raised.value.remedy


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
    if hint.before_build:
        told = parse_matrix(text.replace("# before-build:", "before-build:"))
        assert told.project.before_build == hint.before_build


def test_every_framework_has_a_first_matrix():
    for name, calls in frameworks().items():
        releases = tuple(calls.releases())
        draft = Draft(kernel=KernelRef(path="."), framework=name, releases=releases, computes=(CPU,))
        assert parse_matrix(render(draft)).releases == releases
