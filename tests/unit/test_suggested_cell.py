"""What a run suggests at its end."""

import io
import platform
import sys
from pathlib import Path

import pytest
from rich.console import Console

from wheelsmith.model import BuildResult, Cell, CellSettings, Status, WheelRecord
from wheelsmith.model.events import RunFinished
from wheelsmith.report.summary import show_summary

HERE = platform.machine()
OTHER = "aarch64" if HERE == "x86_64" else "x86_64"
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


def cell(torch, cuda, arch=HERE, **fields):
    return Cell(release=torch, toolkit=cuda, arch=arch, **fields)


def result(made, name="k"):
    wheel = WheelRecord(
        filename=f"{name}-1+{made.compute}.torch{made.release}-cp39-abi3-manylinux_2_34_{made.arch}.whl",
        sha256="ab" * 32,
        size=1,
        metadata_sha256="cd" * 32,
        requires_python=None,
    )
    return BuildResult(cell=made, plan_digest=made.id, status=Status.BUILT, wheel=wheel)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([cell("2.9", None), cell("2.13", None)], "'torch==2.13.*' --index-url http://127.0.0.1:8000/cpu/"),
        ([cell("2.13", "13.0"), cell("2.13", None)], "'torch==2.13.*' --index-url http://127.0.0.1:8000/cu130/"),
        ([cell("2.13", "12.6"), cell("2.13", "13.0")], "k==1+cu130.torch2.13"),
        # 2.9 is older than 2.13.
        ([cell("2.13", "13.0"), cell("2.9", "13.0")], "k==1+cu130.torch2.13"),
        ([cell("2.13", None, OTHER), cell("2.9", None)], "k==1+cpu.torch2.9"),
        ([cell("2.13", None, python="3.99"), cell("2.9", None, python=PYTHON)], "k==1+cpu.torch2.9"),
        ([cell("2.13", None, settings=CellSettings(advertise=False)), cell("2.9", None)], "k==1+cpu.torch2.9"),
    ],
)
def test_the_cell_that_a_person_here_most_likely_wants(cells, said):
    for order in (cells, cells[::-1]):
        text = io.StringIO()
        finished = RunFinished(
            results=tuple(map(result, order)), excluded=(), interrupted=False, seconds=1.0, compiled=0, reused=0
        )
        show_summary(finished, Path("dist"), Console(file=text, width=500))
        assert said in text.getvalue()


def test_kernels_of_one_environment_are_installed_together():
    chosen = [
        cell("2.13", None, kernel="a"),
        cell("2.12", None, kernel="a"),
        cell("2.13", None, kernel="b"),
        cell("2.12", None, kernel="c"),
    ]
    text = io.StringIO()
    finished = RunFinished(
        results=tuple(result(each, name=str(each.kernel)) for each in chosen),
        excluded=(),
        interrupted=False,
        seconds=1.0,
        compiled=0,
        reused=0,
    )
    show_summary(finished, Path("dist"), Console(file=text, width=500))
    assert "pip install a==1+cpu.torch2.13 b==1+cpu.torch2.13 'torch==2.13.*' --index-url" in text.getvalue()
