"""File name, METADATA, WHEEL and the dist-info folder; and whose files are in the wheel."""

from __future__ import annotations

from collections.abc import Callable

from forge import Wheel, legal, legals, lie, lies
from forge_elf import Library, Symbol


def _simple(judges: str, name: str, says: str, change: Callable[[Wheel], object], base: str = "plain") -> None:
    lie(judges, says, base=base, family="names", name=name)(change)


# --- METADATA -----------------------------------------------------------------------------------------------


def _header(wheel: Wheel, text: str) -> None:
    key, _, value = text.partition(": ")
    wheel.set(key, value)


lies(
    "names metadata",
    "METADATA says {!r}, and the file name another thing",
    [
        "Name: other",
        "Name: forged2",
        "Name: for-ged",
        "Name: torch",
        "Version: 2.0",
        "Version: 1.0.post1",
        "Version: 1.0+cpu",
        "Version: 1.0rc1",
        "Version: 1!1.0",
    ],
    _header,
    name="disagrees",
)
lies(
    "metadata names",
    "METADATA cannot be right with {!r}",
    [
        *(
            "Name: förged",
            "Name: ",
            "Name: -forged",
            "Name: for ged",
            "Version: ",
            "Version: one",
            "Metadata-Version: 9.9",
            "Metadata-Version: ",
            "Metadata-Version: 0",
        ),
        *(
            "Requires-Python: three",
            "Requires-Dist: ???",
            "Requires-Dist: torch==",
            "Requires-Dist: t\u043e\u0440ch==2.11.*",
            "Requires-Dist: torch==2.11.*; nonsense == 1",
        ),
        *(
            "Requires-Dist: torch==2.x",
            "Requires-Dist: ",
            "Description-Content-Type: evil/none",
            "Requires-Dist: [x]",
            "Provides-Extra: a b c",
        ),
    ],
    _header,
    name="malformed",
)
_simple("metadata names", "without a name", "METADATA has no Name", lambda w: w.set("Name", None))
_simple("metadata names", "without a version", "METADATA has no Version", lambda w: w.set("Version", None))
_simple(
    "metadata",
    "without a metadata version",
    "METADATA has no Metadata-Version",
    lambda w: w.set("Metadata-Version", None),
)
_simple("metadata names", "name twice", "two names: pip takes the first", lambda w: w.metadata.append("Name: torch"))
_simple("metadata names", "version twice", "two versions", lambda w: w.metadata.append("Version: 2.0"))
_simple("metadata", "python twice", "two Requires-Python", lambda w: w.metadata.append("Requires-Python: >=3.99"))
_simple(
    "metadata names archive", "empty metadata", "METADATA is empty", lambda w: w.raw.update({"{info}/METADATA": b""})
)
_simple(
    "metadata names archive",
    "metadata of noise",
    "METADATA is no text",
    lambda w: w.raw.update({"{info}/METADATA": bytes(range(256))}),
)
_simple(
    "metadata names",
    "latin 1",
    "METADATA is not UTF-8",
    lambda w: w.raw.update(
        {"{info}/METADATA": b"Metadata-Version: 2.1\nName: forged\nVersion: 1.0\nAuthor: J\xe9r\xf4me\n"}
    ),
)
_simple("metadata names", "blank line first", "all headers are description", lambda w: w.metadata.insert(0, ""))
_simple(
    "metadata tags names",
    "no python at all",
    "Requires-Python excludes every Python of the tag",
    lambda w: w.set("Requires-Python", "<3"),
)
_simple(
    "metadata tags names",
    "another python",
    "cp311 for Python 3.12 alone",
    lambda w: w.set("Requires-Python", ">=3.12"),
    "python",
)

# --- WHEEL --------------------------------------------------------------------------------------------------


def _wheel_header(wheel: Wheel, text: str) -> None:
    key, _, value = text.partition(": ")
    wheel.set_wheel(key, value)


lies(
    "tags purity",
    "WHEEL says {!r}",
    [
        "Wheel-Version: 2.0",
        "Wheel-Version: one",
        "Wheel-Version: ",
        "Root-Is-Purelib: true",
        "Root-Is-Purelib: maybe",
        "Root-Is-Purelib: ",
    ],
    _wheel_header,
    name="wheel",
)
lies(
    "tags",
    "WHEEL says {!r}, and the file name another thing",
    [
        "Tag: cp39-abi3-manylinux_2_28_x86_64",
        "Tag: py3-none-any",
        "Tag: cp310-cp310-linux_x86_64",
        "Tag: cp310-abi3-mänylinux",
        "Tag: ",
        "Tag: cp310",
        "Tag: cp310-abi3-any-x",
    ],
    _wheel_header,
    name="tag",
)
_simple("tags", "no wheel version", "WHEEL has no Wheel-Version", lambda w: w.set_wheel("Wheel-Version", None))
_simple("tags purity", "no purity", "WHEEL has no Root-Is-Purelib", lambda w: w.set_wheel("Root-Is-Purelib", None))
_simple("tags", "no tag", "WHEEL has no Tag", lambda w: w.set_wheel("Tag", None))
_simple("tags", "a tag more", "WHEEL has a tag that the file name lacks", lambda w: w.wheel.append("Tag: py3-none-any"))
_simple(
    "tags", "a tag less", "the file name has a tag that WHEEL lacks", lambda w: (w.tag("cp310.cp311"), w.wheel.pop())
)
_simple("tags", "wheel of nothing", "WHEEL is empty", lambda w: w.raw.update({"{info}/WHEEL": b""}))
_simple("tags", "wheel of noise", "WHEEL is no text", lambda w: w.raw.update({"{info}/WHEEL": bytes(range(256))}))
_simple("tags", "versions twice", "two Wheel-Version", lambda w: w.wheel.append("Wheel-Version: 2.0"))
_simple("tags purity", "purity twice", "two Root-Is-Purelib", lambda w: w.wheel.append("Root-Is-Purelib: true"))
_simple(
    "tags",
    "another build",
    "WHEEL says another build than the file name",
    lambda w: (setattr(w, "build", "1"), w.wheel.append("Build: 2")),
)
_simple("tags", "a build of nobody", "WHEEL says a build, the file name none", lambda w: w.wheel.append("Build: 2"))
_simple(
    "purity",
    "library in a pure wheel",
    "a wheel for any platform with a library",
    lambda w: w.files.update({"forged/x.so": Library(arch=w.arch, needed=["libc.so.6"], exports=[Symbol(name="x")])}),
    "pure",
)
_simple("purity", "nothing compiled", "a wheel for a platform with nothing compiled", lambda w: w.files.pop(w.module))

# --- file names ---------------------------------------------------------------------------------------------


def _filename(wheel: Wheel, text: str) -> None:
    wheel.filename = text.replace("TAG", f"cp310-abi3-{wheel.platform}")


lies(
    "names tags archive",
    "the file is called {!r}",
    [
        *(
            "other-1.0-TAG.whl",
            "forged-2.0-TAG.whl",
            "torch-1.0-TAG.whl",
            "forged-TAG.whl",
            "forged-1.0-x-TAG.whl",
            "forged-1.0.whl",
        ),
        *(
            "forged-1.0-cp39-abi3-manylinux_2_28_x86_64.whl",
            "forged-1.0-py3-none-any.whl",
            "for-ged-1.0-TAG.whl",
            "forged-1.0-TAG.zip",
            "förged-1.0-TAG.whl",
        ),
        *("forged-1.0+cpu-TAG.whl", "forged-1.x-TAG.whl", "forged--1.0-TAG.whl", ".forged-1.0-TAG.whl"),
    ],
    _filename,
    name="file",
)

# --- suffixes -----------------------------------------------------------------------------------------------


def _suffix(wheel: Wheel, text: str) -> None:
    python, abi, suffix = text.split()
    wheel.tag(python, abi)
    wheel.move(wheel.module, "forged/_ops" + suffix.replace("ARCH", wheel.arch))
    if abi == "abi3":
        wheel.library.imports = [s for s in wheel.library.imports if s.name != "_PyObject_GetDictPtr"]


lies(
    "suffix",
    "no Python of that tag imports a file with that suffix: {}",
    [
        *(
            "cp311 cp311 .cpython-312-ARCH-linux-gnu.so",
            "cp311 cp311 .cpython-310-ARCH-linux-gnu.so",
            "cp310 abi3 .cpython-311-ARCH-linux-gnu.so",
        ),
        *(
            "cp310 abi3 .cpython-310-ARCH-linux-gnu.so",
            "cp311 abi3 .cpython-311-ARCH-linux-gnu.so",
            "cp311 cp311 .cpython-311-ARCH-linux-musl.so",
        ),
        *(
            "cp311 cp311 .cpython-311d-ARCH-linux-gnu.so",
            "cp313 cp313 .cpython-313t-ARCH-linux-gnu.so",
            "cp313 cp313t .cpython-313-ARCH-linux-gnu.so",
        ),
        *(
            "cp313 cp313t .abi3.so",
            "cp311 cp311 .pypy311-pp73-ARCH-linux-gnu.so",
            "cp311 cp311 .cp311-win_amd64.pyd",
            "cp311 cp311 .cpython-311-darwin.so",
        ),
        *(
            "cp311 cp311 .cpython-311-riscv64-linux-gnu.so",
            "cp311 cp311 .cpython-3110-ARCH-linux-gnu.so",
        ),
        *(
            "cp311 none .cpython-312-ARCH-linux-gnu.so",
            "cp311.cp312 cp311.cp312 .cpython-311-ARCH-linux-gnu.so",
            "cp311 cp311 .cpython-311-i386-linux-gnu.so",
        ),
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
        "cp311 cp311 .cpython-311-ARCH-linux-gnu.so",
        "cp311 cp311 .so",
        "cp310 abi3 .so",
        "cp313 cp313t .cpython-313t-ARCH-linux-gnu.so",
        "cp312 cp312 .cpython-312-ARCH-linux-gnu.so",
    ],
    _suffix_legal,
    base="python",
    name="suffix",
)


@legal("a module of the stable ABI in a wheel for one Python", base="python")
def abi3_module_for_one_python(wheel: Wheel) -> None:
    wheel.move(wheel.module, "forged/_ops.abi3.so")
    wheel.library.imports = [s for s in wheel.library.imports if s.name != "_PyObject_GetDictPtr"]


# --- dist-info ----------------------------------------------------------------------------------------------


def _info(wheel: Wheel, text: str) -> None:
    wheel.info = text


lies(
    "names archive",
    "the dist-info folder is {!r}",
    [
        "other-1.0.dist-info",
        "forged-2.0.dist-info",
        "torch-1.0.dist-info",
        "forged.dist-info",
        "forged-1.0.DIST-INFO",
        "forged-1.0.egg-info",
        "forged-1.0-x.dist-info",
        "x/forged-1.0.dist-info",
        ".dist-info",
    ],
    _info,
    name="dist-info",
)
legals(
    "the folder's name is the project's, in another spelling: {!r}",
    ["Forged-1.0.dist-info", "FORGED-1.0.dist-info"],
    _info,
    name="dist-info",
)


def _missing(wheel: Wheel, text: str) -> None:
    wheel.raw[f"{{info}}/{text}"] = None


lies("archive names tags metadata", "there is no {}", ["METADATA", "WHEEL", "RECORD"], _missing)


# --- other projects' files ----------------------------------------------------------------------------------


def _file(wheel: Wheel, text: str) -> None:
    wheel.files[text.replace("DATA", "forged-1.0.data")] = b"Metadata-Version: 2.1\nName: torch\nVersion: 99\n"


lies(
    "foreign",
    "{} is another project's, or Python's own",
    [
        *("torch/__init__.py", "torch/lib/libevil.py", "torch.py", "numpy/core.py", "nvidia/cublas/x.py"),
        *("torch-99.dist-info/METADATA", "other-1.0.dist-info/METADATA", "torch-99.egg-info", "typing_extensions.py"),
        *("_distutils_hack/__init__.py", "DATA/scripts/pip", "DATA/scripts/python3", "DATA/scripts/torchrun"),
        *("DATA/platlib/torch/__init__.py", "DATA/purelib/torch-99.dist-info/METADATA", "DATA/nonsense/x"),
        *("torch-99.data/purelib/torch/x.py", "torch/__pycache__/x.cpython-311.pyc", "json/__init__.py"),
    ],
    _file,
    name="foreign",
)


@lie("foreign suffix", "a module called torch", base="plain")
def module_called_torch(wheel: Wheel) -> None:
    wheel.files["torch.abi3.so"] = Library(arch=wheel.arch, needed=["libc.so.6"], exports=[Symbol(name="PyInit_torch")])


def _entry_points(wheel: Wheel, text: str) -> None:
    wheel.raw["{info}/entry_points.txt"] = text.replace("|", "\n").encode()


lies(
    "foreign metadata",
    "a command that is another project's: {!r}",
    [
        "[console_scripts]|pip = forged:main|",
        "[console_scripts]|python = forged:main|",
        "[gui_scripts]|torchrun = forged:main|",
    ],
    _entry_points,
    name="command",
)
legals(
    "a command of its own, or a plug-in: {!r}",
    ["[console_scripts]|forged = forged:main|", "[torch.backends]|forged = forged:autoload|"],
    _entry_points,
    name="command",
)


def _own_file(wheel: Wheel, text: str) -> None:
    wheel.files[text.replace("DATA", "forged-1.0.data")] = b"# its own\n"


legals(
    "{} is its own, or a note",
    [
        *("forged.pth", "DATA/data/etc/forged.conf", "DATA/headers/forged.h", "README.md"),
        "forged/sub/__init__.py",
        "DATA/scripts/forged",
        "DATA/purelib/forged/extra.py",
        "DATA/data/share/forged/x.txt",
        "forged/torch/__init__.py",
        "forged-1.0.dist-info/licenses/LICENSE",
        "_forged/__init__.py",
        "forged/py.typed",
        "forged/__pycache__/x.cpython-311.pyc",
    ],
    _own_file,
    name="own",
)


# --- legal --------------------------------------------------------------------------------------------------


def _version(wheel: Wheel, version: str) -> None:
    wheel.rename(version)


legals(
    "a legal version: {!r}",
    ["2024.1.2", "2024.01.02", "1!1.0", "1.0.dev3", "1.0rc1.post2", "0", "1.0+abc.5", "20240102"],
    _version,
    name="version",
)


@legal("the project's name in METADATA may have dots and capitals")
def name_in_another_spelling(wheel: Wheel) -> None:
    wheel.set("Name", "Forged")


@legal("dots and hyphens become underscores in file names")
def name_of_several_words(wheel: Wheel) -> None:
    wheel.project = "for_ged"
    wheel.set("Name", "for.ged")


@legal("a build tag, in the file name and in WHEEL")
def build_tag(wheel: Wheel) -> None:
    wheel.build = "1local"
    wheel.wheel.append("Build: 1local")


@legal("a build tag in the file name alone: WHEEL need not say it")
def build_tag_of_the_file(wheel: Wheel) -> None:
    wheel.build = "7"


@legal("two Pythons in one wheel", base="pure")
def two_python_tags(wheel: Wheel) -> None:
    wheel.tag("py2.py3")
    wheel.set("Requires-Python", None)


@legal("a later minor version of the wheel format is read with a warning")
def later_minor_wheel_version(wheel: Wheel) -> None:
    wheel.set_wheel("Wheel-Version", "1.9")


@legal("purity in other letters: pip compares small ones")
def purity_in_capitals(wheel: Wheel) -> None:
    wheel.set_wheel("Root-Is-Purelib", "False")


@legal("Windows' line ends in WHEEL and METADATA")
def carriage_returns(wheel: Wheel) -> None:
    wheel.metadata = [line + "\r" for line in wheel.metadata]
    wheel.wheel = [line + "\r" for line in wheel.wheel]


@legal("METADATA is UTF-8: people have names")
def author_with_accents(wheel: Wheel) -> None:
    wheel.metadata += ["Author: Jérôme 王", "Summary: λ"]
    wheel.body = "# Größe\n".encode()


@legal("a description behind the headers")
def description(wheel: Wheel) -> None:
    wheel.set("Description-Content-Type", "text/markdown")
    wheel.body = b"# forged\n\nName: other\nVersion: 9\nRequires-Dist: torch\n"


@legal("nothing but Python", base="pure")
def pure_python(wheel: Wheel) -> None:
    del wheel


@legal("headers in any order")
def headers_in_any_order(wheel: Wheel) -> None:
    wheel.metadata.reverse()
    wheel.wheel.reverse()


@legal("METADATA of every version since 2.1: licence expressions")
def newer_metadata(wheel: Wheel) -> None:
    wheel.set("Metadata-Version", "2.4")
    wheel.metadata += ["License-Expression: MIT", "License-File: LICENSE"]
    wheel.files["forged-1.0.dist-info/licenses/LICENSE"] = b"MIT\n"
