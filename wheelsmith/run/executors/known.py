"""The executors that there are: a further one is a module here and a line below."""

from __future__ import annotations

from importlib import import_module

from wheelsmith.base.errors import SettingError
from wheelsmith.run.executors.protocol import Executor

# Its module and its class; who does not ask for one imports nothing of it.
EXECUTORS = {
    "local": ("wheelsmith.run.executors.local", "LocalExecutor"),
}


def open_executor(name: str) -> Executor:
    """Return the executor called ``name``.

    :raises SettingError: there is none.
    """
    if name not in EXECUTORS:
        raise SettingError(f"there is no executor {name!r}", remedy=f"use {' or '.join(EXECUTORS)}")
    module, class_name = EXECUTORS[name]
    made: Executor = getattr(import_module(module), class_name)()
    return made
