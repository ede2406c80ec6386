"""What a pipeline may import from wheelsmith: few names, found when they are asked for, with their types."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from wheels import make_wheel

import wheelsmith
from wheelsmith.model import Load, Notice, log_notices

ROOT = Path(__file__).parent.parent.parent
NAMES = [
    *("BuildResult", "CheckReport", "Event", "Finding", "Prepared", "Published", "Request", "RunRecord"),
    *("WheelsmithError", "__version__", "build", "check_wheel", "prepare", "publish_folders"),
]


def test_the_names():
    assert wheelsmith.__all__ == NAMES
    assert set(NAMES) <= set(dir(wheelsmith))
    with pytest.raises(AttributeError, match="module 'wheelsmith' has no attribute 'load_matrix'"):
        wheelsmith.load_matrix  # noqa: B018  # asking for it is the test


@pytest.mark.parametrize("name", [name for name in NAMES if name[0] != "_"])
def test_each_is_what_type_checkers_take_it_for(name):
    tree = ast.parse(Path(wheelsmith.__file__).read_text())
    imports = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("wheelsmith.")
        for alias in node.names
    }
    module = __import__(imports[name], fromlist=[name])
    assert getattr(wheelsmith, name) is getattr(module, name)


def test_importing_it_imports_nothing():
    program = "import sys, wheelsmith; print(*sorted(name for name in sys.modules if name.startswith('wheelsmith')))"
    answer = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["wheelsmith"]


def test_a_run_starts_without_a_network_client():
    program = "import sys, wheelsmith.run.build; print({'httpx', 'pydantic', 'rich'} & {*sys.modules})"
    answer = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


def test_a_pipeline_prepares_checks_and_publishes(tmp_path):
    (tmp_path / "matrix.yaml").write_text(
        f"kernel: {{path: {ROOT / 'examples' / 'img2gray'}}}\naxes: {{torch: [2.11, 2.13], cuda: [cpu]}}\n"
    )
    request = wheelsmith.Request(matrix=tmp_path / "matrix.yaml", engine="local", only=("torch213-*",))
    prepared = wheelsmith.prepare(request)
    assert [plan.cell.release for plan in prepared.plans] == ["2.13"]
    wheel = make_wheel(tmp_path / "wheels", "kernel", "1")
    assert wheelsmith.check_wheel(wheel).ok
    published = wheelsmith.publish_folders([tmp_path / "wheels"], str(tmp_path / "index"))
    assert [entry.filename for entry in published.new] == [wheel.name]
    again = wheelsmith.publish_folders([tmp_path / "wheels"], str(tmp_path / "index"))
    assert [entry.filename for entry in again.known] == [wheel.name]
    with pytest.raises(wheelsmith.WheelsmithError):
        wheelsmith.publish_folders([tmp_path / "nothing"], str(tmp_path / "index"))


@pytest.mark.release("runs mypy over the package; the page of these names says when a signature changes")
def test_the_program_of_the_page_keeps_its_types(tmp_path):
    (program,) = re.findall(
        r"```python\n(from pathlib.*?)```", (ROOT / "docs/reference/python.md").read_text(), re.DOTALL
    )
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(program)
    wrong.write_text(program.replace("matrix=Path(", "matrix=str(") + "\nwheelsmith.unheard_of\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
    answer = subprocess.run([*command, right], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout
    answer = subprocess.run([*command, wrong], cwd=ROOT, capture_output=True, text=True)
    assert 'Argument "matrix" to "Request"' in answer.stdout
    assert 'Module has no attribute "unheard_of"' in answer.stdout


def test_who_listens_to_nothing_finds_notices_in_the_log(caplog):
    for level in ("info", "warning"):
        log_notices(Notice(level=level, text=f"told as {level}"))
    log_notices(Load(cores=1, all_cores=2, memory=0, all_memory=0))
    with caplog.at_level("INFO", logger="wheelsmith"):
        log_notices(Notice(level="info", text="told as info"))
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "told as warning"),
        ("INFO", "told as info"),
    ]
