"""Translate a CUDA source to HIP with torch's hipify, and compile it.

This program runs in the sandbox: ``translate.py HIPIFY FOLDER SOURCE COMPILER [ARGUMENT…]``. HIPIFY is the folder with
torch's hipify, and SOURCE is relative to FOLDER. The compiler reads a translated copy of the folder.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from pathlib import Path

_COPIES = "build/hip"


def main(hipify: str, folder: str, source: str, argv: list[str]) -> None:
    """Replace this process by the compiler."""
    copy = Path(_COPIES, source).absolute()
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    translated = _translate(hipify, copy, source)
    original = f"{folder}/{source}"
    words = [translated if word == original else word.replace(folder, str(copy)) for word in argv]
    os.execvp(words[0], words)  # noqa: S606  # the compiler of the plan


def _translate(hipify: str, folder: Path, source: str) -> str:
    """Translate a source and the headers that it includes, in the way of kernel-builder.

    :returns: the path of the translated source.
    """
    sys.path.insert(0, hipify)
    from torch.utils.hipify import hipify_python

    path = str(folder / source)
    # It prints its progress.
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(printed):
        found = hipify_python.hipify(
            project_directory=str(folder),
            output_directory=str(folder),
            header_include_dirs=[],
            includes=[f"{folder}/*"],
            extra_files=[path],
            is_pytorch_extension=True,
            hipify_extra_files_only=True,
            show_detailed=False,
        )
    return found[path].hipified_path or path if path in found else path


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
