"""What goes into an index: releases from runs, indexes and wheels, published so that a reader never meets a half."""

from wheelsmith.index.publish.external_wheels import foreign_wheel
from wheelsmith.index.publish.hub_release import add_release
from wheelsmith.index.publish.input_folders import RUNS, has_index, loose_wheels, mark_sources, release_from, release_of
from wheelsmith.index.publish.kernels_layout import NoHubBuildError, build_layout
from wheelsmith.index.publish.page_writer import GRACE
from wheelsmith.index.publish.promote import Promotion, RequiredOutcome, channel_address, promote, public_version
from wheelsmith.index.publish.publishing import (
    Published,
    hub_builds,
    publish,
    publish_folders,
    replace_signatures,
    tell_address,
)
from wheelsmith.index.publish.release import IndexRelease, variant_wheels
from wheelsmith.index.publish.repair import repair
from wheelsmith.index.publish.run_index import publish_run
from wheelsmith.index.publish.verify import Trouble, advise, verify
from wheelsmith.index.publish.writer import Index, ReleaseWords, WheelUpload

__all__ = [
    "GRACE",
    "RUNS",
    "Index",
    "IndexRelease",
    "NoHubBuildError",
    "Promotion",
    "Published",
    "ReleaseWords",
    "RequiredOutcome",
    "Trouble",
    "WheelUpload",
    "add_release",
    "advise",
    "build_layout",
    "channel_address",
    "foreign_wheel",
    "has_index",
    "hub_builds",
    "loose_wheels",
    "mark_sources",
    "promote",
    "public_version",
    "publish",
    "publish_folders",
    "publish_run",
    "release_from",
    "release_of",
    "repair",
    "replace_signatures",
    "tell_address",
    "variant_wheels",
    "verify",
]
