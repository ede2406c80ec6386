"""The wheels of an index on GitHub, as assets of releases."""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.units import show_binary_size
from wheelsmith.index.storage.compare_and_swap import backoff
from wheelsmith.index.storage.github_api import ATTEMPTS, GitHubApi, GitHubTarget, UnavailableError
from wheelsmith.index.storage.protocol import Listed, Write, read_pieces

MAX_ASSET, MAX_ASSETS = 2 << 30, 1000  # bytes of an asset (exclusive); assets of a release
# pip requests METADATA next to the wheel, and the hash in the key is that of the wheel.
ASSET = re.compile(r"files/[0-9a-f]{2}/[0-9a-f]{64}/(?P<name>(?P<wheel>[^/]+\.whl)(\.metadata)?)")
_UPLOADED = "uploaded"  # the state of a complete asset
_ABANDONED = 600.0  # seconds after which an upload of another publisher counts as broken
_UPLOADS_AT_ONCE = 4


@dataclass(slots=True, kw_only=True)
class _Upload:
    """A file to upload as an asset.

    :param failures: number of uploads whose end is not known.
    """

    key: str
    name: str
    tag: str
    content: Path | bytes
    size: int
    sha256: str
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetRelease:
    """A release and its assets by name, as the API describes them."""

    id: int
    upload_url: str
    assets: dict[str, dict[str, Any]] = field(default_factory=dict)


class Releases:
    """The releases of an index, as they were when they were first asked for."""

    def __init__(self, api: GitHubApi) -> None:
        self._api = api
        self._releases: dict[str, AssetRelease | None] = {}
        self._mark = f"<!-- index: {api.target.name.lower()} -->"

    def asset(self, key: str) -> dict[str, Any] | None:
        """Return the asset that is stored under a key, or None."""
        found = ASSET.fullmatch(key)
        release = self.release(self._api.target.tag(found["wheel"])) if found else None
        return self._by_key(release).get(key) if release else None

    def list_assets(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield all assets of the index, each with its key."""
        for item in self._api.pages("/releases"):
            if self._mark in (item["body"] or "") and (release := self.release(item["tag_name"])):
                yield from self._by_key(release).items()

    def release(self, tag: str, *, again: bool = False) -> AssetRelease | None:
        """Return a release, or None if it does not exist.

        :param again: do not use what is known of it.
        :raises PackageIndexError: the release does not belong to this index.
        """
        if again or tag not in self._releases:
            response = self._api.send("GET", f"/releases/tags/{tag}", 404)
            self._releases[tag] = self._read_release(response.json()) if response.is_success else None
        return self._releases[tag]

    def create_release(self, tag: str) -> None:
        """Create a release without assets, unless it exists."""
        body = f"Wheels of the package index {self._api.target.name}, which names them on its pages.\n\n{self._mark}\n"
        plain = {"tag_name": tag, "name": tag, "body": body, "make_latest": "false"}
        response = self._api.send("POST", "/releases", 422, json=plain)
        if not response.is_success and "already_exists" not in response.text:
            raise self._api.refusal(response)

    def _read_release(self, plain: Mapping[str, Any]) -> AssetRelease:
        if self._mark not in (plain["body"] or ""):
            raise PackageIndexError(
                f"{self._api.target.repo} has a release {plain['tag_name']} that is not of {self._api.target.name}",
                remedy="rename that release and its tag, or publish to another repository",
            )
        assets = {item["name"]: item for item in self._api.pages(f"/releases/{plain['id']}/assets")}
        return AssetRelease(id=plain["id"], upload_url=plain["upload_url"].partition("{")[0], assets=assets)

    def _by_key(self, release: AssetRelease) -> dict[str, dict[str, Any]]:
        found = {}
        for name, asset in release.assets.items():
            # The key of METADATA has the hash of the wheel.
            wheel = release.assets.get(name.removesuffix(".metadata"), asset)
            sha256 = self.sha256(wheel)
            found[f"files/{sha256[:2]}/{sha256}/{name}"] = asset
        return found

    def listed(self, key: str, asset: Mapping[str, Any]) -> Listed:
        """Return an asset as an item of a listing."""
        return Listed(key, asset["size"], _created(asset), self.sha256(asset))

    def sha256(self, asset: Mapping[str, Any]) -> str:
        """Return the hash of an asset, as GitHub reports it or of its content; zeros for a broken upload."""
        if asset["state"] != _UPLOADED:
            return "0" * 64
        if digest := asset.get("digest"):
            return str(digest).removeprefix("sha256:")
        return hashlib.sha256(self._api.download(asset["id"]) or b"").hexdigest()


class Uploader:
    """Uploads assets that no page names yet."""

    def __init__(self, api: GitHubApi, releases: Releases) -> None:
        self._api, self._releases = api, releases

    def upload(self, writes: Sequence[Write]) -> None:
        """Upload files, and list the assets until all of them are there.

        :raises PackageIndexError: a limit of GitHub forbids an upload, or an asset has other bytes.
        """
        uploads = [_prepare(self._api.target, write) for write in writes]
        self._check_limits(uploads)
        progress, left = time.monotonic(), len(uploads) + 1
        for number in count():
            missing = [upload for upload in uploads if not self._is_there(upload)]
            if not missing:
                return
            if len(missing) < left:
                progress, left = time.monotonic(), len(missing)
            elif time.monotonic() > progress + 2 * _ABANDONED:
                raise PackageIndexError(f"{missing[0].name} cannot be uploaded", remedy="try again later")
            if number:
                backoff(number, 0.5)
            for tag in {upload.tag for upload in missing}:
                if self._releases.release(tag) is None:
                    self._releases.create_release(tag)
                    self._releases.release(tag, again=True)
            with ThreadPoolExecutor(_UPLOADS_AT_ONCE) as pool:
                list(pool.map(self._send, missing))
            for tag in {upload.tag for upload in missing}:
                self._releases.release(tag, again=True)

    def _check_limits(self, uploads: Sequence[_Upload]) -> None:
        for upload in uploads:
            if upload.size >= MAX_ASSET:
                raise PackageIndexError(
                    f"{upload.name} has {show_binary_size(upload.size)}, and GitHub's assets have less than 2 GiB",
                    remedy="build it for fewer GPU architectures, or publish to a bucket; nothing was uploaded",
                )
        releases = {upload.tag: self._releases.release(upload.tag) for upload in uploads}
        known = {(tag, name) for tag, release in releases.items() if release for name in release.assets}
        numbers = Counter(tag for tag, _ in known | {(upload.tag, upload.name) for upload in uploads})
        for tag, number in numbers.items():
            if number > MAX_ASSETS:
                raise PackageIndexError(
                    f"the release {tag} would have {number} assets, two for each wheel; GitHub allows {MAX_ASSETS}",
                    remedy="build fewer combinations, or publish to a bucket; nothing was uploaded",
                )

    def _is_there(self, upload: _Upload) -> bool:
        """Return True if a file is an asset. Delete what is left of a broken upload."""
        release = self._releases.release(upload.tag)
        if release is None or upload.name not in release.assets:
            return False
        asset = release.assets[upload.name]
        if asset["state"] != _UPLOADED:
            # Another publisher may be uploading it at this moment.
            if upload.failures or _created(asset) < time.time() - _ABANDONED:
                self._api.delete_asset(asset["id"])
                del release.assets[upload.name]
            return False
        if self._releases.sha256(asset) != upload.sha256:
            collect = f"wheelsmith index gc {self._api.target.name} --grace 0s"
            raise PackageIndexError(
                f"{upload.name} is in the release {upload.tag} with other bytes, and an asset is never replaced",
                remedy=f"give the kernel a new version; or remove the asset, if no page names it: {collect}",
            )
        return True

    def _send(self, upload: _Upload) -> None:
        release = self._releases.release(upload.tag)
        # GitHub may not list a new release yet, and another publisher may be uploading the file.
        if release is None or upload.name in release.assets:
            return
        content = read_pieces(upload.content, upload.key) if isinstance(upload.content, Path) else upload.content
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(upload.size)}
        name = {"name": upload.name}
        try:
            response = self._api.send_once(
                "POST", release.upload_url, 422, params=name, content=content, headers=headers
            )
        except UnavailableError as error:
            upload.failures += 1
            if upload.failures == ATTEMPTS:
                text = f"{upload.name} cannot be uploaded: {error}"
                raise PackageIndexError(text, remedy="try again later") from None
            return
        if not response.is_success and "already_exists" not in response.text:
            raise self._api.refusal(response)
        if response.is_success and response.json()["name"] != upload.name:
            self._api.delete_asset(response.json()["id"])
            raise PackageIndexError(f"GitHub changes the name {upload.name}", remedy="publish to a bucket")


def _prepare(target: GitHubTarget, write: Write) -> _Upload:
    """Read and verify a file before anything is uploaded."""
    found, content = ASSET.fullmatch(write.key), write.content or b""
    assert found is not None  # noqa: S101  # the caller selects these keys
    hasher, size = hashlib.sha256(), 0
    for piece in read_pieces(content, write.key) if isinstance(content, Path) else (content,):
        hasher.update(piece)
        size += len(piece)
    return _Upload(
        key=write.key,
        name=found["name"],
        tag=target.tag(found["wheel"]),
        content=content,
        size=size,
        sha256=hasher.hexdigest(),
    )


def _created(asset: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(asset["created_at"]).timestamp()
