"""Builds that put links, other names and holes where wheelsmith itself works once they are done, or killed."""

import json
import os
import resource
import stat
import subprocess
import textwrap
import zlib
from pathlib import Path

import pytest
import wants
from kernels import BUILD_TOML, matrix, tiny_kernel, write
from sampled import sampled
from wheels import make_wheel

pytestmark = [pytest.mark.e2e, pytest.mark.network]
SECRET = "of-the-host-alone"
MIB = 2**20

# Stands before the assembler, and what stands in its place is run after it.
WRAPPER = """\
import os, subprocess, sys
code = subprocess.call(sys.argv[1:])
if os.path.basename(sys.argv[1]) == "as":
    {attack}
sys.exit(code)
"""
WRAPPED = '"-wrapper", "python3,/work/src/evil.py"'
# An object of these is kept under a key, one of those is not: it is for this very machine.
FLAGS = {"kept": WRAPPED, "not kept": f'{WRAPPED}, "-march=native"'}


@pytest.fixture
def host(tmp_path):
    """A folder of the host: an object file, which the linker would take, and a private file."""
    folder = tmp_path / "host"
    folder.mkdir()
    source = folder / "a.cpp"
    source.write_text(f'extern const char of_the_host[] = "{SECRET}";\nint a_answer() {{ return 42; }}\n')
    subprocess.run(["g++", "-fPIC", "-c", source, "-o", folder / "a.cpp.o"], check=True)
    (folder / "private").write_text("private")
    (folder / "inside").mkdir()
    (folder / "inside" / "key").write_text("key")
    for path in (folder / "private", folder / "inside" / "key", folder / "a.cpp.o"):
        path.chmod(0o400)
    (folder / "inside").chmod(0o500)
    return folder


def look(folder: Path) -> dict[str, object]:
    """What must not change: names, modes, links and contents."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_nlink, status.st_size, content)
    return found


def answer_of(factory, engine: str, *argv: str, **env: str) -> dict:
    answer = factory.run_in_process("build-matrix", "--engine", engine, *argv, **env)
    (cell,) = factory.results().values()
    assert answer.returncode == (0 if cell.get("wheel") else 1), answer.stderr
    return cell


def kernel_with(factory, attack: str, flags: str = WRAPPED, more: str = "") -> None:
    """Lay out a kernel whose only source is in a folder, compiled behind the attacker's wrapper."""
    toml = BUILD_TOML.replace('src = ["tiny.cpp"]\n', f'src = ["k/a.cpp"]\ncxx-flags = [{flags}]\n')
    files = {"build.toml": toml, "k/a.cpp": "int a_answer() { return 42; }\n"}
    tiny_kernel(factory.folder / "k", **files, **{"evil.py": WRAPPER.format(attack=attack)})
    matrix(factory.folder, "k", more=f"engine: {{image: debian{more}}}\n")


@pytest.mark.parametrize("above", ["build/obj/k", "build/obj"])
@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_an_object_is_not_taken_from_a_folder_of_the_host(above, flags, releasing, host):
    """The folder that it should be in is a link by then: the host's file was linked into the wheel, or moved away."""
    factory, engine = releasing
    inner = host if above == "build/obj/k" else host.parent
    if above == "build/obj":
        host = host.rename(host.with_name("k"))
        inner = host.parent
    before = look(host)
    attack = f'os.rename("/work/{above}", "/work/build/old"); os.symlink("{inner}", "/work/{above}")'
    kernel_with(factory, attack, flags)
    cell = answer_of(factory, engine)
    assert cell["failure"]["message"] == "a.cpp.o from the build is missing or not a regular file"
    assert look(host) == before
    for blob in (factory.cache / "objects/blobs").glob("*/*"):
        assert SECRET.encode() not in zlib.decompress(blob.read_bytes())


@pytest.mark.parametrize(
    "attack",
    [
        'os.unlink("/work/build/obj/k/a.cpp.o"); os.symlink("{host}/a.cpp.o", "/work/build/obj/k/a.cpp.o")',
        'os.unlink("/work/build/obj/k/a.cpp.o"); os.mkfifo("/work/build/obj/k/a.cpp.o")',
        'os.unlink("/work/build/obj/k/a.cpp.o"); os.mkdir("/work/build/obj/k/a.cpp.o")',
        'import socket; os.unlink("/work/build/obj/k/a.cpp.o"); os.chdir("/work/build/obj/k"); socket.socket(socket.AF_UNIX).bind("a.cpp.o")',  # noqa: E501  # a script
        'os.link("/work/build/obj/k/a.cpp.o", "/work/build/another")',
        'os.unlink("/work/build/obj/k/a.cpp.o")',
    ],
    ids=["link", "pipe", "folder", "socket", "other name", "nothing"],
)
def test_an_object_is_a_file_of_its_own(attack, releasing, host):
    factory, engine = releasing
    before = look(host)
    kernel_with(factory, attack.format(host=host))
    cell = answer_of(factory, engine)
    reason = "has other hard links" if "os.link(" in attack else "is missing or not a regular file"
    assert cell["failure"]["message"] == f"a.cpp.o from the build {reason}"
    assert look(host) == before


@pytest.mark.release("it writes gigabytes of holes")
def test_an_object_with_holes_is_not_held_in_memory(releasing):
    """It takes nothing of the disk, and would take all of wheelsmith's memory."""
    factory, engine = releasing
    kernel_with(factory, f'os.truncate("/work/build/obj/k/a.cpp.o", {512 * MIB})')
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    answer_of(factory, engine)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert most == before or most * 1024 < 400 * MIB


def test_holes_count_as_what_they_look_like(releasing):
    """Each file is within the limit; together they are not, though the disk holds none of it."""
    factory, engine = releasing
    attack = 'import time\n    for n in range(9): os.truncate(os.open(f"/work/build/{n}", os.O_CREAT | os.O_WRONLY), 48 << 20)\n'  # noqa: E501  # a script
    kernel_with(factory, attack, more=", disk: 64MiB")
    cell = answer_of(factory, engine)
    assert "wrote more than" in cell["failure"]["message"]


# The first try of a compilation has what one needs by experience, 2.7 GB, and the second one twice as much.
HUNGRY = """\
assert sorted(os.listdir("/work/build")) == ["obj"], "a second try begins anew"
    {attack}
    held = bytearray(b"x") * (3 << 30)
    {seen}
    {after}
"""

# Where nothing counts memory it is looked at ten times a second, and the rest of a try may take less.
SEEN = "" if wants.COUNTED else "import time; time.sleep(1)"
SECOND_TRIES = {
    "a folder": (
        'os.rename("/work/build/obj", "/work/build/old"); os.symlink("{host}", "/work/build/obj")',
        'os.unlink("/work/build/obj"); os.rename("/work/build/old", "/work/build/obj")',
    ),
    "another name": ('os.link("/work/build/obj/k/a.cpp.o", "/work/build/old")', 'os.unlink("/work/build/old")'),
}


@pytest.mark.release("builds each twice")
@pytest.mark.parametrize("name", sampled(SECOND_TRIES, "a folder"))
def test_a_second_try_touches_nothing_of_the_host(name, releasing, host):
    """Out of memory with a link in the place of a folder: its modes were changed, all the way down."""
    factory, engine = releasing
    before = look(host)
    attack, after = (part.format(host=host) for part in SECOND_TRIES[name])
    kernel_with(factory, HUNGRY.format(attack=attack, seen=SEEN, after=after), more=", memory: 6GiB")
    cell = answer_of(factory, engine, "--memory", "6GiB")
    assert look(host) == before
    assert cell["status"] == "built"
    (log,) = (factory.folder / "dist/logs").iterdir()
    assert log.read_text().count("a.cpp") == 2, log.read_text()


# --- projects -----------------------------------------------------------------------------------------------

PYPROJECT = (
    '[project]\nname = "hostile"\nversion = "1"\n'
    '[build-system]\nrequires = []\nbuild-backend = "evil"\nbackend-path = ["."]\n'
)
BACKEND = """
import base64, glob, hashlib, os, zipfile

TAG = "cp311-cp311-linux_x86_64"
NAME = f"hostile-1-{TAG}.whl"

def wheel(folder, filename=NAME, version="1", tag=TAG):
    info = f"hostile-{version}.dist-info"
    content = {"hostile/__init__.py": b"", "hostile/_C.so": open(glob.glob("/usr/lib/*/libutil.so.1")[0], "rb").read()}
    content[f"{info}/METADATA"] = f"Metadata-Version: 2.1\\nName: hostile\\nVersion: {version}\\n".encode()
    content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\\nRoot-Is-Purelib: false\\nTag: {tag}\\n".encode()
    digest = lambda d: base64.urlsafe_b64encode(hashlib.sha256(d).digest()).rstrip(b"=").decode()
    record = "".join(f"{n},sha256={digest(d)},{len(d)}\\n" for n, d in content.items()) + f"{info}/RECORD,,\\n"
    content[f"{info}/RECORD"] = record.encode()
    with zipfile.ZipFile(os.path.join(folder, filename), "w") as archive:
        for n, d in content.items():
            archive.writestr(n, d)

def build_wheel(d, config_settings=None, metadata_directory=None):
"""


def project_with(factory, tmp_path, body: str, limits: str = "") -> dict[str, str]:
    """Lay out a project whose build is the attacker's; gives the environment to build it in."""
    backend = BACKEND + textwrap.indent(body + "\nreturn NAME\n", "    ")
    write(factory.folder / "k", {"evil.py": backend, "pyproject.toml": PYPROJECT})
    axes = "axes: {torch: [2.13], cuda: [cpu], python: [3.11]}\n"
    (factory.folder / "matrix.yaml").write_text(f"kernel: {{path: k}}\n{axes}engine: {{image: debian{limits}}}\n")
    # Its environment has a torch, as every project's has; these attacks have no use for a whole one.
    make_wheel(tmp_path / "packages", "torch", "2.13.0")
    factory.resolves_alone()
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "packages")}


DIST = {
    "another name": ('wheel(d); os.link(f"{d}/{NAME}", "/work/another")', "has other hard links"),
    "a new line": ('wheel(d, "a\\n-1-py3-none-any.whl")', ""),
    "no text": ('wheel(d); os.rename(f"{d}/{NAME}", os.fsencode(d) + b"/a\\xff.whl")', ""),
    "many": ('[open(f"{d}/{n}.whl", "w").close() for n in range(5000)]', "left 5000 wheels"),
    "deep": ('for n in range(5000): os.mkdir("d"); os.chdir("d")', "wrote more than"),
    "holes": ('os.truncate(os.open(f"{d}/{NAME}", os.O_CREAT | os.O_WRONLY), 1 << 28)', "not a readable zip"),
    "another cell": ('v = "1+cu130.torch2.13"; wheel(d, f"hostile-{v}-{TAG}.whl", v)', "has version"),
    "another platform": (
        't = TAG.replace("linux_", "manylinux_2_17_"); wheel(d, f"hostile-1-{t}.whl", tag=t)',
        "not linux_",
    ),
    "escape sequences": (
        r"""
os.write(1, "\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\u202egnp.exe\x00".encode() + b"\xff" + b"x" * 100000)
raise SystemExit("\x1b[31mred")
""",
        "exit code 1",
    ),
}
QUICK = ("another name", "escape sequences")


@pytest.mark.parametrize("name", sampled(DIST, *QUICK))
def test_a_project_leaves_no_wheel_but_its_own(name, releasing, host, tmp_path):
    factory, engine = releasing
    body, words = DIST[name]
    env = project_with(factory, tmp_path, body, ", memory: 2GiB, timeout: 120s")
    cell = answer_of(factory, engine, **env)
    assert words in cell["failure"]["message"]
    (log,) = (factory.folder / "dist" / "logs").iterdir()
    for text in (log.read_text(), json.dumps(cell, ensure_ascii=False)):
        assert all(character.isprintable() or character in "\n\t" for character in text), repr(text)
    assert list((factory.cache / "work").iterdir()) == []
    assert list((factory.folder / "dist").rglob("*.whl")) == []


def test_a_test_leaves_nothing_behind_and_takes_nothing_along(tmp_path, host):
    """What a test command leaves is removed as what a build leaves is."""
    from wheelsmith.base.beneath import remove_tree

    work = tmp_path / "work"
    work.mkdir()
    (work / "site").symlink_to(host)
    os.link(host / "private", work / "mine")
    before = stat.S_IMODE((host / "private").stat().st_mode)
    remove_tree(work)
    assert not work.exists()
    assert stat.S_IMODE((host / "private").stat().st_mode) == before
    assert (host / "inside" / "key").read_text() == "key"
