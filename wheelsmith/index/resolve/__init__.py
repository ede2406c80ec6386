"""Which wheel is right for a target, and why there is none."""
