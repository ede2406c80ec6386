"""What programs read of a plan and of a run has the fields, and the types, that it always had."""

import json
from pathlib import Path

from kernels import matrix, pure_kernel

GOLDEN = Path(__file__).parent / "data" / "formats.json"
RULE = "rules: [{exclude: {torch: 2.13}, reason: they are old}]\n"


def shape(value):
    """Return the fields of a document, each with its types; tables by names that are data are merged into one."""
    if isinstance(value, list):
        return [merged(map(shape, value))] if value else []
    if isinstance(value, dict):
        shapes = {name: shape(item) for name, item in value.items()}
        named_by_data = any(not name.isidentifier() for name in shapes)
        return {"*": merged(shapes.values())} if named_by_data else shapes
    return type(value).__name__


def merged(shapes):
    """Return what several documents have in common, and each other's alternatives."""
    tables, others = [], set()
    for each in shapes:
        if isinstance(each, dict):
            tables.append(each)
        else:
            others.add(json.dumps(each))
    names = sorted({name for table in tables for name in table})
    table = [{name: merged(t[name] for t in tables if name in t) for name in names}] if tables else []
    found = [*table, *(json.loads(text) for text in sorted(others))]
    return found[0] if len(found) == 1 else {"|": found}


def test_plans_and_results_have_the_fields_that_they_had(run, stored, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(stored))
    pure_kernel(tmp_path / "k")
    matrix(tmp_path, "k", torch="2.12, 2.13", cuda="cpu, 13.0", more=RULE)
    plan = run("plan", "--json")
    assert plan.code == 0
    assert run("build-matrix", "--engine", "local", "--progress", "plain").code == 0
    results = json.loads((tmp_path / "dist" / "results.json").read_bytes())
    assert {"plan": shape(json.loads(plan.out)), "results": shape(results)} == json.loads(GOLDEN.read_bytes())
