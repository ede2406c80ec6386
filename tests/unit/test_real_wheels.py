import json
import re
from pathlib import Path

import pytest

from bench import real_page
from bench.real_facts import read_real_wheels
from bench.real_programme import FIGURES
from wheelsmith.model.wheel_name import read_wheel_name

ROOT = Path(__file__).parent.parent.parent
KNOWN = read_real_wheels()


@pytest.mark.parametrize("wheel", KNOWN.wheels, ids=lambda wheel: wheel.pin.filename)
def test_a_pin_is_of_its_file_and_its_facts_can_be_matched(wheel):
    name = read_wheel_name(wheel.pin.filename)
    assert (name.project.replace("_", "-"), str(name.version)) == (wheel.pin.project, wheel.pin.version)
    for fact in wheel.facts:
        assert re.compile(fact.shows)
        assert re.compile(fact.says or "")


def test_the_page_is_current():
    shown = (ROOT / "bench" / "real_wheels.md").read_text()
    assert shown == real_page.page(json.loads(FIGURES.read_text())["real"]), "run: bench/real_wheels report"
