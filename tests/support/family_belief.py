"""What a rule believes, what it passes over, and what lies beyond its limits."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

from forge import OLDEST, Wheel, legal, lie
from forge_elf import (
    Library,
    Symbol,
)
from forge_gpu import CUBIN, code, cubin, entry, fatbin, ptx

_PT_TLS, _DF_1_PIE, _DT_FLAGS_1, _DT_INIT_ARRAY, _DT_INIT_ARRAYSZ = 7, 0x08000000, 0x6FFFFFFB, 25, 27
_AMDGPU, _BPF = 224, 247
_STATIC_RUNTIME = b"CUDA driver version is insufficient for CUDA runtime version\0"


def _lie(judges: str, name: str, says: str, change: Callable[[Wheel], object], **how: object) -> None:
    lie(judges, says, family="belief", name=name, **how)(change)


def _legal(name: str, says: str, change: Callable[[Wheel], object], **how: object) -> None:
    legal(says, family="belief", name=name, **how)(change)


def _python(text: str, path: str = "forged/loader.py") -> Callable[[Wheel], None]:
    def change(wheel: Wheel) -> None:
        wheel.files[path] = text.encode()

    return change


def _file(path: str, data: bytes) -> Callable[[Wheel], None]:
    def change(wheel: Wheel) -> None:
        wheel.files[path] = data

    return change


def _both(*changes: Callable[[Wheel], object]) -> Callable[[Wheel], None]:
    def change(wheel: Wheel) -> None:
        for one in changes:
            one(wheel)

    return change


def _imports(*names: str, **how: object) -> Callable[[Wheel], None]:
    return lambda wheel: wheel.library.import_(*names, **how)


# --- Python code that is said to load libraries -------------------------------------------------------------

_COMMENTS = {
    "comment": "# RTLD_GLOBAL\n",
    "docstring": '"""Nothing here loads with RTLD_GLOBAL."""\n',
    "string": "x = 'RTLD_GLOBAL'\n",
    "other wheel's": "import ctypes\nctypes.CDLL('libm.so.6', ctypes.RTLD_GLOBAL)\n",
}
for _name, _text in _COMMENTS.items():
    _lie(
        "symbols compute",
        f"CUDA in cpu by RTLD_GLOBAL, {_name}",
        "functions of CUDA in a wheel for cpu: Python code has the word alone",
        _both(_imports("cudaMalloc", kind=0), _python(_text)),
        base="cpu",
    )


@lie("libraries symbols", "a library where the loader does not look; a comment speaks of CDLL", base="bundled")
def library_elsewhere_and_a_comment(wheel: Wheel) -> None:
    wheel.library.runpath = None
    wheel.files["forged/loader.py"] = b"# CDLL\n"


@lie("libraries symbols", "a library where the loader does not look; Python code loads another", base="bundled")
def library_elsewhere_and_another_loaded(wheel: Wheel) -> None:
    wheel.library.runpath = None
    wheel.files["forged/loader.py"] = b"import ctypes\nctypes.CDLL('libm.so.6')\n"


@lie("symbols", "a stranger in the wheel has the symbol; dlopen is called, of nobody knows what")
def provided_by_a_stranger_and_dlopen(wheel: Wheel) -> None:
    wheel.library.import_("help_me", "dlopen", kind=0)
    wheel.library.needed.append("libdl.so.2")
    wheel.files["forged/data/libhelp.so"] = Library(
        arch=wheel.arch, soname="libhelp.so", needed=["libc.so.6"], exports=[Symbol(name="help_me")]
    )


# --- Which rules apply --------------------------------------------------------------------------------------


def _version(version: str) -> Callable[[Wheel], None]:
    def change(wheel: Wheel) -> None:
        wheel.rename(version)
        wheel.library.fatbin = code("90")

    return change


for _text in ("cpu.avx512.torch2.11", "torch2.11.cpu", "cpu.cxx11.abi", "cpu.1", "cpu2", "pt2.11cpu"):
    _lie(
        "compute", f"GPU code in +{_text}", "the version says cpu in other words", _version(f"1.0+{_text}"), base="cpu"
    )
for _text in ("cu12torch2.11cxx11abitrue", "pt2.11cu126", "cu126.pt2.11", "torch2.11.cu126", "cuda12.6", "cu1260"):
    _lie(
        "toolkit compute libraries names torch",
        f"CUDA 13 in +{_text}",
        "the version says CUDA 12 in other words, and all is of CUDA 13",
        lambda wheel, text=_text: wheel.rename(f"1.0+{text}"),
        base="cuda",
    )


@lie("compute toolkit torch names", "there is no CUDA 99.9", base="cpu")
def cuda_that_does_not_exist(wheel: Wheel) -> None:
    wheel.rename("1.0+cu999.torch2.11")


@lie("compute", "the version says CUDA 13.0, and nothing in the wheel has to do with CUDA", base="cpu")
def cuda_without_any(wheel: Wheel) -> None:
    wheel.rename("1.0+cu130.torch2.11")


@lie("compute", "the CUDA runtime itself is within, linked statically or under another name", base="cpu")
def static_runtime_in_cpu(wheel: Wheel) -> None:
    wheel.library.constants = _STATIC_RUNTIME


def _variant(label: str, properties: dict[str, object], version: str = "1.0+torch2.11") -> Callable[[Wheel], None]:
    def change(wheel: Wheel) -> None:
        from wheelsmith.wheel.variant_format import SCHEMA, Variant, dump_variants

        assert SCHEMA
        made = json.loads(dump_variants([Variant(label=label)]))
        made["variants"] = {label: properties}
        wheel.rename(version)
        wheel.label = label
        wheel.raw["{info}/variant.json"] = json.dumps(made).encode()

    return change


_lie(
    "variant compute libraries",
    "null variant needs CUDA",
    "the null variant is for every machine, and needs CUDA 13",
    _both(_variant("null", {}), lambda w: setattr(w.library, "fatbin", b"")),
    base="cuda",
)
_lie(
    "variant compute symbols",
    "null variant without CUDA's code",
    "a function of CUDA in the null variant",
    _both(_variant("null", {}), _imports("cudaMalloc", kind=0), _python("# RTLD_GLOBAL\n")),
    base="cpu",
)
_legal(
    "a label of their own",
    "PEP 825 leaves the label to whoever builds",
    _variant("fast", {"nvidia": {"cuda_version_lower_bound": ["13.0"], "sm_arch": ["80_real"]}}),
    base="cuda",
)
_SM = {"nvidia": {"cuda_version_lower_bound": ["13.0"], "sm_arch": ["80_real", "90_real"]}}
for _label, _bound in (("x", "11.0"), ("cuda11", "11.8"), ("cu13", "12.0")):
    _lie(
        "variant toolkit compute",
        f"variant {_label} of CUDA {_bound}",
        "variant.json promises that an older driver's CUDA is enough, or the label says nothing",
        _variant(_label, {"nvidia": {"cuda_version_lower_bound": [_bound], "sm_arch": ["80_real"]}}),
        base="cuda",
    )
_lie(
    "variant toolkit",
    "label and properties differ",
    "the label says CUDA 13.0, its properties 12.4",
    _variant("cu130_80", {"nvidia": {"cuda_version_lower_bound": ["12.4"], "sm_arch": ["80_real"]}}),
    base="cuda",
)
_lie(
    "variant",
    "label of another GPU",
    "the label says 12.0, its properties 8.0",
    _variant("cu130_120", {"nvidia": {"cuda_version_lower_bound": ["13.0"], "sm_arch": ["80_real"]}}),
    base="cuda",
)
_lie(
    "variant",
    "variant for any GPU",
    "code for two GPUs, and variant.json names none: every GPU takes it",
    _variant("cu130", {"nvidia": {"cuda_version_lower_bound": ["13.0"]}}),
    base="cuda",
)
_lie(
    "variant",
    "a feature that nobody knows",
    "no installer knows the feature",
    _variant("cu130_80", {"nvidia": {"cuda_version": ["13.0"], "sm_archs": ["80_real"]}}),
    base="cuda",
)
_lie(
    "variant compute",
    "label cpu with GPU code",
    "the label says cpu",
    _variant("cpu", {"nvidia": {"sm_arch": ["80_real"]}}),
    base="cuda",
)
_lie(
    "variant",
    "an upper bound below",
    "the CUDA that is needed is excluded by an upper bound",
    _variant("cu130_80", {"nvidia": {"cuda_version_upper_bound": ["12.0"], "sm_arch": ["80_real"]}}),
    base="cuda",
)


@lie("variant compute names", "version +cpu and a label of CUDA 13: variants compete within +cpu", base="cpu")
def cpu_version_with_a_cuda_label(wheel: Wheel) -> None:
    _variant("cu130", {"nvidia": {"cuda_version_lower_bound": ["13.0"]}}, "1.0+cpu.torch2.11")(wheel)


# --- What is required, in environments that nobody asked of -------------------------------------------------


def _requires(*lines: str, extra: tuple[str, ...] = ()) -> Callable[[Wheel], None]:
    def change(wheel: Wheel) -> None:
        wheel.requires(*lines)
        wheel.metadata += extra

    return change


_lie(
    "symbols libraries torch",
    "tvm-ffi for an extra only",
    "libtvm_ffi.so is brought by what an extra alone requires",
    _both(
        lambda w: w.library.needed.append("libtvm_ffi.so"),
        _imports("nobody_has_this", kind=0),
        _requires('apache-tvm-ffi; extra == "all"', extra=("Provides-Extra: all",)),
    ),
)
_lie(
    "symbols",
    "unknown beside tvm-ffi",
    "torch's and CUDA's symbols are left to a library that has none of them",
    _both(
        lambda w: w.library.needed.append("libtvm_ffi.so"),
        _imports("cublasSgemm_v2", "_ZN2at6nobodyEv", kind=0),
        _requires("apache-tvm-ffi", "torch==2.11.*"),
    ),
    base="cuda",
)
# --- Versions of symbols ------------------------------------------------------------------------------------


def _version_of(library: str, version: str, name: str, *, need: bool = True, kind: int = 0) -> Callable[[Wheel], None]:
    def change(wheel: Wheel) -> None:
        if need and library not in wheel.library.needed:
            wheel.library.needed.append(library)
        wheel.library.import_(name, version=(library, version.replace("OLDEST", OLDEST[wheel.arch])), kind=kind)

    return change


_lie(
    "symbols platform elf",
    "a version that libc does not have",
    "Python's symbol, in a version that libc must have",
    _version_of("libc.so.6", "FOO_1.0", "PyErr_Clear"),
)
_lie(
    "symbols platform elf",
    "version of a library that is not needed",
    "the loader stops: the version's library is not there",
    _version_of("libz.so.1", "OLDEST", "strlen", need=False),
)
_lie(
    "symbols platform elf",
    "version in another library",
    "the version is asked of a library that does not have it",
    _version_of("libz.so.1", "OLDEST", "strlen"),
)
_lie(
    "symbols platform elf",
    "Python's symbol in a version of zlib",
    "libz has no such version",
    _version_of("libz.so.1", "NOTZ_9.9", "PyErr_Clear"),
)
_lie(
    "symbols platform elf",
    "Python's symbol with a version of libm",
    "a library is asked for what it lacks",
    _version_of("libm.so.6", "CXXABI_1.3", "PyErr_Clear"),
)


def _own_versions(wheel: Wheel, *exports: Symbol, wanted: str, ask: str = "help_me") -> None:
    own = next(item for path, item in wheel.files.items() if path.startswith("forged.libs/"))
    own.exports = list(exports)
    wheel.library.imports = [s for s in wheel.library.imports if s.name != "help_me"]
    wheel.library.import_(ask, version=(own.soname, wanted))


@lie("symbols", "the wheel's library has the symbol in V1, has V2 for another, and V2 is asked for", base="bundled")
def provided_in_the_other_own_version(wheel: Wheel) -> None:
    soname = "libhelp-0123abcd.so.1"
    _own_versions(
        wheel,
        Symbol(name="help_me", version=(soname, "V1")),
        Symbol(name="another", version=(soname, "V2")),
        wanted="V2",
    )


@lie("libraries symbols", "a libc of the wheel's own: the process has one, and never loads this", base="bundled")
def own_libc(wheel: Wheel) -> None:
    wheel.files.pop("forged.libs/libhelp-0123abcd.so.1")
    wheel.library.needed = [name for name in wheel.library.needed if "help" not in name]
    wheel.files["forged.libs/libc.so.6"] = Library(
        arch=wheel.arch,
        soname="libc.so.6",
        needed=["ld-linux-x86-64.so.2"] if wheel.arch == "x86_64" else ["ld-linux-aarch64.so.1"],
        exports=[Symbol(name="help_me"), Symbol(name="memcpy")],
    )


@lie("libraries symbols", "a libm of the wheel's own, which nobody finds: the process has one", base="bundled")
def own_libm(wheel: Wheel) -> None:
    own = wheel.files.pop("forged.libs/libhelp-0123abcd.so.1")
    own.soname = "libm.so.6"
    wheel.library.needed = [name for name in wheel.library.needed if "help" not in name] + ["libm.so.6"]
    wheel.files["forged.libs/libm.so.6"] = own


@lie("libraries symbols", "a libpthread of the wheel's own, and no search path", base="bundled")
def own_libpthread_without_a_path(wheel: Wheel) -> None:
    own_libm(wheel)
    wheel.library.runpath = None


@lie("libraries symbols", "$LIB is a folder of the loader's choice, not one of that name", base="bundled")
def folder_named_lib(wheel: Wheel) -> None:
    wheel.move("forged.libs/libhelp-0123abcd.so.1", "forged/$LIB/libhelp-0123abcd.so.1")
    wheel.library.runpath = "$ORIGIN/$LIB"


@lie("symbols libraries platform elf", "a library that is called musl's: nothing is asked of this file's symbols")
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


# --- Pythons that are not known -----------------------------------------------------------------------------


@lie("abi3 symbols suffix tags", "a private symbol in a wheel for the free-threaded stable ABI")
def private_in_abi3t(wheel: Wheel) -> None:
    wheel.move(wheel.module, "forged/_ops.abi3t.so")
    wheel.library.import_("_PyObject_GetDictPtr", kind=0)
    wheel.tag("cp315", "abi3t")


@lie("abi3 symbols suffix tags", "a symbol that went with Python 3.12, in a wheel for the free-threaded 3.14")
def gone_in_a_free_threaded_python(wheel: Wheel) -> None:
    wheel.move(wheel.module, f"forged/_ops.cpython-314t-{wheel.arch}-linux-gnu.so")
    wheel.library.import_("PyUnicode_AsUnicode", kind=0)
    wheel.tag("cp314", "cp314t")


@lie("abi3 symbols tags", "CPython's own names, which PyPy exports as PyPy…")
def pythons_symbols_for_pypy(wheel: Wheel) -> None:
    wheel.move(wheel.module, f"forged/_ops.pypy311-pp73-{wheel.arch}-linux-gnu.so")
    wheel.tag("pp311", "pypy311_pp73")


# --- Files that nobody looks at -----------------------------------------------------------------------------

for _name, _data in {
    "k.bin": b"X" + ptx("90").rstrip(b"\0"),
    "k.json": json.dumps({"source": ptx("90").rstrip(b"\0").decode()}).encode(),
    "k.hsaco": Library(machine=_AMDGPU).build(),
    "k.so": Library(machine=_AMDGPU).build(),
    "k.dat": b"__CLANG_OFFLOAD_BUNDLE__" + bytes(8) + Library(machine=_AMDGPU).build(),
    "k.spv": struct.pack("<5I", 0x07230203, 0x10000, 0, 10, 0) + bytes(64),
}.items():
    _lie(
        "compute gpu",
        f"{_name} in a cpu wheel",
        "code for a GPU in a wheel for cpu",
        _file(f"forged/{_name}", _data),
        base="cpu",
    )
for _name, _data in {
    "empty": b"",
    "PE": b"MZ" + bytes(200),
    "behind a mark": b"\xef\xbb\xbf" + Library().build(),
    "BPF": Library(machine=_BPF).build(),
    "AMD GPU": Library(machine=_AMDGPU).build(),
    "cubin": cubin("90"),
}.items():
    _lie(
        "elf suffix gpu compute architecture",
        f"second module is {_name}",
        "Python looks for it, and no loader takes it",
        _file("forged/_more.abi3.so", _data),
        base="cuda" if _name == "cubin" else "plain",
    )
_lie(
    "elf purity architecture",
    "the only module is for BPF",
    "no loader takes it",
    lambda w: setattr(w.library, "machine", _BPF),
)
_lie(
    "gpu",
    "noise.CUBIN",
    "noise, under a name of GPU code in capitals",
    _file("forged/noise.CUBIN", bytes(range(256))),
    base="cuda",
)


# --- GPU code -----------------------------------------------------------------------------------------------


def _fatbin(*entries: bytes) -> Callable[[Wheel], None]:
    return lambda wheel: setattr(wheel.library, "fatbin", fatbin(*entries))


_lie(
    "gpu toolkit",
    "a GPU that CUDA 13 dropped",
    "CUDA 13.0 makes no code for 7.0",
    _fatbin(entry(CUBIN, "70", cubin("70"))),
    base="cuda",
)
_lie(
    "gpu toolkit", "a GPU that does not exist", "there is no 8.5", _fatbin(entry(CUBIN, "85", cubin("85"))), base="cuda"
)
_lie(
    "gpu toolkit",
    "a GPU of the future",
    "CUDA 13.0 makes no code for 14.5",
    _fatbin(entry(CUBIN, "145", cubin("145"))),
    base="cuda",
)
# What the note calls the virtual SM is that of the PTX: ``ptxas -arch=sm_90`` of ``.target sm_80`` writes 80.
_legal(
    "virtual architecture below the GPU's",
    "compute_80, assembled for 9.0",
    _fatbin(entry(CUBIN, "90", cubin("90", info_arch=80))),
    base="cuda",
)


@legal("an old cubin of compute_80, assembled for 9.0", base="cuda")
def old_cubin_of_an_older_virtual_architecture(wheel: Wheel) -> None:
    wheel.rename("1.0+cu126.torch2.11")
    wheel.library.needed[-2:] = ["libcudart.so.12", "libc.so.6"]
    wheel.library.imports = [s for s in wheel.library.imports if s.name != "cudaLaunchKernel"]
    wheel.library.import_("cudaLaunchKernel", version=("libcudart.so.12", "libcudart.so.12"))
    wheel.library.fatbin = fatbin(
        entry(CUBIN, "90", cubin("90", toolkit="12.6", flags=0x500 | 90 | 80 << 16), toolkit="12.6")
    )


@lie("gpu", "noise, labelled as LTO IR: all the GPU code that there is", base="cuda")
def noise_as_lto(wheel: Wheel) -> None:
    wheel.library.fatbin = fatbin(entry(8, "90", bytes(range(256)) * 4))


# --- Names, METADATA, dist-info -----------------------------------------------------------------------------


def _raw(name: str, data: bytes) -> Callable[[Wheel], None]:
    return lambda wheel: wheel.raw.__setitem__(name, data)


def _metadata(*lines: str, version: str | None = None) -> Callable[[Wheel], None]:
    def change(wheel: Wheel) -> None:
        if version:
            wheel.set("Metadata-Version", version)
        wheel.metadata += lines

    return change


for _name, _judges, _says, _made in (
    (
        "licence that is not there",
        "metadata",
        "License-File names what is not in the wheel",
        _metadata("License-File: LICENSE", version="2.4"),
    ),
    (
        "Import-Name of torch",
        "foreign metadata names",
        "METADATA says that it provides torch",
        _metadata("Import-Name: torch", version="2.5"),
    ),
    (
        "Import-Name that is not there",
        "metadata names foreign",
        "METADATA names a module that is not in the wheel",
        _metadata("Import-Name: nothing", version="2.5"),
    ),
    (
        "an extra that is not declared",
        "metadata",
        "Requires-Dist speaks of an extra that is not there",
        _metadata('Requires-Dist: six; extra == "nothing"'),
    ),
    (
        "library of CUDA",
        "foreign libraries",
        "the file of nvidia-cuda-runtime",
        _file("nvidia/cu13/lib/libcudart.so.13", Library(soname="libcudart.so.13", needed=["libc.so.6"]).build()),
    ),
):
    _lie(_judges, _name, _says, _made, arches=("x86_64",))


# --- Right, though it looks otherwise -----------------------------------------------------------------------


def _inherited(wheel: Wheel) -> None:
    wheel.library.rpath, wheel.library.runpath = wheel.library.runpath, None
    own = wheel.files["forged.libs/libhelp-0123abcd.so.1"]
    own.needed.insert(0, "libmore.so")
    wheel.files["forged.libs/libmore.so"] = Library(arch=wheel.arch, soname="libmore.so", needed=["libc.so.6"])


def _own_glibc(wheel: Wheel) -> None:
    soname = "libhelp-0123abcd.so.1"
    _own_versions(wheel, Symbol(name="help_me", version=(soname, "GLIBC_2.99")), wanted="GLIBC_2.99")


_legal("RPATH for those below", "DT_RPATH is for what the library needs, too", _inherited, base="bundled")
_legal(
    "Requires-Python between patch releases", "some 3.11 are admitted", lambda w: w.set("Requires-Python", "==3.11.9")
)
_legal("own version named as glibc's", "the wheel's own library has it", _own_glibc, base="bundled")
