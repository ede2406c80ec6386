"""Source code without its comments, for digests: what is left is compared, and never compiled.

Where a text is not what it seems to be, a comment may be kept or code be taken for one: nothing but a digest depends
on it.
"""

from __future__ import annotations

import re

# A quote after a hexadecimal digit stands between the digits of a number: 1'000.
_C_OPENS = re.compile(
    rb"(?P<comment>//|/\*)|(?:\b(?:u8|[uUL])?R\"(?P<delimiter>[^()\\\s\"]{0,16})\()|\"|(?<![0-9a-fA-F])'"
)
_HASH_OPENS = re.compile(rb"(?P<comment>#)|\"\"\"|'''|\"|'")
# What ends it that opened, or what begins with a backslash and does not.
_STOPS = {
    b"//": re.compile(rb"\\\r?\n|(?=\n)"),
    b"/*": re.compile(rb"\*/"),
    b"#": re.compile(rb"(?=\n)"),
    b'"': re.compile(rb"\\.|[\"\n]", re.DOTALL),
    b"'": re.compile(rb"\\.|['\n]", re.DOTALL),
    b'"""': re.compile(rb"\\.|\"\"\"", re.DOTALL),
    b"'''": re.compile(rb"\\.|'''", re.DOTALL),
}


def without_c_comments(text: bytes) -> bytes:
    """Return the words of a C, C++ or CUDA source, with one space between what was apart."""
    return b" ".join(_cut(text, _C_OPENS).split())


def without_hash_comments(text: bytes) -> bytes:
    """Return the lines of a Python or TOML file that say something, as they are indented."""
    lines = (line.rstrip() for line in _cut(text, _HASH_OPENS).split(b"\n"))
    return b"\n".join(line for line in lines if line)


def _cut(text: bytes, opens: re.Pattern[bytes]) -> bytes:
    """Return a text with a space for each comment."""
    kept, at = list[bytes](), 0
    while match := opens.search(text, at):
        end = _end(text, match)
        kept += (text[at : match.start()], b" " if match["comment"] else text[match.start() : end])
        at = end
    return b"".join((*kept, text[at:]))


def _end(text: bytes, match: re.Match[bytes]) -> int:
    """Return where that ends which opens here; what nothing closes goes on to the text's end."""
    raw = match.groupdict().get("delimiter")
    stops = _STOPS[match[0]] if raw is None else re.compile(re.escape(b")" + raw + b'"'))
    at = match.end()
    while found := stops.search(text, at):
        at = found.end()
        if found[0][:1] != b"\\":
            return at
    return len(text)
