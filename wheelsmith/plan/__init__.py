"""From a cell to the plan that makes its wheel, pure but for what it is handed."""

from wheelsmith.plan.kernel import RECIPE_VERSION, plan_kernel

__all__ = ["RECIPE_VERSION", "plan_kernel"]
