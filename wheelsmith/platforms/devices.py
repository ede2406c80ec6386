"""What runs a platform's code: GPUs, and the driver in front of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from wheelsmith.base.json_dataclass import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu(Record):
    """One GPU; its capability is ``9.0``."""

    name: str
    capability: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver(Record):
    """A driver that is installed.

    :param version: the newest toolkit that it supports, e.g. ``13.0``.
    """

    version: str
    gpus: tuple[Gpu, ...]


class Devices(ABC):
    """The GPUs of one platform and their drivers.

    :cvar beside: when a wheel for one toolkit runs on a framework built with another, as people say it.
    """

    beside: ClassVar[str]

    @abstractmethod
    def driver(self) -> Driver | None:
        """Return what this machine has; None where it has none."""

    @abstractmethod
    def best_code(self, codes: Sequence[str], gpu: str) -> str | None:
        """Return which of a wheel's code a GPU runs, as ``8.0`` or ``9.0+PTX``; None when none of it."""

    @abstractmethod
    def is_foreign(self, code: str, gpu: str) -> bool:
        """Say whether a driver must compile this code for a GPU before it runs."""

    @abstractmethod
    def why_refused(self, version: str, driver: str) -> str | None:
        """Say why a driver runs nothing that a toolkit made, in a sentence that begins with *it*; None where it does.

        :param driver: the newest toolkit that it supports.
        """

    @abstractmethod
    def why_not_compiled(self, version: str, driver: str, gpus: Sequence[str]) -> str | None:
        """Say why a driver cannot compile what a toolkit left to it, as above.

        :param gpus: the capabilities that it would be for.
        """

    @abstractmethod
    def runs_beside(self, made: str, built: str) -> bool:
        """Say whether what one toolkit made runs in a framework that was built with another."""

    @abstractmethod
    def distance(self, version: str, asked: str) -> tuple[int, ...]:
        """Order toolkits by how much else must change where another one was asked for; the first number is 0 to 2."""
