"""A loopback Azure Blob Storage: Microsoft's own emulator.

It is the one on PATH, or else the one that azurite/package-lock.json names, which npm fetches.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from npm import fetched

CONTAINER = "wheels"
_PACKAGE = Path(__file__).parent / "azurite"
# The emulator's own, the same everywhere: https://learn.microsoft.com/azure/storage/common/storage-connect-azurite
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def azurite(folder: Path) -> str:
    """Return the program; it is fetched into a folder where it is nowhere."""
    if found := shutil.which("azurite-blob"):
        return found
    return str(fetched(_PACKAGE, folder) / ".bin" / "azurite-blob")


@contextmanager
def loopback_azure(program: str, folder: Path) -> Iterator[dict[str, str]]:
    """Yield the variables with which an account is reached that has one container, ``CONTAINER``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    asked = ("--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder))
    server = subprocess.Popen(
        [program, *asked, "--silent", "--skipApiVersionCheck", "--disableTelemetry"], stdout=subprocess.DEVNULL
    )
    try:
        url = f"http://127.0.0.1:{port}/{_ACCOUNT}"
        _make_container(url, server)
        yield {
            "AZURE_STORAGE_ENDPOINT": url,
            "AZURE_STORAGE_ACCOUNT": _ACCOUNT,
            "AZURE_STORAGE_KEY": _KEY,
        }
    finally:
        server.kill()
        server.wait()


def _make_container(url: str, server: subprocess.Popen[bytes]) -> None:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    said = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    text = "PUT" + "\n" * 12 + f"{said}/{_ACCOUNT}/{_ACCOUNT}/{CONTAINER}\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(_KEY), text.encode(), hashlib.sha256)).decode()
    headers |= {"Authorization": f"SharedKey {_ACCOUNT}:{signature}", "Content-Length": "0"}
    request = urllib.request.Request(f"{url}/{CONTAINER}?restype=container", method="PUT", headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(600):
        try:
            opener.open(request, timeout=60).close()
        except urllib.error.HTTPError:
            raise
        except (urllib.error.URLError, ConnectionError):
            if server.poll() is not None:
                raise RuntimeError("azurite does not start") from None
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("azurite does not answer")
