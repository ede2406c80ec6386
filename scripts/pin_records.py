"""Pin the RECORD of every wheel of which only some files are fetched: torch.json, and headers in cuda.json.

RECORD proves each file; its own hash, kept here, proves RECORD. Run it after changing a pin.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from wheelsmith.model import PinnedFile
from wheelsmith.model.events import ignore
from wheelsmith.toolchain.locate import locate
from wheelsmith.toolchain.pip_settings import pip_settings
from wheelsmith.toolchain.remote import fetch_part

PACKAGE = Path(__file__).parent.parent / "wheelsmith"


def is_record(name: str) -> bool:
    """Say whether a member of a wheel is its RECORD."""
    return name.endswith(".dist-info/RECORD") and name.count("/") == 1


def record_sha256(pin: PinnedFile) -> str:
    """Fetch the end of a wheel and give the hash of its RECORD."""
    settings = pip_settings()
    with settings.client() as client, tempfile.TemporaryDirectory() as scratch:
        wheel = fetch_part(pin, locate(pin, settings), Path(scratch), is_record, client, ignore)
        with zipfile.ZipFile(wheel) as archive:
            name = next(filter(is_record, archive.namelist()))
            return hashlib.sha256(archive.read(name)).hexdigest()


def main() -> None:
    """Rewrite both data files."""
    for name, key in (("frameworks/torch.json", "releases"), ("platforms/cuda.json", "toolkits")):
        data = json.loads((PACKAGE / name).read_text())
        known: dict[str, str] = {}
        for item in data[key]:
            pins: list[dict[str, Any]] = [*item.get("wheels", {}).values(), *item.get("headers", ())]
            for pin in pins:
                if pin["filename"] not in known:
                    known[pin["filename"]] = record_sha256(PinnedFile.from_json(pin))
                    print(pin["filename"], known[pin["filename"]][:12], flush=True)
                pin["record_sha256"] = known[pin["filename"]]
        (PACKAGE / name).write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
