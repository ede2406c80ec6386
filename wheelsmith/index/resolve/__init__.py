"""Choose the wheel for a target, or explain why there is none."""
