"""Every symbol that a compiled file needs is offered where the loader looks for it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from wheelsmith.base.units import counted
from wheelsmith.wheel.elf import Extension, NeededVersion, Reference
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.symbol_resolution import CUDA_MAJORS, LookupScope, Providers, cuda_releases, torch_names
from wheelsmith.wheel.symbols import cuda_exports, symbol_table

# Names as C++ mangles them, of torch's own namespaces.
_TORCHS = re.compile(r"_Z(?:T[ISVT])?N?[KVRO]*(?:2at|3c10|5torch|6caffe2)[0-9A-Z]")
# What starts the thread-local variables of another file, which may need no start at all (Itanium C++ ABI, 5.1.7).
_THREAD_LOCAL = "_ZTH"
_PYTHONS = ("Py", "_Py")
_MOST_TRACED = 1000  # symbols of one file of which it is told who has them


def _examine(wheel: Inspection) -> Iterator[Finding]:
    for name, extension in wheel.extensions.items():
        if extension.dynamic:
            yield _extension(wheel, name, extension)


def _extension(wheel: Inspection, name: str, extension: Extension) -> Finding:
    providers, arch = wheel.providers, extension.arch
    if any(library.startswith("libc.musl-") for library in extension.needed):
        if foreign := sorted(set(extension.needed) & torch_names(arch)):
            return finding("symbols", [f"{name} is linked with musl, and {', '.join(foreign)} is for glibc alone"], "")
        return finding("symbols", [], f"{name} is linked with musl, whose symbols are not known here")
    scope = providers.scope(name)
    pythons = _PYTHONS if extension.kind != "program" else ()
    free = [r for r in extension.references if not r.name.startswith(pythons) and not providers.offers(scope, arch, r)]
    theirs = {r.name: without for r in free if (without := providers.projects_without(scope, r.name)) is not None}
    free = [r for r in free if r.name not in theirs]
    torchs = {r.name for r in free if scope.torch and not _lacking(providers, scope, arch, r.name)}
    absent = [r for r in free if r.name not in torchs]
    believed = 0
    if absent and (loaded := _loaded_for_all(wheel, name)):
        missing = [r for r in absent if not providers.offers(loaded, arch, r)]
        believed, absent = len(absent) - len(missing), missing
    wrong = [
        f"{name} needs the version {need.name} of {need.library}, which {_lacks(scope, need)}"
        for need in extension.needed_versions
        if not need.weak and not providers.has_version(scope, name, need)
    ]
    wrong += [
        f"{without} does not export {symbol}, which {name} needs" for symbol, without in theirs.items() if without
    ]
    left = [r for r in absent if scope.unknown and not _is_known(r)]
    # A library that some of the torch releases lack is told of by the rule about libraries.
    lacked = {lib for lib in extension.needed if lib in torch_names(arch) and providers.without_torch(arch, lib)}
    absent = [r for r in absent if r not in left and (r.library not in lacked or providers.torch is None)]
    if providers.torch == ():
        strange = [r for r in absent if _is_torchs(r, arch)]
        absent = [r for r in absent if r not in strange]
        wrong += _not_known(name, [r.name for r in strange if not r.weak])
    wrong += [message for r in absent if (message := _why(providers, scope, name, arch, r))]
    beside = f", {len(torchs)} of them torch {', '.join(providers.torch or scope.torch)}'s" if torchs else ""
    beside += f", {len(theirs)} of them {', '.join(sorted(scope.brought))}'s" if theirs else ""
    # OpenMP's, say: what is not torch's own may be in a library that torch brings along.
    others = sorted(symbol for symbol in torchs if not _TORCHS.match(symbol))[:_MOST_TRACED]
    if brought := providers.torch_brings(scope, arch, others, extension.needed):
        beside += f", some in {', '.join(brought)} that it brings"
    if left:
        beside += f", {len(left)} of them left to {', '.join(sorted(scope.unknown))}"
    if believed:
        beside += f", {believed} of them left to code of the wheel that loads libraries for all to see"
    return finding("symbols", wrong, f"{name}: {counted(len(extension.references), 'symbol')}{beside}")


def _loaded_for_all(wheel: Inspection, name: str) -> LookupScope | None:
    """Return what code of the wheel may have loaded for all to see before one file is; None where none does."""
    loads = [load for load in wheel.loads if load.for_all]
    if any(load.library is None for load in loads):
        return wheel.providers.loaded_for_all(cuda=True)
    # What a file itself loads comes too late for its own symbols.
    others = (extension for path, extension in wheel.extensions.items() if path != name)
    if any(reference.name == "dlopen" for extension in others for reference in extension.references):
        whole = wheel.providers.loaded_for_all(cuda=False)
    elif loads:
        whole = LookupScope()
    else:
        return None
    named = {load.library for load in loads if load.library}
    whole.own |= {path for path in wheel.extensions if posixpath.basename(path) in named}
    whole.others |= {library for library in named if wheel.providers.compute != "cpu" or not cuda_releases(library)}
    return whole


def _is_known(reference: Reference) -> bool:
    """Say whether a symbol is torch's or CUDA's, which no library of anybody else has."""
    if reference.weak:
        return False
    if _TORCHS.match(reference.name):
        return True
    tables = filter(None, map(cuda_exports, CUDA_MAJORS))
    return any(reference.name in symbols for table in tables for symbols in table.symbols.values())


def _is_torchs(reference: Reference, arch: str) -> bool:
    table = symbol_table(arch) if reference.version is None else None
    return bool(_TORCHS.match(reference.name) or (table and table.exported_by(reference.name)))


def _not_known(name: str, symbols: list[str]) -> Iterator[str]:
    """Say that nothing is known of the torch that is required, as of torch==2.4.0."""
    if symbols:
        more = f" and {counted(len(symbols) - 1, 'more symbol')}" if len(symbols) > 1 else ""
        yield f"{name} needs {symbols[0]}{more} of torch, and no release that the wheel requires is known here"


def _lacks(scope: LookupScope, need: NeededVersion) -> str:
    torchs = {file for files in scope.torch.values() for file in files}
    return (
        "has no such version" if need.library in scope.others | torchs else "it does not need, or has no such version"
    )


def _lacking(providers: Providers, scope: LookupScope, arch: str, symbol: str) -> list[str]:
    """Return the torch releases that lack a symbol; where none is required, any that has it is good enough."""
    lacking = providers.torch_without(scope, arch, symbol)
    return lacking if providers.torch is not None or len(lacking) == len(scope.torch) else []


def _why(providers: Providers, scope: LookupScope, name: str, arch: str, reference: Reference) -> str | None:
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
    leaves_open="what the symbols do. CUDA's are those of "
    "its newest release of the same major number; those of a platform's library without versions are today's; musl's "
    "are not known; where Python code loads libraries for all to see (RTLD_GLOBAL) by names that it puts together, "
    "CUDA's and the wheel's own are believed to be among them, and where machine code of another file calls dlopen, "
    "the wheel's own",
    in_the_wild="torchopt 0.7.3: it requires `torch>=1.13`, and needs `_ZN3c106detail14torchCheckFailEPKcS2_jRKSs`, "
    "which torch 2.7 and later do not export",
    examine=_examine,
)
