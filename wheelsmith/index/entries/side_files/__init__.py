"""The files that an index offers beside a wheel: each kind in a module of its own."""
