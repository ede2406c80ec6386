"""Objects that a quick run takes from the one before it, where a test is not about how they are compiled."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from factory import Factory


@contextmanager
def objects_kept(config: pytest.Config, name: str, factory: Factory) -> Iterator[None]:
    """Give a factory what an earlier quick run compiled, and keep for later ones what it has at the end.

    A key holds compilers, options and all that they read, so what was changed is compiled. That what is found is what
    would be compiled, test_reuse.py shows from nothing in each run.
    """
    if config.getoption("all"):
        yield
        return
    kept, objects = Path(config.cache.mkdir(name)) / "objects", factory.cache / "objects"
    if kept.is_dir():
        shutil.copytree(kept, objects)
    yield
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(objects, kept)
