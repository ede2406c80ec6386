"""From a cell to the plan that makes its wheel, pure but for what it is handed."""
