"""A look at a live index as pip and uv have it: what hurts them and what fixes it."""

from wheelsmith.index.doctor.fetch import Bounds
from wheelsmith.index.doctor.finding import Diagnosis, Finding, Severity
from wheelsmith.index.doctor.walk import Scope, examine

__all__ = [
    "Bounds",
    "Diagnosis",
    "Finding",
    "Scope",
    "Severity",
    "examine",
]
