"""One cell from plan to result: fetch → compile → build → repair → check → store."""

from wheelsmith.pipeline.cell import CellBuild
from wheelsmith.pipeline.command import build_command, lay_out
from wheelsmith.pipeline.context import BuildContext, ToolchainPrefetcher
