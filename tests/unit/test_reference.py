import importlib.util
import re
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).parent.parent.parent
SPEC = importlib.util.spec_from_file_location("generate_reference", ROOT / "scripts" / "generate_reference.py")
generate = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generate)


@pytest.mark.parametrize("name", list(generate.pages()))
def test_generated_pages_are_current(name):
    shown = (ROOT / "docs" / "reference" / name).read_text()
    assert shown == generate.pages()[name], "run: python scripts/generate_reference.py"


def test_every_rule_is_named_once():
    assert len({rule.name for rule in generate.RULES}) == len(generate.RULES)


def test_findings_have_the_names_of_the_rules():
    rules = (ROOT / "wheelsmith" / "wheel" / "rules").glob("*.py")
    found = {name for path in rules for name in re.findall(r'finding\("([a-z0-9-]+)"', path.read_text())}
    assert found <= {rule.name for rule in generate.RULES}


def test_every_option_is_in_the_section_of_its_command():
    sections = dict(part.split("\n", 1) for part in re.split(r"^#+ ", generate.command_page(), flags=re.MULTILINE)[1:])
    for command, place in generate.walk_commands():
        names = {option.opts[0] for option in command.params if isinstance(option, click.Option)}
        shown = set(re.findall(r"(?<![\w-])--?[a-z0-9-]+", sections[place.command_path.partition(" ")[2]]))
        assert names <= shown, place.command_path
