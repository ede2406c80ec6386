"""Check the files of a wheel: RECORD, purity, bytecode, extension suffixes, programs and installed paths."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import EntryPoint

from packaging.tags import Tag
from packaging.utils import canonicalize_name

from wheelsmith.base.files import read_facts
from wheelsmith.base.projects import known_projects
from wheelsmith.base.sanitize import join_truncated
from wheelsmith.base.units import counted
from wheelsmith.wheel.archive import compare_record
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.install_layout import Installed, Scheme, install_path
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

_DATA_FILE = re.compile(r"[^/]+\.data/(?!purelib/)")
# https://docs.python.org/3/library/sysconfig.html, EXT_SUFFIX. PyPy's suffix has its release and its ABI.
_VERSIONED_SUFFIX = re.compile(r"\.(?P<abi>cpython-\d+[a-z]*|pypy\d+-pp\d+)(?:-(?P<machine>[\w-]+))?\.so$")
_STABLE_SUFFIX = re.compile(r"\.(?P<abi>abi3t?)\.so$")
_INFO = re.compile(r"\.(?:dist-info|egg-info|egg-link)$")
_REMEDY = "declare intended files with --declare PATH, or kernel.declare in matrix.yaml"


def _check_readable(wheel: Inspection) -> Iterator[Finding]:
    """Report the size of the wheel. An unreadable wheel fails under this rule's name before any rule runs."""
    size = sum(digest.size for digest in wheel.digests.values())
    yield Finding(rule=READABLE.name, ok=True, message=f"{counted(len(wheel.files), 'file')}, {size} bytes")


def _check_record(wheel: Inspection) -> Iterator[Finding]:
    mistakes = compare_record(wheel.record, wheel.info, wheel.digests)
    yield finding("record", mistakes, f"{len(wheel.files)} files match RECORD")


READABLE = Rule(
    name="readable",
    proves="the file is one zip archive without gaps, prefix or second archive; local headers match the central "
    "directory; each member occurs once, is a stored or deflated regular file with a plain name, and has the recorded "
    "size and checksum; one `.dist-info` folder has METADATA, WHEEL and RECORD",
    leaves_open="an end of the archive that counts too few files; other sizes in data descriptors",
    examine=_check_readable,
)


RECORD = Rule(
    name="record",
    proves="RECORD lists every file except its own signatures, with the right size and a hash at least as strong as "
    "sha256",
    leaves_open="the author of RECORD: its signatures are not verified",
    examine=_check_record,
)


def _check_purity(wheel: Inspection) -> Iterator[Finding]:
    platforms = {tag.platform for tag in wheel.name.tags}
    compiled = wheel.elf_files
    mistakes = []
    if "any" in platforms and compiled:
        mistakes.append(f"a wheel for any platform contains the ELF file {compiled[0]}")
    if any("linux" in platform for platform in platforms) and not wheel.binaries:
        mistakes.append(f"a wheel for {', '.join(sorted(platforms))} contains no compiled file")
    pure = (wheel.wheel_headers.get("Root-Is-Purelib") or "").strip().lower()
    # https://packaging.python.org/en/latest/specifications/binary-distribution-format/
    # Root-Is-Purelib does not apply to files in `.data`. Intel's wheels have their libraries in `data/lib`.
    moved = [name for name in compiled if not _DATA_FILE.match(name)]
    if pure == "true" and moved:
        mistakes.append(
            f"WHEEL has Root-Is-Purelib: true, but {moved[0]} is compiled: it is installed into the wrong folder on "
            "systems with a separate platlib (lib64)"
        )
    if pure == "false" and platforms == {"any"}:
        mistakes.append("WHEEL has Root-Is-Purelib: false, but the tag is for any platform")
    files = counted(len(compiled), "compiled file")
    yield finding("purity", mistakes, f"{files} for platform {', '.join(sorted(platforms))}")


PURITY = Rule(
    name="purity",
    proves="a wheel for any platform contains no ELF file for a CPU; a wheel for Linux contains a compiled file; "
    "Root-Is-Purelib agrees",
    leaves_open="programs and libraries for Windows and macOS; archives and compressed files",
    examine=_check_purity,
)


def _check_bytecode(wheel: Inspection) -> Iterator[Finding]:
    sources = {_without_suffix(name) for name in wheel.files if name.endswith((".py", ".so"))}
    compiled = [name for name in wheel.files if name.endswith(".pyc") and "__pycache__" not in name]
    without_source = [name for name in compiled if _without_suffix(name) not in sources]
    pythons = {f"{env['implementation_name']} {env['python_version']}" for env in wheel.environments}
    mistakes = []
    for name in without_source:
        made = _python_of(wheel.archive.read(name)[:2])
        if pythons != {made}:
            mistakes.append(
                f"{name} is bytecode of {made} without a source, but the tags are for {', '.join(sorted(pythons))}"
            )
    if without_source:
        yield finding("bytecode", mistakes, f"{counted(len(without_source), 'module')} without a source")


def _without_suffix(path: str) -> str:
    return re.sub(r"\.[^/]*$", "", path)


def _python_of(magic: bytes) -> str:
    number = int.from_bytes(magic, "little")
    made = (f"cpython {version}" for version, numbers in _magic_numbers().items() if number in numbers)
    return next(made, "no known CPython")


@cache
def _magic_numbers() -> dict[str, range]:
    """Return the magic numbers of bytecode: release of CPython (``major.minor``) → numbers."""
    facts = read_facts("wheelsmith.wheel", "bytecode.json")
    starts = [*facts["first"].values(), facts["end"]]
    ranges = zip(facts["first"], starts[:-1], starts[1:], strict=True)
    return {version: range(first, following) for version, first, following in ranges}


BYTECODE = Rule(
    name="bytecode",
    proves="if a bytecode module has no source, the tags and Requires-Python allow only its Python",
    leaves_open="bytecode in `__pycache__`, which may not be from the source",
    examine=_check_bytecode,
)


def _check_suffix(wheel: Inspection) -> Iterator[Finding]:
    tags = list(wheel.name.tags)
    mistakes = [
        f"{name} {why}"
        for name, extension in wheel.extensions.items()
        for why in suffix_mistakes(posixpath.basename(name), extension.arch, tags)
    ]
    if wheel.extensions:
        yield finding("suffix", mistakes, "the tag's Pythons import all extension suffixes")


def suffix_mistakes(name: str, arch: str, tags: list[Tag]) -> Iterator[str]:
    """Yield mistakes in the file name of an extension.

    :param arch: CPU architecture of its machine code.
    """
    abis = {tag.abi for tag in tags}
    claimed = ", ".join(sorted({f"{tag.interpreter}-{tag.abi}" for tag in tags}))
    if name.endswith(".pyd"):
        yield "has the suffix of Python on Windows"
    elif found := _STABLE_SUFFIX.search(name):
        # A tag with both stable ABIs allows one file for each.
        free = sorted(abi for abi in abis if abi.endswith("t") and (abi != "abi3t" or "abi3" not in abis))
        if found["abi"] == "abi3" and free:
            yield f"has a suffix that free-threaded Pythons ignore, but the tag is {', '.join(free)}"
        elif abis == {"abi3"} and found["abi"] == "abi3t":
            yield f"has a suffix that Pythons before 3.15 ignore, but the tag is {claimed}"
    elif found := _VERSIONED_SUFFIX.search(name):
        abi = found["abi"].replace("cpython-", "cp").replace("-", "_")
        if abis - {abi}:
            yield f"has the suffix of {abi}, but the tag is {claimed}"
        libc = "musl" if all("musllinux" in tag.platform for tag in tags) else "gnu"
        if found["machine"] not in {None, f"{arch}-linux-{libc}"}:
            yield f"has the suffix of {found['machine']}, but is for {arch}-linux-{libc}"


SUFFIX = Rule(
    name="suffix",
    proves="every Python of the tag imports the suffixes of all extensions: no `.cpython-310-…` in an abi3 wheel, no "
    "`.cpython-312-…` in a cp311 wheel, no suffix of another machine",
    leaves_open="whether the file initialises a module of its name; suffixes of GraalPy",
    examine=_check_suffix,
)


def _check_entry_points(wheel: Inspection) -> Iterator[Finding]:
    if wheel.programs:
        paths = [file.path for file in map(install_path, wheel.files) if file.scheme is Scheme.LIBRARY]
        mistakes = [
            f"the program {entry.name} {why}"
            for entry in wheel.programs
            if (why := _program_mistake(entry, wheel, paths))
        ]
        yield finding("entry-points", mistakes, f"the modules of {counted(len(wheel.programs), 'program')} exist")


def _program_mistake(program: EntryPoint, wheel: Inspection, paths: list[str]) -> str | None:
    called = EntryPoint.pattern.fullmatch(program.value)
    if "/" in program.name:
        return "has a slash in its name, so installers cannot write it"
    if called is None or not called["attr"]:
        return f"calls {program.value[:60]!r}, which is not module:function"
    path, top = called["module"].replace(".", "/"), called["module"].partition(".")[0]
    if any(each.startswith((f"{path}.", f"{path}/")) for each in paths):
        return None
    # Compiled code may create modules, and other projects may add modules to a package without __init__.py.
    parents = tuple(f"{path.rsplit('/', depth)[0]}." for depth in range(1, path.count("/") + 1))
    if any(each.startswith(parents) and each.endswith(".so") for each in paths):
        return None
    elsewhere = wheel.requirements.lines or top in known_projects().standard_library
    return (
        None if elsewhere and f"{top}/__init__.py" not in paths else f"calls {called['module']}, which does not exist"
    )


ENTRY_POINTS = Rule(
    name="entry-points",
    proves="every program in `entry_points.txt` calls a function of a module in the wheel, in the standard library, "
    "or possibly in a required project",
    leaves_open="whether the module has the function; whether another project has the module; other entry points",
    examine=_check_entry_points,
)


def _check_installs(wheel: Inspection) -> Iterator[Finding]:
    programs = [Installed(scheme=Scheme.PROGRAMS, path=entry.name) for entry in wheel.programs]
    files = list(map(install_path, wheel.files))
    own = _own_names(wheel, files)
    by_owner: dict[str, str] = {}
    outside: list[str] = []
    for file in [*files, *programs]:
        if any(fnmatchcase(file.display_path, pattern) for pattern in wheel.declared):
            continue
        if owner := _other_owner(file, wheel):
            by_owner.setdefault(owner, f"it installs {file.display_path[:100]}, which belongs to {owner}")
        elif file not in programs and not (file.scheme is Scheme.LIBRARY and _top_level_name(file.path) in own):
            outside.append(file.display_path)
    listed = join_truncated(outside)
    mistakes = list(by_owner.values())
    if outside and wheel.expected:
        mistakes.append(f"it installs {listed}, outside its import packages")
    note = f"; outside its import packages: {listed}" if outside else ""
    summary = f"it installs {join_truncated(sorted(own - {wheel.info})) or 'no package'}{note}"
    yield finding("installs", [*mistakes, _REMEDY] if mistakes else [], summary)


def _own_names(wheel: Inspection, files: list[Installed]) -> frozenset[str]:
    """Return the names in site-packages that belong to the wheel: import packages, metadata and bundled libraries.

    The plan of a kernel has its only import package. A project may have any.
    """
    names = {_top_level_name(file.path) for file in files if file.scheme is Scheme.LIBRARY}
    packages = {name for name in names if name.isidentifier()}
    if wheel.expected and wheel.expected.metadata is not None:
        packages = {wheel.expected.module}
    return frozenset({*packages, wheel.info, f"{wheel.info.partition('-')[0]}.libs"} & names)


def _top_level_name(path: str) -> str:
    """Return the top-level name of a path in site-packages: a module, a folder, or a file name with its suffix."""
    top, _, rest = path.partition("/")
    return top.partition(".")[0] if not rest and path.endswith((".py", ".pyc", ".so", ".pyd")) else top


def _other_owner(file: Installed, wheel: Inspection) -> str | None:
    """Return the other well-known project that a file belongs to, or None."""
    known, project = known_projects(), wheel.name.project
    name = _top_level_name(file.path)
    owners: tuple[str, ...] = ()
    if file.scheme is Scheme.PROGRAMS:
        programs = known.owners_of_program(file.path)
        owners = programs or (() if programs is None else ("the system",))
    elif file.scheme is not Scheme.LIBRARY or name == wheel.info:
        return None
    elif _INFO.search(name):
        return f"the project {_INFO.sub('', name)}"
    elif name in known.standard_library:
        return "the standard library"
    elif prefixes := known.namespaces.get(name):
        shared = any(project == prefix or project.startswith(f"{prefix}-") for prefix in prefixes)
        return None if shared else " or ".join(f"{prefix}-…" for prefix in prefixes)
    else:
        owners = known.modules.get(name, ())
    return " or ".join(owners[:3]) if owners and project not in {*owners, canonicalize_name(name)} else None


INSTALLS = Rule(
    name="installs",
    proves="no file or program belongs to another well-known project or to the standard library. A wheel that "
    "wheelsmith built installs only its import packages, its `.dist-info` folder and the files in `kernel.declare`; a "
    "kernel has one package. In other wheels, further files such as a `.pth` are a note",
    leaves_open="projects that are not in `base/projects.json`; import packages with another name than their project, "
    "such as `yaml` of PyYAML",
    examine=_check_installs,
)
