"""Upstream's cards are filled in, in the worker."""

import pytest
from jinja2 import Environment

from wheelsmith.plan.recipe import card
from wheelsmith.plan.recipe.build_toml import parse_build_toml
from wheelsmith.plan.recipe.card import render_card
from wheelsmith.worker import WorkerLimits

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
{% if license %}license: {{ license }}
{% endif %}This is {{ repo_id }}, {{ version }}.
{% for each in (functions or []) + (layers or []) %}
- `{{ each }}`
{% endfor %}
{% if has_benchmark %}Fast.{% endif %}{% if not upstream %}none{% endif %}{# a note #}{% raw %}{{ kept }}{% endraw %}
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
    return render_card(template, SPEC, files.keys(), lambda path: files[path].encode())


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
        "{{ ''.__class__.__mro__ }}",
        "{% include '/etc/passwd' %}",
        "{% for a in range(99999) %}{{ 'x' * 99999 }}{% endfor %}",
    ],
)
def test_a_template_that_fails_or_grows_gives_none(template, monkeypatch):
    monkeypatch.setattr(card, "_LIMITS", WorkerLimits(memory=2**29, cpu_seconds=2, seconds=30))
    assert rendered(template) is None
