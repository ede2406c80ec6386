"""The METADATA file, decided before anything is built."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from wheelsmith.plan.recipe.recipe import KernelSource
from wheelsmith.plan.recipe.spec import KernelSpec

REQUIRES_PYTHON = ">=3.9"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What the wheel requires, as METADATA writes it; ``extras`` by the extra's name."""

    always: tuple[str, ...]
    extras: dict[str, tuple[str, ...]]


def render_metadata(
    spec: KernelSpec, *, distribution: str, version: str, requirements: Requirements, source: KernelSource
) -> str:
    """Return the whole text, of metadata version 2.4 (core metadata specification)."""
    fields = [("Metadata-Version", "2.4"), ("Name", distribution), ("Version", version)]
    fields += [("Summary", f"The {spec.name} kernel for {spec.framework}"), *_licence(spec.license)]
    fields += [("License-File", path) for path in source.licences]
    fields += [
        ("Project-URL", f"{label}, {url}")
        for label, url in (("Upstream", spec.upstream), ("Source", spec.source))
        if url and url.startswith(("https://", "http://")) and url.isprintable()
    ]
    fields.append(("Requires-Python", REQUIRES_PYTHON))
    fields += [("Requires-Dist", text) for text in requirements.always]
    for extra, texts in sorted(requirements.extras.items()):
        fields.append(("Provides-Extra", extra))
        fields += [("Requires-Dist", f'{text}; extra == "{extra}"') for text in texts]
    fields.append(("Description-Content-Type", "text/markdown"))
    head = "".join(f"{name}: {value}\n" for name, value in fields)
    return f"{head}\n{_description(spec, source.readme)}"


def _licence(licence: str | None) -> list[tuple[str, str]]:
    if not licence:
        return []
    try:
        return [("License-Expression", canonicalize_license_expression(licence))]
    except InvalidLicenseExpression:
        # Old build.toml files name licences in their own words; those have a field of their own.
        return [("License", " ".join(licence.split()))]


def _description(spec: KernelSpec, readme: str | None) -> str:
    """Return the readme without the YAML block that the Hub puts before it."""
    text = (readme or f"# {spec.name}\n").replace("\r\n", "\n")
    if text.startswith("---\n") and "\n---\n" in text:
        text = text.split("\n---\n", 1)[1]
    return text.lstrip("\n") or f"# {spec.name}\n"
