"""What the store has of a run's plans."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from wheelsmith.engine import Engine
from wheelsmith.model import BuildPlan
from wheelsmith.store import Store, StoredWheel


def stored_wheels(plans: Iterable[BuildPlan], cache: Path, engine: Engine) -> dict[str, StoredWheel]:
    """Return by its build digest what each plan made before; each wheel is looked up once.

    :param cache: the folder that the store is in.
    :param engine: what was built in no sandbox is not taken for what one with a sandbox makes.
    """
    store = Store(cache / "store")
    found = {digest: store.find(digest) for digest in dict.fromkeys(plan.build_digest for plan in plans)}
    return {
        digest: stored for digest, stored in found.items() if stored and not (stored.of_machine and engine.isolates)
    }
