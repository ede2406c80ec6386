"""A kind of file beside wheels that the product does not know."""

from __future__ import annotations

from wheelsmith.index.entries.side_files import SideFile

SIGNATURE = SideFile(
    suffix=".signature",
    in_json=lambda url, _: {"signature": url},
    in_html=lambda url, _: {"data-signature": url},
)
