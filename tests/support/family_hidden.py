"""What hides behind another's name. The loader of glibc 2.36 was asked about sonames."""

from __future__ import annotations

from collections.abc import Callable

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
