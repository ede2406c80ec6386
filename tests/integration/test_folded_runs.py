"""What the commands say of cells that share a wheel."""

import json

import pytest
from command_line import run_command
from kernels import matrix, pure_kernel, stable_kernel, write

OLDEST = "cuda-compatibility: oldest-minor\n"


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))


def test_a_plan_as_data(monkeypatch, capsys, tmp_path):
    stable_kernel(tmp_path / "k")
    rules = "rules:\n  - set: {gpu-archs: [9.0]}\n    where: {torch: 2.13, cuda: 13.2}\n"
    matrix(tmp_path, "k", torch="2.12, 2.13", cuda="13.0, 13.2", more=OLDEST + rules)
    answer = run_command(monkeypatch, capsys, "plan", "--engine", "local", "--json")
    plans = json.loads(answer.out)["plans"]
    assert [plan["folded"] and plan["folded"]["reason"] for plan in plans] == [
        None,
        "CUDA minor-version compatibility",
        "torch's stable ABI from 2.10 on",
        None,
    ]
    assert {plan["folded"]["cell"] for plan in plans if plan["folded"]} == {"torch212-cxx11-cu130-x86_64-linux"}
    assert plans[3]["not_folded"] == "a rule sets different gpu-archs for CUDA 13.0"
    assert [plan["wheel"]["version"] for plan in plans] == [
        "1+cu130.torchstable",
        "1+cu130.torchstable",
        "1+cu130.torchstable",
        "1+cu132.torchstable",
    ]
    shown = run_command(monkeypatch, capsys, "plan", "--engine", "local")
    assert "4 combinations → 2 builds (0 cached)\n  1 combination shares a wheel: " in shown.out


def test_one_cell_alone_gets_the_wheel_that_all_would_give_it(monkeypatch, capsys, tmp_path):
    stable_kernel(tmp_path / "k")
    matrix(tmp_path, "k", torch="2.13", cuda="13.0, 13.2", more=OLDEST)
    whole = run_command(monkeypatch, capsys, "plan", "--engine", "local", "--json")
    alone = run_command(monkeypatch, capsys, "plan", "--engine", "local", "--json", "--only", "*cu132*")
    newer = json.loads(whole.out)["plans"][1]
    (only,) = json.loads(alone.out)["plans"]
    assert only["cell"] == newer["cell"]
    assert (only["digest"], only["folded"], newer["wheel"]["version"]) == (newer["digest"], None, "1+cu130.torchstable")


def test_a_run_says_it_first_and_with_each_cell(monkeypatch, capsys, tmp_path):
    pure_kernel(tmp_path / "k")
    matrix(tmp_path, "k", torch="2.12, 2.13", cuda="cpu, 13.0")
    answer = run_command(monkeypatch, capsys, "build-matrix", "--engine", "local", "--progress", "plain")
    assert answer.code == 0, answer.err
    first = "torch212-cxx11-cpu-x86_64-linux"
    assert (
        "4 combinations → 1 build · 0 excluded · local\n  3 combinations share a wheel: nothing is compiled\n"
        in answer.err
    )
    assert f"torch213-cxx11-cu130-x86_64-linux     folded  {first}: nothing is compiled\n" in answer.err
    assert "1 built · 3 folded in " in answer.err
    results = json.loads((tmp_path / "dist" / "results.json").read_text())["cells"]
    folded = {name: cell["folded"] for name, cell in results.items()}
    assert folded.pop(first) is None
    assert list(folded.values()) == [{"cell": first, "reason": "nothing is compiled"}] * 3
    again = run_command(monkeypatch, capsys, "build-matrix", "--engine", "local", "--progress", "plain")
    assert "4 cached in " in again.err
    # How long the build took that made it is told for as long as the wheel is kept.
    cells = json.loads((tmp_path / "dist" / "results.json").read_text())["cells"].values()
    took = [timing["seconds"] for cell in cells for timing in cell["built_in"] if timing["stage"] == "build"]
    assert len(took) == 4
    assert min(took) > 0
    assert (tmp_path / "dist" / "report.html").read_text().count("cached, built in ") == 4


def test_another_build_system_is_not_folded(monkeypatch, capsys, tmp_path):
    write(tmp_path / "k", {"setup.py": "raise SystemExit('never run to plan')"})
    matrix(tmp_path, "k", cuda="13.0, 13.2", more=OLDEST)
    answer = run_command(monkeypatch, capsys, "plan", "--engine", "local")
    assert answer.code == 2
    assert "error: matrix.yaml: cuda-compatibility: oldest-minor is for kernels in kernel-builder layout" in answer.err
    assert "cuda-compatibility: minor" in answer.err
