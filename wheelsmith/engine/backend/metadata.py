"""Print a project's name and version as its build system knows them, without torch.

This program runs inside containers: ``metadata.py SOURCE``. It needs the package build.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from email.parser import BytesHeaderParser
from pathlib import Path

from build import BuildBackendException, ProjectBuilder

MARK = "wheelsmith-metadata: "


def print_metadata(source: str) -> None:
    """Print a line with MARK and the name and version in JSON form, unless the build system makes no metadata."""
    with tempfile.TemporaryDirectory() as modules, tempfile.TemporaryDirectory() as folder:
        shutil.copy(Path(__file__).with_name("torch_stand_in.py"), Path(modules, "torch.py"))
        os.environ["PYTHONPATH"] = os.pathsep.join([modules, os.environ["PYTHONPATH"]])
        if info := ProjectBuilder(source, python_executable=sys.executable).prepare("wheel", folder):
            found = BytesHeaderParser().parsebytes(Path(info, "METADATA").read_bytes())
            # Output of the build system may lack the end of its last line.
            sys.stdout.write(f"\n{MARK}{json.dumps([str(found['Name']), str(found['Version'])])}\n")


if __name__ == "__main__":
    try:
        print_metadata(sys.argv[1])
    except BuildBackendException:
        sys.exit(1)  # the build system has printed its error
