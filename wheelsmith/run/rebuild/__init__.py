"""Build wheels again from the plans that they record, and compare: whoever does it need not believe who built them."""

from wheelsmith.run.rebuild.rebuild import rebuild
from wheelsmith.run.rebuild.request import RebuildRequest

__all__ = ["RebuildRequest", "rebuild"]
