"""The metadata of wheel variants: PEP 825's package format with PEP 850's providers.

Both PEPs are drafts. This module writes the form that installers read today. docs/explanation/variants.md lists them
and describes the experiments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wheelsmith.base.errors import Place, WheelError
from wheelsmith.base.json_dataclass import Record, read_json
from wheelsmith.frameworks import framework, names_cuda, read_local_version
from wheelsmith.model import TORCH, VARIANT_LABEL, read_wheel_name
from wheelsmith.platforms import CPU, cuda_version_of, parse_capability
from wheelsmith.wheel.archive import LONGEST_TEXT, info_folder, open_archive

VARIANT_FILE = "variant.json"
NULL = "null"
# uv knows this schema URL. variantlib 0.2.2 reads any, and writes another one, for which uv warns.
SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
# uv has this plugin built in, under exactly these values. It skips a provider without plugin-api.
_PROVIDERS = {
    "nvidia": {
        "requires": ["nvidia-variant-provider>=0.0.1,<1.0.0"],
        "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
    }
}
_HEADER = {
    "$schema": SCHEMA,
    "default-priorities": {"namespace": list(_PROVIDERS)},
    "providers": _PROVIDERS,
}
_NAME = re.compile(r"[0-9a-z_]+")
_VALUE = re.compile(r"[0-9a-z_.]+")
_SM = re.compile(r"(?P<number>\d+)(?P<suffix>[af]?)_(?P<kind>real|virtual)")
# The newest major in the plugin's catalogue. For a GPU, the plugin lists only the PTX of the GPU's own major, such as
# 120_virtual, although the GPU can compile PTX of older majors. So a wheel lists each major that can compile its PTX.
_NEWEST_MAJOR = 12

_SHOWN = 200  # characters of a message

# Namespace → feature → values.
Properties = dict[str, dict[str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant(Record):
    """The properties that a variant wheel requires of a machine.

    The machine must have one of the values of each feature. The null variant has no features and fits every machine.

    :param label: last part of the file name. In one version, equal labels have equal properties.
    """

    label: str
    properties: Properties = field(default_factory=dict)


def variant_for(compute: str, gpu_archs: Iterable[str]) -> Variant:
    """Return the variant of a wheel.

    :param compute: ``cu130``, or ``cpu`` for the null variant, which installers choose if no other one fits.
    :param gpu_archs: capabilities of its GPU code, e.g. ``8.0``, ``9.0+PTX``.
    """
    if compute == "cpu":
        return Variant(label=NULL)
    archs = tuple(gpu_archs)
    architectures = sm_values(archs, [text for text in archs if text.endswith("+PTX")])
    features: dict[str, tuple[str, ...]] = {"cuda_version_lower_bound": (cuda_version_of(compute) or "",)}
    if architectures:
        features["sm_arch"] = tuple(sorted(architectures))
    # The label encodes the properties, so that wheels from different machines never contradict each other.
    short = (_short_value(value) for value in sorted(architectures, key=_sort_key))
    return Variant(label="_".join([compute, *short]), properties={"nvidia": features})


def sm_values(machine_code: Iterable[str], ptx: Iterable[str]) -> frozenset[str]:
    """Return the values of ``nvidia :: sm_arch`` for GPUs that can run a wheel's code.

    A GPU with capability 8.6 has the values 86_real to 80_real, and 80_virtual.

    :param machine_code: capabilities, e.g. ``9.0a``; ``+PTX`` is ignored.
    :param ptx: capabilities, with or without ``+PTX``.
    """
    values = {_machine_code_value(text) for text in machine_code}
    return frozenset(values.union(*map(_ptx_values, ptx)))


def variant_version(version: str) -> str | None:
    """Return the version of the variant wheel for a plain one; None if the version names neither the CPU nor CUDA.

    Installers choose among the variants of one version, so the version must not name the compute platform:
    ``1+cu130.torch2.11`` becomes ``1+torch2.11``. For torch's stable ABI it becomes ``1+torchstable``: a plain ``1``
    would sort below ``1+cu130``, and installers would never choose it. Local versions that begin with ``torch`` sort
    above all plain ones.
    """
    public, _, local = version.partition("+")
    parsed = read_local_version(local)
    if not parsed.own or not (parsed.compute == CPU or names_cuda(parsed.compute)):
        return None
    return f"{public}+{parsed.framework_part or framework(TORCH).stable_part}"


def dump_variants(variants: Iterable[Variant]) -> bytes:
    """Return the content of variant.json for one wheel, or of the combined file for an index."""
    listed = {variant.label: variant.to_json()["properties"] for variant in variants}
    return json.dumps({**_HEADER, "variants": listed}, indent=1, sort_keys=True).encode() + b"\n"


def read_variant(path: Path) -> Variant | None:
    """Return the variant of a variant wheel, or None for other wheels.

    :raises WheelError: ``variant.json`` is missing or invalid.
    """
    label = read_wheel_name(path.name).label
    if not label:
        return None
    with open_archive(path) as archive:
        name = f"{info_folder(archive)}/{VARIANT_FILE}"
        data = archive.read(name, LONGEST_TEXT) if name in archive.members else None
    return parse_variant(data, path.name, label)


def parse_variant(data: bytes | None, filename: str, label: str) -> Variant:
    """Parse the ``variant.json`` of a variant wheel.

    :param data: content of the file; None if there is no such file.
    :param label: from the file name.
    :raises WheelError: the file is missing or invalid.
    """
    where = Place(file=filename)
    if data is None:
        raise WheelError("the name has a variant label, but there is no variant.json", where=where)
    try:
        plain = read_json(data)
        mistakes = variant_mistakes(plain)
    except ValueError as error:
        mistakes = [f"it is not JSON: {error}"]
    if not mistakes and list(plain["variants"]) != [label]:
        labels = ", ".join(map(repr, plain["variants"])) or "none"
        mistakes = [f"the file name has the label {label!r}, but the file has {labels}"]
    if mistakes:
        raise WheelError(f"variant.json cannot be used: {mistakes[0][:_SHOWN]}", where=where)
    return Variant.from_json({"label": label, "properties": plain["variants"][label]})


def variant_mistakes(data: Any) -> list[str]:
    """Return the mistakes in a variant.json of a wheel or an index."""
    if not isinstance(data, dict) or not isinstance(data.get("variants"), dict):
        return ["it has no variants"]
    # All wheels of a version need the same providers, so that an index can combine their variants.
    mistakes = [f"{key} is not {json.dumps(_HEADER[key])}" for key in _HEADER if data.get(key) != _HEADER[key]]
    mistakes += [f"the key {key!r} is unknown" for key in data if key not in {*_HEADER, "variants"}]
    for label, namespaces in data["variants"].items():
        mistakes += [f"variant {label!r}: {reason}" for reason in _variant_mistakes(label, namespaces)]
    return mistakes


def label_conflicts(variants: Iterable[Variant]) -> list[str]:
    """Return mistakes for labels with several sets of properties, and for sets with several labels."""
    by_label: dict[str, Variant] = {}
    by_properties: dict[str, str] = {}
    mistakes = []
    for variant in variants:
        if by_label.setdefault(variant.label, variant) != variant:
            mistakes.append(f"{variant.label} already has other properties")
        text = json.dumps(variant.to_json()["properties"], sort_keys=True)
        if (known := by_properties.setdefault(text, variant.label)) != variant.label:
            mistakes.append(f"{variant.label} has the properties of {known}")
    return mistakes


# --- rules of the format ------------------------------------------------------------------------------------


def _variant_mistakes(label: str, namespaces: Any) -> list[str]:
    if not VARIANT_LABEL.fullmatch(label):
        return ["a label may only contain 0-9, a-z, '_' and '.'"]
    if not isinstance(namespaces, dict) or not all(isinstance(item, dict) for item in namespaces.values()):
        return ["it is not a mapping of namespaces and features"]
    if (label == NULL) != (not namespaces):
        return [f"only the variant without properties has the label {NULL!r}"]
    mistakes = [f"namespace {name!r} has no provider" for name in namespaces if name not in _PROVIDERS]
    mistakes += [f"namespace {name!r} is empty" for name, features in namespaces.items() if not features]
    for features in namespaces.values():
        mistakes += [f"{name!r} is not a valid name of a feature" for name in features if not _NAME.fullmatch(name)]
        mistakes += [
            f"the values of {name}: {reason}" for name, values in features.items() for reason in _value_mistakes(values)
        ]
    return mistakes


def _value_mistakes(values: Any) -> list[str]:
    if not isinstance(values, list) or not values:
        return ["there are none"]
    if bad := [value for value in values if not isinstance(value, str) or not _VALUE.fullmatch(value)]:
        return [f"{bad[0]!r} may only contain 0-9, a-z, '_' and '.'"]
    return [] if values == sorted(set(values)) else ["they are not sorted, or not unique"]


# --- values of sm_arch --------------------------------------------------------------------------------------


def _machine_code_value(text: str) -> str:
    major, minor, suffix, _ = parse_capability(text)
    # 9.0 is the only capability of its major, so plain 9.0 is exact for 9.0a. For other majors the "a" must stay:
    # without it, a GPU of 12.1 would accept code for 12.0a.
    # Code for a family (f) runs on later GPUs of its major, like plain code.
    literal = "a" if suffix == "a" and (major, minor) != (9, 0) else ""
    return f"{major}{minor}{literal}_real"


def _ptx_values(text: str) -> set[str]:
    major, minor, suffix, _ = parse_capability(text)
    later = () if suffix else range(major + 1, _NEWEST_MAJOR + 1)
    return {f"{major}{minor}{suffix}_virtual", *(f"{number}0_virtual" for number in later)}


def _short_value(value: str) -> str:
    """Return ``90`` for ``90_real`` and ``90v`` for ``90_virtual``, to keep labels short."""
    number, _, kind = value.partition("_")
    return number if kind == "real" else f"{number}v"


def _sort_key(value: str) -> tuple[int, str, str]:
    match = _SM.fullmatch(value)
    assert match is not None  # noqa: S101  # sm_values returns only such values
    return int(match["number"]), match["suffix"], match["kind"]
