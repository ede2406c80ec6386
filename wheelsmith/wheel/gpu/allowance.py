"""How much of a wheel's GPU code may be unpacked and looked at."""

from __future__ import annotations

from wheelsmith.base.errors import WheelError

_ALWAYS, _ALWAYS_TEXT = 16 << 20, 3 << 20  # bytes
# Compiled code shrinks by 20 at the most: 13 in the published wheels that this was tried on.
_GROWTH, _TEXT_GROWTH = 100, 50
_MOST_ITEMS = 200_000


class UnpackBudget:
    """What all reading of one wheel's GPU code may take together, so that no small file costs much.

    :param size: of the wheel, in bytes.
    """

    def __init__(self, size: int) -> None:
        self._bytes = _ALWAYS + _GROWTH * size
        self._text = _ALWAYS_TEXT + _TEXT_GROWTH * size
        self._items = _MOST_ITEMS

    def take_text(self, size: int) -> None:
        """Take one text of so many bytes out of what is left: it takes longer to read than machine code.

        :raises WheelError: there is not enough left.
        """
        if size > self._text:
            raise WheelError(f"it unpacks to more than {_TEXT_GROWTH} times what the wheel weighs")
        self._text -= size
        self.take(size)

    def take(self, size: int) -> None:
        """Take one piece of code of so many bytes out of what is left.

        :raises WheelError: there is not enough left.
        """
        self._items -= 1
        if size > self._bytes:
            raise WheelError(f"it unpacks to more than {_GROWTH} times what the wheel weighs")
        if self._items < 0:
            raise WheelError(f"the wheel holds more than {_MOST_ITEMS} pieces of GPU code")
        self._bytes -= size
