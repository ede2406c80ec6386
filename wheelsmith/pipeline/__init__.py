"""Build one cell: fetch → compile → build → repair → check → store → test."""

from wheelsmith.pipeline.cell import CellBuild
from wheelsmith.pipeline.command import build_command, lay_out
from wheelsmith.pipeline.context import BuildContext, ToolchainPrefetcher
