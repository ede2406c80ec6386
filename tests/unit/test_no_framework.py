"""Wheels of no framework: what is picked, and what the page, the grid and the commands say of them."""

import json
from dataclasses import replace

import pytest
from states import entry, project, provenance, unserved
from test_pick_beside_torch import machine

from wheelsmith.base.errors import MatrixMistakesError
from wheelsmith.index.entries.catalogue import catalogue_of, dump_catalogue, load_catalogue
from wheelsmith.index.entries.entry import NoWheel
from wheelsmith.index.pick.decide import Overrides, decide
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.install_commands import Installer
from wheelsmith.index.site.human import human_pages
from wheelsmith.matrix.expand import expand
from wheelsmith.matrix.load import parse_matrix
from wheelsmith.model import Cell

TAG = "py3-none-manylinux_2_28_x86_64"


def cell(cuda):
    return Cell(framework="none", release="", toolkit=cuda, arch="x86_64", cxx11_abi=None)


def wheel(cuda, **fields):
    made = cell(cuda)
    return entry(f"1.0+{made.compute}", made, tag=TAG, provenance=provenance(made), **fields)


# As bitsandbytes is: its wheels require torch, and were compiled without one.
STATE = project(*(wheel(cuda, requires_torch=">=2.4,<3", requires=("numpy>=1.17",)) for cuda in (None, "13.0", "13.2")))


def test_a_matrix_of_no_framework():
    given = "kernel: {path: .}\nframework: none\naxes: {cuda: [cpu, 13.0], python: [3.12]}\n"
    cells = expand(parse_matrix(given))
    assert [each.id for each in cells] == ["cpu-x86_64-linux-cp312", "cu130-x86_64-linux-cp312"]
    assert [Cell.from_json(json.loads(json.dumps(each.to_json()))) for each in cells] == [*cells]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("framework: none\naxes: {torch: [2.13], cuda: [cpu]}", "with framework: none, there is no axis torch"),
        ("axes: {cuda: [cpu]}", "a project that is compiled without one has framework: none above axes"),
        ("framework: torch\naxes: {cuda: [cpu]}", "'torch' is not one of none"),
        ("framework: none\naxes: {cuda: [cpu]}\nrules: [{exclude: {torch: '2.13'}, reason: x}]", "not an axis"),
    ],
)
def test_a_matrix_that_contradicts_itself(given, words):
    with pytest.raises(MatrixMistakesError) as caught:
        parse_matrix(f"kernel: {{path: .}}\n{given}\n")
    (mistake,) = caught.value.mistakes
    assert words in str(mistake)


@pytest.mark.parametrize(
    ("here", "asked", "compute"),
    [
        ({}, {}, "cpu"),
        ({"driver": "13.5"}, {}, "cu132"),
        ({"driver": "13.5", "torch": "2.11.0+cu130"}, {}, "cu130"),
        ({"driver": "13.5", "torch": "2.11.0+cu130"}, {"compute": "cpu"}, "cpu"),
        ({"driver": "13.5", "torch": "2.3.0+rocm6"}, {}, "cu132"),
    ],
)
def test_pick_asks_for_no_torch(here, asked, compute):
    found = decide(Chooser(catalogue_of(STATE)), machine(**here), Overrides(**asked))
    assert (str(found.answer.wheel.version), found.notes) == (f"1.0+{compute}", ())
    for installer in Installer:
        text = found.commands(installer, "https://example.org/").text()
        assert "torch" not in text
        assert "none" not in text.replace(TAG, "")
        assert "numpy" not in text  # it comes from the installer's own index
        assert "\n\n\n" not in text
        assert not text.startswith("\n")


def test_a_torch_that_is_asked_for_has_no_effect():
    found = decide(Chooser(catalogue_of(STATE)), machine(), Overrides(torch="2.11"))
    assert found.notes == ("a wheel works with any torch: --torch 2.11 has no effect",)


def test_the_page_asks_for_no_torch():
    answers = (
        unserved(cell("13.3"), NoWheel.FAILED, "it does not compile"),
        unserved(cell("13.5"), NoWheel.EXCLUDED, "too new"),
    )
    made = {key: data.decode() for key, data in human_pages(replace(STATE, answers=answers)).items()}
    (page,) = (text for key, text in made.items() if key.endswith("index.html"))
    assert 'name="compute"' in page
    for word in ('name="with"', 'name="none"', ">none", "any framework is", "your none"):
        assert word not in page, word
    assert "CUDA 13.3, x86_64</b>: it does not compile" in page
    assert "torch &gt;=2.4,&lt;3" in page


def test_programs_read_it_again():
    catalogue = catalogue_of(STATE)
    read = load_catalogue(dump_catalogue(catalogue), "k")
    assert [wheel.cells for wheel in read.wheels] == [wheel.cells for wheel in catalogue.wheels]
