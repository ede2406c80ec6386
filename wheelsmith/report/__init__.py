"""What people and pipelines see of a run; listens to events and changes nothing."""

from wheelsmith.report.reporters import reporter
from wheelsmith.report.style import make_console
from wheelsmith.report.tables import plan_table, pruning_table, reasons, stock_table, totals
