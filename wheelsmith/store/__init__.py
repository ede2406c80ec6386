"""What was made before: finished wheels, compiled pieces, and what each piece cost."""

from wheelsmith.store.costs import Cost, Costs
from wheelsmith.store.in_use import alone_in, in_use, is_in_use
from wheelsmith.store.objects import Action, Damaged, Objects, Output
from wheelsmith.store.wheels import Store, StoredWheel

__all__ = [
    "Action",
    "Cost",
    "Costs",
    "Damaged",
    "Objects",
    "Output",
    "Store",
    "StoredWheel",
    "alone_in",
    "in_use",
    "is_in_use",
]
