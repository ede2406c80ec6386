"""The TOML of somebody whom nobody trusts, read within bounds."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from wheelsmith.base.errors import Place, WheelsmithError

LONGEST = 1 << 20  # characters; the longest of kernels-community, aiter-flash-attn-ck, has half of it
_MOST_DOTS = 500  # in a line
# The parser takes a name with dots apart anew for each key below it: a million of these are 0.2 seconds.
_MOST_NAMES = 10_000_000  # lines, times the most dots in one
_POSITION = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


def load_toml(text: str, file: str, mistake: type[WheelsmithError]) -> dict[str, Any]:
    """Return what a file says.

    :param mistake: what is raised where it is not TOML, or more than anybody writes.
    """
    if len(text) > LONGEST:
        raise mistake(f"longer than {LONGEST >> 10} KiB", where=Place(file=file))
    dots = [line.count(".") for line in text.split("\n")]  # TOML knows no other end of a line
    for number, found in enumerate(dots, 1):
        if found > _MOST_DOTS:
            raise mistake(f"a line with more than {_MOST_DOTS} dots", where=Place(file=file, line=number))
        if found * len(dots) > _MOST_NAMES:
            raise mistake(f"{found} dots in a line, of {len(dots)}", where=Place(file=file, line=number))
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise mistake("nested too deeply", where=Place(file=file)) from None
    except ValueError as error:  # also numbers of more digits than Python reads
        at = _POSITION.fullmatch(str(error))
        where = Place(file=file, line=int(at[2]), column=int(at[3])) if at else Place(file=file)
        raise mistake(f"not TOML: {at[1] if at else error}", where=where) from None
