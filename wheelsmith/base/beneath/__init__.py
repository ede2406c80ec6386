"""Touch what a build could have written, and nothing that lies elsewhere.

A build may put a link, a pipe or another file wherever it can write, at any moment: also after somebody looked there,
and, if a process of it outlives it, after its end. So a folder that it can write to is held by a descriptor; each
further component is opened beneath the one before it, no link is ever followed, nothing that is there already is opened
for writing, and what is read once is what is hashed and kept. Everything else in wheelsmith uses this package; a test
keeps it so.

openat2(2) has RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS for this, but Python has no function for it, and older containers
refuse it, so there would have to be a second way in any case: one component after another.
"""

from wheelsmith.base.beneath.opening import open_file
from wheelsmith.base.beneath.trees import apparent_size, make_read_only, remove_tree, statuses
from wheelsmith.base.beneath.work_folder import WorkFolder

__all__ = ["WorkFolder", "apparent_size", "make_read_only", "open_file", "remove_tree", "statuses"]
