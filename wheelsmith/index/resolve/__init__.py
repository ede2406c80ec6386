"""Which wheel is right for a target, and why there is none."""

from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.commands import Installer, Template, Torch, clean_base, fill, slots_of, template_for
from wheelsmith.index.resolve.target import Choice, Nearest, Refusal, Target, compute_name

__all__ = [
    "Choice",
    "Chooser",
    "Installer",
    "Nearest",
    "Refusal",
    "Target",
    "Template",
    "Torch",
    "clean_base",
    "compute_name",
    "fill",
    "slots_of",
    "template_for",
]
