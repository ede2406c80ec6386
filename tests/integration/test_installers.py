"""One published index, and every installer that people have: which wheel they take beside which torch."""

import json
import re
import sys
import tomllib
import urllib.request
from functools import partial

import pytest
from installers import PIPS, reported, sources
from torches import COMBINATIONS, HERE, YANKED, right_wheel

from wheelsmith.base.files import sha256_file

pytestmark = [pytest.mark.network, pytest.mark.xdist_group("installers")]
# Of what every installer is asked of every combination, these are quick.
QUICK = {("2.9", "cpu"), ("2.12", "cu132")}
EVERY = pytest.mark.release("every installer with every combination")
AGES = ("pip 23.2", "newest pip")
REPORT = ("install", "--dry-run", "--quiet", "--report", "-")
JSON = "application/vnd.pypi.simple.v1+json"


def pairings():
    """Each combination of torch and compute platform in all of four ways."""
    ways = [(age, way) for age in AGES for way in ("with its torch", "under its torch")]
    for number, (torch, compute) in enumerate(COMBINATIONS):
        for place, (age, way) in enumerate(ways):
            quick = (torch, compute) in QUICK and place == number % len(ways)
            yield pytest.param(
                torch,
                compute,
                age,
                way,
                marks=() if quick else EVERY,
                id=f"{torch}-{compute}-{age}-{way}".replace(" ", "-"),
            )


def with_torch(tools, loopback, torch, compute):
    """Return a clean environment with a torch as its own index gives it."""
    name, index = f"torch-{torch}-{compute}", f"{loopback.whl}/{compute}/"
    return tools.environment(name, f"torch=={torch}.0", index=index)


def pages_of(compute, loopback):
    return ("--index-url", f"{loopback.index}/{compute}/")


def torches_too(compute, loopback):
    return ("--extra-index-url", f"{loopback.whl}/{compute}/")


def files(loopback, root, project="kernel"):
    """Return what the JSON page says of each file that this machine could install, by version."""
    request = urllib.request.Request(f"{loopback.index}/{root}/{project}/", headers={"Accept": JSON})
    with urllib.request.urlopen(request) as response:
        listed = json.load(response)["files"]
    return {f["filename"].split("-")[1]: f for f in listed if HERE in f["filename"]}


@pytest.mark.parametrize(("torch", "compute", "age", "way"), tuple(pairings()))
def test_pip_takes_the_right_wheel(torch, compute, age, way, tools, loopback):
    if way == "with its torch":
        asked = ("--ignore-installed", *torches_too(compute, loopback), "kernel", f"torch=={torch}.0")
        answer = tools.pip(age, *REPORT, *pages_of(compute, loopback), *asked)
        assert reported(answer) == {"kernel": right_wheel(torch, compute), "torch": f"{torch}.0+{compute}"}
    else:
        python = with_torch(tools, loopback, torch, compute)
        answer = tools.pip(age, "--python", python, *REPORT, *pages_of(compute, loopback), "kernel")
        assert reported(answer) == {"kernel": right_wheel(torch, compute)}
    kernel = next(i for i in json.loads(answer.stdout)["install"] if i["metadata"]["name"] == "kernel")
    published = files(loopback, compute)[right_wheel(torch, compute)]
    assert kernel["download_info"]["archive_info"]["hashes"] == published["hashes"]


@pytest.mark.parametrize(
    ("torch", "compute"), [pytest.param(*each, marks=() if each in QUICK else EVERY) for each in COMBINATIONS]
)
def test_uv_takes_the_right_wheel(torch, compute, tools, loopback, tmp_path):
    wanted = tmp_path / "in.txt"
    wanted.write_text(f"kernel\ntorch=={torch}.0\n")
    both = sources("uv", f"{loopback.index}/{compute}/", f"{loopback.whl}/{compute}/")
    answer = tools.uv("pip", "compile", "--no-header", "--no-annotate", "--generate-hashes", *both, wanted)
    assert answer.returncode == 0, answer.stderr
    assert re.findall(r"^\w+==\S+", answer.stdout, re.MULTILINE) == [
        f"kernel=={right_wheel(torch, compute)}",
        f"torch=={torch}.0+{compute}",
    ]
    assert files(loopback, compute)[right_wheel(torch, compute)]["hashes"]["sha256"] in answer.stdout
    python = with_torch(tools, loopback, torch, compute)
    ours = ("--default-index", f"{loopback.index}/{compute}/")
    answer = tools.uv("pip", "install", "--dry-run", "--python", python, *ours, "kernel")
    assert answer.returncode == 0, answer.stderr
    assert changes(answer.stderr) == [f"+ kernel=={right_wheel(torch, compute)}"]


def changes(said):
    """Return the lines with which uv says what it would do to an environment."""
    return [line.strip() for line in said.splitlines() if re.match(r" [+-] ", line)]


@pytest.mark.parametrize(
    ("torch", "compute"), [pytest.param(*each, marks=() if each in QUICK else EVERY) for each in COMBINATIONS]
)
def test_uv_locks_the_right_wheel(torch, compute, tools, loopback, tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        f"""\
[project]
name = "app"
version = "0"
requires-python = ">=3.9"
dependencies = ["kernel", "torch=={torch}.*"]

[tool.uv.sources]
kernel = {{ index = "kernels" }}
torch = {{ index = "torch" }}

[[tool.uv.index]]
name = "kernels"
url = "{loopback.index}/{compute}/"
explicit = true

[[tool.uv.index]]
name = "torch"
url = "{loopback.whl}/{compute}/"
explicit = true
"""
    )
    assert locked(tools, loopback, tmp_path) == {
        "app": {"0"},
        "kernel": {right_wheel(torch, compute)},
        "torch": {f"{torch}.1+{compute}"},
    }
    lock = tomllib.loads((tmp_path / "uv.lock").read_text())
    kernel = next(package for package in lock["package"] if package["name"] == "kernel")
    # Both architectures, with what the index says of them.
    assert len(kernel["wheels"]) == 2
    published = files(loopback, compute)[right_wheel(torch, compute)]
    mine = next(wheel for wheel in kernel["wheels"] if HERE in wheel["url"])
    assert mine["hash"] == f"sha256:{published['hashes']['sha256']}"
    assert (mine["size"], mine["upload-time"]) == (published["size"], published["upload-time"])


def locked(tools, loopback, folder):
    """Lock a project; gives package → versions."""
    answer = tools.uv("lock", "--directory", folder, "--default-index", loopback.pypi)
    assert answer.returncode == 0, answer.stderr
    versions = {}
    for package in tomllib.loads((folder / "uv.lock").read_text())["package"]:
        versions.setdefault(package["name"], set()).add(package["version"])
    return versions


@EVERY
def test_uv_locks_every_compute_platform_at_once(tools, loopback, tmp_path):
    computes = ("cpu", "cu128", "cu130")

    def sources(package):
        each = ", ".join(f'{{ index = "{package}-{compute}", extra = "{compute}" }}' for compute in computes)
        return f"{package} = [{each}]"

    extras = "\n".join(f'{compute} = ["kernel", "torch==2.10.*"]' for compute in computes)
    conflicts = ", ".join(f'{{ extra = "{compute}" }}' for compute in computes)
    indexes = "\n".join(
        f'[[tool.uv.index]]\nname = "{package}-{compute}"\nurl = "{url}/{compute}/"\nexplicit = true'
        for package, url in (("kernel", loopback.index), ("torch", loopback.whl))
        for compute in computes
    )
    (tmp_path / "pyproject.toml").write_text(
        f"""\
[project]
name = "app"
version = "0"
requires-python = ">=3.9"

[project.optional-dependencies]
{extras}

[tool.uv]
conflicts = [[{conflicts}]]

[tool.uv.sources]
{sources("kernel")}
{sources("torch")}

{indexes}
"""
    )
    found = locked(tools, loopback, tmp_path)
    assert found["kernel"] == {right_wheel("2.10", compute) for compute in computes}
    assert found["torch"] == {f"2.10.1+{compute}" for compute in computes}


@EVERY
@pytest.mark.parametrize("installer", [*AGES, "uv"])
def test_what_was_installed_imports_beside_its_torch(installer, tools, loopback):
    torch, compute = {"pip 23.2": ("2.9", "cu130"), "newest pip": ("2.11", "cu130"), "uv": ("2.12", "cu132")}[installer]
    python = tools.environment(f"clean for {installer}")
    where = sources(installer, f"{loopback.index}/{compute}/", f"{loopback.whl}/{compute}/")
    asked = (*where, "kernel", f"torch=={torch}.0")
    if installer == "uv":
        answer = tools.uv("pip", "install", "--python", python, *asked)
    else:
        answer = tools.pip(installer, "--python", python, "install", *asked)
    assert answer.returncode == 0, answer.stderr
    said = tools.run(python, "import kernel, torch; print(kernel.VERSION, torch.VERSION)")
    assert said == f"{right_wheel(torch, compute)} {torch}.0+{compute}"


@EVERY
@pytest.mark.parametrize("age", PIPS)
def test_pip_downloads_the_right_wheel(age, tools, loopback, tmp_path):
    if age == "pip 20.3" and sys.version_info >= (3, 12):
        pytest.skip("pip 20.3 does not run on Python 3.12")
    asked = (*pages_of("cu128", loopback), *torches_too("cu128", loopback), "kernel", "torch==2.10.0")
    answer = tools.pip(age, "download", "--quiet", "--dest", tmp_path, *asked)
    assert answer.returncode == 0, answer.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"kernel-2+cu128.torch2.10-cp39-abi3-manylinux_2_17_{HERE}.whl",
        "torch-2.10.0+cu128-py3-none-any.whl",
    ]


@EVERY
@pytest.mark.parametrize("age", AGES)
def test_pip_lists_the_versions_of_one_compute_platform(age, tools, loopback):
    answer = tools.pip(age, "index", "versions", *pages_of("cu130", loopback), "kernel")
    assert answer.returncode == 0, answer.stderr
    listed = re.search(r"Available versions: (.*)", answer.stdout)[1].split(", ")
    # The newest first, and 3 is yanked.
    assert listed == [f"{k}+cu130{torch}" for k in (2, 1) for torch in (".torchstable", ".torch2.10", ".torch2.9")]


@EVERY
@pytest.mark.parametrize("installer", [*AGES, "uv"])
def test_hash_checking_takes_what_is_listed_and_nothing_else(installer, tools, loopback, tmp_path):
    kernel = files(loopback, "cu130")["2+cu130.torchstable"]["hashes"]["sha256"]
    torch = sha256_file(loopback.folder / "whl/cu130/torch/torch-2.11.0+cu130-py3-none-any.whl")
    run = tools.uv if installer == "uv" else partial(tools.pip, installer)
    for name, digest in (("right", kernel), ("wrong", torch)):
        wanted = tmp_path / f"{name}.txt"
        lines = (
            f"kernel==2+cu130.torchstable --hash=sha256:{digest}",
            f"torch==2.11.0+cu130 --hash=sha256:{torch}",
            "",
        )
        wanted.write_text("\n".join(lines))
        where = sources(installer, f"{loopback.index}/cu130/", f"{loopback.whl}/cu130/")
        verb = ("pip", "install") if installer == "uv" else ("install",)
        answer = run(*verb, "--require-hashes", "-r", wanted, *where, "--target", tmp_path / name)
        assert (answer.returncode == 0) is (name == "right"), answer.stderr
        assert (tmp_path / name / "kernel.py").exists() is (name == "right")


@pytest.mark.parametrize("compute", ["cpu", "cu132"])
def test_a_wheel_with_nothing_compiled_is_in_every_root(compute, tools, loopback):
    python = with_torch(tools, loopback, "2.12", compute)
    answer = tools.pip("newest pip", "--python", python, *REPORT, *pages_of(compute, loopback), "triton-only")
    assert reported(answer) == {"triton_only": "1"}


@EVERY
@pytest.mark.parametrize("age", AGES)
def test_a_yanked_wheel_needs_an_exact_pin_and_says_why(age, tools, loopback):
    asked = ("--no-deps", *pages_of("cu130", loopback), "kernel==3+cu130.torchstable")
    answer = tools.pip(age, "install", "--dry-run", "--ignore-installed", *asked)
    assert answer.returncode == 0, answer.stderr
    assert YANKED in answer.stderr
