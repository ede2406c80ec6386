"""The platform that a built wheel is for, whatever its libraries need."""

import os
import platform
import subprocess
import sys
from dataclasses import replace

import pytest
from plans import plan
from wheels import make_wheel

from wheelsmith.base import sandbox_paths
from wheelsmith.model import read_wheel_name
from wheelsmith.wheel.archive import open_wheel
from wheelsmith.wheel.repair import pack, repair
from wheelsmith.wheel.report import RepairRequest

ARCH = platform.machine()
ALONE = ("void *PyInit_{name}(void) {{ return 0; }}\n", "-nostdlib")
WITH_LIBC = ('#include <stdio.h>\nvoid *PyInit_{name}(void) {{ puts("x"); return 0; }}\n', "-O0")


def extension(folder, name, source, *options):
    """Compile an extension module of Python that only has its first function."""
    code, made = folder / f"{name}.c", folder / f"{name}.so"
    code.write_text(source.format(name=name))
    subprocess.run(["gcc", "-shared", "-fPIC", code, "-o", made, *options], check=True)
    return made.read_bytes()


def repaired(folder, policy=None, **sources):
    """Return the wheel of some extensions after its repair."""
    files = {f"k/{name}.abi3.so": extension(folder, name, *source) for name, source in sources.items()}
    raw = make_wheel(folder / "left", "k", "1", tag=f"cp39-abi3-linux_{ARCH}", files=files)
    metadata = open_wheel(raw).files["k-1.dist-info/METADATA"].decode()
    spec = replace(
        plan(0).wheel,
        distribution="k",
        metadata=metadata,
        python_tag="cp39",
        abi_tag="abi3",
        platform=f"linux_{ARCH}",
        arch=ARCH,
    )
    recorded = plan(0).recorded().decode()
    request = RepairRequest(spec=spec, members=None, plan=recorded, grafts=False, policy=policy)
    return repair(raw, request, folder / "work")


@pytest.mark.parametrize("others", [{}, {"b": WITH_LIBC}, {"_b": WITH_LIBC}], ids=["alone", "first", "last"])
def test_an_extension_that_needs_no_c_library_is_for_every_machine(others, tmp_path):
    made = repaired(tmp_path, a=ALONE, **others)
    platforms = {tag.platform for tag in read_wheel_name(made.name).tags}
    assert f"manylinux_2_{17 if ARCH == 'aarch64' else 5}_{ARCH}" in platforms
    assert open_wheel(made).files["k/a.abi3.so"].startswith(b"\x7fELF")
    assert {str(tag) for tag in read_wheel_name(made.name).tags} == set(open_wheel(made).wheel.get_all("Tag"))


def test_it_has_the_tag_that_it_was_built_for(tmp_path):
    assert repaired(tmp_path, "manylinux_2_28", a=ALONE).name == f"k-1-cp39-abi3-manylinux_2_28_{ARCH}.whl"


def test_an_extension_that_needs_a_newer_c_library_is_for_newer_machines_alone(tmp_path):
    newer = ("void __libc_start_main(void);\nvoid *PyInit_{name}(void) {{ __libc_start_main(); return 0; }}\n", "-O0")
    made = repaired(tmp_path, a=newer)
    assert {str(tag) for tag in read_wheel_name(made.name).tags} == set(open_wheel(made).wheel.get_all("Tag"))
    assert made.name == f"k-1-cp39-abi3-manylinux_2_34_{ARCH}.whl"


@pytest.mark.parametrize(
    ("filename", "extra"),
    [
        ("k-1-py3-none-any.whl", ""),
        ("k-1-py3.py2-none-any.whl", ""),
        ("k-1-7-cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "Build: 7\n"),
    ],
)
def test_a_wheel_is_packed_as_wheel_pack_does(tmp_path, filename, extra):
    python, abi, platforms = filename.removesuffix(".whl").split("-")[-3:]
    tags = [f"{one}-{abi}-{other}" for one in python.split(".") for other in platforms.split(".")]
    whole = open_wheel(make_wheel(tmp_path, "k", "1", files={"k/x.so": b"\x7fELF", "k/a/b.py": b""}))
    headers = f"Wheel-Version: 1.0\n{extra}" + "".join(f"Tag: {tag}\n" for tag in tags)
    contents = replace(whole, filename=filename, files={**whole.files, "k-1.dist-info/WHEEL": headers.encode()})
    packed = pack(contents, tmp_path / "work")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": sandbox_paths.SOURCE_DATE_EPOCH}
    (tmp_path / "other").mkdir()
    argv = [sys.executable, "-m", "wheel", "pack", str(tmp_path / "work/unpacked"), "-d", str(tmp_path / "other")]
    subprocess.run(argv, check=True, env=environment)
    (expected,) = (tmp_path / "other").iterdir()
    assert (packed.name, packed.read_bytes()) == (expected.name, expected.read_bytes())
    assert "SOURCE_DATE_EPOCH" not in os.environ
