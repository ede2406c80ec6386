"""A real release's sdist, from the package index that the user's pip asks."""

import json

import pytest
from factory import Factory

pytestmark = [pytest.mark.e2e, pytest.mark.network, pytest.mark.release("asks a package index for what never changes")]

# As its index has told since 2023-10-08.
SCATTER = "69b3aa435f2424ac6a1bfb6ff702da6eb73b33ca0db38fb26989c74159258e47"


def test_a_real_sdist_is_planned_and_later_without_any_index(tmp_path, monkeypatch):
    factory = Factory(folder=tmp_path, cache=tmp_path / "cache")  # no lock of an earlier run
    (tmp_path / "matrix.yaml").write_text(
        "kernel: {sdist: torch-scatter==2.1.2}\naxes: {torch: [2.13], cuda: [cpu], python: ['3.99']}\n"
    )
    first = factory.run("plan", "--json")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    again = factory.run("plan", "--json")
    for answer in (first, again):
        assert answer.returncode == 3, answer.stderr
        assert json.loads(answer.stdout)["kernel"] == f"torch-scatter==2.1.2 @{SCATTER[:7]}"
