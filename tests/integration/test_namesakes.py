"""A kernel that is called as a project on PyPI is, beside that project."""

import json
import platform

import pytest
from command_line import run_command
from installers import reported
from kernels import NOARCH_TOML, write
from loopback import serving
from wheels import make_wheel

OWN = "kernel: {path: k, distribution: my-einops, module: my_einops}\n"
AXES = "axes: {torch: [2.13], cuda: [cpu], arch: [" + platform.machine() + "]}\n"
PACKAGE = {
    "torch-ext/einops/__init__.py": "from .more import VALUE\n",
    "torch-ext/einops/more.py": "VALUE = 42\n",
}


@pytest.fixture(autouse=True)
def kernel(monkeypatch, tmp_path):
    """A kernel called einops, as the Hub has one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    toml = NOARCH_TOML.replace('"pure"', '"einops"')
    assert '"einops"' in toml
    return write(tmp_path / "k", {"build.toml": toml, "README.md": "# einops\n", **PACKAGE})


def ask(monkeypatch, capsys, tmp_path, verb, kernel, *more):
    (tmp_path / "matrix.yaml").write_text(kernel + AXES)
    return run_command(monkeypatch, capsys, verb, "--engine", "local", *more)


@pytest.mark.parametrize("verb", ["plan", "build-matrix"])
def test_the_plan_refuses_and_says_what_to_write(verb, monkeypatch, capsys, tmp_path):
    answer = ask(monkeypatch, capsys, tmp_path, verb, "kernel: {path: k}\n")
    assert (answer.code, answer.out) == (2, "")
    assert "error: matrix.yaml: einops is another project on PyPI" in answer.err
    assert "distribution: einops-kernel, module: einops_kernel" in " ".join(answer.err.split())
    assert not (tmp_path / "dist" / "index").exists()


def test_a_package_that_imports_itself_by_name_keeps_that_name(kernel, monkeypatch, capsys, tmp_path):
    (kernel / "torch-ext/einops/more.py").write_text('"""import einops"""\nimport os, einops.x\n')
    answer = ask(monkeypatch, capsys, tmp_path, "plan", OWN)
    assert answer.code == 2
    assert "cannot be renamed to my_einops: torch-ext/einops/more.py imports einops by name" in answer.err
    assert ask(monkeypatch, capsys, tmp_path, "plan", "kernel: {path: k, distribution: einops}\n").code == 0


@pytest.mark.parametrize("module", ["My_Kernel", "a-b", "a.b", "class", "x/../y", "_x", "ünï"])
def test_what_is_no_import_name_is_told(module, monkeypatch, capsys, tmp_path):
    answer = ask(monkeypatch, capsys, tmp_path, "plan", f"kernel: {{path: k, module: {module}}}\n")
    assert answer.code == 2
    assert f"{module!r} is not an import name" in answer.err


def test_a_project_of_another_build_system_has_no_module_to_choose(monkeypatch, capsys, tmp_path):
    write(tmp_path / "p", {"setup.py": "raise SystemExit('never run to plan')"})
    answer = ask(monkeypatch, capsys, tmp_path, "plan", "kernel: {path: p, module: mine}\n")
    assert answer.code == 2
    assert "module is for kernels in kernel-builder layout" in answer.err


@pytest.mark.network
@pytest.mark.release("installs two projects anew")
def test_both_are_installed_side_by_side(monkeypatch, capsys, tmp_path, tools):
    answer = ask(monkeypatch, capsys, tmp_path, "build-matrix", OWN)
    assert answer.code == 0, answer.err
    results = json.loads((tmp_path / "dist" / "results.json").read_text())["cells"]
    assert [cell["wheel"]["filename"] for cell in results.values()] == ["my_einops-1-py3-none-any.whl"]
    make_wheel(tmp_path / "pypi", "einops", "0.8.2")
    env = tools.environment("einops", "einops==0.8.2")
    with serving(tmp_path / "dist" / "index") as ours:
        index = ("--index-url", f"{ours}/simple/")
        both = (*index, "--find-links", tmp_path / "pypi", "--no-deps")
        report = ("install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-")
        assert reported(tools.pip("newest pip", *report, *both, "einops")) == {"einops": "0.8.2"}
        answer = tools.pip("newest pip", "--python", env, "install", *index, "--no-deps", "my-einops")
        assert answer.returncode == 0, answer.stderr
    said = tools.run(
        env,
        "import importlib.metadata as m, hashlib, base64, einops\n"
        "files = m.files('einops')\n"
        "right = [f.hash.value == base64.urlsafe_b64encode(hashlib.sha256(f.read_binary()).digest()).decode()"
        ".rstrip('=') for f in files if f.hash]\n"
        "names = {d.metadata['Name'].lower() for d in m.distributions()}\n"
        "shared = {str(f) for f in files} & {str(f) for f in m.files('my-einops')}\n"
        "print(all(right), len(right) > 10, einops.__version__, {'einops', 'my-einops'} <= names, shared)",
    )
    assert said == "True True 0.8.2 True set()"
    assert tools.run(env, "import my_einops; print(my_einops.VALUE)") == "42"
    ops = tools.run(env, "import importlib.metadata as m; print(m.distribution('my-einops').read_text('RECORD'))")
    assert "my_einops/_ops.py" in ops
