"""A look at a live index as pip and uv have it: what hurts them and what fixes it."""

from wheelsmith.index.doctor.fetch import FetchBounds
from wheelsmith.index.doctor.finding import Diagnosis, IndexFinding, Severity
from wheelsmith.index.doctor.walk import WalkScope, examine

__all__ = [
    "Diagnosis",
    "FetchBounds",
    "IndexFinding",
    "Severity",
    "WalkScope",
    "examine",
]
