"""File name, METADATA, WHEEL and the dist-info folder agree; files, programs and modules are the wheel's own."""

from __future__ import annotations

import struct
from functools import partial

from forge import Wheel, add_metadata, legal, legals, lie, lies, one_legal, one_lie, put, put_raw
from forge_elf import Library, Symbol

_lie, _legal = partial(one_lie, family="names"), partial(one_legal, family="names")


# --- METADATA -----------------------------------------------------------------------------------------------


def _header(wheel: Wheel, text: str) -> None:
    """Replace a header of METADATA; one without a value is left out."""
    key, _, value = text.partition(": ")
    wheel.set(key.removesuffix(":"), value or (None if ":" not in text else ""))


def _header_more(wheel: Wheel, text: str) -> None:
    wheel.metadata.append(text)


def _text(wheel: Wheel, text: str) -> None:
    """Replace a file of the dist-info folder."""
    name, _, content = text.partition("|")
    wheel.raw[f"{{info}}/{name}"] = content.encode("latin-1")


lies(
    "names metadata",
    "METADATA says {!r}, and the file name another thing",
    ["Name: other", "Name: for-ged", "Name: torch", "Version: 2.0", "Version: 1.0.post1", "Version: 1.0+cpu"],
    _header,
    name="disagrees",
)
lies(
    "metadata names",
    "METADATA cannot be right with {!r}",
    [
        *("Name: förged", "Name: ", "Name: -forged", "Version: ", "Version: one", "Name", "Version"),
        *("Metadata-Version: 9.9", "Metadata-Version: ", "Metadata-Version", "Requires-Python: three"),
        *("Requires-Dist: ???", "Requires-Dist: torch==", "Requires-Dist: t\u043e\u0440ch==2.11.*"),
        *("Requires-Dist: torch==2.11.*; nonsense == 1", "Requires-Dist: torch==2.x", "Requires-Dist: "),
        *("Description-Content-Type: evil/none", "Provides-Extra: a b c"),
    ],
    _header,
    name="malformed",
)
lies(
    "metadata names",
    "METADATA has a second line: {!r}",
    ["Name: torch", "Version: 2.0", "Requires-Python: >=3.99"],
    _header_more,
    name="twice",
)
lies(
    "metadata names archive",
    "no headers, or other bytes than UTF-8: {!r}",
    [
        "METADATA|",
        "METADATA|\x00\xff\xfe",
        "METADATA|\nMetadata-Version: 2.1\nName: forged\nVersion: 1.0\n",
        "METADATA|Metadata-Version: 2.1\nName: forged\nVersion: 1.0\nAuthor: J\xe9r\xf4me\n",
    ],
    _text,
    name="metadata",
)
_lie("metadata tags names", "no Python at all", "no tag is left", lambda w: w.set("Requires-Python", "<3"))
_lie(
    "metadata tags names",
    "another Python",
    "cp311 for Python 3.12 alone",
    lambda w: w.set("Requires-Python", ">=3.12"),
    base="python",
)
_legal("one patch release of Python", "some 3.11 are admitted", lambda w: w.set("Requires-Python", "==3.11.9"))
for _name, _changes in {
    "a licence": (add_metadata("License-File: LICENSE"),),
    "a second licence": (
        add_metadata("License-File: LICENSE", "License-File: NOTICE"),
        put_raw("{info}/licenses/LICENSE", b""),
    ),
    "a licence in a folder": (
        add_metadata("License-File: vendor/LICENSE"),
        put_raw("{info}/licenses/other/LICENSE", b""),
    ),
    "a module": (add_metadata("Import-Name: nothing", version="2.5"),),
    "an extra": (add_metadata('Requires-Dist: six; extra == "nothing"'),),
    "an extra, the other way round": (add_metadata('Requires-Dist: six; "nothing" == extra'),),
    "one extra of two": (add_metadata("Provides-Extra: a", 'Requires-Dist: six; extra == "a" or extra == "b"'),),
    "itself in another version": (add_metadata("Requires-Dist: forged<1"),),
}.items():
    _lie("metadata", f"METADATA names {_name}", "it is not there", *_changes)
for _name, _changes in {
    "a licence beside it": (add_metadata("License-File: LICENSE", version="2.1"), put_raw("{info}/LICENSE", b"")),
    "a licence in a folder": (add_metadata("License-File: a/L"), put_raw("{info}/licenses/a/L", b"")),
    "an extra in another spelling": (
        add_metadata("Provides-Extra: Foo_Bar", 'Requires-Dist: six; extra == "foo-bar"', version="2.1"),
    ),
    "itself": (add_metadata("Requires-Dist: forged>=1"),),
}.items():
    _legal(f"METADATA names {_name}", "it is there", *_changes)

# --- WHEEL --------------------------------------------------------------------------------------------------


def _wheel_header(wheel: Wheel, text: str) -> None:
    key, _, value = text.partition(": ")
    wheel.set_wheel(key.removesuffix(":"), value or (None if ":" not in text else ""))


def _wheel_header_more(wheel: Wheel, text: str) -> None:
    wheel.wheel.append(text)


lies(
    "tags purity",
    "WHEEL says {!r}",
    [
        *("Wheel-Version: 2.0", "Wheel-Version: one", "Wheel-Version: ", "Wheel-Version"),
        *("Root-Is-Purelib: true", "Root-Is-Purelib: maybe", "Root-Is-Purelib: ", "Root-Is-Purelib"),
        *("Tag: cp39-abi3-manylinux_2_28_x86_64", "Tag: py3-none-any", "Tag: cp310-abi3-mänylinux", "Tag: ", "Tag"),
    ],
    _wheel_header,
    name="wheel",
)
lies(
    "tags purity",
    "WHEEL has another line: {!r}",
    ["Tag: py3-none-any", "Wheel-Version: 2.0", "Root-Is-Purelib: true", "Build: 2"],
    _wheel_header_more,
    name="wheel has also",
)
lies("tags", "WHEEL is no text: {!r}", ["WHEEL|", "WHEEL|\x00\xff\xfe"], _text, name="wheel is")
_lie("tags", "a tag less", "the file name has another", lambda w: w.tag("cp310.cp311"), lambda w: w.wheel.pop())
_lie(
    "tags",
    "another build",
    "1 in the file name",
    lambda w: setattr(w, "build", "1"),
    lambda w: w.wheel.append("Build: 2"),
)
_lie("purity", "nothing compiled", "a platform's wheel without a library", lambda w: w.files.pop(w.module))
_lie(
    "purity",
    "library in a pure wheel",
    "it is for any platform",
    put("forged/x.so", Library(needed=["libc.so.6"], exports=[Symbol(name="x")])),
    base="pure",
    arches=("x86_64",),
)


def _libraries_in(scheme: str, wheel: Wheel) -> None:
    wheel.files = {f"forged-1.0.data/{scheme}/libforged.so.1": Library(arch=wheel.arch, needed=["libc.so.6"])}
    wheel.tag("py3", "none")
    wheel.set_wheel("Root-Is-Purelib", "true")


_legal("libraries in data/lib, pure root", "as Intel's oneTBB has them", partial(_libraries_in, "data/lib"))
_lie("purity", "libraries in purelib", "they are compiled", partial(_libraries_in, "purelib/forged"))

# --- file names ---------------------------------------------------------------------------------------------


def _filename(wheel: Wheel, text: str) -> None:
    wheel.filename = text.replace("TAG", f"cp310-abi3-{wheel.platform}")


lies(
    "names tags archive",
    "the file is called {!r}",
    [
        *("other-1.0-TAG.whl", "forged-2.0-TAG.whl", "forged-TAG.whl", "forged-1.0-x-TAG.whl", "forged-1.0.whl"),
        *("forged-1.0-cp39-abi3-manylinux_2_28_x86_64.whl", "forged-1.0-py3-none-any.whl", "forged-1.0-TAG.zip"),
        *("forged-1.0+cpu-TAG.whl", "forged-1.x-TAG.whl", "forged--1.0-TAG.whl", "förged-1.0-TAG.whl"),
    ],
    _filename,
    name="file",
)


def _info(wheel: Wheel, text: str) -> None:
    wheel.info = text


lies(
    "names archive",
    "the dist-info folder is {!r}",
    [
        *("other-1.0.dist-info", "forged-2.0.dist-info", "forged.dist-info", "forged-1.0.DIST-INFO"),
        *("forged-1.0.egg-info", "x/forged-1.0.dist-info", ".dist-info"),
    ],
    _info,
    name="dist-info",
)
legals("the project's name in another spelling: {!r}", ["Forged-1.0.dist-info"], _info, name="dist-info")


def _missing(wheel: Wheel, text: str) -> None:
    wheel.raw[f"{{info}}/{text}"] = None


lies("archive names tags metadata", "there is no {}", ["METADATA", "WHEEL", "RECORD"], _missing)

# --- suffixes -----------------------------------------------------------------------------------------------


def _suffix(wheel: Wheel, text: str) -> None:
    python, abi, suffix = text.split()
    wheel.tag(python, abi)
    wheel.move(wheel.module, "forged/_ops" + suffix.replace("ARCH", wheel.arch))
    if abi.startswith("abi3"):
        wheel.library.imports = [s for s in wheel.library.imports if s.name != "_PyObject_GetDictPtr"]


lies(
    "suffix",
    "no Python of that tag imports a file with that suffix: {}",
    [
        *("cp311 cp311 .cpython-312-ARCH-linux-gnu.so", "cp310 abi3 .cpython-310-ARCH-linux-gnu.so"),
        *("cp311 cp311 .cpython-311-ARCH-linux-musl.so", "cp311 cp311 .cpython-311d-ARCH-linux-gnu.so"),
        *("cp313 cp313 .cpython-313t-ARCH-linux-gnu.so", "cp313 cp313t .cpython-313-ARCH-linux-gnu.so"),
        *("cp313 cp313t .abi3.so", "cp315 abi3t .abi3.so", "cp311 cp311 .pypy311-pp73-ARCH-linux-gnu.so"),
        *("cp311 cp311 .cp311-win_amd64.pyd", "cp311 cp311 .cpython-311-darwin.so"),
        *("cp311 cp311 .cpython-311-riscv64-linux-gnu.so", "cp311 none .cpython-312-ARCH-linux-gnu.so"),
        "cp311.cp312 cp311.cp312 .cpython-311-ARCH-linux-gnu.so",
    ],
    _suffix,
    base="python",
)


@lie("suffix", "one of two modules is for another Python", base="python")
def second_module_for_another_python(wheel: Wheel) -> None:
    wheel.files[f"forged/_more.cpython-310-{wheel.arch}-linux-gnu.so"] = Library(
        arch=wheel.arch, needed=["libc.so.6"], exports=[Symbol(name="PyInit__more")]
    )


@lie("suffix architecture", "the suffix names the other architecture", base="python")
def suffix_of_the_other_machine(wheel: Wheel) -> None:
    other = "aarch64" if wheel.arch == "x86_64" else "x86_64"
    wheel.move(wheel.module, f"forged/_ops.cpython-311-{other}-linux-gnu.so")


def _suffix_legal(wheel: Wheel, text: str) -> None:
    _suffix(wheel, text)


legals(
    "Python imports it: {}",
    [
        *("cp311 cp311 .cpython-311-ARCH-linux-gnu.so", "cp311 cp311 .so", "cp310 abi3 .so"),
        *("cp313 cp313t .cpython-313t-ARCH-linux-gnu.so", "cp315 abi3t .abi3t.so", "cp315 abi3.abi3t .abi3t.so"),
    ],
    _suffix_legal,
    base="python",
    name="suffix",
)


@legal("a module of the stable ABI in a wheel for one Python", base="python")
def abi3_module_for_one_python(wheel: Wheel) -> None:
    wheel.move(wheel.module, "forged/_ops.abi3.so")
    wheel.library.imports = [s for s in wheel.library.imports if s.name != "_PyObject_GetDictPtr"]


# --- files of others ----------------------------------------------------------------------------------------

_TORCH = b"Metadata-Version: 2.1\nName: torch\nVersion: 99\n"
for _path in (
    *("torch/__init__.py", "torch/lib/libevil.py", "torch.py", "numpy/core.py", "nvidia/cublas/x.py"),
    *("torch-99.dist-info/METADATA", "other-1.0.dist-info/METADATA", "torch-99.egg-info", "typing_extensions.py"),
    *("_distutils_hack/__init__.py", "DATA/scripts/pip", "DATA/scripts/python3", "DATA/scripts/torchrun"),
    *("DATA/platlib/torch/__init__.py", "DATA/purelib/torch-99.dist-info/METADATA", "DATA/nonsense/x"),
    *("torch-99.data/purelib/torch/x.py", "torch/__pycache__/x.cpython-311.pyc", "json/__init__.py"),
):
    _lie("foreign", f"foreign {_path}", "it is another project's, or Python's own", put(_path, _TORCH))
_MODULE = Library(needed=["libc.so.6"], exports=[Symbol(name="PyInit_torch")])
_CUDART = Library(soname="libcudart.so.13", needed=["libc.so.6"])
for _path, _file in {"torch.abi3.so": _MODULE, "nvidia/cu13/lib/libcudart.so.13": _CUDART}.items():
    _lie(
        "foreign suffix libraries", f"foreign {_path}", "it is another project's", put(_path, _file), arches=("x86_64",)
    )
for _path in (
    *("forged/sub/__init__.py", "forged/torch/__init__.py", "_forged/__init__.py", "forged/py.typed"),
    *("DATA/purelib/forged/extra.py", "DATA/data/share/forged/x.txt", "DATA/headers/forged.h", "DATA/scripts/forged"),
    *("forged.pth", "README.md", "DATA/data/etc/forged.conf", "forged/__pycache__/x.cpython-311.pyc"),
):
    _legal(f"own {_path}", "it is its own, or a note", put(_path))

# --- bytecode -----------------------------------------------------------------------------------------------


def _pyc(number: int) -> bytes:
    return struct.pack("<H2s", number, b"\r\n") + bytes(12) + b"N"


_CP311 = 3495
_TAGGED = partial(Wheel.tag, python="cp311", abi="none", platform="any")
for _name, _data in (("Python 3.12", _pyc(3531)), ("no Python", _pyc(1)), ("Python 2", _pyc(62211)), ("nothing", b"")):
    _lie("bytecode", f"module of {_name}", "cp311 runs it not", put("forged/only.pyc", _data), _TAGGED, base="pure")
_lie("bytecode", "module for one Python", "others are let in", put("forged/only.pyc", _pyc(_CP311)), base="pure")
for _path in ("forged/__pycache__/kernel.cpython-311.pyc", "forged/kernel.pyc"):
    _legal(f"bytecode {_path}", "Python takes the source", put(_path, _pyc(_CP311)), base="pure")
for _name, _how in {"tag": _TAGGED, "Requires-Python": lambda w: w.set("Requires-Python", "==3.11.*")}.items():
    _legal(f"bytecode by {_name}", "no other Python is let in", put("forged/only.pyc", _pyc(_CP311)), _how, base="pure")

# --- programs -----------------------------------------------------------------------------------------------


def _programs(text: str, group: str = "console_scripts") -> bytes:
    return f"[{group}]\n{text}\n".encode()


_POINTS = "{info}/entry_points.txt"
for _text, _group in (
    ("forged = forged.sub.nothing:main", "console_scripts"),
    ("forged = forged.nothing:main", "gui_scripts"),
    ("forged = nothing:main", "console_scripts"),
    ("forged = forged", "console_scripts"),
    ("forged = :main", "console_scripts"),
    ("forged = forged.kernel main", "console_scripts"),
    ("bin/forged = forged:main", "console_scripts"),
    ("forged = forged:main\nforged = forged.kernel:main", "console_scripts"),
    ("pip = forged:main", "console_scripts"),
    ("torchrun = forged:main", "gui_scripts"),
):
    _lie(
        "programs foreign",
        f"{_group} {_text}",
        "it cannot start, or is another project's",
        put_raw(_POINTS, _programs(_text, _group)),
        base="pure",
    )
for _text, _group, _base in (
    ("forged = json.tool:main", "console_scripts", "pure"),
    ("forged = forged._ops.cli:main", "console_scripts", "plain"),
    ("forged = forged.kernel:C.main [all]", "console_scripts", "pure"),
    ("x = forged.nothing", "forged.plugins", "pure"),
    ("forged = forged:autoload", "torch.backends", "pure"),
):
    _legal(f"{_group} {_text}", "it is there", put_raw(_POINTS, _programs(_text, _group)), base=_base)
for _text in ("six.moves:main", "space.other:main"):
    _legal(
        f"program of a requirement, {_text}",
        "another project may bring it",
        put_raw(_POINTS, _programs(f"forged = {_text}")),
        put("space/one.py"),
        lambda w: w.requires("six"),
        base="pure",
    )

# --- right, though it looks otherwise -----------------------------------------------------------------------


def _version(wheel: Wheel, version: str) -> None:
    wheel.rename(version)


legals(
    "a legal version: {!r}",
    ["2024.01.02", "1!1.0", "1.0.dev3", "1.0rc1.post2", "1.0+abc.5", "20240102"],
    _version,
    name="version",
)
for _name, _changes in {
    "name in another spelling": (lambda w: w.set("Name", "Forged"),),
    "name of several words": (lambda w: setattr(w, "project", "for_ged"), lambda w: w.set("Name", "for.ged")),
    "build tag": (lambda w: setattr(w, "build", "1local"), lambda w: w.wheel.append("Build: 1local")),
    "build tag of the file": (lambda w: setattr(w, "build", "7"),),
    "later minor wheel version": (lambda w: w.set_wheel("Wheel-Version", "1.9"),),
    "purity in capitals": (lambda w: w.set_wheel("Root-Is-Purelib", "False"),),
    "headers in any order": (lambda w: w.metadata.reverse(), lambda w: w.wheel.reverse()),
    "licence expression": (add_metadata("License-Expression: MIT"),),
}.items():
    _legal(_name, "installers accept it", *_changes)
_legal(
    "two Pythons",
    "py2 and py3",
    lambda w: w.tag("py2.py3"),
    lambda w: w.set("Requires-Python", None),
    base="pure",
)


@legal("Windows' line ends in WHEEL and METADATA")
def carriage_returns(wheel: Wheel) -> None:
    wheel.metadata = [line + "\r" for line in wheel.metadata]
    wheel.wheel = [line + "\r" for line in wheel.wheel]


@legal("METADATA is UTF-8, with a description behind the headers")
def description(wheel: Wheel) -> None:
    wheel.metadata += ["Author: Jérôme 王", "Description-Content-Type: text/markdown"]
    wheel.body = "# Größe\n\nName: other\nVersion: 9\nRequires-Dist: torch\n".encode()
