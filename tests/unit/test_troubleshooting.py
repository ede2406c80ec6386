"""The page of messages quotes them as the product prints them."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
QUOTED = re.findall(r"^### `(.+)`$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def texts():
    """Return every text in the product's sources, with `…` for each inserted value."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "wheelsmith").rglob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return {with_gaps(node) for node in nodes if isinstance(node, ast.JoinedStr | ast.Constant)}


def with_gaps(node):
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
    return re.sub("…+", "…", text)


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_is_one_that_is_printed(message, texts):
    assert any(message in text for text in texts)


def test_the_other_headings_are_steps():
    others = re.findall(r"^#{2,} ([^`].*)$", PAGE, re.MULTILINE)
    assert others == ["Plan", "Fetch", "Build", "Publish", "Install"]
    assert len(QUOTED) >= 25
