"""matrix.yaml: what a kernel's users run, read with every mistake at its place."""

from wheelsmith.matrix.expand import cell_of, expand, idle_rules, matches, project_settings, select
from wheelsmith.matrix.load import check_kernel, load_matrix, parse_matrix
from wheelsmith.matrix.types import (
    CudaCompatibility,
    EngineChoice,
    KernelRef,
    Matrix,
    MatrixRule,
    OutputSettings,
    ProjectSettings,
    Selector,
)

__all__ = [
    "CudaCompatibility",
    "EngineChoice",
    "KernelRef",
    "Matrix",
    "MatrixRule",
    "OutputSettings",
    "ProjectSettings",
    "Selector",
    "cell_of",
    "check_kernel",
    "expand",
    "idle_rules",
    "load_matrix",
    "matches",
    "parse_matrix",
    "project_settings",
    "select",
]
