"""Turn each cell of a matrix into a build plan. Planning is a pure function of its arguments."""
