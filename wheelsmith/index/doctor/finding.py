"""Findings about a live index, as data for the command line and pipelines."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from wheelsmith.base.json_dataclass import Record
from wheelsmith.index.doctor.http_exchange import Exchange

# Host, a header that only this host sends, the start of its Server header, the end of its domain name. CDNs come first
# because they change more of a response than the host behind them.
_HOSTS = (
    ("cloudfront", "x-amz-cf-id", "", ""),
    ("cloudflare", "cf-ray", "cloudflare", ""),
    ("huggingface", "x-repo-commit", "", "huggingface.co"),
    ("huggingface", "", "", ".hf.co"),
    ("github", "x-github-request-id", "github.com", ".github.io"),
    ("gcs", "x-guploader-uploadid", "uploadserver", "storage.googleapis.com"),
    ("azure", "x-ms-request-id", "windows-azure", ".core.windows.net"),
    ("s3", "x-amz-request-id", "amazons3", ".amazonaws.com"),
    ("nginx", "", "nginx", ""),
    ("wheelsmith", "", "wheelsmith", ""),
)
_MAX_SHOWN = 100  # characters of a value from a server


class Severity(StrEnum):
    """Severity of a finding, worst first."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFinding(Record):
    """One problem of an index.

    :param rule: stable name of the rule, a key of rules.toml.
    :param severity: error if an installer fails; warning if the index is slow, fragile or not standard; advice for a
        possible improvement.
    :param message: one sentence.
    :param hurts: affected programs or people, e.g. ``pip``, ``uv``.
    :param places: URLs that have the problem.
    :param command: a curl command that shows the problem at the first URL.
    :param host: the server software or hosting service, as guessed by ``host_of``. It selects the remedy.
    """

    rule: str
    severity: Severity
    message: str
    hurts: tuple[str, ...]
    places: tuple[str, ...]
    command: str
    host: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(Record):
    """The result of an examination.

    :param findings: all findings, worst first.
    :param roots: URLs of the roots that were found.
    :param pages: number of project pages examined.
    :param wheels: number of wheels examined.
    :param requests: number of requests sent.
    :param unexamined: the parts that could not be examined, each with the reason.
    """

    url: str
    host: str
    findings: tuple[IndexFinding, ...]
    roots: tuple[str, ...]
    pages: int
    wheels: int
    requests: int
    unexamined: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Return True if no finding is an error, so that every installer works."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


def finding(rule: str, exchange: Exchange, *, severity: Severity | None = None, **values: Any) -> IndexFinding:
    """Return a finding with the message from rules.toml and the remedy for the responding host.

    :param severity: overrides the rule's severity.
    :param values: values for the message. They may come from the server.
    """
    rule_data, host = _rules()[rule], host_of(exchange)
    return IndexFinding(
        rule=rule,
        severity=severity or Severity(rule_data["severity"]),
        message=rule_data["message"].format(**{name: str(value)[:_MAX_SHOWN] for name, value in values.items()}),
        hurts=tuple(rule_data["hurts"]),
        places=(exchange.url,),
        command=exchange.command,
        host=host,
        remedy=rule_data.get(host, rule_data["any"]),
    )


def merge_findings(findings: Iterable[IndexFinding]) -> tuple[IndexFinding, ...]:
    """Merge findings that differ only in place or severity, keep the worst severity, and sort by severity."""
    order = list(Severity)
    merged: dict[tuple[str, str, str], IndexFinding] = {}
    for item in sorted(findings, key=lambda item: order.index(item.severity)):
        key = (item.rule, item.message, item.host)
        known = merged.get(key)
        places = tuple(dict.fromkeys((*known.places, *item.places))) if known else item.places
        merged[key] = replace(known or item, places=places)
    return tuple(merged.values())


def host_of(exchange: Exchange) -> str:
    """Guess the host of a response: ``nginx``, ``s3``, ``cloudfront``, ``gcs`` and so on."""
    headers, name = exchange.headers, urlsplit(exchange.final).hostname or ""
    server = headers.get("server", "").lower()
    for host, header, begin, end in _HOSTS:
        if (header and header in headers) or (begin and server.startswith(begin)) or (end and name.endswith(end)):
            return "s3-website" if host == "s3" and ".s3-website" in name else host
    return "unknown"


@cache
def _rules() -> dict[str, dict[str, Any]]:
    return tomllib.loads(resources.files("wheelsmith.index.doctor").joinpath("rules.toml").read_text("utf-8"))
