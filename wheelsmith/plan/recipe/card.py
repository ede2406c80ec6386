"""Render a kernel's CARD.md, a Jinja template that ``kernel-builder fill-card`` fills in."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from typing import Any

from wheelsmith.base.errors import SourceError, WorkerError
from wheelsmith.plan.recipe.spec import KernelSpec
from wheelsmith.plan.recipe.static_setup_metadata import parse_code
from wheelsmith.worker import Worker, WorkerLimits

CARD = "CARD.md"
_LIMITS = WorkerLimits(memory=2**30, cpu_seconds=10, seconds=60)
_LONGEST = 200_000  # characters of a card, which becomes the wheel's description


def render_card(template: str, spec: KernelSpec, paths: Collection[str], read: Callable[[str], bytes]) -> str | None:
    """Return the rendered card; None if the template fails or the result is too long.

    :param paths: every file of the kernel.
    :param read: returns the content of a file.
    """
    request = {"template": template, "names": _names(spec, paths, read)}
    try:
        with Worker(_LIMITS) as worker:
            result = worker.call("wheelsmith.plan.recipe.card:render", request, subject=CARD)
    except WorkerError:
        return None
    return result["text"] if len(result["text"]) <= _LONGEST else None


def render(request: dict[str, Any]) -> dict[str, Any]:
    """Render a template. This function runs in the worker."""
    from jinja2.sandbox import SandboxedEnvironment

    jinja = SandboxedEnvironment(
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # it is Markdown
        finalize=lambda value: "" if value is None else value,
    )
    return {"text": jinja.from_string(request["template"]).render(request["names"])}


def _names(spec: KernelSpec, paths: Collection[str], read: Callable[[str], bytes]) -> dict[str, Any]:
    """Return the variables of upstream's templates, as in kernel-builder/src/card.rs."""
    package = spec.root

    def tree(*candidates: str) -> list[ast.stmt]:
        """Return the statements of the first file that exists; empty if it cannot be parsed."""
        try:
            parsed = next((parse_code(read(path)) for path in candidates if path in paths), None)
        except SourceError:
            parsed = None
        return parsed.body if parsed else []

    exported = tuple(_exported(tree(f"{package}/__init__.py")))
    layers = tree(f"{package}/layers/__init__.py", f"{package}/layers.py") if "layers" in exported else []
    return {
        "repo_id": spec.repo_id or spec.name,
        "version": spec.version,
        "functions": [name for name in exported if name != "layers"] or None,
        "layers": [node.name for node in layers if isinstance(node, ast.ClassDef)] or None,
        "has_benchmark": "benchmarks/benchmark.py" in paths,
        "upstream": spec.upstream,
        "source": spec.source,
        "license": spec.license.lower() if spec.license else None,
    }


def _exported(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names in a literal ``__all__``."""
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=items) | ast.Tuple(elts=items)):
                pass
            case ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.List(elts=items) | ast.Tuple(elts=items)):
                pass
            case _:
                continue
        yield from (item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str))
