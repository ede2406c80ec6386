"""A project of a set is compiled and tested with the wheel of another one, which no index has."""

import containers
import pytest
from factory import Factory
from kernels import write

# A build system without requirements, so that nothing is resolved.
BACKEND = """\
import base64, hashlib, os, subprocess, sysconfig, zipfile
from about import NAME, VERSION, REQUIRES, sources

TAG = "cp311-cp311-linux_x86_64"


def build_wheel(directory, config_settings=None, metadata_directory=None):
    code, flags, files = sources()
    with open("code.c", "w") as file:
        file.write(code)
    library = f"_{NAME}{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-c", "code.c", "-o", "code.o", *flags], check=True)
    subprocess.run(["gcc", "-shared", "code.o", "-o", library], check=True)
    info = f"{NAME}-{VERSION}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {NAME}", f"Version: {VERSION}"]
    lines += [f"Requires-Dist: {line}" for line in REQUIRES]
    wheel = f"Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: false\\nTag: {TAG}\\n"
    with open(library, "rb") as file:
        content = {f"{NAME}/{name}": text.encode() for name, text in files.items()} | {f"{NAME}/{library}": file.read()}
    content |= {f"{info}/METADATA": ("\\n".join(lines) + "\\n").encode(), f"{info}/WHEEL": wheel.encode()}
    rows = []
    for name, data in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}\\n")
    content[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\\n"]).encode()
    filename = f"{NAME}-{VERSION}-{TAG}.whl"
    with zipfile.ZipFile(os.path.join(directory, filename), "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return filename
"""
CODE = "#include <stdio.h>\\nvoid *PyInit__{name}(void) {{ puts(TEXT); return 0; }}\\n"
BASE = f"""\
NAME, VERSION, REQUIRES = "base", "2", []


def sources():
    return "#define TEXT \\"base\\"\\n{CODE.format(name="base")}", [], {{
        "__init__.py": "VALUE = 7\\n",
        "base.h": "#define TEXT \\"from base.h\\"\\n",
    }}
"""
TOP = f"""\
NAME, VERSION, REQUIRES = "top", "1", ["base>=2"]


def sources():
    import base

    code = "#include \\"base.h\\"\\n{CODE.format(name="top")}"
    return code, ["-I" + base.__path__[0]], {{"__init__.py": f"VALUE = {{base.VALUE}}\\n"}}
"""
PYPROJECT = """\
[build-system]
requires = [{requires}]
build-backend = "backend"
backend-path = ["."]
[project]
name = "{name}"
version = "{version}"
dependencies = [{requires}]
"""
SET = """\
framework: none
axes: {cuda: [cpu], python: ["3.11"]}
kernels:
  top: {path: top, test: "python3 -c 'import top, base; assert top.VALUE == base.VALUE == 7'"}
  base: {path: base, test: "python3 -c 'import base'"}
"""
TOP_CELL, BASE_CELL = (f"{name}/cpu-x86_64-linux-cp311" for name in ("top", "base"))


@pytest.fixture
def factory(tmp_path):
    containers.wanted("bwrap")
    factory = Factory.at(tmp_path)
    for name, about, version, requires in (("base", BASE, "2", ""), ("top", TOP, "1", '"base>=2"')):
        project = PYPROJECT.format(name=name, version=version, requires=requires)
        write(tmp_path / name, {"backend.py": BACKEND, "about.py": about, "pyproject.toml": project})
    (tmp_path / "matrix.yaml").write_text(SET)
    return factory


def build(factory, *argv):
    answer = factory.run("build-matrix", "--engine", "bwrap", "--progress", "plain", *argv)
    return answer, {name: each["status"] for name, each in factory.results().items()}


def test_a_project_is_built_and_tested_with_the_wheel_of_another(factory):
    answer, statuses = build(factory, "--test")
    assert answer.returncode == 0, answer.stderr
    assert statuses == {TOP_CELL: "built", BASE_CELL: "built"}
    first = factory.results()[TOP_CELL]["plan_digest"]
    about = factory.folder / "base/about.py"
    about.write_text(about.read_text().replace("from base.h", "changed"))
    answer, statuses = build(factory)
    assert statuses == {TOP_CELL: "built", BASE_CELL: "built"}, answer.stderr
    assert factory.results()[TOP_CELL]["plan_digest"] != first
    about.write_text("raise SystemExit('broken')\n")
    answer, statuses = build(factory)
    assert answer.returncode == 1
    assert statuses == {TOP_CELL: "failed", BASE_CELL: "failed"}
    failure = factory.results()[TOP_CELL]["failure"]
    assert failure["stage"] == "requires"
    assert failure["message"].startswith(f"it requires {BASE_CELL}, which has no wheel: ")
