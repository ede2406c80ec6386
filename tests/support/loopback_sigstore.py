"""A Sigstore on loopback: a certificate authority that believes every token, and a log of one entry at a time.

sigstore/server.mjs is the program; the handlers are Sigstore's own for its tests, which npm fetches.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import wants
from loopback import QuietHandler, running
from npm import fetched

_PACKAGE = Path(__file__).parent / "sigstore"
_ROOT = "application/vnd.dev.sigstore.trustedroot+json;version=0.1"
GITHUB = "https://token.actions.githubusercontent.com"
GITLAB = "https://gitlab.com"
GITLAB_PIPELINE = f"{GITLAB}/org/wheels//.gitlab-ci.yml@refs/tags/v1"
REPOSITORY = "https://github.com/org/wheels"
WORKFLOW = f"{REPOSITORY}/.github/workflows/wheels.yml@refs/tags/v1"
COMMIT = "e" * 40
# What such a job finds in its environment.
JOB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "org/wheels",
    "GITHUB_WORKFLOW_REF": "org/wheels/.github/workflows/wheels.yml@refs/tags/v1",
    "GITHUB_REF": "refs/tags/v1",
    "GITHUB_SHA": COMMIT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sigstore:
    """One that runs.

    :param trust: a client's trust configuration, as JSON.
    """

    trust: dict[str, Any]

    def write(self, folder: Path) -> Path:
        """Write the trust configuration, and the trusted root alone beside it as root.json."""
        (folder / "root.json").write_text(json.dumps(self.trust["trustedRoot"]))
        (folder / "trust.json").write_text(json.dumps(self.trust))
        return folder / "trust.json"


def token(**claims: Any) -> str:
    """Return a token as GitHub gives it to a job; nobody here looks at its signature."""
    now = int(time.time())
    said = {
        "iss": GITHUB,
        "aud": "sigstore",
        "sub": WORKFLOW,
        "repository": "org/wheels",
        "ref": "refs/tags/v1",
        "sha": COMMIT,
        "workflow_ref": "org/wheels/.github/workflows/wheels.yml@refs/tags/v1",
        "job_workflow_ref": "org/wheels/.github/workflows/wheels.yml@refs/tags/v1",
        "iat": now,
        "exp": now + 600,
        **claims,
    }
    return jwt.encode({name: value for name, value in said.items() if value is not None}, "k" * 32, "HS256")


def gitlab_token() -> str:
    """Return one whose issuer is GitLab; what the certificate authority makes of other claims, it knows of GitHub."""
    unknown = dict.fromkeys(("repository", "ref", "sha", "workflow_ref", "job_workflow_ref"))
    return token(iss=GITLAB, sub=GITLAB_PIPELINE, **unknown)


@contextmanager
def loopback_sigstore(folder: Path) -> Iterator[Sigstore]:
    """Yield a Sigstore.

    :param folder: where npm's packages are kept.
    """
    wants.program("node")
    modules = fetched(_PACKAGE, folder)
    argv = ["node", _PACKAGE / "server.mjs", modules.parent]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield Sigstore(trust=_trust(json.loads(server.stdout.readline())))
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@contextmanager
def job_tokens() -> Iterator[tuple[dict[str, str], list[tuple[str, str | None]]]]:
    """Yield where a job of GitHub's asks for its token, as its environment says; what was asked for, and by whom."""
    asked: list[tuple[str, str | None]] = []

    class Runner(QuietHandler):
        def do_GET(self) -> None:
            asked.append((self.path.partition("audience=")[2], self.headers["Authorization"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"value": token()}).encode())

    with running(ThreadingHTTPServer(("127.0.0.1", 0), Runner)) as url:
        yield {"ACTIONS_ID_TOKEN_REQUEST_URL": f"{url}/token?x=1", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "hidden"}, asked


def _trust(said: dict[str, str]) -> dict[str, Any]:
    since = {"start": "2020-01-01T00:00:00Z"}

    def log(key: str) -> dict[str, Any]:
        number = base64.b64encode(hashlib.sha256(base64.b64decode(key)).digest()).decode()
        public = {"rawBytes": key, "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": since}
        return {"baseUrl": said["url"], "hashAlgorithm": "SHA2_256", "publicKey": public, "logId": {"keyId": number}}

    authority = {
        "subject": {"organization": "sigstore.mock", "commonName": "sigstore"},
        "uri": said["url"],
        "certChain": {"certificates": [{"rawBytes": said["ca"]}]},
        "validFor": since,
    }
    service = {"url": said["url"], "majorApiVersion": 1, "validFor": since, "operator": "mock"}
    return {
        "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
        "trustedRoot": {
            "mediaType": _ROOT,
            "tlogs": [log(said["tlog"])],
            "certificateAuthorities": [authority],
            "ctlogs": [log(said["ctlog"])],
            "timestampAuthorities": [],
        },
        "signingConfig": {
            "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
            "caUrls": [service],
            "oidcUrls": [],
            "rekorTlogUrls": [service],
            "rekorTlogConfig": {"selector": "ANY"},
            "tsaUrls": [],
            "tsaConfig": {"selector": "ANY"},
        },
    }
