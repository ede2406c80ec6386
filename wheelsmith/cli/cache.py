"""The command ``wheelsmith cache``."""

from __future__ import annotations

import json
import math
import time

import click

from wheelsmith.base.errors import ExitCode
from wheelsmith.base.files import default_cache
from wheelsmith.base.units import counted, show_moment
from wheelsmith.cli.app import SuggestingGroup
from wheelsmith.cli.options import DURATION, SIZE, json_option
from wheelsmith.engine import visible
from wheelsmith.model import ignore
from wheelsmith.run.prepare import cache_limit
from wheelsmith.source.cached import changed_sources
from wheelsmith.store import (
    Bounds,
    CacheInventory,
    Kind,
    is_in_use,
    plan_prune,
    prefix_kind,
    prune,
    take_inventory,
    verify_objects,
    verify_wheels,
)
from wheelsmith.toolchain import Toolchains


@click.group("cache", cls=SuggestingGroup)
def command() -> None:
    """Show, verify and prune the cache."""


@command.command("info")
@json_option("Print the result as JSON, with sizes in bytes.")
def info(*, as_json: bool) -> None:
    """Show the content and size of the cache."""
    from wheelsmith.base.units import show_size
    from wheelsmith.report import inventory_table, make_console

    cache, limit = default_cache(), cache_limit()
    inventory, busy = take_inventory(cache), is_in_use(cache)
    if as_json:
        kinds = {kind.value: _kind_json(inventory.of(kind)) for kind in Kind}
        data = {"path": str(cache), "in_use": busy, "limit": limit, "size": inventory.size, "kinds": kinds}
        click.echo(json.dumps({"schema_version": 1, **data}, indent=1))
        return
    console = make_console(stderr=False)
    console.print(str(cache))
    console.print(inventory_table(inventory, time.time()))
    limit_text = (
        f" of {show_size(limit)} (WHEELSMITH_CACHE_SIZE)" if limit else ", no limit (WHEELSMITH_CACHE_SIZE is not set)"
    )
    console.print(f"{show_size(inventory.size)}{limit_text}")
    if busy:
        console.print("a run is in progress; it may need files that look like leftovers")


@command.command("prune")
@click.option("--max-size", type=SIZE, help="Size to keep, such as 20GiB.  [default: WHEELSMITH_CACHE_SIZE]")
@click.option("--older-than", type=DURATION, help="Remove items that were last used longer ago than this, such as 30d.")
@click.option("--all", "everything", is_flag=True, help="Remove everything that can be fetched or built again.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed.")
def prune_(*, max_size: int | None, older_than: float | None, everything: bool, dry_run: bool) -> None:
    """Remove the least recently used items and leftovers of killed runs."""
    from wheelsmith.base.units import show_size
    from wheelsmith.report import make_console, pruning_table

    if everything and (max_size or older_than):
        raise click.UsageError("--all cannot be used with --max-size or --older-than")
    cache, now = default_cache(), time.time()
    since = math.inf if everything else now - older_than if older_than else -math.inf
    bounds = Bounds(size=max_size or cache_limit(), since=since)
    pruning = plan_prune(cache, bounds) if dry_run else prune(cache, bounds)
    console = make_console(stderr=False)
    if pruning.removed.items:
        console.print(pruning_table(pruning, now))
    verb = "would be removed" if dry_run else "removed"
    console.print(f"{show_size(pruning.freed)} {verb}, {show_size(pruning.kept.size)} kept")


@command.command("verify")
@json_option()
@click.pass_context
def verify(ctx: click.Context, *, as_json: bool) -> None:
    """Compare every byte of the cache with the recorded hashes.

    The exit code is 4 if something differs. The next run that needs a changed item makes it again.
    """
    cache = default_cache()
    made = Toolchains(cache, ignore).find_changes()
    found = {
        **{
            kind.value: {name: why for name, why in made.items() if prefix_kind(name) is kind}
            for kind in (Kind.TOOLCHAINS, Kind.ENVIRONMENTS)
        },
        Kind.WHEELS.value: verify_wheels(cache),
        Kind.OBJECTS.value: verify_objects(cache),
        Kind.SOURCES.value: changed_sources(cache),
    }
    changed = {name: why for items in found.values() for name, why in items.items() if why}
    if as_json:
        checked = {kind: len(items) for kind, items in found.items()}
        click.echo(
            json.dumps({"schema_version": 1, "path": str(cache), "checked": checked, "changed": changed}, indent=1)
        )
    else:
        for name, why in changed.items():
            click.echo(f"✗ {name}: {visible(why)}")
        counts = ", ".join(counted(len(items), kind.removesuffix("s")) for kind, items in found.items())
        click.echo(f"{counts}: {len(changed) or 'none'} changed")
    ctx.exit(ExitCode.ENVIRONMENT if changed else ExitCode.OK)


def _kind_json(inventory: CacheInventory) -> dict[str, object]:
    oldest = min((item.used for item in inventory.items), default=None)
    when = None if oldest is None else show_moment(oldest)
    return {"things": len(inventory.items), "size": inventory.size, "oldest_use": when}
