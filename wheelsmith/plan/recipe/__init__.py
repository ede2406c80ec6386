"""From build.toml to the exact compile and link commands of one cell."""

from wheelsmith.plan.recipe.build_toml import parse_build_toml
from wheelsmith.plan.recipe.card import CARD, render_card
from wheelsmith.plan.recipe.compile import CompileTarget
from wheelsmith.plan.recipe.phases import PhaseKind
from wheelsmith.plan.recipe.project import PROJECT_FILES, ProjectSpec, parse_project, read_project, with_pkg_info
from wheelsmith.plan.recipe.recipe import (
    KernelSource,
    code_digest,
    compiled_recipe,
    includes_python,
    is_licence,
    noarch_recipe,
    render_metadata,
)
from wheelsmith.plan.recipe.spec import Binding, KernelSpec, Section
from wheelsmith.plan.recipe.static_setup_metadata import may_import

__all__ = [
    "CARD",
    "PROJECT_FILES",
    "Binding",
    "CompileTarget",
    "KernelSource",
    "KernelSpec",
    "PhaseKind",
    "ProjectSpec",
    "Section",
    "code_digest",
    "compiled_recipe",
    "includes_python",
    "is_licence",
    "may_import",
    "noarch_recipe",
    "parse_build_toml",
    "parse_project",
    "read_project",
    "render_card",
    "render_metadata",
    "with_pkg_info",
]
