"""A worker without a process: operations run here, which is quicker, and can be watched."""

import os
import tempfile
from importlib import import_module
from pathlib import Path
from threading import RLock

from wheelsmith.base.beneath import remove_tree

_ONE_AT_A_TIME = RLock()  # a process has one current folder


class InProcessWorker:
    """Performs operations as a worker does, but for its limits."""

    def __init__(self, limits=None, *, beside=None):
        self._beside = beside

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(dir=self._beside)).resolve()
        return self

    def __exit__(self, *error):
        remove_tree(self.folder)

    def call(self, operation, request, *, subject="", size=0):
        module, _, name = operation.partition(":")
        with _ONE_AT_A_TIME:
            before = Path.cwd()
            os.chdir(self.folder)
            try:
                return getattr(import_module(module), name)(request)
            finally:
                os.chdir(before)
