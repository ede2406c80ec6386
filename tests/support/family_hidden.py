"""What hides behind something else: under another's name, in another case.

The loader of glibc 2.36 was asked about sonames; pip and CPython about programs.
"""

from __future__ import annotations

from collections.abc import Callable

from family_beside import _file, _programs
from forge import Wheel, legal, lie
from forge_elf import Library, Symbol

Change = Callable[[Wheel], object]


def _lie(judges: str, name: str, says: str, *changes: Change, **how: object) -> None:
    lie(judges, says, family="hidden", name=name, **how)(_all(changes))


def _legal(name: str, says: str, *changes: Change, **how: object) -> None:
    legal(says, family="hidden", name=name, **how)(_all(changes))


def _all(changes: tuple[Change, ...]) -> Change:
    def change(wheel: Wheel) -> None:
        for one in changes:
            one(wheel)

    return change


# --- Tags that no installer has -----------------------------------------------------------------------------

for _platform in ("manylinux_02_28", "manylinux_2_028", "musllinux_1_02", "musllinux_01_2"):
    _lie(
        "tags",
        f"platform {_platform}",
        "tags are compared letter by letter",
        lambda w, name=_platform: w.tag(platform=f"{name}_{w.arch}"),
    )

# --- Under another's name -----------------------------------------------------------------------------------

_HELP = "libhelp-0123abcd.so.1"


def _pretender(wheel: Wheel, *exports: str, at: int) -> None:
    """Let the module need a library whose DT_SONAME is another one's file name."""
    found = [Symbol(name=name) for name in exports]
    own = Library(arch=wheel.arch, soname=_HELP, needed=["libc.so.6"], exports=found)
    wheel.files["forged.libs/libfirst.so"] = own
    wheel.library.needed.insert(at, "libfirst.so")


_lie(
    "symbols libraries",
    "soname of a library that is needed later",
    "the loader has a library of that name, and opens no other one: `undefined symbol: help_me`",
    lambda w: _pretender(w, "other", at=0),
    base="bundled",
)
_legal(
    "soname of a library with the same symbols",
    "either will do",
    lambda w: _pretender(w, "help_me", at=0),
    base="bundled",
)
_legal(
    "soname of a library that was needed before", "it is there", lambda w: _pretender(w, "other", at=1), base="bundled"
)

# --- Files and programs -------------------------------------------------------------------------------------

for _path in (
    "_virtualenv.py",
    "_virtualenv/__init__.py",
    "forged-1.0.data/purelib/_virtualenv.py",
    "forged-1.0.data/data/lib/pypy3.11/site-packages/torch/x.py",
    "forged-1.0.data/data/lib/pypy3.11/os.py",
    "forged-1.0.data/data/etc/jupyter/jupyter_config.py",
    "forged-1.0.data/data/etc/jupyter/jupyter_server_config.json",
    "forged-1.0.data/data/etc/ipython/ipython_kernel_config.py",
):
    _lie("foreign", _path, "it runs without being asked for, or instead of another's", _file(_path, b"x = 1\n"))
for _path in (
    "forged/_virtualenv.py",
    "_virtualenvs/__init__.py",
    "forged-1.0.data/data/lib/pypy.txt",
    "forged-1.0.data/data/etc/jupyter/jupyter_server_config.d/forged.json",
    "forged-1.0.data/data/etc/forged/jupyter_config.py",
):
    _legal(_path, "its own", _file(_path, b"{}\n"))


def _files(*paths: str) -> Change:
    return lambda wheel: wheel.files.update(dict.fromkeys(paths, b"x = 1\n"))


for _paths in (
    ("forged/a.py", "forged-1.0.data/purelib/forged/A.py"),
    ("forged/Sub/a.py", "forged/sub/b.py"),
    ("forged/sub/a.py", "forged-1.0.data/platlib/forged/SUB/b.py"),
):
    _lie("foreign", f"any platform, {_paths[1]}", "one place on Windows and macOS", _files(*_paths), base="pure")
    _legal(f"Linux, {_paths[1]}", "two places there", _files(*_paths))
for _text in ("forged = forged.kernel:class", "forged = forged.kernel:C.import", "fo\x1b[2Jrged = forged.kernel:main"):
    _lie(
        "programs",
        f"program {_text!r}",
        "a SyntaxError, or a name that no terminal shows",
        _programs(_text),
        base="pure",
    )
for _text in ("forged = forged.kernel:Class", "forged = forged.kernel:match", "for = forged.kernel:main"):
    _legal(f"program {_text!r}", "no keyword of Python's", _programs(_text), base="pure")
