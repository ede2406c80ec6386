"""The TOML of somebody whom nobody trusts, read within bounds."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from wheelsmith.base.errors import Place, WheelsmithError

LONGEST = 256 << 10  # characters; the longest that kernels and projects have are a tenth of it
# The parser takes a name with dots apart anew for each key below it.
_MOST_DOTS = 500  # in a line
_POSITION = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


def load_toml(text: str, file: str, mistake: type[WheelsmithError]) -> dict[str, Any]:
    """Return what a file says.

    :param mistake: what is raised where it is not TOML, or more than anybody writes.
    """
    if len(text) > LONGEST:
        raise mistake(f"longer than {LONGEST >> 10} KiB", where=Place(file=file))
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > _MOST_DOTS:
            raise mistake(f"a line with more than {_MOST_DOTS} dots", where=Place(file=file, line=number))
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise mistake("nested too deeply", where=Place(file=file)) from None
    except ValueError as error:  # also numbers of more digits than Python reads
        found = _POSITION.fullmatch(str(error))
        where = Place(file=file, line=int(found[2]), column=int(found[3])) if found else Place(file=file)
        raise mistake(f"not TOML: {found[1] if found else error}", where=where) from None
