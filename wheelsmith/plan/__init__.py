"""From a cell to the plan that makes its wheel, pure but for what it is handed."""

from wheelsmith.plan.kernel import RECIPE_VERSION, plan_kernel
from wheelsmith.plan.project import Resolve, plan_project

__all__ = ["RECIPE_VERSION", "Resolve", "plan_kernel", "plan_project"]
