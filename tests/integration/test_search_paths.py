"""What CMake leaves of the machine that built a library is taken out of it, and nothing else."""

import io
import subprocess

import pytest

from wheelsmith.wheel.archive import WheelContents
from wheelsmith.wheel.elf import read_extension
from wheelsmith.wheel.repair import remove_host_folders


def library(folder, *options):
    """Compile a shared library with these options of the linker."""
    source = folder / "x.c"
    source.write_text("int answer(void) { return 42; }\n")
    target = folder / "x.so"
    linked = [f"-Wl,{option}" for option in options]
    subprocess.run(["gcc", "-shared", "-fPIC", *linked, "-o", target, source], check=True)
    return target.read_bytes()


def contents(**files):
    return WheelContents(filename="k-1-py3-none-any.whl", info="k-1.dist-info", files=files)


@pytest.mark.parametrize(
    ("options", "rpath", "runpath"),
    [
        (("--enable-new-dtags", "-rpath=/opt/cuda/lib:"), (), ()),
        (("--enable-new-dtags", "-rpath=/opt/cuda/lib:$ORIGIN/libs"), (), ("$ORIGIN/libs",)),
        (("--disable-new-dtags", "-rpath=$ORIGIN:/work/src/build"), ("$ORIGIN",), ()),
    ],
)
def test_folders_of_the_machine_are_taken_out(options, rpath, runpath, tmp_path):
    before = contents(**{"k.so": library(tmp_path, *options), "k.py": b"x = 1"})
    after = remove_host_folders(before, tmp_path)
    read = read_extension("k.so", io.BytesIO(after.files["k.so"]))
    assert (read.rpath, read.runpath) == (rpath, runpath)
    assert "answer" in read.exported
    assert after.files["k.py"] == b"x = 1"
    assert remove_host_folders(before, tmp_path).files == after.files


@pytest.mark.parametrize("options", [(), ("-rpath=$ORIGIN/../k.libs",), ("-rpath=relative",)])
def test_what_names_no_folder_of_the_machine_stays_as_it_is(options, tmp_path):
    before = contents(**{"k.so": library(tmp_path, *options)})
    assert remove_host_folders(before, tmp_path) is before
