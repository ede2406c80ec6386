"""An environment for cells for the CPU, made from one whose torch is a CUDA build."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from wheelsmith.base.errors import ToolchainError
from wheelsmith.frameworks.torch_without_cuda import AS_WITHOUT_CUDA, ONLY_WITH_CUDA

_WITHOUT_CUDA = re.compile(r"^cuda\b.*= None$", re.MULTILINE)


def lay_out_without_cuda(whole: Path, folder: Path) -> None:
    """Fill ``folder`` with what is in ``whole``, less what of torch speaks of CUDA; a file that stays is not copied.

    :raises ToolchainError: the torch in it is not one that this is known of.
    """

    def lay(source: str, target: str) -> None:
        name = os.path.relpath(source, whole)
        if change := AS_WITHOUT_CUDA.get(name):
            Path(target).write_text(change(Path(source).read_text(encoding="utf-8")), encoding="utf-8")
        elif name not in ONLY_WITH_CUDA:
            _link(source, target)

    shutil.copytree(whole, folder, symlinks=True, copy_function=lay, dirs_exist_ok=True)
    version = folder / "torch" / "version.py"
    if not (version.is_file() and _WITHOUT_CUDA.search(version.read_text(encoding="utf-8"))):
        raise ToolchainError(
            "the torch that pip finds is a CUDA build that no environment for the CPU can be made from",
            remedy="give pip an index that has torch for the CPU, such as https://download.pytorch.org/whl/cpu",
        )


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # not every file system has second names
        shutil.copy2(source, target, follow_symlinks=False)
