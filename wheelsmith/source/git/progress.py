"""How far a fetch is, from what git says of it to people."""

from __future__ import annotations

import re

from wheelsmith.base.units import parse_size
from wheelsmith.model import Listener, Transfer

_RECEIVED = re.compile(rb"Receiving objects: [^\r\n]*?, ([0-9.]+ [KMG]iB)")
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
        self._left = (self._left + words)[-len(words) - _LONGEST_LINE :]
        for found in _RECEIVED.findall(self._left):
            done = parse_size(found.decode())
            if done > self._done:
                self._done = done
                self._listen(Transfer(name=self._name, done=done, total=0))

    def end(self) -> None:
        """Tell that all of it is here, where it was worth a word."""
        if self._done:
            self._listen(Transfer(name=self._name, done=self._done, total=self._done))
