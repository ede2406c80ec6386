"""Who offers the symbols, in which version, and what that says of the platform and of Python."""

from __future__ import annotations

from forge import LOADER, TORCH_STREAM, Wheel, legal, legals, lie, lies
from forge_elf import (
    HIDDEN,
    LOCAL,
    NOTYPE,
    PROTECTED,
    WEAK,
    Library,
    Symbol,
)

UNTIL_2_9 = "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib"
LIBC = "libc.so.6"


# --- symbols that nobody has --------------------------------------------------------------------------------


def _absent(wheel: Wheel, name: str) -> None:
    wheel.library.import_(name, kind=NOTYPE)


_ABSENT = [
    *("nowhere", "PyEvil_Run", "_PyNowhere", "PyTorch_Evil", "_ZN3c107nowhereEv", "aoti_torch_nowhere"),
    *("cudaNowhere", "memcpy@GLIBC_2.17", "Memcpy", "_ZNSt7nowhereEv", "__gmon_started__"),
]
lies("symbols abi3 elf", "nobody has {!r}", _ABSENT, _absent, base="cpu")
lies(
    "symbols abi3",
    "nobody has {!r}, and no torch is required",
    ["nowhere", "PyEvil_Run", "cudaNowhere"],
    _absent,
    name="alone",
)


def _how(name: str, says: str, judges: str = "symbols elf", **how: object) -> None:
    def change(wheel: Wheel) -> None:
        wheel.library.import_("_ZN3c107nowhereEv", **how)

    lie(judges, f"nobody has the symbol: {says}", base="cpu", family="symbols", name=name)(change)


_how("weak", "it is weak, and no symbol that compilers leave weak", bind=WEAK)
_how("in libc", "it has a version of libc", version=(LIBC, "GLIBC_2.17"))
_how("in torch", "it has a version of torch's, which has none", version=("libtorch.so", "TORCH_2.11"))
_how("weak version", "its version is weak", version=(LIBC, "GLIBC_2.17"), weak_version=True)


def _versioned(wheel: Wheel, text: str) -> None:
    name, library, version = text.split()
    if library not in wheel.library.needed:
        wheel.library.needed.append(library)
    wheel.library.import_(name, version=(library, version))


lies(
    "symbols platform elf",
    "no such symbol in that version: {}",
    [
        *("memcpy libc.so.6 GLIBC_2.5", "memcpy libc.so.6 GLIBC_99", "puts libc.so.6 GLIBCXX_3.4"),
        *("nowhere libgcc_s.so.1 GCC_3.0", "puts libc.so.6 GLIBC_PRIVATE", "deflate libz.so.1 ZLIB_9.9"),
    ],
    _versioned,
)


# Where a version is right, the loader takes the symbol from any library that is there: on aarch64 these are.
lies(
    "symbols platform",
    "no such symbol in that version: {}",
    ["cos libc.so.6 GLIBC_2.17", "puts libm.so.6 GLIBC_2.17"],
    _versioned,
    arches=("x86_64",),
    name="of another library",
)


@lie("symbols", "torch's symbols, and no library of torch's is needed: they are in nobody's scope", base="cpu")
def torch_is_not_needed(wheel: Wheel) -> None:
    wheel.library.needed = [LIBC]


@lie("symbols", "a symbol of CUDA's image library, which is not needed, and which torch does not load", base="cuda")
def cuda_is_not_needed(wheel: Wheel) -> None:
    wheel.library.import_("nppGetLibVersion", kind=NOTYPE)


# --- torch --------------------------------------------------------------------------------------------------


def _of_torch(wheel: Wheel, name: str) -> None:
    wheel.library.import_(name, kind=NOTYPE)


lies("symbols", "torch 2.11 has no {} any more", [UNTIL_2_9], _of_torch, base="cuda", arches=("x86_64",), name="gone")
lies("symbols compute libraries", "a torch for cpu has no {}", [TORCH_STREAM], _of_torch, base="cpu", name="of cuda")


@lie("symbols torch", "torch_call_dispatcher came with torch 2.10", base="stable")
def too_old_a_floor(wheel: Wheel) -> None:
    wheel.requires("torch>=2.9")


@lie("symbols torch", "C++ symbols that torch 2.14 dropped, for every torch from 2.11 on", base="stable")
def dropped_on_the_way(wheel: Wheel) -> None:
    wheel.requires("torch>=2.11")
    _of_torch(wheel, "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb")


@lie("symbols", "a symbol of the absent kind is offered by the wheel, and is local there", base="bundled")
def provided_locally(wheel: Wheel) -> None:
    list(wheel.files.values())[-1].exports[0].bind = LOCAL


@lie("symbols", "what is needed is hidden in the wheel's own library", base="bundled")
def provided_but_hidden(wheel: Wheel) -> None:
    list(wheel.files.values())[-1].exports[0].visibility = HIDDEN


@lie("symbols", "the wheel's own library does not have it", base="bundled")
def not_provided(wheel: Wheel) -> None:
    list(wheel.files.values())[-1].exports[0].name = "help_you"


@lie("symbols", "a library has it that lies in the wheel and that nobody needs")
def provided_by_a_stranger(wheel: Wheel) -> None:
    wheel.library.import_("help_me")
    own = Library(arch=wheel.arch, needed=[LIBC], soname="libx.so", exports=[Symbol(name="help_me")])
    wheel.files["forged/libx.so"] = own


@lie("symbols", "the wheel's own library has it in another version", base="bundled")
def provided_in_another_version(wheel: Wheel) -> None:
    own = list(wheel.files.values())[-1]
    own.exports[0].version = ("", "HELP_2")
    wheel.library.needs("help_me").version = (own.soname, "HELP_1")


# --- legal --------------------------------------------------------------------------------------------------


def _weak(wheel: Wheel, name: str) -> None:
    wheel.library.import_(name, bind=WEAK, kind=NOTYPE)


legals(
    "compilers leave {} weak, and it may stay absent",
    [
        *("__gmon_start__", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "_Jv_RegisterClasses"),
        *("__cxa_finalize", "__pthread_key_create", "pthread_once", "_ZGTtnam"),
    ],
    _weak,
)


def _unversioned(wheel: Wheel, text: str) -> None:
    name, library = text.split()
    if library not in wheel.library.needed:
        wheel.library.needed.append(library)
    wheel.library.import_(name, kind=NOTYPE)


legals(
    "a symbol of the platform without a version is any version's: {}",
    ["malloc libc.so.6", "_Znwm libstdc++.so.6", "pthread_create libpthread.so.0"],
    _unversioned,
)


lies(
    "platform",
    "a newer symbol of the platform without a version: {}",
    [
        "pthread_cond_clockwait libc.so.6",
        "arc4random libc.so.6",
    ],
    _unversioned,
)


@lie("platform", "a newer symbol of glibc without a version, and nothing says that glibc is needed", base="cpu")
def newer_of_every_process(wheel: Wheel) -> None:
    wheel.library.needed.remove(LIBC)
    wheel.library.import_("arc4random", kind=NOTYPE)


@legal("what the wheel's own library has in the version that is asked for", base="bundled")
def provided_in_that_version(wheel: Wheel) -> None:
    own = list(wheel.files.values())[-1]
    own.exports[0].version = ("", "HELP_1")
    wheel.library.needs("help_me").version = (own.soname, "HELP_1")


@legal("a protected export is an export", base="bundled")
def provided_and_protected(wheel: Wheel) -> None:
    list(wheel.files.values())[-1].exports[0].visibility = PROTECTED


# --- platform tags ------------------------------------------------------------------------------------------


def _too_new(wheel: Wheel, text: str) -> None:
    platform, symbol = text.split(maxsplit=1)
    _versioned(wheel, symbol)
    wheel.tag(platform=".".join(f"{name}_{wheel.arch}" for name in platform.split(".")))


lies(
    "platform",
    "the tag is older than the symbol: {}",
    [
        *("manylinux_2_28 fcntl64 libc.so.6 GLIBC_2.29", "manylinux2014 fcntl64 libc.so.6 GLIBC_2.28"),
        "manylinux_2_28 _ZSt19__throw_regex_errorv libstdc++.so.6 GLIBCXX_3.4.30",
        "manylinux_2_28 __x libgcc_s.so.1 GCC_14.0.0",
        *("manylinux_2_28.manylinux_2_17 fcntl64 libc.so.6 GLIBC_2.28", "manylinux_2_27 pow libm.so.6 GLIBC_2.29"),
    ],
    _too_new,
)


@lie("platform", "a weak version of glibc 2.38: the symbol itself is strong, and an older libc does not have it")
def weakly_too_new(wheel: Wheel) -> None:
    wheel.library.import_("strlcpy", version=(LIBC, "GLIBC_2.38"), weak_version=True)


@lie("platform libraries", "a library beside the extension needs a newer glibc", base="bundled")
def bundled_library_is_too_new(wheel: Wheel) -> None:
    list(wheel.files.values())[-1].import_("strlcpy", version=(LIBC, "GLIBC_2.38"))


def _platform(wheel: Wheel, text: str) -> None:
    wheel.tag(platform=text.replace("ARCH", wheel.arch))


lies(
    "platform architecture tags purity",
    "a library for glibc as {!r}",
    [
        *("musllinux_1_2_ARCH", "macosx_11_0_arm64", "win_amd64", "manylinux_2_28_ppc64le", "linux_armv7l"),
        *("manylinux_2_28_x86_64.manylinux_2_28_aarch64", "manylinux_2_28_ARCH.any", "manylinux2015_ARCH"),
        *("manylinux_2_ARCH", "evil", "any"),
    ],
    _platform,
)


@lie("platform tags", "there is no manylinux1, 2010 or 2_5 for aarch64", arches=("aarch64",))
def manylinux1_for_aarch64(wheel: Wheel) -> None:
    wheel.tag(platform="manylinux1_aarch64")


@lie("platform", "memcpy@GLIBC_2.14 as manylinux1", arches=("x86_64",))
def manylinux1_for_a_later_symbol(wheel: Wheel) -> None:
    wheel.tag(platform="manylinux1_x86_64")


legals(
    "the tag may ask for more than is needed: {!r}",
    ["manylinux_2_39_ARCH", "manylinux_2_17_ARCH", "manylinux2014_ARCH", "manylinux_2_17_ARCH.manylinux2014_ARCH"],
    _platform,
)
legals("a wheel for this kind of machine alone: {!r}", ["linux_ARCH"], _platform)


@legal("glibc 2.34 as manylinux_2_34")
def newer_tag_for_a_newer_symbol(wheel: Wheel) -> None:
    _too_new(wheel, "manylinux_2_34 pthread_create libc.so.6 GLIBC_2.34")


# --- Python -------------------------------------------------------------------------------------------------


lies(
    "abi3",
    "{} is not in the stable ABI of Python 3.10",
    [
        *("_PyObject_GetDictPtr", "PyUnicode_AsUTF8", "PyType_GetName", "PyList_GetItemRef"),
        *("_PyThreadState_UncheckedGet", "PyType_FromMetaclass", "PyMutex_Lock"),
    ],
    _absent,
    name="of Python",
)


@lie("abi3", "a weak symbol outside the stable ABI")
def weak_outside_abi3(wheel: Wheel) -> None:
    wheel.library.import_("_PyObject_GetDictPtr", bind=WEAK)


@lie("abi3", "PyObject_GenericGetDict came with 3.10, PyType_GetModuleState too: the tag begins with 3.9")
def oldest_of_two_pythons(wheel: Wheel) -> None:
    wheel.set("Requires-Python", ">=3.9")
    wheel.library.import_("PyModule_AddType", kind=NOTYPE)
    wheel.tag("cp39.cp310")


@lie("abi3 suffix tags symbols", "a module for CPython as py3-none: any Python may install it")
def module_for_any_python(wheel: Wheel) -> None:
    wheel.move(wheel.module, f"forged/_ops.cpython-311-{wheel.arch}-linux-gnu.so")
    wheel.tag("py3", "none")


@lie("abi3 symbols", "Python's symbols as py3-none: another Python does not have them")
def python_symbols_for_any_python(wheel: Wheel) -> None:
    wheel.move(wheel.module, "forged/libops.so")
    wheel.library.import_("_PyObject_GetDictPtr", kind=NOTYPE)
    wheel.tag("py3", "none")


@lie("abi3", "a bundled library has what is not in the stable ABI", base="bundled")
def bundled_library_outside_abi3(wheel: Wheel) -> None:
    list(wheel.files.values())[-1].import_("_PyObject_GetDictPtr")


legals(
    "the stable ABI of 3.10 has {}",
    ["PyModule_AddType", "_Py_Dealloc", "PyExc_ValueError", "_Py_NoneStruct", "PyType_GetModule"],
    _absent,
)


@legal("a library without Python's symbols serves any Python")
def library_for_any_python(wheel: Wheel) -> None:
    wheel.move(wheel.module, "forged/libops.so")
    wheel.library.imports = [s for s in wheel.library.imports if not s.name.startswith("Py")]
    wheel.library.exports = [Symbol(name="run")]
    wheel.tag("py3", "none")


@legal("two Pythons' stable ABI, and symbols of the older")
def two_pythons(wheel: Wheel) -> None:
    wheel.tag("cp39.cp310")
    wheel.set("Requires-Python", ">=3.9")


@legal("the loader's own symbol", arches=("x86_64",))
def tls_get_addr(wheel: Wheel) -> None:
    wheel.library.needed.append(LOADER[wheel.arch])
    wheel.library.import_("__tls_get_addr", version=(LOADER[wheel.arch], "GLIBC_2.3"), kind=NOTYPE)
