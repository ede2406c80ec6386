"""Keys that openssl makes."""

import subprocess
from pathlib import Path

import wants

P256 = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
ED25519 = ("-algorithm", "ed25519")


def make_key(folder: Path, name: str, kind: tuple[str, ...] = P256) -> tuple[Path, Path]:
    """Return the files of a private key and of its public key."""
    wants.program("openssl")
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    subprocess.run(["openssl", "genpkey", *kind, "-out", private], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public
