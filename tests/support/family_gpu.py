"""GPU code: what it is, what its label says, and where it lies."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

from family_elf import with_cuda
from forge import Wheel, legal, legals, lie, lies, one_legal, one_lie, put
from forge_elf import Library, Symbol
from forge_gpu import CUBIN, LZ4, PTX, ZSTANDARD, code, cubin, entry, fatbin, ptx

_lie, _legal = partial(one_lie, family="gpu"), partial(one_legal, family="gpu")


def _holds(wheel: Wheel, *entries: bytes) -> None:
    wheel.library.fatbin = fatbin(*entries)


def _holds_all(entries: tuple[bytes, ...], wheel: Wheel) -> None:
    _holds(wheel, *entries)


# --- labels -------------------------------------------------------------------------------------------------


def _labelled(wheel: Wheel, text: str) -> None:
    label, real = text.split()
    _holds(wheel, entry(CUBIN, label, cubin(real)))


_LABELS = ["90 80", "90a 90", "90 90a", "100f 100", "100a 100f", "120a 120", "75 80", "0 80"]
lies("gpu", "machine code is labelled as another's (label, what it is): {}", _LABELS, _labelled, base="cuda")
lies(
    "gpu",
    "the same, compressed: {}",
    ["90 80", "90a 90"],
    lambda w, t: _packed(w, t, ZSTANDARD),
    base="cuda",
    name="zstd",
)
lies(
    "gpu",
    "the same, compressed by LZ4: {}",
    ["90 80", "90a 90"],
    lambda w, t: _packed(w, t, LZ4),
    base="cuda",
    name="lz4",
)


def _packed(wheel: Wheel, text: str, how: int) -> None:
    label, real = text.split()
    _holds(wheel, entry(CUBIN, label, cubin(real), compress=how))


def _older(wheel: Wheel, text: str) -> None:
    """Change the wheel to CUDA 12.6 and torch 2.12, whose cubins have ABI 7."""
    wheel.rename("1.0+cu126.torch2.12")
    wheel.requires("torch==2.12.*")
    wheel.library.needed[wheel.library.needed.index("libcudart.so.13")] = "libcudart.so.12"
    wheel.library.needs("cudaLaunchKernel").version = ("libcudart.so.12", "libcudart.so.12")
    label, real = text.split()
    _holds(wheel, entry(CUBIN, label, cubin(real, toolkit="12.6")))


lies(
    "gpu",
    "the same with the cubins of CUDA 12.6: {}",
    ["90 80", "90a 90", "80 86", "90 90a"],
    _older,
    base="cuda",
    name="of 12.6",
)
legals("honest code of CUDA 12.6: {}", ["80 80", "90a 90a"], _older, base="cuda", name="of 12.6")


def _ptx_labelled(wheel: Wheel, text: str) -> None:
    label, target = text.split()
    _holds(wheel, entry(PTX, label, ptx("90", target=target)))


lies(
    "gpu",
    "PTX is labelled as another's (label, .target): {}",
    ["90 sm_80", "90a sm_90", "90 sm_90a", "100f sm_100", "120 sm_12", "90 SM_90"],
    _ptx_labelled,
    base="cuda",
)


@lie("gpu", "a cubin of another GPU in the second container", base="cuda")
def second_container(wheel: Wheel) -> None:
    wheel.library.fatbin = code("80") + fatbin(entry(CUBIN, "90", cubin("80")))


@lie("gpu", "a cubin of another GPU in a library beside the honest one", base="cuda")
def second_library(wheel: Wheel) -> None:
    other = Library(arch=wheel.arch, needed=["libcudart.so.13", "libc.so.6"], exports=[Symbol(name="x")])
    other.fatbin = fatbin(entry(CUBIN, "90", cubin("80")))
    wheel.files["forged/libother.so"] = other


@lie("gpu", "a cubin of another GPU in a relocatable fatbin", base="cuda")
def relocatable(wheel: Wheel) -> None:
    wheel.library.relocatable_fatbin = fatbin(entry(CUBIN, "90", cubin("80", relocatable=True)))


@lie("gpu elf", "a cubin of another GPU in a section with another name", base="cuda")
def label_in_a_renamed_section(wheel: Wheel) -> None:
    _labelled(wheel, "90 80")
    wheel.library.section_names = {".nv_fatbin": ".nv_fatbim"}


def _cubin(name: str, says: str, **how: object) -> None:
    def change(wheel: Wheel) -> None:
        _holds(wheel, entry(CUBIN, "90", cubin("90", **how)))

    lie("gpu toolkit", says, base="cuda", family="gpu", name=name)(change)


_cubin("flags of another", "the header says sm_80, its label sm_90", flags=0x06005004)
_cubin("no words", "no tool says that it made it", words="")
_cubin("words of a later CUDA", "CUDA 13.2 made it", words="Cuda compilation tools, release 13.2, V13.2.51")


def _corrupt(name: str, says: str, change: Callable[[bytes], bytes]) -> None:
    def forge(wheel: Wheel) -> None:
        _holds(wheel, entry(CUBIN, "80", change(cubin("80"))))

    lie("gpu toolkit", says, base="cuda", family="gpu", name=name)(forge)


_corrupt("zeros", "zeros as machine code", lambda data: bytes(len(data)))
_corrupt("half a cubin", "it ends in the middle", lambda data: data[: len(data) // 2])
_corrupt("a library", "an extension module as machine code", lambda _: Library(needed=["libc.so.6"]).build())


# --- PTX ----------------------------------------------------------------------------------------------------


def _ptx_text(name: str, says: str, data: bytes, *, compress: int = 0, **how: object) -> None:
    def change(wheel: Wheel) -> None:
        _holds(wheel, entry(PTX, "90", data, compress=compress, **how))

    lie("gpu toolkit", says, base="cuda", family="gpu", name=name)(change)


_HONEST = ptx("90")
_ptx_text("ptx without a target", "it names no GPU", _HONEST.replace(b".target sm_90\n", b""))
_ptx_text("ptx labelled too old", "the label is of an older version than the text", _HONEST, version=(8, 0))
_ptx_text("ptx of a later CUDA", "CUDA 13.0 does not read PTX 9.2", ptx("90", toolkit="13.2"), toolkit="13.2")
_ptx_text("compressed for another", "PTX for another GPU, compressed", ptx("80"), compress=ZSTANDARD)
_ptx_text("a cubin as ptx", "machine code as PTX", cubin("90"))


@lie("gpu toolkit", "PTX as machine code", base="cuda")
def ptx_as_a_cubin(wheel: Wheel) -> None:
    _holds(wheel, entry(CUBIN, "90", ptx("90")))


# --- containers ---------------------------------------------------------------------------------------------


def _container(name: str, says: str, data: bytes, base: str = "cuda") -> None:
    def change(wheel: Wheel) -> None:
        wheel.library.fatbin = data

    lie("gpu toolkit", says, base=base, family="gpu", name=name)(change)


_C80 = cubin("80")
_WRONG = fatbin(entry(CUBIN, "90", _C80))
_container("container of nothing known", "an entry of an unknown kind hides code", fatbin(entry(0x77, "80", _C80)))
_container(
    "second container out of step", "the next container is not where the first one ends", code("80") + bytes(4) + _WRONG
)
_container(
    "size before compression too large",
    "it unpacks to less than it says",
    fatbin(entry(CUBIN, "80", _C80, compress=ZSTANDARD, size=9999)),
)
_container(
    "compressed by nobody", "it says zstd and is not", fatbin(entry(CUBIN, "80", _C80, compress=ZSTANDARD, stored=_C80))
)
# --- toolkits -----------------------------------------------------------------------------------------------


def _toolkit(wheel: Wheel, toolkit: str) -> None:
    _holds(wheel, entry(CUBIN, "100", cubin("100", toolkit=toolkit)))


lies(
    "toolkit gpu",
    "CUDA {} made the code of a wheel for 13.0",
    ["12.8", "12.9", "13.2", "14.0", "13.01", "1.30"],
    _toolkit,
    base="cuda",
)


@lie("toolkit compute gpu", "CUDA 12.6's code and runtime as +cu130", base="cuda")
def all_of_another_cuda(wheel: Wheel) -> None:
    _older(wheel, "80 80")
    wheel.rename("1.0+cu130.torch2.12")


# --- code in a wheel for cpu --------------------------------------------------------------------------------


def _in_cpu(name: str, says: str, change: Callable[[Wheel], None]) -> None:
    lie("compute gpu", f"a cpu wheel has GPU code: {says}", base="cpu", family="gpu", name=f"cpu, {name}")(change)


def _rodata(data: bytes) -> Callable[[Wheel], None]:
    def change(wheel: Wheel) -> None:
        wheel.library.constants = data

    return change


def _file(path: str, data: bytes) -> Callable[[Wheel], None]:
    def change(wheel: Wheel) -> None:
        wheel.files[path] = data

    return change


_ONE = code("80")
_in_cpu("fatbin", "in .nv_fatbin", lambda w: setattr(w.library, "fatbin", _ONE))
_in_cpu("cubin in rodata", "a bare cubin among constants", _rodata(b"constant" + _C80))
_in_cpu("ptx in rodata", "PTX as a string", _rodata(b"x" * 64 + ptx("80")))
_in_cpu(
    "behind the library",
    "behind all that the library's headers name",
    lambda w: setattr(w.library, "change", lambda data: data.extend(_ONE)),
)
_in_cpu("cubin as data", "a bare cubin with a name that says nothing", _file("forged/table.bin", _C80))
_in_cpu("ptx as a file", "PTX", _file("forged/kernel.ptx", ptx("80")[:-1]))


def _second(path: str, **how: object) -> Callable[[Wheel], None]:
    def change(wheel: Wheel) -> None:
        wheel.files[path] = Library(
            arch=wheel.arch, needed=["libc.so.6"], exports=[Symbol(name="x")], fatbin=_ONE, **how
        )

    return change


_in_cpu("second library", "in a second library", _second("forged/libextra.so"))
_in_cpu("library as data", "in a library that is called .bin", _second("forged/table.bin"))
_in_cpu("object file", "in an object file", _second("forged/extra.o", type=1))


@lie("compute gpu", "a wheel for any platform with a cubin that says +cpu", base="pure")
def cubin_in_a_pure_cpu_wheel(wheel: Wheel) -> None:
    wheel.rename("1.0+cpu")
    wheel.files["forged/kernel.cubin"] = _C80


@lie("compute libraries", "an NVIDIA driver call in a cpu wheel", base="cpu")
def driver_in_cpu(wheel: Wheel) -> None:
    wheel.library.needed.append("libcuda.so.1")
    wheel.library.import_("cuLaunchKernel", kind=0)


@lie("compute", "CPU in other letters is the same version", base="cpu")
def cpu_in_capitals(wheel: Wheel) -> None:
    with_cuda(wheel.library)
    wheel.rename("1.0+CPU.torch2.11")
    wheel.metadata = [line.replace("+CPU", "+cpu") for line in wheel.metadata]


@lie("compute", "CUDA 12 in a cu130 wheel's second library", base="cuda")
def another_runtime_in_a_second_library(wheel: Wheel) -> None:
    other = Library(arch=wheel.arch, needed=["libcudart.so.12", "libc.so.6"], exports=[Symbol(name="x")])
    wheel.files["forged/libother.so"] = other


# --- legal --------------------------------------------------------------------------------------------------


def _honest(wheel: Wheel, text: str) -> None:
    wheel.library.fatbin = code(*text.split())


legals(
    "honest code: {}",
    ["80", "90a", "100f", "120a 120+PTX", "75 80 86 89 90 100 120+PTX", "90a+PTX", "100f+PTX", "103", "80+PTX"],
    _honest,
    base="cuda",
)


def _compressed(wheel: Wheel, text: str) -> None:
    wheel.library.fatbin = code("80", "90a", "90+PTX", compress={"zstd": ZSTANDARD, "lz4": LZ4}[text])


legals("nvcc compresses by {}", ["zstd", "lz4"], _compressed, base="cuda")


@legal("machine code for 8.6 that was made of PTX for 8.0: a note names both", base="cuda")
def compiled_for_an_older_virtual_gpu(wheel: Wheel) -> None:
    _holds(wheel, entry(CUBIN, "86", cubin("86", info_arch=80)))


@legal("one container a translation unit", base="cuda")
def several_containers(wheel: Wheel) -> None:
    wheel.library.fatbin = code("80") + code("80", "90+PTX") + code("100f")


@legal("relocatable device code beside what was linked of it", base="cuda")
def honest_relocatable(wheel: Wheel) -> None:
    wheel.library.relocatable_fatbin = fatbin(entry(CUBIN, "80", cubin("80", relocatable=True)))


@legal("nvcc 13 writes newlines before the first line of PTX", base="cuda")
def ptx_behind_newlines(wheel: Wheel) -> None:
    _holds(wheel, entry(PTX, "90", b"\n" * 8 + _HONEST))


@legal("PTX of an older CUDA: the driver compiles it", base="cuda")
def older_ptx(wheel: Wheel) -> None:
    _holds(wheel, entry(CUBIN, "80", cubin("80")), entry(PTX, "80", ptx("80", toolkit="12.4"), toolkit="12.4"))


@legal("a cubin as a data file: it is no extension, and asks for no CPU", base="cuda")
def cubin_as_data(wheel: Wheel) -> None:
    wheel.files["forged/kernels/extra_sm80.cubin"] = cubin("80")


@legal("bare cubins and nothing else, for any platform: flashinfer-cubin is one", base="pure")
def cubins_alone(wheel: Wheel) -> None:
    wheel.files["forged/cubins/one.cubin"] = cubin("90a")
    wheel.files["forged/cubins/two.cubin"] = cubin("80", toolkit="12.8")


@legal("a module of a CUDA wheel that has no GPU code itself", base="cuda")
def library_without_code(wheel: Wheel) -> None:
    wheel.files["forged/libhost.so"] = Library(arch=wheel.arch, needed=["libc.so.6"], exports=[Symbol(name="x")])


@legal("a word that looks like the magic of a container, in constants of a cpu wheel", base="cpu")
def magic_in_constants(wheel: Wheel) -> None:
    wheel.library.constants = struct.pack("<IIQ", 0xBA55ED50, 0, 1 << 60) + b"nothing"


@legal("a cpu wheel may speak of PTX: text about .target is no code", base="cpu")
def text_about_ptx(wheel: Wheel) -> None:
    wheel.files["forged/README.md"] = b"Use `.target sm_90` in your PTX; .version 9.0 or later.\n"
    wheel.library.constants = b"cannot compile for sm_90: .target\0"


# --- code that is none, or for another target ---------------------------------------------------------------

_AMDGPU, _BPF, _LTO = 224, 247, 8
for _name, _data in {
    "k.bin": b"X" + ptx("90").rstrip(b"\0"),
    "k.json": b'{"source": "' + ptx("90").rstrip(b"\0").replace(b"\n", b"\\r\\n") + b'"}',
    "k.cubin.dat": b"\1" + cubin("90"),
    "k.hsaco": Library(machine=_AMDGPU).build(),
    "k.so": Library(machine=_AMDGPU).build(),
    "k.dat": b"__CLANG_OFFLOAD_BUNDLE__" + bytes(8) + Library(machine=_AMDGPU).build(),
    "k.spv": struct.pack("<5I", 0x07230203, 0x10000, 0, 10, 0) + bytes(64),
}.items():
    _lie(
        "compute gpu",
        f"{_name} for cpu",
        "code for a GPU in a wheel for cpu",
        put(f"forged/{_name}", _data),
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
        put("forged/_more.abi3.so", _data),
        base="cuda" if _name == "cubin" else "plain",
    )
_lie("gpu", "noise.CUBIN", "noise, named as GPU code", put("forged/noise.CUBIN", bytes(range(256))), base="cuda")
for _path, _data in {
    "x.gz": b"\x1f\x8b\x08" + b"text" * 99,
    "x.zip": b"PK\5\6" + bytes(18),
    "t64.exe": b"MZ" + bytes(400),
    "x.wasm": b"\0asm\1\0\0\0" + bytes(99),
    "about.txt": b"It begins with \x7fELF, and a zip with PK\3\4",
}.items():
    _legal(_path, "no ELF file for a CPU", put(f"forged/{_path}", _data), base="pure")
for _path in ("k.cu", "k.md", "k.ptx.jinja"):
    _legal(f"PTX in {_path}", "text about PTX", put(f"forged/{_path}", b"// k\nx " + ptx("90")), base="cpu")
for _name, _entries in {
    "a GPU that CUDA 13 dropped": (entry(CUBIN, "70", cubin("70")),),
    "a GPU that does not exist": (entry(CUBIN, "85", cubin("85")),),
    "a GPU of the future": (entry(CUBIN, "145", cubin("145")),),
    "two of LTO alone": (entry(_LTO, "80", bytes(64)), entry(_LTO, "90", bytes(64))),
    "relocatable alone": (entry(CUBIN, "90", cubin("90", relocatable=True)),),
    "noise as LTO": (entry(_LTO, "90", bytes(range(256)) * 4),),
}.items():
    _lie("gpu toolkit", _name, "no GPU runs it", partial(_holds_all, _entries), base="cuda")
# What the note calls the virtual SM is that of the PTX: ``ptxas -arch=sm_90`` of ``.target sm_80`` writes 80.
for _name, _entries in {
    "virtual architecture below the GPU's": (entry(CUBIN, "90", cubin("90", info_arch=80)),),
    "LTO beside machine code": (entry(_LTO, "90", bytes(range(64))), entry(CUBIN, "90", cubin("90"))),
}.items():
    _legal(_name, "nvcc makes it", partial(_holds_all, _entries), base="cuda")
_legal("LTO as data", "a linker reads it", put("forged/x.fatbin", fatbin(entry(_LTO, "90", bytes(64)))), base="cuda")


@legal("an old cubin of compute_80, assembled for 9.0", base="cuda")
def old_cubin_of_an_older_virtual_architecture(wheel: Wheel) -> None:
    wheel.rename("1.0+cu126.torch2.11")
    wheel.library.needed[-2:] = ["libcudart.so.12", "libc.so.6"]
    wheel.library.imports = [s for s in wheel.library.imports if s.name != "cudaLaunchKernel"]
    wheel.library.import_("cudaLaunchKernel", version=("libcudart.so.12", "libcudart.so.12"))
    _holds(wheel, entry(CUBIN, "90", cubin("90", toolkit="12.6", flags=0x500 | 90 | 80 << 16), toolkit="12.6"))
