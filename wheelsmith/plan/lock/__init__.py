"""wheelsmith.lock: what was found out for a matrix.yaml, kept so that every run and every machine finds the same."""

from wheelsmith.plan.lock.differences import differences
from wheelsmith.plan.lock.file import is_of_a_lock, lock_path, read_lock, shards_path, vendor_path, write_lock
from wheelsmith.plan.lock.lock import IndexedWheel, Lock, LockedEnvironment, LockedSource, Pin, Question
from wheelsmith.plan.lock.pins import pins_of

__all__ = [
    "IndexedWheel",
    "Lock",
    "LockedEnvironment",
    "LockedSource",
    "Pin",
    "Question",
    "differences",
    "is_of_a_lock",
    "lock_path",
    "pins_of",
    "read_lock",
    "shards_path",
    "vendor_path",
    "write_lock",
]
