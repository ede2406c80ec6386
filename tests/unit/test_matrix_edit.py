"""Edits of a matrix file change one value and leave the rest of the text alone."""

import re
from itertools import count

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from wheelsmith.base.errors import MatrixError
from wheelsmith.matrix.edit import add_release, find_axes, included, set_value

RELEASES = [f"2.{minor}" for minor in range(6, 16)]


def data(text: str):
    return yaml.load(text, yaml.BaseLoader)


@st.composite
def axis_texts(draw) -> str:
    """A list of releases in any style, with comments where YAML allows them, and an anchor."""
    numbers = count()

    def comment() -> str:
        return f"  # note {next(numbers)}: [a, 'b" if draw(st.booleans()) else ""

    values = sorted(draw(st.sets(st.sampled_from(RELEASES), min_size=1, max_size=4)), key=RELEASES.index)
    if draw(st.booleans()):
        values.reverse()
    styles = st.sampled_from(["{}", "'{}'", '"{}"', "&v# {}"])
    items = [draw(styles).replace("#", str(n)).format(value) for n, value in enumerate(values)]
    style = draw(st.sampled_from(["flow", "wrapped", "lines", "trailing comma", "block", "same column"]))
    anchor = draw(st.sampled_from([" &axis", ""]))
    if style in {"block", "same column"}:
        indent = "  " if style == "same column" else "    "
        return f"{anchor}{comment()}" + "".join(f"\n{indent}- {item}{comment()}" for item in items)
    if style == "flow":
        return f"{anchor} [{', '.join(items)}]{comment()}"
    if style == "wrapped":
        lines = "".join(f"{item},{comment()}\n    " for item in items[:-1])
        return f"{anchor} [{lines}{items[-1]}]{comment()}"
    commas = ["," * (n + 1 < len(items) or style != "lines") for n in range(len(items))]
    lines = "".join(f"\n    {item}{comma}{comment()}" for item, comma in zip(items, commas, strict=True))
    return f"{anchor} [{comment()}{lines}\n  ]{comment()}"


@st.composite
def matrices(draw) -> str:
    """A matrix file with an axis of its own and that of a kernel, which may be an alias of the first."""
    axis = draw(axis_texts())
    others = ["[2.13] # own", *(["*axis"] if "&axis" in axis else [])]
    kernel = f"kernels:\n  # the second\n  b: {{axes: {{torch: {draw(st.sampled_from(others))}\n    }}}}\n"
    text = f"# first\nversion: 1 # one\naxes:\n  torch:{axis}\n  # compute\n  cuda: [cpu, 13.0]\n"
    text += kernel if draw(st.booleans()) else ""
    text += draw(st.sampled_from(["# last", "", "rules: [] # none\n"]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@settings(max_examples=8 * settings.default.max_examples)
@given(matrices(), st.sampled_from(RELEASES))
def test_a_release_is_added_and_nothing_else_changes(text, release):
    after = add_release({"m": text}, "torch", release)["m"]
    before, now = data(text), data(after)
    axes = [(before["axes"], now["axes"])]
    axes += [(before["kernels"][name]["axes"], now["kernels"][name]["axes"]) for name in before.get("kernels", {})]
    for old, new in axes:
        values, added = old["torch"], new.pop("torch")
        assert [value for value in added if value != release or release in values] == values
        assert added.count(release) == 1
        if values == sorted(values, key=RELEASES.index):
            assert added == sorted(added, key=RELEASES.index)
        elif values == sorted(values, key=RELEASES.index, reverse=True):
            assert added == sorted(added, key=RELEASES.index, reverse=True)
        old.pop("torch")
    assert before == now
    assert re.findall(r"# .*", after) == re.findall(r"# .*", text)
    lines, kept = text.splitlines(), after.splitlines()
    assert sum(line not in kept for line in lines) <= 2  # one for each axis
    assert ("\r\n" in text) == ("\r\n" in after)


@given(matrices(), st.sampled_from(["2.16.0rc2", "2.16"]))
def test_a_release_takes_the_place_of_another(text, release):
    old = find_axes({"m": text}, "torch")[0].values[0]
    after = add_release({"m": text}, "torch", release, instead_of=old)["m"]
    for before, now in zip(find_axes({"m": text}, "torch"), find_axes({"m": after}, "torch"), strict=True):
        assert now.values == tuple(release if value == old else value for value in before.values)
    assert re.findall(r"# .*", after) == re.findall(r"# .*", text)
    assert len(after.splitlines()) == len(text.splitlines())


def test_a_comment_stays_behind_its_release():
    flow = "axes:\n  torch: [\n    2.11,  # old\n    2.13  # new\n  ]\n"
    expected = "axes:\n  torch: [\n    2.11,  # old\n    2.13,  # new\n    2.15\n  ]\n"
    assert add_release({"m": flow}, "torch", "2.15")["m"] == expected
    middle = "axes:\n  torch: [\n    2.11,  # old\n    2.12,\n    2.13,  # new\n    2.15\n  ]\n"
    assert add_release({"m": expected}, "torch", "2.12")["m"] == middle
    block = "axes:\n  cuda:\n  - cpu\n  - '13.0'  # usual"
    assert add_release({"m": block}, "cuda", "13.2")["m"] == f"{block}\n  - '13.2'"
    assert add_release({"m": "axes: {cuda: [13.0, cpu]}"}, "cuda", "13.2")["m"] == "axes: {cuda: [13.0, 13.2, cpu]}"


def test_an_anchor_that_something_else_uses_is_not_changed():
    text = "axes: {torch: &new [2.11, 2.13]}\nrules:\n- exclude: {torch: *new}\n  reason: old\n"
    with pytest.raises(MatrixError, match=r"m:1:15: axes\.torch cannot be changed without changing something else"):
        add_release({"m": text}, "torch", "2.15")


def test_an_alias_of_one_release_has_its_own_place():
    text = "axes: {torch: [2.11, &new 2.13]}\nkernels: {a: {axes: {torch: [2.10, *new]}}}\n"
    assert add_release({"m": text}, "torch", "2.15")["m"] == text.replace("2.13]", "2.13, 2.15]").replace(
        "*new]", "*new, 2.15]"
    )


def test_a_revision_is_replaced_in_its_quotes():
    text = 'kernel:\n  git: x\n  revision: &r "v1"  # pinned\nkernels: {a: {hub: b/c, revision: v1}}\n'
    after = set_value(text, ("kernel", "revision"), "v2", file="m")
    assert after == text.replace('"v1"', '"v2"')
    assert data(set_value(text, ("kernels", "a", "revision"), "a, b", file="m"))["kernels"]["a"]["revision"] == "a, b"


def test_every_file_and_every_kernel_is_edited():
    kernels = "kernels:\n  a: {axes: {torch: [2.11]}}\n  b: {axes: {cuda: [cpu]}}\n"
    main = f"axes: {{torch: [2.13]}}\n{kernels}include: [k/matrix.yaml]\n"
    texts = {"matrix.yaml": main, "k/matrix.yaml": "kernel: {path: k}\naxes:\n  torch:\n  - 2.15\n"}
    assert included(main, file="m") == ("k/matrix.yaml",)
    assert included(texts["k/matrix.yaml"], file="m") == ()
    assert [(each.values, str(each.place)) for each in find_axes(texts, "torch")] == [
        (("2.13",), "matrix.yaml:1:15"),
        (("2.11",), "matrix.yaml:3:21"),
        (("2.15",), "k/matrix.yaml:4:3"),
    ]
    after = add_release(texts, "torch", "2.15")
    assert after["matrix.yaml"] == main.replace("[2.13]", "[2.13, 2.15]").replace("[2.11]", "[2.11, 2.15]")
    assert after["k/matrix.yaml"] == texts["k/matrix.yaml"]
