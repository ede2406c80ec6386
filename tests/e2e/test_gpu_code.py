"""What we read of a binary's GPU code against what NVIDIA's own cuobjdump says.

In the quick tier NVIDIA's tools, and what they make, may be those of an earlier run: nothing of ours has a part in it,
and the name of each folder holds the pin, the command and the source. With --all everything is made anew.
"""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from once import made_once
from sampled import sampled

from wheelsmith.base.files import default_cache
from wheelsmith.model.events import ignore
from wheelsmith.platforms import cuda_prefix, cuda_toolkits
from wheelsmith.toolchain import Toolchains
from wheelsmith.wheel.gpu import read_gpu_code

# In one group, for cuobjdump is fetched and installed once for all of them.
pytestmark = [pytest.mark.e2e, pytest.mark.network, pytest.mark.xdist_group("gpu code")]
SHARED = ("-shared", "-Xcompiler", "-fPIC", "-cudart", "none")
SOURCE = "__global__ void k(float *x) { x[threadIdx.x] += 1; }\nvoid f(float *x) { k<<<1, 1>>>(x); }\n"
# Read by every ptxas of CUDA 12.4 and later.
PTX = ".version 8.4\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"
TOOLKIT = re.compile(r"toolkit=(\d+)\.?(\d),")
LISTED = re.compile(r"(?:ELF|PTX) file.*\.sm_(\d+)([af]?)\.(cubin|ptx)")


@pytest.fixture(scope="module")
def kept(request, tmp_path_factory):
    """The folder where tools, and what they make, are kept."""
    every = request.config.getoption("all")
    return tmp_path_factory.mktemp("kept") if every else Path(request.config.cache.mkdir("gpu code"))


def install(package, kept):
    """Install a package that is pinned, and return where."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    return made_once(kept / package, lambda folder: subprocess.run([*pip, folder, package], check=True)) / "nvidia"


@pytest.fixture(scope="module")
def nvcc(cuda, kept):
    """What CUDA 13.0 makes of the source, by some options, as a file of a name."""
    host = subprocess.run(["g++", "--version"], check=True, capture_output=True, text=True).stdout

    def nvcc(name, *options, linking=()):
        """Return the file; what is linked, instead of compiled, are files that were made so."""
        given = [host, cuda.name, SOURCE, name, *options, *(part.parent.name for part in linking)]

        def make(folder):
            source = folder / "k.cu"
            source.write_text(SOURCE)
            subprocess.run([cuda / "bin" / "nvcc", *options, *(linking or [source]), "-o", folder / name], check=True)

        return made_once(kept / hashlib.sha256("\0".join(given).encode()).hexdigest(), make) / name

    return nvcc


def toolkits(cuobjdump, file):
    """Return the toolkits that cuobjdump names: ``toolkit=124`` with the old ABI, ``toolkit=13.0`` with the new."""
    listing = subprocess.run([cuobjdump, "-elf", file], check=True, capture_output=True, text=True).stdout
    return {f"{major}.{minor}" for major, minor in TOOLKIT.findall(listing)}


def read(path, mistakes=()):
    size = path.stat().st_size
    with path.open("rb") as file:
        code = read_gpu_code(file, size)
    assert code.mistakes == mistakes
    return code


@pytest.fixture(scope="module")
def cuobjdump(kept):
    return install("nvidia-cuda-cuobjdump==13.5.37", kept) / "cu13" / "bin" / "cuobjdump"


@pytest.fixture(scope="module")
def cuda():
    return Toolchains(default_cache(), ignore).prepare(cuda_prefix(cuda_toolkits()["13.0"], "x86_64", "x86_64"))


@pytest.mark.parametrize(
    "codes",
    sampled(
        [
            ["80:sm_80"],
            ["80:sm_80", "90:sm_90", "90a:sm_90a"],
            ["100f:sm_100f", "120:sm_120"],
            ["100a:sm_100a", "103a:sm_103a"],
            ["75:compute_75", "120:sm_120", "120:compute_120"],
            ["90:sm_90", "90a:compute_90a"],
        ],
        ["100f:sm_100f", "120:sm_120"],
        ["90:sm_90", "90a:compute_90a"],
    ),
    ids=" ".join,
)
def test_the_same_is_read(codes, nvcc, cuobjdump):
    flags = [f"-gencode=arch=compute_{c.split(':')[0]},code={c.split(':')[1]}" for c in codes]
    library = nvcc("k.so", *SHARED, *flags)
    code = read(library)
    listing = "".join(
        subprocess.run([cuobjdump, option, library], check=True, capture_output=True, text=True).stdout
        for option in ("--list-elf", "--list-ptx")
    )
    listed = {
        (kind, f"{int(number) // 10}.{int(number) % 10}{suffix}") for number, suffix, kind in LISTED.findall(listing)
    }
    # cuobjdump lists family-specific code, sm_100f, under the plain number.
    ours = {("cubin", c.rstrip("f")) for c in code.machine_code} | {("ptx", c.rstrip("f")) for c in code.ptx}
    assert ("10.0f" in code.machine_code) == ("100f:sm_100f" in codes)
    assert ours == listed != set()
    assert code.assemblers == toolkits(cuobjdump, library)
    assert code.ptx_toolkits == ({"13.0"} if code.ptx else set())


@pytest.mark.parametrize("mode", sampled(["none", "size", "speed", "balance"], "balance"))
def test_compressed_code_is_read(mode, nvcc, cuobjdump):
    flags = ["-gencode=arch=compute_80,code=sm_80", f"-compress-mode={mode}", "-Xfatbin=-compress-all"]
    library = nvcc("k.so", *SHARED, *flags)
    code = read(library)
    assert code.assemblers == toolkits(cuobjdump, library) == {"13.0"}


@pytest.fixture(scope="module")
def ptxas(kept):
    return lambda version: install(f"nvidia-cuda-nvcc-cu12=={version}", kept) / "cuda_nvcc" / "bin" / "ptxas"


@pytest.mark.parametrize(
    ("version", "arch", "capability"),
    sampled(
        [
            ("12.4.131", "sm_90", "9.0"),
            ("12.8.93", "sm_90", "9.0"),
            ("12.8.93", "sm_120", "12.0"),
            ("12.8.93", "sm_90a", "9.0a"),
            ("12.8.93", "sm_100a", "10.0a"),
            ("12.9.86", "sm_103f", "10.3f"),
        ],
        ("12.8.93", "sm_90a", "9.0a"),
    ),
)
def test_cubins_of_cuda_12_are_read(version, arch, capability, ptxas, cuobjdump, tmp_path):
    source, cubin = tmp_path / "k.ptx", tmp_path / "k.cubin"
    own = arch if arch[-1] in "af" else "sm_80"
    source.write_text(
        PTX.replace("8.4", "8.8" if arch[-1] == "f" else "8.6" if own != "sm_80" else "8.4").replace("sm_80", own)
    )
    subprocess.run([ptxas(version), f"-arch={arch}", source, "-o", cubin], check=True)
    code = read(cubin)
    assert code.assemblers == toolkits(cuobjdump, cubin) == {version.rpartition(".")[0]}
    assert code.machine_code == {capability}


@pytest.mark.parametrize("linked", sampled([False, True], False), ids=["unlinked", "linked"])
def test_what_has_yet_to_be_linked_is_told_apart(linked, nvcc, tmp_path):
    flags = ["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90a,code=sm_90a", "-Xcompiler", "-fPIC"]
    objects = [nvcc("k.o", "-rdc=true", "-c", *flags)]
    if linked:
        objects.append(nvcc("linked.o", "-dlink", *flags, linking=objects))
    library = tmp_path / "k.so"
    subprocess.run(["g++", "-shared", *objects, "-o", library], check=True)
    useless = "it registers fatbins, but all their code still has to be linked, so no GPU can run it"
    code = read(library, () if linked else (useless,))
    assert code.relocatable == {"8.0", "9.0a"}
    assert code.machine_code == ({"8.0", "9.0a"} if linked else set())
    assert code.assemblers == {"13.0"}


def test_what_nvlink_reads_is_told_apart(nvcc):
    flags = ["-gencode=arch=compute_80,code=lto_80", "-gencode=arch=compute_90,code=compute_90", "-rdc=true"]
    code = read(nvcc("k.o", "-c", *flags))
    assert (code.intermediate, code.relocatable, code.ptx) == ({"8.0"}, {"9.0"}, set())


@pytest.mark.parametrize("option", ["-cubin", "-fatbin", "-ptx"])
def test_a_file_that_is_no_library_is_read(option, nvcc):
    code = read(nvcc("made", option, "-arch=sm_90a"))
    assert "9.0a" in code.machine_code | code.ptx
