"""Check the symbols that ELF files need, CPython's symbols, and the namespaces of Hub kernels' operators."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import cache

import abi3info  # type: ignore[import-untyped]  # it ships no types
from packaging.tags import Tag

from wheelsmith.base.units import counted
from wheelsmith.wheel.elf import Extension, NeededVersion, Reference
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.python_code import (
    HubKernel,
    hub_kernels,
    is_ops_module,
    parse,
    registered_namespaces,
    registrations,
)
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.symbol_resolution import CUDA_MAJORS, LookupScope, SymbolResolver, cuda_releases, torch_names
from wheelsmith.wheel.symbols import cuda_exports, python_exports

# Mangled C++ names in torch's namespaces.
_TORCH_SYMBOL = re.compile(r"_Z(?:T[ISVT])?N?[KVRO]*(?:2at|3c10|5torch|6caffe2)[0-9A-Z]")
# Initialisers of another file's thread-local variables, which are optional (Itanium C++ ABI, 5.1.7).
_THREAD_LOCAL_INIT = "_ZTH"
_PYTHON_PREFIXES = ("Py", "_Py")
_PYTHON = re.compile(r"cp(\d)(\d+)")


def _check_symbols(wheel: Inspection) -> Iterator[Finding]:
    for name, extension in wheel.extensions.items():
        if not extension.dynamic:
            continue
        if any(library.startswith("libc.musl-") for library in extension.needed):
            yield _check_musl(name, extension)
        elif wheel.resolver.torch and wheel.resolver.torch_of(name) == ():
            yield finding("symbols", [], f"{name} is for a torch that is not known: its symbols are not checked")
        else:
            yield _check_extension(wheel, name, extension)


def _check_musl(name: str, extension: Extension) -> Finding:
    foreign = ", ".join(sorted(set(extension.needed) & torch_names(extension.arch)))
    mistakes = [f"{name} is linked with musl, but {foreign} needs glibc"] if foreign else []
    return finding("symbols", mistakes, f"{name} is linked with musl: its symbols are not checked")


def _check_extension(wheel: Inspection, name: str, extension: Extension) -> Finding:
    resolver, arch = wheel.resolver, extension.arch
    scope = resolver.scope(name)
    pythons = _PYTHON_PREFIXES if extension.kind != "program" else ()
    free = [r for r in extension.references if not r.name.startswith(pythons) and not resolver.provides(scope, arch, r)]
    frameworks = {r.name: without for r in free if (without := resolver.frameworks_without(scope, r.name)) is not None}
    torch_symbols = {r.name for r in free if scope.torch and not _torch_releases_without(resolver, scope, arch, r.name)}
    of_rocm = {r.name for r in free if resolver.is_rocm_symbol(r)}
    provided = {*frameworks, *of_rocm, *torch_symbols}
    absent = [r for r in free if r.name not in provided]
    loaded = _global_scope(wheel, name) if absent else None
    missing = [r for r in absent if not loaded or not resolver.provides(loaded, arch, r)]
    unknown = [r for r in missing if scope.unknown and not _is_torch_or_cuda_symbol(r)]
    mistakes = [
        f"{name} needs the version {need.name} of {need.library}, but {_describe_missing_version(scope, need)}"
        for need in extension.needed_versions
        if not need.weak and not resolver.has_version(scope, name, need)
    ]
    mistakes += [f"{text} does not export {symbol}, which {name} needs" for symbol, text in frameworks.items() if text]
    mistakes += _missing_mistakes(resolver, scope, name, extension, [r for r in missing if r not in unknown])
    others = {
        f"from torch {', '.join(resolver.torch_of(name) or scope.torch)}": len(torch_symbols),
        f"from {', '.join(sorted(scope.frameworks))}": len(frameworks),
        "from HIP or torch's ROCm libraries, not checked": len(of_rocm),
        f"not checked, because of {', '.join(sorted(scope.unknown))}": len(unknown),
        "assumed to be in libraries that the wheel loads with RTLD_GLOBAL": len(absent) - len(missing),
    }
    sources = "".join(f", {count} of them {source}" for source, count in others.items() if count)
    return finding("symbols", mistakes, f"{name}: {counted(len(extension.references), 'symbol')}{sources}")


def _missing_mistakes(
    resolver: SymbolResolver, scope: LookupScope, name: str, extension: Extension, missing: list[Reference]
) -> Iterator[str]:
    arch = extension.arch
    # The rule `libraries` reports libraries that some torch releases lack.
    lacked = {lib for lib in extension.needed if lib in torch_names(arch) and resolver.why_not_in_torch(name, lib)}
    if resolver.torch is not None:
        missing = [r for r in missing if r.library not in lacked]
    if resolver.torch == ():
        torch_symbols = [r for r in missing if _is_torch_symbol(resolver, r, arch)]
        missing = [r for r in missing if r not in torch_symbols]
        if symbols := [r.name for r in torch_symbols if not r.weak]:
            more = f" and {counted(len(symbols) - 1, 'more symbol')}" if len(symbols) > 1 else ""
            unknown = "the wheel requires an unknown release of torch"
            if resolver.prerelease:
                unknown = f"this machine does not know torch {resolver.prerelease}: run wheelsmith plan here"
            yield f"{name} needs {symbols[0]}{more} from torch, but {unknown}"
    for reference in missing:
        if why := _missing_mistake(resolver, scope, name, arch, reference):
            yield why


def _global_scope(wheel: Inspection, name: str) -> LookupScope | None:
    """Return the libraries that the wheel's code may have loaded with RTLD_GLOBAL before a file, or None."""
    loads = [load for load in wheel.library_loads if load.is_global]
    if any(load.library is None for load in loads):
        return LookupScope(own=set(wheel.extensions), others=set(wheel.resolver.cuda_libraries))
    named = {load.library for load in loads if load.library}
    # The file's own calls of dlopen happen after the loader has resolved its symbols.
    others = (extension for path, extension in wheel.extensions.items() if path != name)
    if any(reference.name == "dlopen" for extension in others for reference in extension.references):
        own = set(wheel.extensions)
    elif named:
        own = {path for path in wheel.extensions if posixpath.basename(path) in named}
    else:
        return None
    cpu = wheel.resolver.compute == "cpu"
    return LookupScope(own=own, others={library for library in named if not cpu or not cuda_releases(library)})


def _is_torch_or_cuda_symbol(reference: Reference) -> bool:
    """Return True if a symbol can only come from torch or CUDA."""
    if reference.weak:
        return False
    if _TORCH_SYMBOL.match(reference.name):
        return True
    tables = filter(None, map(cuda_exports, CUDA_MAJORS))
    return any(reference.name in symbols for table in tables for symbols in table.symbols.values())


def _is_torch_symbol(resolver: SymbolResolver, reference: Reference, arch: str) -> bool:
    table = resolver.torch_table(arch) if reference.version is None else None
    return bool(_TORCH_SYMBOL.match(reference.name) or (table and table.exported_by(reference.name)))


def _describe_missing_version(scope: LookupScope, need: NeededVersion) -> str:
    known = scope.others.union(*scope.torch.values())
    return "the library has no such version" if need.library in known else "no library that it needs has it"


def _torch_releases_without(resolver: SymbolResolver, scope: LookupScope, arch: str, symbol: str) -> list[str]:
    """Return the torch releases that lack a symbol.

    If the wheel does not require torch, one release with the symbol is enough, and the result is empty.
    """
    lacking = resolver.torch_releases_without(scope, arch, symbol)
    return lacking if resolver.torch is not None or len(lacking) == len(scope.torch) else []


def _missing_mistake(
    resolver: SymbolResolver, scope: LookupScope, name: str, arch: str, reference: Reference
) -> str | None:
    """Return the mistake for a symbol that is not found, or None if it may be missing."""
    symbol, table = reference.name, resolver.torch_table(arch)
    exporting = table.exported_by(symbol) if table and reference.version is None else frozenset[str]()
    if exporting or _TORCH_SYMBOL.match(symbol):
        lacking = _torch_releases_without(resolver, scope, arch, symbol)
        if exporting >= set(lacking):
            reason = "no library that it needs exports it"
            if resolver.torch is None and not scope.torch:
                reason = "it needs no library of torch"
            return None if reference.weak else f"{name} needs {symbol} from torch, but {reason}"
        kind = "the weak symbol " if reference.weak else ""
        return f"torch {', '.join(lacking)} does not export {kind}{symbol}, which {name} needs"
    version = f" in version {reference.version}" if reference.version else ""
    if not reference.weak:
        return f"{name} needs {symbol}{version}, but no library that it needs exports it"
    # A weak symbol with a version is not optional: its library must provide the version.
    if reference.version is None or symbol.startswith(_THREAD_LOCAL_INIT):
        return None
    return f"{name} needs the weak symbol {symbol}{version}, but no {reference.library} exports it"


SYMBOLS = Rule(
    name="symbols",
    proves="a library that the file needs, directly or indirectly, exports every symbol with its version: a library "
    "of the wheel, the platform, CUDA, or torch in every release that the wheel admits, or in the one that the path "
    "names among others (`torch-2.10/lib/x.so`). A weak symbol may be missing, unless it belongs to torch or has a "
    "version",
    leaves_open="the behaviour of the symbols; symbols of HIP and of torch's ROCm libraries; CUDA symbols of later "
    "releases with the same major number; newer symbols of platform libraries without versions; symbols of musl. If "
    "code loads libraries by a computed name, the rule assumes those of the wheel, and for Python code also those of "
    "CUDA",
    examine=_check_symbols,
)


def _check_abi3(wheel: Inspection) -> Iterator[Finding]:
    since = _oldest_python(tag for tag in wheel.name.tags if tag.abi in {"abi3", "abi3t"})
    if since is None:
        return
    for name, extension in wheel.extensions.items():
        strong, weak = _python_symbols(wheel, name, extension)
        mistakes = [f"{symbol} is not in the stable ABI of {since}" for symbol in outside_abi3(strong, since)]
        # A weak symbol of a later stable ABI is allowed: a module can use it if the Python is new enough.
        mistakes += [f"the weak symbol {symbol} is in no stable ABI" for symbol in outside_abi3(weak, "cp3999")]
        yield finding("abi3", [f"{name}: {message}" for message in mistakes], f"{name}: stable ABI of {since}")


def _check_python_symbols(wheel: Inspection) -> Iterator[Finding]:
    tags = sorted({(tag.interpreter, tag.abi) for tag in wheel.name.tags if tag.abi not in {"abi3", "abi3t"}})
    # The tables do not have the additional exports of free-threaded Pythons, or PyPy's names.
    pypy = any(interpreter.startswith("pp") for interpreter, _ in tags)
    known = not pypy and not any(tag.abi.endswith("t") for tag in wheel.name.tags)
    for name, extension in wheel.extensions.items():
        strong, weak = _python_symbols(wheel, name, extension)
        if not strong and not weak:
            continue
        unknown = _outside_every_release([*strong, *weak])
        mistakes = [f"no CPython exports {symbol}" for symbol in unknown if known]
        mistakes += [f"no PyPy exports {symbol}" for symbol in strong if pypy and symbol not in unknown]
        for interpreter, abi in tags:
            # A tag such as py3-none is for every Python, and all Pythons have only the stable ABI in common.
            stable = abi == "none" and not interpreter.startswith("cp")
            absent = outside_abi3(strong, "cp3999") if stable else _outside_release(strong, interpreter)
            if abi.endswith("t"):
                absent = [symbol for symbol in absent if symbol not in unknown]
            place = "the stable ABI" if stable else f"CPython {interpreter[2:3]}.{interpreter[3:]}"
            mistakes += [f"{symbol} is not in {place}" for symbol in absent]
        yield finding(
            "python-symbols",
            [f"{name}: {message}" for message in mistakes],
            f"{name}: {counted(len(strong), 'CPython symbol')}",
        )


def _python_symbols(wheel: Inspection, name: str, extension: Extension) -> tuple[list[str], list[str]]:
    """Return the CPython symbols that a file needs: strong ones, and weak ones."""
    if extension.kind == "program":
        return [], []
    named = [reference for reference in extension.references if reference.name.startswith(_PYTHON_PREFIXES)]
    if not named:
        return [], []
    scope = wheel.resolver.scope(name)
    free = [r for r in named if not wheel.resolver.provides(scope, extension.arch, r)]
    return [r.name for r in free if not r.weak], [r.name for r in free if r.weak]


def _oldest_python(tags: Iterator[Tag]) -> str | None:
    found = {tag.interpreter for tag in tags if tag.interpreter[2:].isdigit()}
    return min(found, key=lambda interpreter: int(interpreter[3:] or 0), default=None)


def outside_abi3(symbols: list[str], since: str) -> list[str]:
    """Return the symbols that are not in the stable ABI of ``since`` (``cp39``)."""
    found = _PYTHON.fullmatch(since)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    added = _stable_abi()
    return sorted(symbol for symbol in symbols if symbol not in added or added[symbol] > version)


def _outside_release(symbols: list[str], interpreter: str) -> list[str]:
    """Return the symbols that a release of CPython (``cp312``) does not export; none if the release is unknown."""
    found = _PYTHON.fullmatch(interpreter)
    exports = python_exports().get(f"{found[1]}.{found[2]}") if found else None
    return sorted(symbol for symbol in symbols if symbol not in exports) if exports is not None else []


def _outside_every_release(symbols: list[str]) -> list[str]:
    """Return the symbols that are neither in the stable ABI nor exported by any known CPython."""
    known = frozenset[str]().union(*python_exports().values(), _stable_abi())
    return sorted(symbol for symbol in symbols if symbol not in known)


@cache
def _stable_abi() -> dict[str, tuple[int, int]]:
    """Return the stable ABI: symbol → the Python that added it."""
    entries = [*abi3info.FUNCTIONS.items(), *abi3info.DATAS.items()]
    return {symbol.name: (entry.added.major, entry.added.minor) for symbol, entry in entries}


ABI3 = Rule(
    name="abi3",
    proves="every CPython symbol is in the stable ABI of the tag's Python, and a weak one in that of a later Python",
    leaves_open="whether the code uses the symbols as the stable ABI defines them",
    examine=_check_abi3,
)


PYTHON_SYMBOLS = Rule(
    name="python-symbols",
    proves="the CPython release of the tag exports every symbol with a CPython name; if the tag names no release, the "
    "symbol is in the stable ABI; a weak symbol is exported by any CPython release",
    leaves_open="additional symbols of free-threaded Pythons and of PyPy; unknown releases",
    examine=_check_python_symbols,
)


def _check_torch_ops(wheel: Inspection) -> Iterator[Finding]:
    sources = wheel.python_files_with(b"torch")
    kernels = list(hub_kernels(_parse_files({name: sources[name] for name in sources if is_ops_module(name)})))
    mistakes = [message for kernel in kernels for message in _shared_namespaces(wheel, kernel, sources)]
    if kernels:
        yield finding("torch-ops", mistakes, "all operators are in the kernel's own namespace")


def _parse_files(sources: Mapping[str, bytes]) -> Iterator[tuple[str, ast.Module]]:
    """Yield the syntax tree of each file that can be parsed, one at a time."""
    for name, source in sources.items():
        if tree := parse(source):
            yield name, tree


def _shared_namespaces(wheel: Inspection, kernel: HubKernel, sources: Mapping[str, bytes]) -> Iterator[str]:
    """Yield a mistake for each registration in a namespace that another kernel may use too."""
    found = []
    if kernel.namespace:
        found.append((f"{kernel.folder}/_ops.py", kernel.namespace))
    for name, tree in _parse_files({name: sources[name] for name in filter(kernel.contains, sources)}):
        found += [(f"{name}:{line}", namespace) for line, namespace in registrations(tree)]
    for name in filter(kernel.contains, wheel.extensions):
        with wheel.open_elf_file(name) as file:
            found += [(name, namespace) for namespace in sorted(registered_namespaces(file))]
    for place, namespace in found:
        if not kernel.is_unique(namespace):
            yield f"{place} registers {namespace!r}, which another kernel may register too"


TORCH_OPS = Rule(
    name="torch-ops",
    proves="a Hub kernel (with `add_op_namespace_prefix` in its `_ops` module) registers operators under its own "
    "namespace",
    leaves_open="names that the code computes or imports; stripped symbols; other projects with the same namespace",
    examine=_check_torch_ops,
)
