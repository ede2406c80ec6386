"""For who installs: look at the machine, choose the wheel, give the command."""

from wheelsmith.pick.decide import Asked, Decision, decide
from wheelsmith.pick.machine import Gpu, Machine, look
from wheelsmith.pick.perform import for_python, perform
from wheelsmith.pick.source import Found, find_catalogue

__all__ = [
    "Asked",
    "Decision",
    "Found",
    "Gpu",
    "Machine",
    "decide",
    "find_catalogue",
    "for_python",
    "look",
    "perform",
]
