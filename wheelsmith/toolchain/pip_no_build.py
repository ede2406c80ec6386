"""pip that runs nothing of what it fetches, as a program: ``python -P pip_no_build.py ARGUMENT...``.

``--only-binary :all:`` holds for what an index offers. A wheel may require a project at an address, and pip then runs
the setup.py that lies there, or git, to learn what that is called.
"""

from __future__ import annotations

import os
import runpy
import sys

# Others may be started: programs that know an index's passwords.
_FETCHERS = ("git", "hg", "svn", "bzr")
_INTERPRETERS = ("python", "pypy")  # how their names begin


def refuse(event: str, arguments: tuple[object, ...]) -> None:
    """Let nothing be started that would build, or fetch from wherever a package says.

    :raises PermissionError: that was asked for.
    """
    if event != "subprocess.Popen":
        return
    program = os.fsdecode(arguments[0])  # type: ignore[arg-type]  # text, bytes or a path, as the event is documented
    name = os.path.basename(program)  # noqa: PTH119  # of whatever sort it is
    if program == sys.executable or name.startswith(_INTERPRETERS) or name in _FETCHERS:
        raise PermissionError(
            "something requires a project at an address, or in another form than wheels: its code would run here"
        )


if __name__ == "__main__":
    sys.addaudithook(refuse)
    runpy.run_module("pip", run_name="__main__", alter_sys=True)
