"""What stands where a program of pinned compilers is called, and starts it beside its own C library.

So a program needs nothing of the machine but a shell: neither a C library that is new enough nor any other of its
libraries. Its own name is passed on, by which GCC and binutils find everything else.
https://man7.org/linux/man-pages/man8/ld.so.8.html
"""

from __future__ import annotations

from pathlib import Path

from wheelsmith.platforms import HostCompilers

# Where the C library that programs run with lies, apart from the one that is compiled with.
RUNTIME = "runtime"
# Neither the machine's list of libraries nor LD_LIBRARY_PATH is looked at.
_START = '"$own/{loader}" --inhibit-cache --library-path "$own/{first}:$own/{second}" --argv0'
_PROGRAM = f"""\
#!/bin/sh
own="${{{{0%/*}}}}/{{up}}"
exec {_START} "$0" "$own/{{program}}" "$@"
"""
_ROOTS = ("/usr/lib", "/usr/lib64", "/lib", "/lib64")  # of the machine's libraries
# Build systems that look for things themselves name folders of the machine, where the headers and libraries of another
# C library lie: no folder is looked into for these, and a library is the one of that name here, or there is none. Words
# are taken apart only where one may be such: a shell needs a second for a thousand.
_COMPILER = """\
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
# Whose value is the next word, whatever that looks like.
_WITH_VALUE = (
    *("-o", "-x", "-D", "-U", "-u", "-e", "-z", "-T", "-B", "-A", "-MF", "-MT", "-MQ", "-include", "-imacros"),
    *("-Xlinker", "-Xassembler", "-Xpreprocessor", "--param", "-aux-info", "-dumpbase", "-dumpdir"),
)


def move_program(program: Path, folder: Path) -> None:
    """Give a program another name, and write what starts it."""
    program.rename(_moved(program))
    write_starter(program, program, folder)


def write_starter(path: Path, program: Path, folder: Path) -> None:
    """Write what starts a program that was moved.

    :param program: by the name that it had.
    """
    up = "/".join([".."] * (len(path.relative_to(folder).parts) - 1))
    named = _moved(program).relative_to(folder).as_posix()
    _write(path, _PROGRAM.format(**_places(folder), up=up, program=named))


def write_compiler(path: Path, program: Path, folder: Path, compilers: HostCompilers) -> None:
    """Write what is called to compile or to link, in the folder ``bin``.

    :param program: of GCC, by the name that it had before it was moved.
    """
    libraries = [f"{root}{below}" for root in _ROOTS for below in ("", f"/{compilers.triplet}")]
    includes = ["/usr/include", f"/usr/include/{compilers.triplet}"]
    text = _COMPILER.format(
        start=_START.format(**_places(folder)),
        libraries="|".join(libraries),
        folders="|".join([*libraries, *includes]),
        with_value="|".join(_WITH_VALUE),
        named=program.relative_to(folder).as_posix(),
        program=_moved(program).relative_to(folder).as_posix(),
    )
    _write(path, text)


def _moved(program: Path) -> Path:
    return program.with_name(f"{program.name}.bin")


def _places(folder: Path) -> dict[str, str]:
    """Name the loader, and the folders of the libraries that programs run with."""
    loader = next(folder.glob(f"{RUNTIME}/lib/*/ld-linux-*.so.*"))
    others = next(folder.glob("usr/lib/*/libgmp.so.*"))
    names = {"loader": loader, "first": loader.parent, "second": others.parent}
    return {name: path.relative_to(folder).as_posix() for name, path in names.items()}


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
