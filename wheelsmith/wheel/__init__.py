"""Repair, check, read, compare and sign wheels.

Import the code that repairs, checks or makes wheels from its own module: most runs do not need it.
"""

from wheelsmith.wheel.facts import wheel_file
from wheelsmith.wheel.report import CHECKING, LEFT, PACKED, CheckReport, Finding, RepairRequest, RepairResponse
from wheelsmith.wheel.variant_format import read_variant
