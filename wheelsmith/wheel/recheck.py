"""Check a wheel that was finished before, as a program of its own: ``python -m wheelsmith.wheel.recheck FOLDER``."""

from __future__ import annotations

from wheelsmith.wheel.orders import carry_out

if __name__ == "__main__":
    carry_out(lambda _, left: left)
