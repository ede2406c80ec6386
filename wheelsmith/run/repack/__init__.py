"""What a Hub repo already has built, thought through: which build folders become wheels, and why not the rest."""

from wheelsmith.run.repack.prepare import PreparedRepack, prepare_repack
from wheelsmith.run.repack.request import RepackRequest

__all__ = ["PreparedRepack", "RepackRequest", "prepare_repack"]
