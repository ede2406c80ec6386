"""What the store has of a run's plans."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from wheelsmith.model import BuildPlan
from wheelsmith.store import Store, StoredWheel


def stored_wheels(plans: Iterable[BuildPlan], cache: Path) -> dict[str, StoredWheel]:
    """Return by its build digest what each plan made before; each wheel is looked up once.

    :param cache: the folder that the store is in.
    """
    store = Store(cache / "store")
    found = {digest: store.find(digest) for digest in dict.fromkeys(plan.build_digest for plan in plans)}
    return {digest: stored for digest, stored in found.items() if stored}
