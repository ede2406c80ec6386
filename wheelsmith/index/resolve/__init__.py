"""Which wheel is right for a target, and why there is none."""

from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.install_commands import (
    Installer,
    Presence,
    Template,
    by_address,
    clean_base,
    fill,
    slots_of,
    template_for,
)
from wheelsmith.index.resolve.target import Choice, KnownWheel, Nearest, Refusal, Target

__all__ = [
    "Choice",
    "Chooser",
    "Installer",
    "KnownWheel",
    "Nearest",
    "Presence",
    "Refusal",
    "Target",
    "Template",
    "by_address",
    "clean_base",
    "fill",
    "slots_of",
    "template_for",
]
