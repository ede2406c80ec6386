"""A project of a set is compiled and tested with the wheel of another one, which no index has."""

import containers
import pytest
from compiled_projects import BASE, CODE, write_project
from factory import Factory

TOP = f"""\
NAME, VERSION, REQUIRES = "top", "1", ["base>=2"]


def sources():
    import base

    code = "#include \\"base.h\\"\\n{CODE.format(name="top")}"
    return code, ["-I" + base.__path__[0]], {{"__init__.py": f"VALUE = {{base.VALUE}}\\n"}}
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
        write_project(tmp_path / name, about, name=name, version=version, requires=requires)
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
