"""Check a wheel that was finished before, as a program of its own: ``python -m wheelsmith.wheel.recheck FOLDER``."""

from __future__ import annotations

from wheelsmith.wheel.orders import run_repair

if __name__ == "__main__":
    run_repair(lambda _, left: left)
