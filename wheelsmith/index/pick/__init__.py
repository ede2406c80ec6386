"""For who installs: look at the machine, choose the wheel, give the command."""

from wheelsmith.index.pick.decide import Decision, Overrides, decide
from wheelsmith.index.pick.machine import Machine, look
from wheelsmith.index.pick.run_install import for_python, perform
from wheelsmith.index.pick.signed import verified
from wheelsmith.index.pick.source import Found, find_catalogue

__all__ = [
    "Decision",
    "Found",
    "Machine",
    "Overrides",
    "decide",
    "find_catalogue",
    "for_python",
    "look",
    "perform",
    "verified",
]
