"""How far a fetch is, from what git says of it to people."""

from __future__ import annotations

import re

from wheelsmith.base.units import parse_size
from wheelsmith.model import Listener, Transfer

# What a server says begins with its name: remote.
_RECEIVED = re.compile(rb"Receiving objects: [^,]{0,60}, ([1-9][0-9]{0,8}(?:\.[0-9]{1,9})? [KMG]iB)")
_LINE_END = re.compile(rb"[\r\n]")
_LONGEST_LINE = 200  # bytes of what is kept of a line that comes in pieces


class Progress:
    """Tells a listener of what arrives.

    :param name: what people are told that it is.
    """

    def __init__(self, name: str, listen: Listener) -> None:
        self._name = name
        self._listen = listen
        self._left = b""
        self._done = 0

    def hear(self, words: bytes) -> None:
        """Take what git said next."""
        *lines, left = _LINE_END.split(self._left + words)
        self._left = left[:_LONGEST_LINE]
        for found in filter(None, map(_RECEIVED.match, lines)):
            done = parse_size(found[1].decode())
            if done > self._done:
                self._done = done
                self._listen(Transfer(name=self._name, done=done, total=0))

    def end(self) -> None:
        """Tell that all of it is here, where it was worth a word."""
        if self._done:
            self._listen(Transfer(name=self._name, done=self._done, total=self._done))
