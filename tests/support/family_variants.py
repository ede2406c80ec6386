"""What the local version and the label of a variant say, and what is in the wheel."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from forge import Wheel, import_symbols, one_legal, one_lie, put
from forge_gpu import code

from wheelsmith.wheel.variant_format import Variant, dump_variants

_STATIC_RUNTIME = b"CUDA driver version is insufficient for CUDA runtime version\0"
_lie, _legal = partial(one_lie, family="variants"), partial(one_legal, family="variants")


def _version(version: str, wheel: Wheel) -> None:
    wheel.rename(f"1.0+{version}")


def _gpu_code(wheel: Wheel) -> None:
    wheel.library.fatbin = code("90")


for _text in ("cpu.avx512.torch2.11", "torch2.11.cpu", "cpu.cxx11.abi", "cpu2", "pt2.11cpu"):
    _lie("compute", f"GPU code in +{_text}", "the version says cpu", partial(_version, _text), _gpu_code, base="cpu")
for _text in ("cu12torch2.11cxx11abitrue", "pt2.11cu126", "cu126.pt2.11", "torch2.11.cu126", "cuda12.6", "cu1260"):
    _lie(
        "toolkit compute libraries names torch",
        f"CUDA 13 in +{_text}",
        "the version says CUDA 12 in other words, and all is of CUDA 13",
        partial(_version, _text),
        base="cuda",
    )
_lie(
    "compute toolkit torch names",
    "there is no CUDA 99.9",
    "the version names it",
    partial(_version, "cu999.torch2.11"),
    base="cpu",
)
_lie("compute", "CUDA without any", "nothing in it is CUDA's", partial(_version, "cu130.torch2.11"), base="cpu")
_lie(
    "compute",
    "static runtime in cpu",
    "CUDA's runtime is linked in",
    lambda w: setattr(w.library, "constants", _STATIC_RUNTIME),
    base="cpu",
)
_legal(
    "cu130 by a word",
    "Python code is about CUDA",
    partial(_version, "cu130.torch2.11"),
    put("forged/k.py", b"device = 'cuda'\n"),
    base="cpu",
)


# --- labels -------------------------------------------------------------------------------------------------


def _variant(
    label: str, sm: tuple[str, ...] = (), *, version: str = "torch2.11", features: tuple[str, ...] = (), **bounds: str
) -> Callable[[Wheel], None]:
    """Make it a variant wheel with these properties of its GPUs and its CUDA."""
    properties = {f"cuda_version_{name}_bound": [bound] for name, bound in bounds.items()}
    properties |= {"sm_arch": list(sm)} if sm else {}
    properties |= {name: ["80_real"] for name in features}

    def change(wheel: Wheel) -> None:
        made = json.loads(dump_variants([Variant(label=label)]))
        made["variants"] = {label: {"nvidia": properties} if properties else {}}
        _version(version, wheel)
        wheel.label = label
        wheel.raw["{info}/variant.json"] = json.dumps(made).encode()

    return change


_80 = ("80_real",)
_NO_CODE: Callable[[Wheel], None] = lambda w: setattr(w.library, "fatbin", b"")  # noqa: E731
_lie("variant compute libraries", "null needs CUDA", "CUDA's libraries", _variant("null"), _NO_CODE, base="cuda")
_lie(
    "variant compute symbols",
    "null with a function of CUDA",
    "the null variant is for every machine",
    _variant("null"),
    import_symbols("cudaMalloc", kind=0),
    base="cpu",
)
for _name, _change in {
    "an older CUDA": _variant("x", _80, lower="11.0"),
    "an older CUDA in the label": _variant("cuda11", _80, lower="11.8"),
    "an older CUDA than the label": _variant("cu13", _80, lower="12.0"),
    "label and properties differ": _variant("cu130_80", _80, lower="12.4"),
    "label of another GPU": _variant("cu130_120", _80, lower="13.0"),
    "no GPU is named": _variant("cu130", lower="13.0"),
    "unknown features": _variant("cu130_80", features=("cuda_version", "sm_archs")),
    "label cpu with GPU code": _variant("cpu", _80),
    "an upper bound below": _variant("cu130_80", _80, upper="12.0"),
}.items():
    _lie("variant toolkit compute", _name, "an installer chooses by other properties", _change, base="cuda")
_lie(
    "variant compute names",
    "version +cpu and a label of CUDA 13",
    "variants compete within +cpu",
    _variant("cu130", lower="13.0", version="cpu.torch2.11"),
    base="cpu",
)
_legal("a label of its own", "PEP 825 leaves it to the maker", _variant("fast", _80, lower="13.0"), base="cuda")
