"""Open a wheel that nobody trusts: every unzipper must find the same files in it, and no more than fit."""

from wheelsmith.base.zip_archive import Archive
from wheelsmith.wheel.archive.contents import WheelContents, open_wheel, record_mistakes

__all__ = ["Archive", "WheelContents", "open_wheel", "record_mistakes"]
