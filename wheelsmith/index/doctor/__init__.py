"""Check a live index as pip and uv see it: what fails, and what fixes it."""

from wheelsmith.index.doctor.crawl import CrawlScope, examine
from wheelsmith.index.doctor.finding import Diagnosis, IndexFinding, Severity

__all__ = [
    "CrawlScope",
    "Diagnosis",
    "IndexFinding",
    "Severity",
    "examine",
]
