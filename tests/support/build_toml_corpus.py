"""build.toml files for a judge: valid ones for each backend, and many with one change."""

from __future__ import annotations

import json
from collections.abc import Iterator

Tables = dict[str, dict[str, object]]
COMMON = {"depends": ["torch"], "cxx-flags": ["-O3"], "include": ["."]}
SECTIONS: dict[str, dict[str, object]] = {
    "cuda": {"src": ["a.cu"], "cuda-capabilities": ["8.0", "9.0a"], "cuda-flags": ["-x"], "cuda-minver": "12.8"},
    "rocm": {"src": ["a.cu"], "rocm-archs": ["gfx90a", "gfx942"], "hip-flags": ["-x"]},
    "xpu": {"src": ["a.cpp"], "sycl-flags": ["-x"]},
    "metal": {"src": ["a.metal"]},
    "cpu": {"src": ["a.cpp"]},
}
SECTIONS = {name: {"backend": name, **COMMON, **own} for name, own in SECTIONS.items()}
WRONG = (5, "x", ["x"], [5], True, {"a": 1}, [], "")


def dump(tables: Tables) -> str:
    """Return the text of a file."""
    lines = []
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {_value(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_value(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)


def base(backend: str, edition: int = 5) -> Tables:
    general = {"name": "k-one", "version": 1, "license": "MIT", "edition": 5, "backends": [backend]}
    for key in {5: (), 4: ("edition",), 3: ("edition", "version", "license")}[edition]:
        del general[key]
    return {"general": general, "torch": {"src": ["b.cpp"]}, "kernel.one": dict(SECTIONS[backend])}


def changed(whole: Tables, table: str, key: str, value: object) -> Tables:
    """Return a file with another value, or without the key if it is None."""
    other = {name: dict(own) for name, own in whole.items()}
    other.setdefault(table, {})[key] = value
    if value is None:
        del other[table][key]
    return other


def corpus() -> Iterator[tuple[str, Tables]]:
    """Yield the name of each file, and its content."""
    for backend in SECTIONS:
        for edition in (3, 4, 5):
            yield f"{backend}, edition {edition}", base(backend, edition)
        yield from _one_change(backend)
    yield from _of_torch()
    yield from _of_general()
    yield from _of_sections()


def _one_change(backend: str) -> Iterator[tuple[str, Tables]]:
    whole = base(backend)
    for table in whole:
        for key in whole[table]:
            yield f"{backend}: no {table}.{key}", changed(whole, table, key, None)
            for wrong in WRONG:
                if not isinstance(whole[table][key], str | int) or type(wrong) is not type(whole[table][key]):
                    yield f"{backend}: {table}.{key} = {_value(wrong)}", changed(whole, table, key, wrong)
        yield f"{backend}: {table}.unknown", changed(whole, table, "unknown", 1)
    for other in SECTIONS.values():
        for key in other.keys() - whole["kernel.one"].keys():
            yield f"{backend}: kernel.one.{key} of {other['backend']}", changed(whole, "kernel.one", key, other[key])


def _of_torch() -> Iterator[tuple[str, Tables]]:
    whole = base("cpu")
    given = {"minver": "2.9", "maxver": "2.12", "stable-abi": "2.11", "pyext": ["py"], "universal": True}
    for key, value in given.items():
        yield f"torch.{key}", changed(whole, "torch", key, value)
    for abi in ({"cpu": "2.11"}, {"cuda": "2.11"}, "2", "2.11.0", {"x": "2.11"}, {}):
        yield f"torch.stable-abi = {_value(abi)}", changed(whole, "torch", "stable-abi", abi)
    for name in ("torch-noarch", "tvm-ffi"):
        yield f"torch and {name}", {**whole, name: {} if name == "torch-noarch" else {"src": ["b.cpp"]}}
    noarch: Tables = {"general": whole["general"], "torch-noarch": {}}
    yield "noarch", noarch
    keys = {
        "pyext": ["py"],
        "cuda_capabilities": ["9.0"],
        "rocm_archs": ["gfx942"],
        "rocm-archs": ["gfx942"],
        "src": ["a"],
    }
    for key, value in keys.items():
        yield f"torch-noarch.{key}", changed(noarch, "torch-noarch", key, value)


def _of_general() -> Iterator[tuple[str, Tables]]:
    whole = base("cpu")
    of_backend = {
        "minver": "12.8",
        "maxver": "13.0",
        "python-depends": ["einops"],
        "kernel-depends": [{"repo-id": "a/b", "version": 1}],
    }
    for backend in ("cuda", "xpu", "neuron", "tpu", "rocm", "metal", "cpu"):
        for key, value in of_backend.items():
            yield f"general.{backend}.{key}", changed(whole, "general", backend, {key: value})
    for name in ("K", "k_one", "1k", "k-", "-k", "k.one", "k", "kk", "k" * 200):
        yield f"name {name[:9]}", changed(whole, "general", "name", name)
    every = ["cpu", "cuda", "rocm", "xpu", "metal", "tpu", "neuron", "cann"]
    for backends in (["gpu"], ["cpu", "cpu"], every, []):
        yield f"backends {backends}", changed(whole, "general", "backends", backends)


def _of_sections() -> Iterator[tuple[str, Tables]]:
    for arch in ("gfx90a", "gfx9", "sm_90", "gfx942:xnack-", "90a", ""):
        yield f"rocm-archs {arch}", changed(base("rocm"), "kernel.one", "rocm-archs", [arch])
    for capability in ("9.0", "9.0a", "90", "9", "9.0+PTX", "10.0f", "x", "12.1"):
        yield f"cuda-capabilities {capability}", changed(base("cuda"), "kernel.one", "cuda-capabilities", [capability])
    for depends in (
        ["torch"],
        [],
        ["cutlass_3_6"],
        ["cutlass_9_9"],
        ["nothing"],
        ["torch", "cutlass_4_0"],
        ["sycl_tla"],
    ):
        for backend in ("cuda", "xpu"):
            yield f"{backend} depends {depends}", changed(base(backend), "kernel.one", "depends", depends)
    for backend in ("tpu", "neuron", "cann", "gpu"):
        yield f"section of {backend}", changed(base("cpu"), "kernel.one", "backend", backend)
