"""What a wheel says of its kernel to people."""

import json

import pytest
from command_line import run_command
from kernels import matrix, pure_kernel

CARD = """---
library_name: kernels
{% if license %}license: {{ license }}
{% endif %}---

This is {{ repo_id }}.
{% for func in functions %}
- `{{ func }}`
{% endfor %}
"""


@pytest.mark.parametrize(
    ("card", "said"),
    [
        (CARD, "This is pure.\n- `square`\n"),
        ("{% for a in range(10 ** 9) %}x{% endfor %}", "# pure\n"),
        ("No template at all.\n", "No template at all.\n"),
    ],
)
def test_a_card_is_filled_in(card, said, monkeypatch, capsys, tmp_path):
    pure_kernel(tmp_path / "k", **{"CARD.md": card, "torch-ext/pure/__init__.py": '__all__ = ["square"]\n'})
    (tmp_path / "k" / "README.md").unlink()
    matrix(tmp_path, "k")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    answer = run_command(monkeypatch, capsys, "plan", "--engine", "local", "--json")
    (plan,) = json.loads(answer.out)["plans"]
    assert plan["wheel"]["metadata"].partition("\n\n")[2] == said


def test_a_readme_is_no_template(monkeypatch, capsys, tmp_path):
    pure_kernel(tmp_path / "k", **{"CARD.md": CARD, "README.md": "Write `{{ x }}`.\n"})
    matrix(tmp_path, "k")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    (plan,) = json.loads(run_command(monkeypatch, capsys, "plan", "--engine", "local", "--json").out)["plans"]
    assert plan["wheel"]["metadata"].endswith("\n\nWrite `{{ x }}`.\n")
