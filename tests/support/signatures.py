"""A kind of file beside wheels that the product does not know."""

from __future__ import annotations

from wheelsmith.index.entries.side_files import SideFile


class Signature(SideFile):
    """Only who signed a wheel has it."""

    suffix = ".signature"

    def json_keys(self, url, sha256):
        return {"signature": url}

    def html_attributes(self, url, sha256):
        return {"data-signature": url}
