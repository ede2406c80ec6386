"""Who is believed, and in what: who may sign, and what they may say of source, repository and builder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from wheelsmith.base.errors import Place, PolicyError
from wheelsmith.base.files import read_bounded
from wheelsmith.base.json_dataclass import in_one_line
from wheelsmith.wheel.attestation.identity import Identity, identity_of
from wheelsmith.wheel.attestation.keys import VerifyingKey, verifying_key
from wheelsmith.wheel.attestation.patterns import matches
from wheelsmith.wheel.attestation.statement import Said

_LARGEST = 1 << 16  # bytes; people write it
_KEYS, _IDENTITIES, _TRUST = "keys", "identities", "trust-config"
_WORDS = ("sources", "repositories", "builders")
_SHOWN = 300  # characters
# What comes before the path of a repository: there an @ stands behind a user.
_BEFORE_PATH = re.compile(r"hub:|git:([A-Za-z+]+://[^/]*/|[^/:]*:)?")
_ARCHIVE = re.compile(r"(?P<place>.+)@(?P<revision>[0-9a-f]{64})", re.DOTALL)
_EXAMPLE = "keys: [release.pub], and perhaps sources: ['hub:org/name'] and builders: ['https://…']"

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignaturePolicy:
    """What is believed.

    :param keys: any of which may sign.
    :param identities: any of whom may sign by a certificate.
    :param trust: whose certificates and logs are believed, as ``verifier`` takes it.
    :param sources: that wheels may be made from, as ``hub:org/name`` or ``hub:org/name@revision``; none allow all.
    :param repositories: that a CI system may have checked out; none allow all, and no CI system.
    :param builders: who may have made them; ``*`` stands for anything but a slash; none allow all.
    """

    keys: tuple[VerifyingKey, ...] = ()
    identities: tuple[Identity, ...] = ()
    trust: Path | None = None
    sources: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
    builders: tuple[str, ...] = ()

    def refusals(self, said: Said) -> Iterator[str]:
        """Yield what is not believed of what a statement says."""
        if self.sources and not any(_is_of(said, each) for each in self.sources):
            yield f"it is made from {_shown(said)}, not from {_listed(self.sources)}"
        if self.repositories and said.repository not in self.repositories:
            where = said.repository[:_SHOWN] if said.repository else "none that is certain"
            yield f"it is made in the repository {where}, not in {_listed(self.repositories)}"
        if self.builders and not any(matches(said.builder, each) for each in self.builders):
            yield f"it is made by {said.builder[:_SHOWN]}, not by {_listed(self.builders)}"

    def but(self, sources: Words, repositories: Words, builders: Words) -> SignaturePolicy:
        """Return the policy with other words in the place of its own, where there are any."""
        return replace(
            self,
            sources=sources or self.sources,
            repositories=repositories or self.repositories,
            builders=builders or self.builders,
        )


def read_policy(path: Path) -> SignaturePolicy:
    """Read a policy; the files that it names lie beside it.

    :raises PolicyError: it cannot be read, or names nobody who may sign.
    :raises SigningKeyError: a key cannot be read.
    """
    where = Place(file=str(path))
    try:
        text = read_bounded(path, _LARGEST).decode()
        _refuse_twice(yaml.compose(text, Loader=yaml.BaseLoader), str(path), set())
        data = _written(yaml.load(text, yaml.BaseLoader))  # noqa: S506  # makes texts alone
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise PolicyError(f"it cannot be read: {in_one_line(error)}", where=where, remedy=f"write {_EXAMPLE}") from None
    return SignaturePolicy(
        keys=tuple(verifying_key(path.parent / name) for name in data.keys),
        identities=data.identities,
        trust=path.parent / data.trust if data.trust else None,
        **data.words,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What stands in a policy.

    :param keys: paths beside it.
    :param trust: as ``keys``.
    """

    keys: tuple[str, ...]
    identities: tuple[Identity, ...]
    trust: str | None
    words: dict[str, tuple[str, ...]]


def _written(data: Any) -> _Written:
    if not isinstance(data, dict):
        raise ValueError("it is no mapping")  # noqa: TRY004  # a mistake in a file
    if unknown := data.keys() - {_KEYS, _IDENTITIES, _TRUST, *_WORDS}:
        raise ValueError(f"it has {min(map(str, unknown))[:40]!r}, which nothing reads")
    texts = {name: _texts(name, data[name]) for name in (_KEYS, _TRUST, *_WORDS) if name in data}
    identities = tuple(map(_identity, _list(_IDENTITIES, data[_IDENTITIES]))) if _IDENTITIES in data else ()
    keys, trust = texts.pop(_KEYS, ()), texts.pop(_TRUST, (None,))
    if not (keys or identities):
        raise ValueError("it names no key and no identity, so nothing is believed")
    if len(trust) != 1:
        raise ValueError(f"{_TRUST} is one file")
    return _Written(keys=keys, identities=identities, trust=trust[0], words=texts)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    texts = _list(name, value)
    if not all(isinstance(each, str) and each for each in texts):
        raise ValueError(f"{name} is no list of texts")
    return tuple(texts)


def _list(name: str, value: Any) -> list[Any]:
    # What is empty would be taken for what allows all.
    if not value:
        raise ValueError(f"{name} is empty")
    return value if isinstance(value, list) else [value]


def _identity(value: Any) -> Identity:
    if not isinstance(value, dict) or not all(isinstance(text, str) and text for text in (*value, *value.values())):
        raise ValueError("an identity is no mapping of texts")
    return identity_of(value)


def _refuse_twice(node: yaml.Node | None, file: str, seen: set[int]) -> None:
    """Refuse two values of one name, of which every reader takes another.

    :param seen: ids of the nodes that were looked at: one may stand at many places.
    """
    if not isinstance(node, yaml.CollectionNode) or id(node) in seen:
        return
    seen.add(id(node))
    names: set[str] = set()
    for each in node.value:
        key, value = each if isinstance(node, yaml.MappingNode) else (None, each)
        if isinstance(key, yaml.ScalarNode) and key.value in names:
            place = Place(file=file, line=key.start_mark.line + 1, column=key.start_mark.column + 1)
            raise PolicyError(f"it has {key.value[:40]!r} twice", where=place, remedy="write all of it into one list")
        if isinstance(key, yaml.ScalarNode):
            names.add(key.value)
        _refuse_twice(value, file, seen)


def _is_of(said: Said, source: str) -> bool:
    """Say whether a statement's source is one that somebody named, perhaps with a revision."""
    places = {said.source, said.source.partition("#subdirectory=")[0]}
    place, revision = _place_and_revision(source)
    return place in places and (revision is None or revision in {said.revision, said.commit})


def _place_and_revision(source: str) -> tuple[str, str | None]:
    """Take a source apart. A place that has an @ in its own name is never taken for another at a revision."""
    if before := _BEFORE_PATH.match(source):
        path, at, revision = source[before.end() :].partition("@")
        return before[0] + path, revision if at else None
    archive = _ARCHIVE.fullmatch(source)
    return (archive["place"], archive["revision"]) if archive else (source, None)


def _shown(said: Said) -> str:
    revision = f"@{said.commit or said.revision}" if said.commit or said.revision else ""
    return f"{said.source}{revision}"[:_SHOWN]


def _listed(texts: tuple[str, ...]) -> str:
    return " or ".join(texts)
