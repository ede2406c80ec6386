"""METADATA and WHEEL: files of headers."""

from __future__ import annotations

from email.message import Message
from email.parser import Parser
from email.policy import compat32

LONGEST_TEXT = 8 * 2**20  # bytes of METADATA or variant.json; some METADATA has a README with pictures inside


def read_headers(data: bytes) -> Message[str, str]:
    """Read the headers at the beginning of a file. What cannot be read is among ``defects``."""
    return Parser(policy=compat32).parsestr(data.decode("utf-8", "replace"), headersonly=True)
