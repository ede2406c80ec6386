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
    translated = _translate(hipify, copy, source, _include_folders(folder, copy, argv))
    original = f"{folder}/{source}"
    words = [translated if word == original else word.replace(folder, str(copy)) for word in argv]
    os.execvp(words[0], words)  # noqa: S606  # the compiler of the plan


def _include_folders(folder: str, copy: Path, argv: list[str]) -> list[str]:
    """Return the kernel's own folders that the compiler searches for headers, relative to the folder."""
    own = (word.removeprefix("-I") for word in argv)
    relative = (word.removeprefix(f"{folder}/") for word in own if word.startswith(f"{folder}/"))
    return [name for name in relative if (copy / name).is_dir()]


def _translate(hipify: str, folder: Path, source: str, includes: list[str]) -> str:
    """Translate a source and the headers that it includes.

    :param includes: folders that are searched for headers. kernel-builder searches none, so that these headers stay
        untranslated.
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
            header_include_dirs=includes,
            includes=[f"{folder}/*"],
            extra_files=[path],
            is_pytorch_extension=True,
            hipify_extra_files_only=True,
            show_detailed=False,
        )
    return found[path].hipified_path or path if path in found else path


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
