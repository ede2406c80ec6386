"""A framework beside torch: how it is written in a matrix, in names, in versions and in JSON, and what it offers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.base.errors import MatrixMistakesError
from wheelsmith.frameworks import frameworks, read_local_version
from wheelsmith.index.entries.catalogue import Catalogue, dump_catalogue, load_catalogue
from wheelsmith.index.entries.entry import CellWithoutWheel, NoWheel
from wheelsmith.matrix.expand import expand
from wheelsmith.matrix.load import parse_matrix
from wheelsmith.model import Cell

cells = st.builds(
    Cell,
    framework=st.sampled_from(sorted(frameworks())),
    release=st.from_regex(r"\A[0-9]\.[0-9]{1,2}\Z"),
    toolkit=st.none() | st.from_regex(r"\A1[2-4]\.[0-9]\Z"),
    arch=st.sampled_from(["x86_64", "aarch64"]),
    cxx11_abi=st.none() | st.booleans(),
)


@given(cells)
def test_what_is_written_is_read(cell):
    assert Cell.from_json(cell.to_json()) == cell
    catalogue = Catalogue(
        project="k",
        unserved=(CellWithoutWheel(cell=cell, version="1", status=NoWheel.EXCLUDED, reason="no"),),
    )
    assert load_catalogue(dump_catalogue(catalogue), "here") == catalogue


@pytest.mark.parametrize(
    "data",
    [{"framework": "tvm-ffi", "torch": "2.11"}, {"framework": "cuda", "tvm-ffi": "0.1"}],
)
def test_a_cell_without_a_release_is_none(data):
    whole = {"cuda": "13.0", "arch": "x86_64", **data} if isinstance(data, dict) else data
    with pytest.raises(ValueError):
        Cell.from_json(whole)


@pytest.mark.parametrize("text", ["cpu.tvmffi", "cpu.tvmffi0.1.2", "cpu.xtvmffi0.1", "cpu.tvmffi0"])
def test_another_spelling_names_none(text):
    assert read_local_version(text).release is None
    assert not read_local_version(text).own


def matrix(axes, rules="[]"):
    return parse_matrix(f"kernel: {{path: k}}\naxes: {{{axes}, cuda: [cpu, 13.0]}}\nrules: {rules}\n")


def test_a_matrix_names_one_framework():
    made = matrix("tvm-ffi: [0.1]")
    assert [cell.id for cell in expand(made) if isinstance(cell, Cell)] == [
        "tvm-ffi01-cpu-x86_64-linux",
        "tvm-ffi01-cu130-x86_64-linux",
    ]
    for axes in ("arch: [x86_64]", "torch: [2.11], tvm-ffi: [0.1]"):
        with pytest.raises(MatrixMistakesError) as caught:
            matrix(axes)
        assert "axes need exactly one framework: torch or tvm-ffi" in str(caught.value.mistakes[0])


def test_a_rule_selects_by_the_axis_that_there_is():
    made = matrix("tvm-ffi: [0.1]", '[{exclude: {tvm-ffi: ">=0.1", cuda: cpu}, reason: no}]')
    assert [type(answer).__name__ for answer in expand(made)] == ["Excluded", "Cell"]
    with pytest.raises(MatrixMistakesError) as caught:
        matrix("tvm-ffi: [0.1]", '[{exclude: {torch: "2.11"}, reason: no}]')
    assert str(caught.value.mistakes[0]) == "matrix.yaml:3:20: a rule selects by torch, which is not an axis"
