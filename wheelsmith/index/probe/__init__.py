"""Look at a live index as pip and uv would, and say what hurts them and what mends it."""

from wheelsmith.index.probe.fetch import Bounds
from wheelsmith.index.probe.finding import Diagnosis, Finding, Severity
from wheelsmith.index.probe.walk import Scope, examine

__all__ = ["Bounds", "Diagnosis", "Finding", "Scope", "Severity", "examine"]
