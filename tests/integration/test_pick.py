"""wheelsmith pick, against real indexes and environments whose torch is a stand-in."""

import json
import os
import shlex
import subprocess
import sys
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from command_line import run_command
from loopback import running, serving
from outside import outside
from sampled import sampled
from shop import NOW, make_pypi, make_shop, make_torches, torch_wheel
from wheels import make_wheel, offer

from wheelsmith.index.pick.machine import Machine, probe_machine
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell
from wheelsmith.platforms import Gpu

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    root = tmp_path_factory.mktemp("shop") / "index"
    make_shop(root)
    return root


@pytest.fixture(scope="module")
def url(index):
    with serving(index) as address:
        yield address


@pytest.fixture
def venv(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    return tmp_path / "venv"


def give_torch(venv, version, cuda):
    site = next(venv.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(torch_wheel(venv / "made", version, cuda)) as wheel:
        wheel.extractall(site)
    return site


@pytest.fixture
def pick(monkeypatch, capsys):
    """Run pick; no GPU of this machine plays a part."""
    monkeypatch.setattr("wheelsmith.platforms.cuda.CudaDevices.driver", lambda self, variables: None)

    def pick(*argv):
        answer = run_command(monkeypatch, capsys, "pick", *map(str, argv))
        assert "Traceback" not in answer.err
        return answer

    return pick


# --- what is there -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "cuda", "compute"),
    [("2.11.0+cu130", "13.0", "cu130"), ("2.11.0", "13.0", "cu130"), ("2.9.1+cpu", None, "cpu")],
)
def test_torch_is_read_without_being_imported(venv, version, cuda, compute):
    give_torch(venv, version, cuda)
    machine = probe_machine(str(venv))
    assert (machine.torch, machine.torch_compute) == (version, compute)
    assert (machine.python, machine.pip) == (str(venv / "bin" / "python"), False)
    assert machine.glibc.startswith("2.")


def test_what_torch_was_built_for_may_be_in_its_version_alone(venv):
    site = give_torch(venv, "2.11.0+cu130", "13.0")
    (site / "torch" / "version.py").unlink()
    assert probe_machine(str(venv)).torch_compute == "cu130"
    (site / "torch" / "version.py").write_text("cuda = None\nhip: str = '6.4'\n")
    assert probe_machine(str(venv)).torch_compute == "rocm6.4"


def test_a_torch_in_the_working_folder_is_none_of_the_environments(venv, tmp_path, monkeypatch):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert probe_machine(str(venv)).torch is None


LIBCUDA = """
int cuDriverGetVersion(int *v) { *v = 12080; return 0; }
int cuInit(unsigned f) { return NO_DEVICE; }
int cuDeviceGetCount(int *n) { *n = 2; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *s, int n, int d) { s[0] = 'H'; s[1] = '0' + d; s[2] = 0; return 0; }
int cuDeviceGetUuid(char *u, int d) { for (int i = 0; i < 16; i++) u[i] = d; return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 : a == 76 ? d : -1; return 0; }
"""


@pytest.mark.parametrize(("no_device", "gpus"), [(0, [("H0", "9.0"), ("H1", "9.1")]), (100, [])])
def test_the_driver_is_asked_for_its_cuda_and_its_gpus(tmp_path, monkeypatch, no_device, gpus):
    (tmp_path / "cuda.c").write_text(LIBCUDA)
    gcc = ["gcc", "-shared", "-fPIC", f"-DNO_DEVICE={no_device}", "-o", tmp_path / "libcuda.so.1", tmp_path / "cuda.c"]
    subprocess.run(gcc, check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    machine = probe_machine(sys.executable)
    assert machine.driver == "12.8"
    assert [(gpu.name, gpu.capability) for gpu in machine.gpus] == gpus
    uuids = ["GPU-00000000-0000-0000-0000-000000000000", "GPU-01010101-0101-0101-0101-010101010101"]
    assert [gpu.uuid for gpu in machine.gpus] == uuids[: len(gpus)]


def test_nvidia_smi_is_asked_where_the_library_is_not_found(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text(
        '#!/bin/sh\n[ -z "$1" ] && echo "| NVIDIA-SMI 580.1  Driver Version: 580.1  CUDA Version: 13.0 |" && exit\n'
        'echo "12.0, GPU-7, NVIDIA RTX, odd"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("wheelsmith.platforms.cuda._probe_source", lambda: "print('null')")
    machine = probe_machine(sys.executable)
    assert (machine.driver, machine.gpus) == ("13.0", (Gpu(name="NVIDIA RTX, odd", capability="12.0", uuid="GPU-7"),))


# --- what is chosen ------------------------------------------------------------------------------------------------


def test_the_command_keeps_the_torch_that_is_there(pick, venv, url):
    give_torch(venv, "2.11.0", "13.0")
    answer = pick("activation", "--index", url, "--python", venv)
    python = venv / "bin" / "python"
    assert answer.code == 0
    assert answer.out == (
        f"uv pip install --python {python} activation==1.1+cu130.torch2.11 torch==2.11.0 --default-index {url}/cu130/\n"
    )
    assert "Python 3." in answer.err
    assert "torch 2.11.0 (cu130)" in answer.err
    assert "activation-1.1+cu130.torch2.11-cp39-abi3-manylinux_2_17_x86_64.whl: for torch 2.11, CUDA 13.0" in answer.err


def test_without_torch_the_newest_that_the_driver_runs_comes_too(pick, venv, url):
    alone = pick("activation", "--index", url, "--python", venv, "--installer", "pip")
    assert "activation==1.1+cpu.torch2.13 torch==2.13.0+cpu --index-url" in alone.out
    assert "the command installs it with the wheel" in alone.err
    old = pick("activation", "--index", url, "--python", venv, "--driver", "12.8", "--installer", "pip")
    assert "activation==1.1+cu126.torch2.13 torch==2.13.0+cu126 --index-url" in old.out
    new = pick("activation", "--index", url, "--python", venv, "--driver", "13.1", "--installer", "pip")
    assert f"activation==1.1+cu130.torch2.13 torch==2.13.0+cu132 --index-url {url}/cu132/" in new.out


def test_several_projects_get_one_command(pick, venv, url):
    give_torch(venv, "2.11.0+cu130", "13.0")
    answer = pick("activation", "rmsnorm", "Activation", "--index", url, "--python", venv)
    python = venv / "bin" / "python"
    assert answer.out == (
        f"uv pip install --python {python} activation==1.1+cu130.torch2.11 rmsnorm==0.3+cu130 torch==2.11.0+cu130 "
        f"--default-index {url}/cu130/\n"
    )
    assert answer.err.count("Python 3.") == 3  # the machine, and each wheel
    told = json.loads(pick("activation", "rmsnorm", "--index", url, "--python", venv, "--json").out)
    assert told["command"] == answer.out.strip()
    assert {name: each["wheel"]["version"] for name, each in told["projects"].items()} == {
        "activation": "1.1+cu130.torch2.11",
        "rmsnorm": "0.3+cu130",
    }
    assert (told["reason"], told["nearest"]) == (None, [])


def test_a_project_that_is_in_the_way_is_named(pick, venv, url):
    argv = ("activation", "rmsnorm", "--index", url, "--python", venv, "--torch", "2.9", "--cuda", "12.8")
    answer = pick(*argv)
    assert (answer.code, answer.out) == (3, "")
    assert "activation has a wheel for torch 2.9, CUDA 12.8, but rmsnorm not: torch 2.9 is not served" in answer.err
    assert "nearest alternatives with a wheel of each: torch 2.11 and CUDA 13.0" in answer.err
    told = json.loads(pick(*argv, "--json").out)
    assert [each["change"] for each in told["nearest"]] == ["torch 2.11 and CUDA 13.0"]
    assert [name for name, each in told["projects"].items() if each["refused"]] == ["rmsnorm"]


def test_an_older_cuda_of_the_same_major_serves_a_newer_torch(pick, venv, url):
    give_torch(venv, "2.11.0+cu132", "13.2")
    answer = pick("activation", "--index", url, "--python", venv)
    assert answer.code == 0
    assert f"torch==2.11.0+cu132 --default-index {url}/cu130/" in answer.out
    assert "the one for CUDA 13.0 runs on this torch" in answer.err


HERE = ("2.11.0+cu130", "13.0")
NONE = [
    (("2.12.0+cu130", "13.0"), [], "torch 2.12 is not served; there are wheels for torch 2.9, 2.11", "torch 2.11"),
    (HERE, ["--driver", "12.8"], "needs driver 580 or newer; this driver supports CUDA up to 12.8", "CPU"),
    (HERE, ["--glibc", "2.12"], "needs glibc 2.17 or newer, this machine has 2.12", None),
    (HERE, ["--python-version", "3.8"], "needs Python >=3.9, not 3.8", "Python 3.9"),
    (HERE, ["--arch", "riscv64"], "riscv64 is not served", "x86_64"),
    (("2.9.1+cu128", "12.8"), ["--cuda", "13.0"], "no wheel of activation 1.1 for this: torch 2.9 has", "torch 2.11"),
]


@pytest.mark.parametrize(("torch", "options", "reason", "nearest"), NONE)
def test_no_wheel(pick, venv, url, torch, options, reason, nearest):
    give_torch(venv, *torch)
    answer = pick("activation", "--index", url, "--python", venv, *options)
    assert (answer.code, answer.out) == (3, "")
    assert reason in answer.err.partition("error: ")[2]
    assert nearest is None or f"help: nearest alternatives with a wheel: {nearest}" in answer.err
    told = json.loads(pick("activation", "--index", url, "--python", venv, "--json", *options).out)
    assert (told["wheel"], told["command"]) == (None, None)
    assert reason in told["reason"]


def test_a_torch_whose_build_is_not_known_is_not_replaced(pick, venv, url):
    site = give_torch(venv, "2.11.0", "13.0")
    (site / "torch" / "version.py").unlink()
    answer = pick("activation", "--index", url, "--python", venv)
    assert (answer.code, answer.out) == (3, "")
    assert "name it with --cuda" in answer.err
    assert (
        "torch==2.11.0 " in pick("activation", "--index", url, "--python", venv, "--cuda", "13.0", "--keep-torch").out
    )


def test_another_torch_comes_only_where_it_was_asked_for(pick, venv, url):
    give_torch(venv, "2.9.1+cu128", "12.8")
    kept = pick("activation", "--index", url, "--python", venv)
    assert "torch==2.9.1+cu128" in kept.out
    asked = pick("activation", "--index", url, "--python", venv, "--torch", "2.13", "--cuda", "13.0")
    assert "torch==2.13.0+cu130" in asked.out
    assert "this replaces torch 2.9.1+cu128, as requested" in asked.err


def test_another_patch_of_torch_is_another_torch(pick, venv, url):
    give_torch(venv, "2.9.1+cu128", "12.8")
    same = pick("activation", "--index", url, "--python", venv, "--torch", "2.9.1")
    assert "torch==2.9.1+cu128" in same.out
    assert "replaces" not in same.err
    other = pick("activation", "--index", url, "--python", venv, "--torch", "2.9.0")
    assert "torch==2.9.0+cu128" in other.out
    assert "this replaces torch 2.9.1+cu128, as requested" in other.err


def test_another_machine_can_be_chosen_for(pick, url):
    options = ["--torch", "2.13", "--cuda", "13.0", "--arch", "aarch64", "--python-version", "3.14"]
    answer = pick("activation", "--index", url, *options, "--installer", "dockerfile")
    assert answer.code == 0
    assert answer.out.startswith("RUN pip install --no-cache-dir activation==1.1+cu130.torch2.13 torch==2.13.0+cu130 ")
    assert "aarch64.whl: for torch 2.13, CUDA 13.0, aarch64, Python 3.14" in answer.err
    told = json.loads(pick("activation", "--index", url, *options, "--installer", "uv-project", "--json").out)
    assert told["wheel"]["version"] == "1.1+cu130.torch2.13"
    assert (told["argv"], told["target"]["glibc"]) == (None, None)
    assert 'activation = { index = "activation-cu130" }' in told["command"]


@pytest.mark.parametrize(
    ("installer", "program"), [("uv", "uv pip install"), ("pip", "pip install"), (None, "pip install")]
)
def test_a_command_for_another_machine_names_nothing_of_this_one(
    pick, url, venv, monkeypatch, tmp_path, installer, program
):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    asked = ["activation", "--index", url, "--python", venv, "--torch", "2.13", "--cuda", "13.0", "--arch", "aarch64"]
    asked += ["--installer", installer] if installer else []
    assert pick(*asked).out.startswith(f"{program} activation==1.1+cu130.torch2.13 torch==2.13.0+cu130 ")
    refused = pick(*asked, "--run")
    assert (refused.code, "which describe another machine" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [("580", "13.0"), ("580.65.06", "13.0"), ("589", "13.0"), ("575.57.08", "12.9"), ("12.8", "12.8")],
)
def test_a_driver_is_named_by_its_version_or_its_cuda(pick, venv, url, driver, cuda):
    asked = ("activation", "--index", url, "--python", venv, "--torch", "2.13", "--cuda", "cpu")
    answer = pick(*asked, "--driver", driver)
    assert (answer.code, f"a driver for CUDA up to {cuda}" in answer.err) == (0, True), answer.err
    old = pick(*asked, "--driver", "390.157")
    assert (old.code, "driver 390.157 is too old for any known CUDA release" in old.err) == (2, True)
    assert pick(*asked, "--driver", "58").code == 2


def test_a_second_capability_adds_to_the_first(pick, venv, url):
    asked = ("activation", "--index", url, "--python", venv, "--torch", "2.13", "--cuda", "13.0", "--json")
    told = json.loads(pick(*asked, "--capability", "9.0", "--capability", "8.0").out)
    assert told["target"]["capabilities"] == ["8.0", "9.0"]


@pytest.mark.parametrize("name", ["/", "/cu130/", "/simple", "/cpu/"])
def test_the_address_of_a_root_will_do(pick, venv, url, name):
    give_torch(venv, "2.11.0+cu130", "13.0")
    assert f" {url}/cu130/\n" in pick("Activation", "--index", url + name, "--python", venv).out


def test_what_is_deprecated_is_told(pick, venv, url):
    give_torch(venv, "2.11.0+cu130", "13.0")
    assert "warning: fused is deprecated: use rmsnorm" in pick("fused", "--index", url, "--python", venv).err


# --- and installed -------------------------------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path, monkeypatch):
    make_torches(tmp_path / "pytorch")
    make_pypi(tmp_path / "pypi")
    with outside(
        {"download.pytorch.org": tmp_path / "pytorch", "pypi.org": tmp_path / "pypi"}, tmp_path
    ) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield


def installed(venv):
    names = [path.name for path in venv.glob("lib/python*/site-packages/*.dist-info")]
    return sorted(name.removesuffix(".dist-info") for name in names)


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("where", sampled(["folder", "web"], "web"))
def test_run_installs_the_wheel_and_leaves_torch(pick, venv, url, index, where):
    give_torch(venv, "2.11.0", "13.0")
    answer = pick("fused", "--index", url if where == "web" else index, "--python", venv, "--run")
    assert answer.code == 0, answer.err
    assert installed(venv) == ["einops-0.8.1", "fused-1.0+cu130.torch2.11", "torch-2.11.0"]
    assert [words[:3] for words in map(shlex.split, answer.out.split(" && "))] == [["uv", "pip", "install"]] * 2


@pytest.mark.release("makes an environment")
@pytest.mark.usefixtures("world")
def test_run_installs_torch_too_where_there_is_none(pick, venv, url):
    answer = pick("rmsnorm", "--index", url, "--python", venv, "--cuda", "13.0", "--run")
    assert answer.code == 0, answer.err
    assert installed(venv) == ["rmsnorm-0.3+cu130", "torch-2.13.0+cu130"]


def test_what_fails_to_install_is_told(pick, venv, tmp_path):
    path = make_wheel(tmp_path / "made", "k", "1+cu130.torch2.11", requires=("torch==2.11.*",))
    Index(Folder(tmp_path / "index")).add(
        [offer(path, Cell(release="2.11", toolkit="13.0", arch="x86_64"))], upload_time=NOW
    )
    next((tmp_path / "index" / "files").rglob("*.whl")).unlink()
    give_torch(venv, "2.11.0+cu130", "13.0")
    answer = pick("k", "--index", tmp_path / "index", "--python", venv, "--run")
    assert answer.code == 4
    assert "uv pip install failed with exit code" in answer.err


# --- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["k", "--index", "{index}"], 4, "has no project k"),
        (["../k", "--index", "{index}"], 4, "is not a valid project name"),
        (["activation", "--index", "nowhere"], 4, "nowhere has no project activation"),
        (["activation", "--index", "s3://bucket"], 4, "cannot be read by installers"),
        (["k", "--index", "{url}"], 4, "has no project k"),
        (["activation", "--index", "http://127.0.0.1:9/"], 4, "cannot be read"),
        (["activation", "--index", "http://[/"], 4, "cannot be read"),
        (["activation"], 2, "Missing option '--index'"),
        (["activation", "--index", "{index}", "--python", "nothing"], 4, "nothing is not an executable Python"),
        (["activation", "--index", "{index}", "--python", "/bin/true"], 4, "/bin/true is not a working Python"),
        (["activation", "--index", "{index}", "--torch", "new"], 2, "'new' is not a torch release such as 2.11"),
        (["activation", "--index", "{index}", "--cuda", "13"], 2, "'13' is not cpu or a CUDA release such as 13.0"),
        (["activation", "--index", "{index}", "--capability", "sm_90"], 2, "'sm_90' is not a GPU architecture"),
        (["activation", "--index", "{index}", "--glibc", "x"], 2, "'x' is not a release"),
        (["activation", "--index", "{index}", "--run", "--installer", "dockerfile"], 2, "supports only pip and uv"),
    ],
)
def test_mistakes(pick, index, url, argv, code, message):
    answer = pick(*(word.format(index=index, url=url) for word in argv))
    assert (answer.code, message in answer.err) == (code, True), answer.err


def test_credentials_are_used_and_not_shown(pick, venv, index):
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers["Authorization"])
            data = (index / self.path.lstrip("/")).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *words):
            pass

    give_torch(venv, "2.11.0+cu130", "13.0")
    with running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as address:
        answer = pick("activation", "--index", address.replace("//", "//me:geheim@"), "--python", venv)
        assert answer.code == 0
        assert f" {address}/cu130/" in answer.out
    assert seen == ["Basic bWU6Z2VoZWlt"]
    assert "geheim" not in answer.out + answer.err
    assert "netrc" in answer.err


@pytest.mark.parametrize("data", [b"{}", b"<!DOCTYPE html>", b'{"schema_version": 99}'])
def test_an_answer_that_is_no_catalogue(pick, tmp_path, data):
    (tmp_path / "projects" / "k").mkdir(parents=True)
    (tmp_path / "projects" / "k" / "catalogue.json").write_bytes(data)
    answer = pick("k", "--index", tmp_path)
    assert answer.code == 4
    assert "is not a valid catalogue" in answer.err or "newer wheelsmith" in answer.err


def test_a_machine_is_data():
    machine = probe_machine(sys.executable)
    assert Machine.from_json(json.loads(json.dumps(machine.to_json()))) == machine
    assert machine.python_version.startswith(PYTHON)


# --- what people mean, and what machines have ---------------------------------------------------------------


@pytest.mark.parametrize("of", ["folder", "web"])
def test_a_project_that_was_meant(of, index, url, pick, venv):
    answer = pick("activatoin", "--index", url if of == "web" else index, "--python", venv)
    assert answer.code == 4
    assert "did you mean activation?" in answer.err
    assert "did you mean" not in pick("zzz", "--index", url if of == "web" else index, "--python", venv).err


@pytest.mark.parametrize(("group", "word", "meant"), [((), "publsh", "publish"), (("index",), "verfy", "verify")])
def test_a_verb_that_was_meant(group, word, meant, monkeypatch, capsys):
    answer = run_command(monkeypatch, capsys, *group, word)
    assert answer.code == 2
    assert f"Did you mean '{meant}'?" in answer.err


def test_a_machine_gets_commands_that_it_can_run(index, pick, venv, monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    asked = ("activation", "--index", index, "--python", venv, "--cuda", "cpu")
    answer = pick(*asked)
    assert answer.out.startswith(f"{venv}/bin/python -m ensurepip && {venv}/bin/python -m pip install ")
    without = pick(*asked, "--installer", "uv")
    assert without.code == 4
    assert "uv is not installed" in without.err
    assert "pip install" not in without.out
    # As Debian's own Python is, as long as python3-venv is not there.
    hook = next(venv.glob("lib/python*/site-packages")) / "hook.pth"
    hook.write_text(_WITHOUT)
    bare = pick(*asked)
    assert bare.code == 4
    assert "has neither pip nor ensurepip" in bare.err
    assert bare.out == ""


_WITHOUT = "import sys; sys.modules['ensurepip'] = None\n"


def test_a_pre_release_of_torch_is_named(index, pick, venv):
    give_torch(venv, "2.13.0.dev20261101+cpu", None)
    answer = pick("activation", "--index", index, "--python", venv)
    assert "torch 2.13.0.dev20261101+cpu is a pre-release" in answer.err


def test_a_free_threaded_python_is_answered_for_what_it_is(index, pick, venv):
    asked = ("activation", "--index", index, "--python", venv, "--torch", "2.13", "--cuda", "cpu", "--arch", "x86_64")
    assert pick(*asked, "--python-version", "3.14").code == 0
    refused = pick(*asked, "--python-version", "3.14t")
    assert refused.code == 3
    assert "Python without the GIL" in refused.err
