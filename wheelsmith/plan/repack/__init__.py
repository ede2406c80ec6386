"""From the build folders of a Hub repo to the plans of wheels that hold what was built there."""

from wheelsmith.plan.repack.assignment import FolderPlans, plan_folders
from wheelsmith.plan.repack.metadata_json import METADATA, digest_mistake, read_build_facts
from wheelsmith.plan.repack.names import cells_of, read_variant_name
from wheelsmith.plan.repack.package import built_package
from wheelsmith.plan.repack.plans import WheelNames
from wheelsmith.plan.repack.types import BuildFacts, BuildFolder, BuiltPackage, HubVariant, VariantAnswer

__all__ = [
    "METADATA",
    "BuildFacts",
    "BuildFolder",
    "BuiltPackage",
    "FolderPlans",
    "HubVariant",
    "VariantAnswer",
    "WheelNames",
    "built_package",
    "cells_of",
    "digest_mistake",
    "plan_folders",
    "read_build_facts",
    "read_variant_name",
]
