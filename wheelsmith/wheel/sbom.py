"""Write the software bill of materials (SBOM) of a wheel, as CycloneDX in its .dist-info folder (PEP 770).

The SBOM depends only on the wheel's plan and on the libraries that its files need. It does not depend on the clock,
the machine or the release of wheelsmith.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.utils import canonicalize_name

from wheelsmith.model import UPSTREAM

_WHEEL = "wheel"
_IMAGE = "image-"
_COMPILERS = re.compile(r"(?P<name>[a-z]+)-(?P<version>[0-9.]+)(-.*)?")


def sbom_name(distribution: str) -> str:
    """Return the name of the SBOM file in ``.dist-info/sboms``."""
    return f"{canonicalize_name(distribution)}.cdx.json"


def sbom(recorded: str, needed: Collection[str]) -> bytes:
    """Return the SBOM of a wheel.

    :param recorded: the plan that the wheel records.
    :param needed: DT_NEEDED of all its files.
    """
    plan, digest = json.loads(recorded), hashlib.sha256(recorded.encode()).hexdigest()
    name, version = plan["wheel"]["distribution"], plan["wheel"]["version"]
    facts = {"plan": digest} | ({"compiled-by": UPSTREAM} if plan["repacked"] else {})
    wheel = _component(name, version, ref=_WHEEL, purl=_pypi_purl(name, version), facts=facts)
    parts = [*_source_component(plan), *_compiled_in_components(plan), *map(_linked_component, sorted(needed))]
    bom = Bom(
        components=_deduplicate([*parts, *_environment_components(plan)]),
        serial_number=uuid5(NAMESPACE_URL, f"urn:wheelsmith:plan:{digest}"),
    )
    bom.metadata.component = wheel
    bom.register_dependency(wheel, _deduplicate(parts))
    data = json.loads(JsonV1Dot6(bom).output_as_string())
    # The current time would make each SBOM different.
    del data["metadata"]["timestamp"]
    return json.dumps(data, indent=1, sort_keys=True).encode() + b"\n"


def _deduplicate(components: Iterable[Component]) -> list[Component]:
    """Return the components without duplicates: the library renames the second one of the same reference."""
    return list({each.bom_ref.value: each for each in components}.values())


def _source_component(plan: Mapping[str, Any]) -> Iterator[Component]:
    name, version = plan["wheel"]["distribution"], plan["wheel"]["version"].partition("+")[0]
    yield _component(f"{name} source", version, ref="source", facts={"tree": plan["source"]["tree"]})


def _compiled_in_components(plan: Mapping[str, Any]) -> Iterator[Component]:
    """Yield the prefixes that provide headers or static libraries."""
    compilers = (plan["toolset"] or {}).get("prefix")
    for prefix in filter(None, (plan["headers"], plan["toolkit"], compilers, *plan["libraries"])):
        name, version = _name_and_version(prefix["kind"].removeprefix(_IMAGE), prefix["version"])
        yield _component(name, version, ref=f"compiled-in:{prefix['digest']}", facts={"digest": prefix["digest"]})


def _name_and_version(kind: str, version: str) -> tuple[str, str]:
    """Return the name and the version of a prefix's content; both may be one word, e.g. ``cutlass_4_0``."""
    if kind == "library":
        name, _, rest = version.partition("_")
        return name, rest.replace("_", ".")
    match = _COMPILERS.fullmatch(version)
    return (match["name"], match["version"]) if kind == "cxx" and match else (kind, version)


def _linked_component(library: str) -> Component:
    return _component(library, None, ref=f"linked:{library}", facts={"linked": "dynamically"})


def _environment_components(plan: Mapping[str, Any]) -> Iterator[Component]:
    """Yield the packages of a project's build environment, which are not installed with the wheel."""
    for each in (plan["project"] or {}).get("environment", ()):
        yield Component(
            type=ComponentType.LIBRARY,
            name=each["name"],
            version=each["version"],
            bom_ref=f"built-with:{each['name']} {each['version']} {each['sha256']}",
            scope=ComponentScope.EXCLUDED,
            purl=_pypi_purl(each["name"], each["version"]),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each["sha256"])],
        )


def _component(
    name: str, version: str | None, *, ref: str, facts: Mapping[str, str], purl: PackageURL | None = None
) -> Component:
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        bom_ref=ref,
        scope=None if ref == _WHEEL else ComponentScope.REQUIRED,
        purl=purl,
        properties=[Property(name=f"wheelsmith:{key}", value=value) for key, value in facts.items()],
    )


def _pypi_purl(name: str, version: str) -> PackageURL:
    return PackageURL(type="pypi", name=canonicalize_name(name), version=version)
