"""Upstream's cards: filled in as Jinja would, and nothing more than cards say is evaluated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment

from wheelsmith.plan.recipe import parse_build_toml, render_card

TOML = """\
[general]
name = "my-relu"
version = 2
edition = 5
license = "Apache-2.0"
backends = ["cuda"]
upstream = "https://example.org/relu"

[general.hub]
repo-id = "org/my-relu"

[torch-noarch]
"""
USUAL = """\
---
library_name: kernels
{% if license %}license: {{ license }}
{% endif %}---

This is {{ repo_id }}.
{% if functions %}

{{ functions[0] }} = get_kernel("{{ repo_id }}", version={{ version }}).{{ functions[0] }}
{% for func in functions %}
- `{{ func }}`
{% endfor %}
{% else %}
Function list not available.
{% endif %}
{% if layers %}
{% for layer in layers %}
- `{{ layer }}`
{% endfor %}
{% endif %}
{% if has_benchmark %}Fast.{% elif source %}{{ source }}{% else %}No benchmark.{% endif %}
{% if not upstream %}none{% endif %}{# a note #}{% raw %}{{ kept }}{% endraw %}
"""
PACKAGE = "torch-ext/my_relu"
FILES = {
    f"{PACKAGE}/__init__.py": '__all__ = [\n    "relu",\n    \'layers\',  # too\n    "relu6",\n]\n',
    f"{PACKAGE}/layers.py": "class ReLU(nn.Module):\n    class Inner: pass\n\nclass ReLU6:\n    pass\n",
}
BOTH = {"functions": ["relu", "relu6"], "layers": ["ReLU", "ReLU6"]}
SPEC = parse_build_toml(TOML)


def rendered(template, files=None):
    files = FILES if files is None else files
    return render_card(template, SPEC, files.keys(), files.__getitem__)


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (FILES, BOTH),
        ({}, {}),
        (FILES | {"benchmarks/benchmark.py": ""}, BOTH | {"has_benchmark": True}),
        ({f"{PACKAGE}/__init__.py": "__all__: list[str] = ('f',)\n"}, {"functions": ["f"]}),
    ],
)
def test_a_usual_card_is_what_jinja_makes_of_it(files, named):
    known = {"repo_id": "org/my-relu", "version": 2, "license": "apache-2.0", "upstream": "https://example.org/relu"}
    jinja = Environment(trim_blocks=True, keep_trailing_newline=True)  # markdown, and our own
    made = rendered(USUAL, files)
    assert made == jinja.from_string(USUAL).render({**known, **named})
    assert "{%" not in made


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in functions %}",
        "{{ functions",
        "{{ functions | join }}",
        "{{ ''.__class__ }}",
        "{{ functions[99] }}",
        "{{ repo_id[0] }}",
        "{{ version ** version }}",
        "{{ functions[" + "9" * 5000 + "] }}",
        "{{ lipsum() }}",
        "{% for a in range(1000000000) %}x{% endfor %}",
        "{% for a in repo_id %}x{% endfor %}",
        "{% set a = 1 %}{{ a }}",
        "{% include '/etc/passwd' %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{% if a %}" * 2000 + "{% endif %}" * 2000,
        "x" * 300_000,
    ],
    ids=range(17),
)
def test_what_cards_do_not_say_gives_none(template):
    assert rendered(template) is None


def test_loops_in_loops_are_bounded():
    names = ", ".join(f'"f{n}"' for n in range(1000))
    files = {f"{PACKAGE}/__init__.py": f"__all__ = [{names}]\n"}
    assert rendered("{% for a in functions %}{{ a }}{% endfor %}", files).startswith("f0f1f2")
    for depth in (2, 20):
        loops = "{% for a in functions %}" * depth + "x" + "{% endfor %}" * depth
        assert rendered(loops, files) is None
    assert rendered("{% for a in functions %}" + "x" * 1000 + "{% endfor %}", files) is None


def test_code_is_looked_through_once():
    """What begins like a list and never ends is no reason to look for the end of each beginning, for hours."""
    files = {f"{PACKAGE}/__init__.py": "__all__ = [\n" * 60_000}
    assert rendered("{{ functions }}", files) == ""


@given(st.text(alphabet="{}%#-+ \n()[]0'\"abf|.iforelsndu", max_size=200))
def test_any_text_is_a_card_or_none(template):
    made = rendered(template)
    assert made is None or isinstance(made, str)
