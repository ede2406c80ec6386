"""What a Hub does when somebody writes to it: repos, branches, large files, commits."""

from __future__ import annotations

import base64
import fnmatch
import json
from typing import TYPE_CHECKING

from hub_repos import RefusedError, Repo, git_hash, is_large, sha256

if TYPE_CHECKING:
    from loopback_hub import Handler


def create_repo(handler: Handler) -> None:
    asked = json.loads(handler.body)
    name = f"{asked['organization']}/{asked['name']}"
    if name in handler.hub.repos:
        raise RefusedError(409, "You already created this repo")
    kind = f"{asked.get('type', 'model')}s"
    handler.hub.add(name, kind=kind, files={".gitattributes": b"*.bin filter=lfs\n"}, names=("main",))
    prefix = "" if kind == "models" else f"{kind}/"
    handler.say({"url": f"{handler.hub.endpoint}/{prefix}{name}", "name": name, "id": name})


def change(handler: Handler, repo: Repo, name: str, action: str, rest: list[str]) -> None:
    _check_writer(handler, repo)
    if action == "branch":
        repo.branch(rest[0], json.loads(handler.body or b"{}").get("startingPoint", "main"))
        return handler.say({})
    if action == "preupload":
        return _prepare(handler, repo, rest[0])
    if action == "commit":
        return _commit(handler, repo, name, rest[0])
    raise RefusedError(404)


def offer_uploads(handler: Handler, name: str, repo: Repo) -> None:
    """Answer a batch of the LFS protocol: where to send what is not there yet."""
    _check_writer(handler, repo)
    asked = json.loads(handler.body)
    if repo.full == "said":
        error = {"code": 403, "message": "storage quota exceeded"}
        return handler.say({"objects": [{**item, "error": error} for item in asked["objects"]]})
    answer = []
    for item in asked["objects"]:
        here = f"{handler.hub.endpoint}/lfs/{name}/{item['oid']}"
        actions = {"upload": {"href": here}, "verify": {"href": f"{here}/verify"}}
        answer.append({**item, "authenticated": True, **({} if item["oid"] in repo.large else {"actions": actions})})
    handler.say({"transfer": "basic", "objects": answer})


def store_large(handler: Handler, name: str, oid: str, *, verify: bool) -> None:
    repo = handler.hub.repos[name]
    if repo.full:
        raise RefusedError(403, "storage quota exceeded")
    if verify:
        if oid not in repo.large:
            raise RefusedError(404, "no such object")
        return handler.say({})
    if sha256(handler.body) != oid:
        raise RefusedError(400, "the content is not what its hash says")
    repo.large[oid] = handler.body
    return handler.say({})


def _check_writer(handler: Handler, repo: Repo) -> None:
    sent = handler.headers.get("Authorization")
    if repo.write_token is None or sent == f"Bearer {repo.write_token}":
        return
    if sent is None:
        raise RefusedError(401, "Invalid username or password.")
    raise RefusedError(403, "Forbidden: you must use a write token to upload to a repository.")


def _prepare(handler: Handler, repo: Repo, branch: str) -> None:
    """Say of each file how it is to be sent, and whether .gitignore leaves it out."""
    asked = json.loads(handler.body)
    files = repo.at(branch).files
    lines = asked.get("gitIgnore", files.get(".gitignore", b"").decode()).splitlines()
    ignored = [line.strip("/") for line in lines if line and not line.startswith("#")]
    answer = []
    for item in asked["files"]:
        path, known = item["path"], files.get(item["path"])
        large = is_large(base64.b64decode(item["sample"]), item["size"])
        entry = {"path": path, "uploadMode": "lfs" if large else "regular"}
        entry["shouldIgnore"] = any(fnmatch.fnmatch(path, f"{line}*") for line in ignored)
        if known is not None:
            entry["oid"] = sha256(known) if is_large(known[:512], len(known)) else git_hash(known)
        answer.append(entry)
    handler.say({"files": answer})


def _commit(handler: Handler, repo: Repo, name: str, branch: str) -> None:
    weather = handler.hub.weather
    happens = weather.commit()
    if happens == "refused":
        raise RefusedError(412, "A commit has happened since. Please refresh and try again.")
    if happens == "busy":
        raise RefusedError(409, "Another commit operation is in progress for this repository. Please try again later.")
    if happens == "failed":
        raise RefusedError(weather.error(), "Internal Error")
    if happens == "cut before":
        handler.close_connection = True
        return
    commit = repo.apply(branch, map(json.loads, handler.body.splitlines()))
    if handler.hub.silent:
        handler.hub.closing.wait()
    if happens == "silently_done":
        raise RefusedError(weather.error(), "Internal Error")
    if happens == "cut" or handler.hub.silent:
        handler.close_connection = True
        return
    handler.say(
        {"success": True, "commitOid": commit.oid, "commitUrl": f"{handler.hub.endpoint}/{name}/commit/{commit.oid}"}
    )
