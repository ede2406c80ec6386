"""From the build folders of a Hub repo to the plans of wheels that hold what was built there."""

from wheelsmith.plan.repack.folders import (
    METADATA,
    BuildFacts,
    BuildFolder,
    BuiltPackage,
    built_package,
    check_digests,
    read_build_facts,
)
from wheelsmith.plan.repack.plans import FolderPlans, VariantAnswer, WheelNames, plan_folders
from wheelsmith.plan.repack.variants import HubVariant, NoWheelError, cells_of, read_variant_name

__all__ = [
    "METADATA",
    "BuildFacts",
    "BuildFolder",
    "BuiltPackage",
    "FolderPlans",
    "HubVariant",
    "NoWheelError",
    "VariantAnswer",
    "WheelNames",
    "built_package",
    "cells_of",
    "check_digests",
    "plan_folders",
    "read_build_facts",
    "read_variant_name",
]
