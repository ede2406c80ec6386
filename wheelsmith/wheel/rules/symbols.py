"""Every symbol that a compiled file needs is offered where the loader looks for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wheelsmith.wheel.elf import Extension, Reference
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.providers import Providers, Scope
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.symbols import symbol_table

# Names as C++ mangles them, of torch's own namespaces.
_TORCHS = re.compile(r"_Z(?:T[ISVT])?N?[KVRO]*(?:2at|3c10|5torch|6caffe2)[0-9A-Z]")
# What starts the thread-local variables of another file, which may need no start at all (Itanium C++ ABI, 5.1.7).
_THREAD_LOCAL = "_ZTH"
_PYTHONS = ("Py", "_Py")


def _examine(wheel: Inspection) -> Iterator[Finding]:
    for name, extension in wheel.extensions.items():
        if extension.dynamic:
            yield _extension(wheel, name, extension)


def _extension(wheel: Inspection, name: str, extension: Extension) -> Finding:
    providers, arch = wheel.providers, extension.arch
    if any(library.startswith("libc.musl-") for library in extension.needed):
        return finding("symbols", [], f"{name} is linked with musl, whose symbols are not known here")
    scope = providers.scope(name)
    pythons = _PYTHONS if extension.kind != "program" else ()
    free = [r for r in extension.references if not r.name.startswith(pythons) and not providers.offers(scope, arch, r)]
    torchs = {r.name for r in free if scope.torch and not _lacking(providers, scope, arch, r.name)}
    absent = [r for r in free if r.name not in torchs]
    if absent and (wheel.loads_for_all or _machine_code_loads(wheel)):
        loaded = providers.loaded_for_all(cuda=wheel.loads_for_all)
        absent = [r for r in absent if not providers.offers(loaded, arch, r)]
    if absent and scope.unknown:
        return finding("symbols", [], f"{name}: {len(absent)} symbols are left to {', '.join(sorted(scope.unknown))}")
    wrong = [message for r in absent if (message := _why(providers, scope, name, arch, r))]
    beside = f", {len(torchs)} of them torch {', '.join(providers.torch or scope.torch)}'s" if torchs else ""
    return finding("symbols", wrong, f"{name}: {len(extension.references)} symbols{beside}")


def _machine_code_loads(wheel: Inspection) -> bool:
    """Say whether any machine code of the wheel can load libraries, for all to see."""
    return any(r.name == "dlopen" for extension in wheel.extensions.values() for r in extension.references)


def _lacking(providers: Providers, scope: Scope, arch: str, symbol: str) -> list[str]:
    """Return the torch releases that lack a symbol; where none is required, any that has it is good enough."""
    lacking = providers.torch_without(scope, arch, symbol)
    return lacking if providers.torch is not None or len(lacking) == len(scope.torch) else []


def _why(providers: Providers, scope: Scope, name: str, arch: str, reference: Reference) -> str | None:
    """Return what is wrong with a symbol that is not found; None where it may be absent."""
    symbol, table = reference.name, symbol_table(arch)
    somewhere = table.exported_by(symbol) if table and reference.version is None else frozenset[str]()
    takes = "takes as absent" if reference.weak else "needs"
    if somewhere or _TORCHS.match(symbol):
        lacking = _lacking(providers, scope, arch, symbol)
        if providers.torch is None and not scope.torch:
            return (
                None if reference.weak else f"{name} needs {symbol}, which is torch's, and it needs no library of torch"
            )
        if somewhere >= set(lacking):
            return None if reference.weak else f"{name} needs {symbol} of torch, and no library that brings it"
        return f"torch {', '.join(lacking)} does not export {symbol}, which {name} {takes}"
    if reference.weak:
        return _weak(name, reference)
    version = f" in version {reference.version}" if reference.version else ""
    return f"{name} needs {symbol}{version}, which nothing that it needs exports"


def _weak(name: str, reference: Reference) -> str | None:
    """Return what is wrong with a weak symbol that is not there.

    The loader puts nothing in its place, which is what optional symbols are for. One with a version is not optional:
    the loader asks for the version, and only a library that has it can offer the symbol.
    """
    if reference.version is None or reference.name.startswith(_THREAD_LOCAL):
        return None
    return f"{name} takes {reference.name} as absent, and no {reference.library} has it in {reference.version}"


RULE = Rule(
    name="symbols",
    proves="every symbol, with its version, is exported by a library that the file needs, directly or not: the wheel's "
    "own, the platform's, CUDA's, or torch's in every release that the wheel may be installed beside. A weak symbol "
    "may be absent, unless it is torch's or has a version",
    leaves_open="what the symbols do. CUDA's are those of its newest release of the same major number; those of a "
    "platform's library without versions are today's; musl's are not known; where Python code loads libraries for all "
    "to see (RTLD_GLOBAL), CUDA's and the wheel's own are believed to be among them, and where machine "
    "code calls dlopen, the wheel's own",
    examine=_examine,
)
