"""What PTX is: a module of text, for the driver to compile (docs.nvidia.com, "Parallel Thread Execution ISA")."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.gpu.code import capability

# Two directives begin every module, in this order; a target may have modes after it.
HEAD = re.compile(rb"\.version\s*(\d{1,2}\.\d{1,2})\s*\.target\s*sm_(\d{2,4})([af]?)\b(?:\s*,\s*\w+)*")
# The same where a string of another language holds it: JSON has the ends of lines as two letters.
QUOTED_HEAD = re.compile(
    rb"\.version(?:\s|\\[nrt])*+(\d{1,2}\.\d{1,2})(?:\s|\\[nrt])*+"
    rb"\.target(?:\s|\\[nrt])*+sm_(\d{2,4})([af]?)(?![a-z\d])"
)

_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r")) + b"\x7f"
# Both may hold what looks like code.
# One that is not closed goes on to the end, so that no other beginning is tried behind it.
_COMMENT_OR_STRING = re.compile(rb'//[^\n]*|/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:(?P<closed>\*/)|\Z)|"[^"\n]*"')
_HEADING = re.compile(rb"\.(?:version|target)\b")
_OTHER_POINTERS = re.compile(rb"\.address_size\s*(?!64\b)\d")
_INNERMOST = re.compile(rb"\{[^{}]*+\}")
_VECTOR = re.compile(rb"\{[^{};]*+\}")
# What stands between ";", "{" and "}": labels, a guard, and then a directive or an instruction with its operands.
_PIECE = rb"\s*+(?:[\w$%]++\s*+:\s*+)*+(?:@!?+[\w$%]++\s++)?+(?:\.?[a-z_][^;{}`\\]*+)?+"
_BODY = re.compile(rb"(?:" + _PIECE + rb"[;{}])*+" + _PIECE)
_MODULE = re.compile(rb"(?:\s*+(?:[\w$%]++\s*+:\s*+)?+(?:\.[a-z_][^;`\\]*+)?+;)*+\s*+(?:\.[a-z_][^;`\\]*+)?+")
_END = re.compile(rb"\b(?:ret|exit|trap|bra)\b")
_DEEPEST = 12  # blocks within blocks; nvcc writes four
_SHORTEST = 3  # bytes
_MOST_PADDING = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Ptx:
    """What PTX says of itself.

    :param version: of its language, e.g. ``9.0``.
    :param capability: that it was written for, e.g. ``9.0a``.
    """

    version: str
    capability: str


def read_ptx(data: bytes) -> Ptx:
    """Read a whole module of PTX.

    :raises WheelError: it is not PTX from its first directive to its end.
    """
    text = data.rstrip(b"\0")
    if len(data) - len(text) > _MOST_PADDING:
        raise WheelError("it goes on after its end")
    if len(text.translate(None, _CONTROL)) != len(text):
        raise WheelError("it is PTX by its label, and no text")
    if any(found[0].startswith(b"/*") and not found["closed"] for found in _COMMENT_OR_STRING.finditer(text)):
        raise WheelError("its PTX has a comment without an end")
    text = _COMMENT_OR_STRING.sub(b" ", text)
    head = HEAD.match(text, len(text) - len(text.lstrip()))
    if head is None:
        raise WheelError("it does not begin as PTX does, with .version and .target")
    rest = text[head.end() :]
    if _HEADING.search(rest):
        raise WheelError("its PTX has two headings")
    if _OTHER_POINTERS.search(rest):
        raise WheelError("its PTX is for pointers that are not of 64 bits")
    _check_module(rest)
    return Ptx(version=head[1].decode(), capability=capability(int(head[2]), head[3].decode()))


def _check_module(text: bytes) -> None:
    opened, closed = text.count(b"{"), text.count(b"}")
    if opened != closed:
        raise WheelError("its PTX ends within a block")
    # Each statement and block takes time; the shortest that there are, "ret;" and "{}", have more than this on average.
    if text.count(b";") + opened + closed > len(text) // _SHORTEST + 1:
        raise WheelError("its PTX holds what is neither directive nor instruction")
    text = _VECTOR.sub(b" 0 ", text)
    if not _BODY.fullmatch(text):
        raise WheelError("its PTX holds what is neither directive nor instruction")
    if b".entry" in text and not _END.search(text):
        raise WheelError("its PTX has a kernel that does nothing")
    for _ in range(_DEEPEST):
        if b"{" not in text:
            break
        text = _INNERMOST.sub(b";", text)
    if b"{" in text or b"}" in text:
        raise WheelError("its PTX ends within a block")
    if not _MODULE.fullmatch(text):
        raise WheelError("its PTX holds what is no directive of a module")
