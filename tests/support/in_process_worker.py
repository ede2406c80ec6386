"""A worker without a process: operations run here, which is quicker, and can be watched."""

import ctypes
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from importlib import import_module
from pathlib import Path

from wheelsmith.base.beneath import remove_tree

_CLONE_FS = 0x200  # of unshare(2): the current folder, among others


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
        # The thread has a current folder of its own, so that relative paths of other threads stay right.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(copy_context().run, _perform, self.folder, operation, request).result()


def _perform(folder, operation, request):
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_FS):
        raise OSError(ctypes.get_errno(), "a thread cannot have its own current folder")
    os.chdir(folder)
    module, _, name = operation.partition(":")
    return getattr(import_module(module), name)(request)
