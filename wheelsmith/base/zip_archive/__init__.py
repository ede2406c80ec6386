"""Open a zip archive that nobody trusts: every unzipper must find the same files in it, and no more than fit."""

from wheelsmith.base.zip_archive.members import Member
from wheelsmith.base.zip_archive.reader import Archive

__all__ = ["Archive", "Member"]
