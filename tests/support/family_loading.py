"""Where the loader finds libraries and symbols, and where Python code is said to load them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from family_symbols import UNTIL_2_9
from forge import OLDEST, TORCH_STREAM, Wheel, add_metadata, import_symbols, lie, one_legal, one_lie, put, require
from forge_elf import ET_EXEC, Library, Symbol

_HELP = "libhelp-0123abcd.so.1"
_lie, _legal = partial(one_lie, family="loading"), partial(one_legal, family="loading")


def _need(name: str, wheel: Wheel) -> None:
    wheel.library.needed.insert(0, name)


# --- Python code that is said to load libraries -------------------------------------------------------------

for _name, _text in {
    "comment": b"# RTLD_GLOBAL\n",
    "string": b"x = 'RTLD_GLOBAL'\n",
    "other wheel's": b"import ctypes\nctypes.CDLL('libm.so.6', ctypes.RTLD_GLOBAL)\n",
}.items():
    _lie(
        "symbols compute",
        f"CUDA in cpu by RTLD_GLOBAL, {_name}",
        "functions of CUDA in a wheel for cpu: Python code has the word alone",
        import_symbols("cudaMalloc", kind=0),
        put("forged/loader.py", _text),
        base="cpu",
    )
for _name, _text in {"a comment": b"# CDLL\n", "another": b"import ctypes\nctypes.CDLL('libm.so.6')\n"}.items():
    _lie(
        "libraries symbols",
        f"a library elsewhere, and {_name}",
        "the loader does not look there, and no Python code loads it",
        lambda w: setattr(w.library, "runpath", None),
        put("forged/loader.py", _text),
        base="bundled",
    )


@lie("symbols", "a stranger in the wheel has the symbol; dlopen is called with an unknown name")
def provided_by_a_stranger_and_dlopen(wheel: Wheel) -> None:
    wheel.library.import_("help_me", "dlopen", kind=0)
    wheel.library.needed.append("libdl.so.2")
    wheel.files["forged/data/libhelp.so"] = Library(
        arch=wheel.arch, soname="libhelp.so", needed=["libc.so.6"], exports=[Symbol(name="help_me")]
    )


_lie(
    "symbols libraries torch",
    "tvm-ffi for an extra only",
    "libtvm_ffi.so is brought by what an extra alone requires",
    partial(_need, "libtvm_ffi.so"),
    import_symbols("nobody_has_this", kind=0),
    require('apache-tvm-ffi; extra == "all"'),
    add_metadata("Provides-Extra: all"),
)
_lie(
    "symbols",
    "unknown beside tvm-ffi",
    "torch's and CUDA's symbols are left to a library that has none of them",
    partial(_need, "libtvm_ffi.so"),
    import_symbols("cublasSgemm_v2", "_ZN2at6nobodyEv", kind=0),
    require("apache-tvm-ffi", "torch==2.11.*"),
    base="cuda",
)

# --- libraries of other projects ----------------------------------------------------------------------------

_legal(
    "a library of a required project",
    "the project loads it and what comes with it, as librmm-cu13 does for rmm-cu13",
    partial(_need, "libhelper_core.so.1"),
    partial(_need, "libother_logger.so"),
    import_symbols("help_me", kind=0),
    require("libhelper-cu13==1.*", "numpy"),
)
for _name, _library, _lines in (
    ("of an extra's project", "libhelper.so", ['helper; extra == "all"']),
    ("of a project for some", "libhelper.so", ['helper; python_version < "3.12"']),
    ("of no project's name", "libopenblas.so.0", ["numpy", "helper"]),
    ("that auditwheel renamed", "libhelper-0123abcd.so.1", ["helper"]),
    ("of CUDA, without its number", "libcublas.so", ["nvidia-cublas"]),
    ("that torch does not have", "libtorch_helper.so", ["torch"]),
):
    _lie("libraries", f"a library {_name}", "nothing brings it", partial(_need, _library), require(*_lines))


def _for_each_torch(*releases: str, needing: str) -> Callable[[Wheel], None]:
    """Put a library for each torch into the wheel; one of them needs what torch has until 2.9 alone."""

    def change(wheel: Wheel) -> None:
        wheel.rename("1.0+cu130")
        for release in releases:
            library = Library(arch=wheel.arch, needed=["libc10_cuda.so", "libc.so.6"], exports=[Symbol(name="help_me")])
            library.import_(UNTIL_2_9 if release == needing else TORCH_STREAM, kind=0)
            if release == "2.16":
                library.import_("_ZN2at6nobodyEv", kind=0)
            wheel.files[f"forged/torch-{release}/lib/libforged_torch.so"] = library

    return change


_each = {"arches": ("x86_64",), "base": "cuda"}
_legal(
    "a library for each torch",
    "each is for the torch in its path, and nothing is known of 2.16",
    _for_each_torch("2.9", "2.10", "2.16", needing="2.9"),
    require("torch>=2.9"),
    **_each,
)
_lie(
    "symbols",
    "a library for another torch than its path says",
    "torch 2.10 does not have it",
    _for_each_torch("2.9", "2.10", needing="2.10"),
    require("torch>=2.9"),
    **_each,
)
_lie(
    "symbols",
    "a library for one torch alone",
    "the wheel admits others, for which it has none",
    _for_each_torch("2.9", needing="2.9"),
    require("torch>=2.9"),
    **_each,
)

# --- versions of symbols ------------------------------------------------------------------------------------


def _version_of(library: str, version: str, name: str, *, need: bool = True) -> Callable[[Wheel], None]:
    def change(wheel: Wheel) -> None:
        if need and library not in wheel.library.needed:
            wheel.library.needed.append(library)
        wheel.library.import_(name, version=(library, version.replace("OLDEST", OLDEST[wheel.arch])), kind=0)

    return change


for _name, _change in {
    "a version that libc does not have": _version_of("libc.so.6", "FOO_1.0", "PyErr_Clear"),
    "version of a library that is not needed": _version_of("libz.so.1", "OLDEST", "strlen", need=False),
    "version in another library": _version_of("libz.so.1", "OLDEST", "strlen"),
    "Python's symbol in a version of zlib": _version_of("libz.so.1", "NOTZ_9.9", "PyErr_Clear"),
    "Python's symbol with a version of libm": _version_of("libm.so.6", "CXXABI_1.3", "PyErr_Clear"),
}.items():
    _lie("symbols platform elf", _name, "the loader stops: the library does not have the version", _change)


def _own_versions(wheel: Wheel, *exports: Symbol, wanted: str) -> None:
    own = wheel.files[f"forged.libs/{_HELP}"]
    own.exports = list(exports)
    wheel.library.imports = [s for s in wheel.library.imports if s.name != "help_me"]
    wheel.library.import_("help_me", version=(own.soname, wanted))


_lie(
    "symbols",
    "own library has it in another version",
    "V2 is asked for",
    lambda w: _own_versions(
        w, Symbol(name="help_me", version=(_HELP, "V1")), Symbol(name="another", version=(_HELP, "V2")), wanted="V2"
    ),
    base="bundled",
)
_legal(
    "own version named as glibc's",
    "the wheel's own library has it",
    lambda w: _own_versions(w, Symbol(name="help_me", version=(_HELP, "GLIBC_2.99")), wanted="GLIBC_2.99"),
    base="bundled",
)

# --- libraries that every process has -----------------------------------------------------------------------


def _own(name: str, wheel: Wheel) -> None:
    """Give the wheel's own library the name of a system library."""
    own = wheel.files.pop(f"forged.libs/{_HELP}")
    own.soname = name
    wheel.library.needed = [each for each in wheel.library.needed if each not in {_HELP, name}] + [name]
    wheel.files[f"forged.libs/{name}"] = own


for _name in ("libc.so.6", "libm.so.6"):
    _lie(
        "libraries symbols",
        f"own {_name}",
        "the process has one, and never loads this",
        partial(_own, _name),
        base="bundled",
    )


@lie("libraries symbols", "$LIB is a folder of the loader's choice, not one of that name", base="bundled")
def folder_named_lib(wheel: Wheel) -> None:
    wheel.move(f"forged.libs/{_HELP}", f"forged/$LIB/{_HELP}")
    wheel.library.runpath = "$ORIGIN/$LIB"


@lie("symbols libraries platform elf", "a library that is called musl's")
def own_musl(wheel: Wheel) -> None:
    wheel.tag(platform=f"linux_{wheel.arch}")
    name = f"libc.musl-{wheel.arch}.so.1"
    wheel.library.needed.append(name)
    wheel.library.runpath = "$ORIGIN"
    wheel.library.import_("nobody_has_this", kind=0)
    wheel.files[f"forged/{name}"] = Library(arch=wheel.arch, soname=name, needed=["libc.so.6"])


@lie("symbols libraries platform torch", "torch for musl does not exist, nor this symbol of it", base="cpu")
def torch_on_musl(wheel: Wheel) -> None:
    wheel.tag(platform=f"musllinux_1_2_{wheel.arch}")
    wheel.library.needed = [name for name in wheel.library.needed if name != "libc.so.6"]
    wheel.library.needed.append(f"libc.musl-{wheel.arch}.so.1")
    wheel.library.imports = [s for s in wheel.library.imports if not s.version]
    wheel.library.import_("_ZN2at6nobodyEv", kind=0)


# --- Pythons of their own -----------------------------------------------------------------------------------


def _for_python(python: str, abi: str, suffix: str, wheel: Wheel) -> None:
    wheel.move(wheel.module, f"forged/_ops.{suffix.replace('ARCH', wheel.arch)}")
    wheel.tag(python, abi)


_lie(
    "abi3 symbols suffix tags",
    "private in abi3t",
    "a private symbol in a wheel for the free-threaded stable ABI",
    partial(_for_python, "cp315", "abi3t", "abi3t.so"),
    lambda w: w.library.import_("_PyObject_GetDictPtr", kind=0),
)
_lie(
    "abi3 symbols suffix tags",
    "gone in a free-threaded Python",
    "a symbol that went with Python 3.12",
    partial(_for_python, "cp314", "cp314t", "cpython-314t-ARCH-linux-gnu.so"),
    lambda w: w.library.import_("PyUnicode_AsUnicode", kind=0),
)
_lie(
    "abi3 symbols tags",
    "Python's symbols for PyPy",
    "PyPy exports CPython's names as PyPy…",
    partial(_for_python, "pp311", "pypy311_pp73", "pypy311-pp73-ARCH-linux-gnu.so"),
)

# --- under another's name (glibc 2.36 was asked) ------------------------------------------------------------


def _pretender(wheel: Wheel, *exports: str, at: int) -> None:
    """Let the module need a library whose DT_SONAME is another one's file name."""
    own = Library(arch=wheel.arch, soname=_HELP, needed=["libc.so.6"], exports=[Symbol(name=name) for name in exports])
    wheel.files["forged.libs/libfirst.so"] = own
    wheel.library.needed.insert(at, "libfirst.so")


_lie(
    "symbols libraries",
    "soname of a library that is needed later",
    "the loader has a library of that name, and opens no other one: `undefined symbol: help_me`",
    lambda w: _pretender(w, "other", at=0),
    base="bundled",
)
for _name, _change in {
    "of a library with the same symbols": lambda w: _pretender(w, "help_me", at=0),
    "of a library that was needed before": lambda w: _pretender(w, "other", at=1),
}.items():
    _legal(f"soname {_name}", "the symbol is there", _change, base="bundled")

# --- search paths that are handed down ----------------------------------------------------------------------


def _chain(wheel: Wheel, *, rpath: str | None = "$ORIGIN/../forged.libs", runpath: str | None = None) -> None:
    """Let the bundled library need another, which only the folders of the module lead to."""
    wheel.library.rpath, wheel.library.runpath = rpath, runpath
    wheel.files[f"forged.libs/{_HELP}"].needed.insert(0, "libmore.so")
    for name, needed in (("libmore.so", "liblast.so"), ("liblast.so", "libc.so.6")):
        wheel.files[f"forged.libs/{name}"] = Library(arch=wheel.arch, soname=name, needed=[needed, "libc.so.6"])


def _runpath_below(wheel: Wheel) -> None:
    _chain(wheel)
    wheel.files[f"forged.libs/{_HELP}"].runpath = "$ORIGIN/elsewhere"


_legal("RPATH for three below", "DT_RPATH is handed down", _chain, base="bundled")
for _name, _change in {
    "RUNPATH for those below": partial(_chain, rpath=None, runpath="$ORIGIN/../forged.libs"),
    "RPATH beside RUNPATH": partial(_chain, runpath="$ORIGIN/../forged.libs"),
    "RUNPATH below RPATH": _runpath_below,
}.items():
    _lie("libraries", _name, "DT_RUNPATH is not handed down, and puts DT_RPATH out of force", _change, base="bundled")


def _program(wheel: Wheel, **how: object) -> None:
    tool = Library(arch=wheel.arch, type=ET_EXEC, gnu_hash=False, **how)
    wheel.files = {"forged/__init__.py": b"", "forged/tool": tool}
    wheel.tag("py3", "none", f"musllinux_1_2_{wheel.arch}")


_legal("static program for musl", "it needs no libc", _program)
_lie("platform libraries", "glibc's program for musl", "it needs glibc", partial(_program, needed=["libc.so.6"]))
