"""Wheels: repaired to the platform tag they have earned, and proven to tell the truth.

What repairs, checks and makes wheels is imported from its own module: most runs have no use for it.
"""

from wheelsmith.wheel.facts import wheel_file
from wheelsmith.wheel.report import CHECKING, LEFT, PACKED, CheckReport, Finding, RepairRequest, RepairResponse
from wheelsmith.wheel.variant_format import read_variant
