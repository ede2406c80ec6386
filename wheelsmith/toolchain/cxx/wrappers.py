"""Write the scripts that start the pinned compilers with their own C library.

So the compilers need only a shell of the machine, and none of its libraries. The scripts pass their own name as
``argv[0]``, because GCC and binutils find their files relative to it.
https://man7.org/linux/man-pages/man8/ld.so.8.html
"""

from __future__ import annotations

from pathlib import Path

from wheelsmith.platforms import HostCompilers

# The folder with the C library that the compilers run with, separate from the one that they compile with.
RUNTIME = "runtime"
# These options make the loader ignore the machine's cache of libraries and LD_LIBRARY_PATH.
_LOADER_COMMAND = '"$own/{loader}" --inhibit-cache --library-path "$own/{first}:$own/{second}" --argv0'
_PROGRAM_SCRIPT = f"""\
#!/bin/sh
own="${{{{0%/*}}}}/{{up}}"
exec {_LOADER_COMMAND} "$0" "$own/{{program}}" "$@"
"""
_SYSTEM_FOLDERS = ("/usr/lib", "/usr/lib64", "/lib", "/lib64")  # folders of the machine's libraries
# Some build systems pass the machine's folders, which contain the headers and libraries of another C library. The
# script drops these folders, and replaces the path of a library by `-lNAME`, which finds only a pinned library. It
# rewrites the arguments only if one may be such a path, because a shell needs a second for a thousand arguments.
_COMPILER_SCRIPT = """\
#!/bin/sh
case "$0" in */bin/*) own="${{0%/bin/*}}" ;; *) own="${{0%/*}}/.." ;; esac
unset GCC_EXEC_PREFIX COMPILER_PATH
option= before= named=
for word do
    case "$word" in
    /usr/lib*|/usr/include*|/lib*|-[IL]/usr/*|-[IL]/lib*|-isystem/usr/*|-idirafter/usr/*|-iquote/usr/*)
        named=1
        break ;;
    esac
done
[ -z "$named" ] || for word do
    shift
    folder=
    case "$before" in
    {with_value}) ;;
    *)
        case "$option$word" in
        -isystem|-idirafter|-iquote|-I|-L) option="$word"; continue ;;
        -isystem*) folder="${{word#-isystem}}" ;;
        -idirafter*) folder="${{word#-idirafter}}" ;;
        -iquote*) folder="${{word#-iquote}}" ;;
        -[IL]*) folder="${{word#-[IL]}}" ;;
        /*)
            case "${{word%/*}}" in {libraries})
                case "${{word##*/}}" in
                lib*.so|lib*.a) word="${{word##*/lib}}" word="-l${{word%.*}}" ;;
                lib*.so.[0-9]*) word="-l:${{word##*/}}" ;;
                esac ;;
            esac ;;
        esac ;;
    esac
    case "${{folder%/}}" in
    {folders}) ;;
    *) set -- "$@" ${{option:+"$option"}} "$word" ;;
    esac
    option= before="$word"
done
exec {start} "$own/{named}" "$own/{program}" --sysroot="$own" -Wl,--allow-shlib-undefined "$@" $option
"""
# Options that take the next argument as their value.
_OPTIONS_WITH_VALUE = (
    *("-o", "-x", "-D", "-U", "-u", "-e", "-z", "-T", "-B", "-A", "-MF", "-MT", "-MQ", "-include", "-imacros"),
    *("-Xlinker", "-Xassembler", "-Xpreprocessor", "--param", "-aux-info", "-dumpbase", "-dumpdir"),
)


def wrap_program(program: Path, folder: Path) -> None:
    """Rename a program, and write a script in its place that starts it."""
    program.rename(_renamed(program))
    write_wrapper(program, program, folder)


def write_wrapper(path: Path, program: Path, folder: Path) -> None:
    """Write a script that starts a renamed program.

    :param program: its original path.
    """
    up = "/".join([".."] * (len(path.relative_to(folder).parts) - 1))
    named = _renamed(program).relative_to(folder).as_posix()
    _write_script(path, _PROGRAM_SCRIPT.format(**_loader_paths(folder), up=up, program=named))


def write_compiler_wrapper(path: Path, program: Path, folder: Path, compilers: HostCompilers) -> None:
    """Write a compiler script.

    :param path: in the folder ``bin``.
    :param program: the original path of the renamed GCC program.
    """
    libraries = [f"{root}{below}" for root in _SYSTEM_FOLDERS for below in ("", f"/{compilers.triplet}")]
    includes = ["/usr/include", f"/usr/include/{compilers.triplet}"]
    text = _COMPILER_SCRIPT.format(
        start=_LOADER_COMMAND.format(**_loader_paths(folder)),
        libraries="|".join(libraries),
        folders="|".join([*libraries, *includes]),
        with_value="|".join(_OPTIONS_WITH_VALUE),
        named=program.relative_to(folder).as_posix(),
        program=_renamed(program).relative_to(folder).as_posix(),
    )
    _write_script(path, text)


def _renamed(program: Path) -> Path:
    return program.with_name(f"{program.name}.bin")


def _loader_paths(folder: Path) -> dict[str, str]:
    """Return the relative paths of the loader and of the two folders with the libraries that the compilers need."""
    loader = next(folder.glob(f"{RUNTIME}/lib/*/ld-linux-*.so.*"))
    others = next(folder.glob("usr/lib/*/libgmp.so.*"))
    names = {"loader": loader, "first": loader.parent, "second": others.parent}
    return {name: path.relative_to(folder).as_posix() for name, path in names.items()}


def _write_script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
