"""The cache: finished wheels, compiled objects and their costs, the inventory, and pruning."""

from wheelsmith.store.costs import Cost, Costs
from wheelsmith.store.inventory import CacheInventory, Kind, prefix_kind, take_inventory
from wheelsmith.store.objects import Action, DamagedBlobError, Objects, Output, verify_objects
from wheelsmith.store.pruning import Bounds, Pruning, in_use, is_in_use, plan_prune, prune
from wheelsmith.store.remote import RemoteCache
from wheelsmith.store.remote_wheels import fetch_wheel, reject_wheel, send_wheel
from wheelsmith.store.wheels import Store, StoredWheel, verify_wheels
