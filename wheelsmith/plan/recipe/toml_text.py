"""The TOML of somebody whom nobody trusts, read within bounds."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from wheelsmith.base.errors import Place, WheelsmithError

LONGEST = 1 << 20  # characters; the longest of kernels-community, aiter-flash-attn-ck, has half of it
_MOST_DOTS = 500  # in a line
# Of a key with dots the parser takes each part for itself, each time with all that stand before it in key and header: a
# million of these are 0.1 seconds.
_MOST_NAMES = 20_000_000
_POSITION = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


def load_toml(text: str, file: str, mistake: type[WheelsmithError]) -> dict[str, Any]:
    """Return what a file says.

    :param mistake: what is raised where it is not TOML, or more than anybody writes.
    """
    if len(text) > LONGEST:
        raise mistake(f"longer than {LONGEST >> 10} KiB", where=Place(file=file))
    dots = [line.count(".") for line in text.split("\n")]  # TOML knows no other end of a line
    most = max(dots)
    if most > _MOST_DOTS:
        where = Place(file=file, line=dots.index(most) + 1)
        raise mistake(f"a line with more than {_MOST_DOTS} dots", where=where)
    if sum((found + 1) * (found + most + 1) for found in dots) > _MOST_NAMES:
        raise mistake(f"too many keys with up to {most} dots", where=Place(file=file))
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise mistake("nested too deeply", where=Place(file=file)) from None
    except ValueError as error:  # also numbers of more digits than Python reads
        at = _POSITION.fullmatch(str(error))
        where = Place(file=file, line=int(at[2]), column=int(at[3])) if at else Place(file=file)
        raise mistake(f"not TOML: {at[1] if at else error}", where=where) from None
