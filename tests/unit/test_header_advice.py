"""What torch's whole headers cost is said at the end of a run, where it is much and can be halved."""

from dataclasses import replace

import pytest
from plans import plan

from wheelsmith.matrix.types import KernelRef
from wheelsmith.model import CellSettings, Recipe, Step, StepFinished, StepKind
from wheelsmith.run.schedule import TorchHeaderCosts
from wheelsmith.source import fetch_source
from wheelsmith.source.folder import Outputs

SOURCES = {
    "csrc/a.cu": "// a kernel\n#include <torch/all.h>\n",
    "csrc/b.cu": '#  include "torch/extension.h"\n',
    "csrc/c.cu": "#include <torch/csrc/stable/library.h>\n// #include <torch/all.h> is not needed\n",
    "csrc/d.cpp": "#include <torch/all.h>\n",
}


@pytest.fixture
def source(tmp_path):
    for path, text in SOURCES.items():
        (tmp_path / "k" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "k" / path).write_text(text)
    outputs = Outputs(out=tmp_path / "o", cache=tmp_path / "c")
    return fetch_source(KernelRef(path="k"), base=tmp_path, outputs=outputs)


def planned(headers="whole"):
    steps = tuple(
        Step(
            kind=StepKind.NVCC if path.endswith(".cu") else StepKind.CXX,
            output=f"build/obj/{path}.o",
            inputs=(),
            argv=(),
            source=path,
        )
        for path in SOURCES
    )
    made = plan(0)
    return replace(
        made,
        cell=replace(made.cell, settings=CellSettings(torch_headers=headers)),
        recipe=Recipe(steps=steps, generated={}, contents={}, namespace="n", extension=None),
    )


def told(made, source, phases):
    costs = TorchHeaderCosts([made], source)
    for step, kind, seconds in phases:
        costs(
            StepFinished(
                cell_id=made.cell.id, step=step, kind=kind, seconds=seconds, cpu=None, peak_memory=None, reused=False
            )
        )
    return costs.notice()


def test_what_they_cost_is_told(source):
    phases = [
        *(("csrc/a.cu: cicc 90", "cicc", 30.0), ("csrc/b.cu: cudafe++", "cudafe++", 31.2)),
        *(("csrc/c.cu: cicc 90", "cicc", 300.0), ("csrc/a.cu: ptxas 90", "ptxas", 99.0)),
    ]
    notice = told(planned(), source, phases)
    assert notice.text.startswith("compilers took 61 s for csrc/a.cu, csrc/b.cu, most of it for torch/all.h")


@pytest.mark.parametrize(
    ("headers", "phases"),
    [
        ("whole", [("csrc/a.cu: cicc 90", "cicc", 59.0)]),
        ("whole", [("csrc/c.cu: cicc 90", "cicc", 300.0), ("csrc/d.cpp: g++", "g++", 300.0)]),
        ("light", [("csrc/a.cu: cicc 90", "cicc", 300.0)]),
    ],
)
def test_nothing_is_told_that_would_not_help(headers, phases, source):
    assert told(planned(headers), source, phases) is None
