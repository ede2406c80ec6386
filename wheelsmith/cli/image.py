"""The command ``wheelsmith image``."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wheelsmith.base.errors import EngineError
from wheelsmith.base.files import default_cache
from wheelsmith.base.suggest import did_you_mean
from wheelsmith.base.units import show_duration, show_size
from wheelsmith.cli.app import SuggestingGroup
from wheelsmith.cli.options import json_option
from wheelsmith.model.build_host import AUTO, IMAGE_ENGINES

if TYPE_CHECKING:
    from wheelsmith.engine import ContainerEngine
    from wheelsmith.engine.images import Image

_ENGINES = click.Choice([AUTO, *IMAGE_ENGINES])
_engine_option = click.option(
    "--engine",
    type=_ENGINES,
    default="auto",
    show_default=True,
    help="Container engine; auto uses the first available.",
)


@click.group("image", cls=SuggestingGroup)
def command() -> None:
    """Build, list and remove container images."""


@command.command("build")
@click.argument("recipe", required=False)
@click.option("--name", metavar="NAME", help="Name of the image in matrix.yaml.  [default: the recipe's name]")
@click.option("--base", metavar="REFERENCE", help="Base image by digest: NAME@sha256:….")
@click.option("--package", "packages", multiple=True, metavar="NAME", help="Additional package. Repeatable.")
@_engine_option
def build(recipe: str | None, name: str | None, base: str | None, packages: tuple[str, ...], engine: str) -> None:
    """Build an image from a recipe, or list the recipes."""
    from wheelsmith.engine.images import build_image, recipes

    known = recipes()
    if recipe is None:
        for item in known.values():
            click.echo(f"{item.name:16} {item.summary}")
        return
    if recipe not in known:
        raise click.BadParameter(f"there is no recipe {recipe}; {did_you_mean(recipe, known)}")
    start = time.monotonic()
    image = build_image(
        _engine(engine),
        known[recipe],
        name=name or recipe,
        base=base,
        packages=packages,
        on_line=lambda line: click.echo(line, err=True),
    )
    click.echo(f"{image.name} {image.digest} {show_size(image.size)} in {show_duration(time.monotonic() - start)}")


@command.command("list")
@_engine_option
@json_option()
def list_(engine: str, *, as_json: bool) -> None:
    """List the images that wheelsmith built."""
    from wheelsmith.engine.images import list_images

    images = list_images(_engine(engine))
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "images": [image.to_json() for image in images]}, indent=1))
        return
    for image in images:
        _show(image, "" if image.current else "outdated: its recipe has changed; build it again")


@command.command("prune")
@click.option("--all", "everything", is_flag=True, help="Remove all images that wheelsmith built.")
@_engine_option
def prune(engine: str, *, everything: bool) -> None:
    """Remove images that were replaced or are outdated."""
    from wheelsmith.engine.images import prune_images

    for image in prune_images(_engine(engine), everything=everything):
        _show(image, "removed")


def _show(image: Image, note: str) -> None:
    digest = image.digest.removeprefix("sha256:")[:12]
    click.echo(f"{image.name or '-':20} {image.recipe:16} {digest} {show_size(image.size):>9}  {note}".rstrip())


def _engine(name: str) -> ContainerEngine:
    from wheelsmith.engine import ContainerEngine, Readiness, engines

    refusals = []
    for engine in engines(Path(default_cache())).values():
        if not isinstance(engine, ContainerEngine) or name not in {"auto", engine.name}:
            continue
        probe = engine.probe()
        if probe.readiness is Readiness.READY:
            return engine
        detail = f"engine {engine.name} is {probe.readiness.value}: {probe.detail}"
        refusals.append(EngineError(detail, remedy=probe.remedy))
    raise refusals[0]
