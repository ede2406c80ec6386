import json
import re
from pathlib import Path

import pytest

from bench import real_page
from bench.real_facts import Fact, RealWheel, read_real_wheels
from bench.real_programme import FIGURES, complaints
from wheelsmith.model import PinnedFile
from wheelsmith.model.wheel_name import read_wheel_name

ROOT = Path(__file__).parent.parent.parent
KNOWN = read_real_wheels()
PIN = PinnedFile(project="k", version="1", filename="k-1-py3-none-any.whl", sha256="0" * 64, size=9)
FACT = Fact(says="^tags: .*linux", fact="f", command="true", shows="", practice="p")


def test_there_are_wheels_of_every_sort():
    names = [read_wheel_name(wheel.pin.filename) for wheel in KNOWN.wheels]
    tags = {str(tag) for name in names for tag in name.tags}
    assert len({wheel.pin.sha256 for wheel in KNOWN.wheels}) == len(KNOWN.wheels) >= 25
    assert any("aarch64" in tag for tag in tags)
    assert any("-abi3-" in tag for tag in tags)
    assert "py3-none-any" in tags


@pytest.mark.parametrize("wheel", KNOWN.wheels, ids=lambda wheel: wheel.pin.filename)
def test_a_pin_is_of_its_file_and_its_facts_can_be_matched(wheel):
    name = read_wheel_name(wheel.pin.filename)
    assert (name.project.replace("_", "-"), str(name.version)) == (wheel.pin.project, wheel.pin.version)
    for fact in wheel.facts:
        assert re.compile(fact.shows)
        assert re.compile(fact.says or "")


def test_each_sentence_of_a_finding_is_compared():
    findings = [
        {"rule": "tags", "ok": False, "message": "one; two"},
        {"rule": "record", "ok": True, "message": "three"},
    ]
    assert list(complaints({"wheels": [{"findings": findings}]})) == ["tags: one", "tags: two"]


def test_a_sentence_without_a_fact_and_a_fact_without_a_sentence_are_told(monkeypatch):
    wheel = RealWheel(pin=PIN, published="2026-01-01", holds="h", facts=(FACT,))
    monkeypatch.setattr(real_page, "read_real_wheels", lambda: type(KNOWN)(read="", tools=(), wheels=(wheel,)))
    figures = {f"{PIN.filename}/check": {"complaints": ["abi3: wrong"]}}
    monkeypatch.setattr(real_page, "_figures", lambda: {"figures": figures})
    assert real_page.disagreements() == [f"not known: {PIN.filename}: abi3: wrong", f"not found: {PIN.filename}: f"]
    figures[f"{PIN.filename}/check"]["complaints"] = ["tags: linux"]
    assert real_page.disagreements() == []


def test_the_page_is_current():
    shown = (ROOT / "docs" / "reference" / "real-wheels.md").read_text()
    assert shown == real_page.page(json.loads(FIGURES.read_text())["real"]), "run: bench/real_wheels report"
