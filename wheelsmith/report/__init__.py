"""Reports of a run for people and pipelines. Reporters listen to events and change nothing."""

from wheelsmith.report.reporters import reporter
from wheelsmith.report.style import make_console
from wheelsmith.report.tables import (
    exclusion_reasons,
    inventory_table,
    kernel_table,
    left_out,
    newer_table,
    plan_table,
    pruning_table,
    sharing_reasons,
    totals,
)
