"""From a cell to the plan that makes its wheel, pure but for what it is handed."""

from wheelsmith.plan.cuda_minor_compat import older_minors, plan_by_oldest_minor, with_toolkit
from wheelsmith.plan.kernel import RECIPE_VERSION, plan_kernel
from wheelsmith.plan.project import Resolve, plan_project, why_other_cuda
from wheelsmith.plan.pypi_names import with_own_names

__all__ = [
    "RECIPE_VERSION",
    "Resolve",
    "older_minors",
    "plan_by_oldest_minor",
    "plan_kernel",
    "plan_project",
    "why_other_cuda",
    "with_own_names",
    "with_toolkit",
]
