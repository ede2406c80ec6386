"""What goes into an index: releases from runs, indexes and wheels, published so that a reader never meets a half."""

from wheelsmith.publish.foreign import foreign_wheel
from wheelsmith.publish.own_index import Answered, publish_run
from wheelsmith.publish.publishing import HubBuilds, Published, hub_builds, publish
from wheelsmith.publish.release import Release, built_wheels, unserved_cells, variant_wheels
from wheelsmith.publish.repair import Repaired, repair
from wheelsmith.publish.sources import RUNS, mark_sources, release_from, release_of

__all__ = [
    "RUNS",
    "Answered",
    "HubBuilds",
    "Published",
    "Release",
    "Repaired",
    "built_wheels",
    "foreign_wheel",
    "hub_builds",
    "mark_sources",
    "publish",
    "publish_run",
    "release_from",
    "release_of",
    "repair",
    "unserved_cells",
    "variant_wheels",
]
