"""A program that runs pip but never fetched code: ``python -P pip_no_build.py ARGUMENT...``.

``--only-binary :all:`` applies only to files of an index. But a wheel may require a project at a URL. Then pip runs
git, or the setup.py at that URL, to get its metadata.
"""

from __future__ import annotations

import os
import runpy
import sys

# Other programs are allowed, because pip gets passwords of an index from keyring programs.
_FETCHERS = ("git", "hg", "svn", "bzr")
_INTERPRETERS = ("python", "pypy")  # prefixes of their names


def refuse(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse to start a program that builds a package or fetches from a package's own URL. This is an audit hook.

    :raises PermissionError: the program is such a program.
    """
    if event != "subprocess.Popen":
        return
    program = os.fsdecode(arguments[0])  # type: ignore[arg-type]  # text, bytes or a path, as the event is documented
    name = os.path.basename(program)  # noqa: PTH119  # only the name is needed
    if program == sys.executable or name.startswith(_INTERPRETERS) or name in _FETCHERS:
        raise PermissionError(
            "a package requires a project at a URL, or one without a wheel, whose code would run here"
        )


if __name__ == "__main__":
    sys.addaudithook(refuse)
    runpy.run_module("pip", run_name="__main__", alter_sys=True)
