"""Source code without its comments, for digests: what is left is compared, and never compiled.

What stands in quotes stays as it is. Where a text is not what it seems to be, a comment may be kept or code be taken
for one: nothing but a digest depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Tidy = Callable[[bytes], bytes]

# A number may have quotes between its digits, and the name of a header two slashes.
_C_OPENS = re.compile(
    rb"(?P<comment>//|/\*)|(?P<code>(?<![\w.])\d[\w.]*(?:'\w[\w.]*)+|^[ \t]*#[ \t]*include[ \t]*<[^>\n]*>)"
    rb"|(?:\b(?:u8|[uUL])?R\"(?P<delimiter>[^()\\\s]{0,16})\()|\"|'",
    re.MULTILINE,
)
_PYTHON_OPENS = re.compile(rb"(?P<comment>#)|\"\"\"|'''|\"|'")
# What ends it that opened, or what begins with a backslash and does not.
_STOPS = {
    b"//": re.compile(rb"\\[ \t]*\r?\n|(?=[\r\n])"),
    b"/*": re.compile(rb"\*/"),
    b"#": re.compile(rb"(?=[\r\n])"),
    b'"': re.compile(rb"\\.|[\"\n]", re.DOTALL),
    b"'": re.compile(rb"\\.|['\n]", re.DOTALL),
    b'"""': re.compile(rb"\\.|\"\"\"", re.DOTALL),
    b"'''": re.compile(rb"\\.|'''", re.DOTALL),
}
_BLANKS, _LINE_ENDS, _TRAILING = re.compile(rb"[ \t\f\v]+"), re.compile(rb"\s*[\r\n]\s*"), re.compile(rb"\s*[\r\n]")
# Comments and quoted texts that are gone through: what has more was written by a program.
_MOST = 100_000
# Its first two lines may say how a Python file is encoded, PEP 263.
_ENCODED = re.compile(rb"\A(?:[^\r\n]*[\r\n]){0,1}[ \t\f]*#[^\r\n]*coding[=:]")


def without_c_comments(text: bytes) -> bytes | None:
    """Return the code of a C, C++ or CUDA source, with one blank or line end between what was apart.

    None stands for a text that is not gone through to its end.
    """
    return _cut(text, _C_OPENS, _c_code)


def without_python_comments(text: bytes) -> bytes | None:
    """Return the lines of a Python file that say something, as they are indented; None as for C."""
    return None if _ENCODED.match(text) else _cut(text, _PYTHON_OPENS, _python_code)


def _c_code(text: bytes) -> bytes:
    # A line's end counts: it ends a directive.
    return _LINE_ENDS.sub(b"\n", _BLANKS.sub(b" ", text)).strip(b" ")


def _python_code(text: bytes) -> bytes:
    return re.sub(rb"\n+", b"\n", _TRAILING.sub(b"\n", text)).rstrip(b" \t\f")


def _cut(text: bytes, opens: re.Pattern[bytes], tidy: Tidy) -> bytes | None:
    """Return a text with a blank for each comment, tidied where it is not quoted."""
    kept, code, at = list[bytes](), list[bytes](), 0
    for _ in range(_MOST):
        match = opens.search(text, at)
        if match is None:
            return b"".join((*kept, tidy(b"".join((*code, text[at:]))))).strip(b"\n")
        end = _end(text, match)
        code.append(text[at : match.start()])
        if match["comment"]:
            code.append(b" ")
        elif match.groupdict().get("code") is not None:
            code.append(match[0])
        else:
            kept += (tidy(b"".join(code)), text[match.start() : end])
            code = []
        at = end
    return None


def _end(text: bytes, match: re.Match[bytes]) -> int:
    """Return where that ends which opens here; what nothing closes goes on to the text's end."""
    groups = match.groupdict()
    if groups.get("code") is not None:
        return match.end()
    raw = groups.get("delimiter")
    stops = _STOPS[match[0]] if raw is None else re.compile(re.escape(b")" + raw + b'"'))
    at = match.end()
    while found := stops.search(text, at):
        at = found.end()
        if found[0][:1] != b"\\":
            return at
    return len(text)
