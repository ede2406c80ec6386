"""The commands take and tell what people expect of a command line."""

import json

import pytest
from wheels import make_wheel


@pytest.mark.usefixtures("in_process_worker")
def test_check_takes_folders_of_wheels_and_indexes(run, tmp_path):
    made = [make_wheel(tmp_path / "wheels" / version, "pure", version) for version in ("1", "2")]
    (tmp_path / "wheels" / "torn-1-py3-none-any.whl").write_text("")
    loose = run("check", tmp_path / "wheels")
    assert [line for line in loose.out.splitlines() if line[0] != " "] == [
        "✓ pure-1-py3-none-any.whl",
        "✓ pure-2-py3-none-any.whl",
        "✗ torn-1-py3-none-any.whl",
    ]
    assert loose.code == 1
    assert run("index", "add", tmp_path / "index", made[0]).code == 0
    indexed = run("check", "--json", tmp_path / "index")
    assert (indexed.code, [each["wheel"] for each in json.loads(indexed.out)["wheels"]]) == (0, [made[0].name])
    (tmp_path / "none").mkdir()
    nothing = run("check", tmp_path / "none")
    assert (nothing.code, "contains no index and no wheel" in nothing.err) == (4, True)
