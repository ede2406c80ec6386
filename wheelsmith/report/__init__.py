"""What people and pipelines see of a run; listens to events and changes nothing."""

from wheelsmith.report.cache import pruning_table, stock_table
from wheelsmith.report.choose import reporter
from wheelsmith.report.errors import show_error
from wheelsmith.report.grid import plan_table, reasons, totals
from wheelsmith.report.style import make_console

__all__ = [
    "make_console",
    "plan_table",
    "pruning_table",
    "reasons",
    "reporter",
    "show_error",
    "stock_table",
    "totals",
]
