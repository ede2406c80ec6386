"""Test wheels of an index: one for this machine, or all of them with each torch, Python and GPU."""
