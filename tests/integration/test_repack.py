"""``repack`` takes what others built for what it is: checked, named and indexed, or refused with its reason."""

import json
import os
import zipfile
from pathlib import Path

import containers
import pytest
from build_folders import lay_out, lay_out_old, pure, write
from factory import Factory
from hub_kernels import NOARCH_OPS
from loopback_hub import Hub, serve

from wheelsmith.index.publish.input_folders import read_release
from wheelsmith.index.publish.kernels_layout import build_layout
from wheelsmith.pipeline import command
from wheelsmith.run.prepare import Request
from wheelsmith.run.repack import RepackRequest, prepare_repack
from wheelsmith.wheel.archive import open_wheel

CUDA, CPU = "torch-cuda", "torch-cpu"


@pytest.fixture
def factory(tmp_path):
    containers.wanted("bwrap")
    return Factory.at(tmp_path)


def repack(factory, *argv, **env):
    return factory.run_in_process("repack", "repo", "--engine", "bwrap", "--progress", "plain", *argv, **env)


def told(factory, out="dist"):
    return json.loads((factory.folder / out / "results.json").read_text())["variants"]


def members(factory, out="dist"):
    (wheel,) = (factory.folder / out / "wheels").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return wheel.name, {name: archive.read(name) for name in archive.namelist()}


def refusal(factory, variant=CUDA):
    """Return why a variant is refused, before anything is made of it."""
    request = RepackRequest(
        repo=str(factory.folder / "repo"), run=Request(matrix=Path(), cache=factory.cache, engine="bwrap")
    )
    prepared, variants = prepare_repack(request)
    (answer,) = (each for each in variants if each.variant == variant)
    assert answer.refused
    assert prepared.plans == ()
    return answer.reason


def test_two_folders_of_one_package_are_one_wheel_on_an_index(factory):
    repo = factory.folder / "repo"
    for variant in (CUDA, CPU):
        lay_out(repo, variant, "pure_thing", pure(), **{"python-depends": ["einops"]})
    lay_out(repo, "torch-rocm", "pure_thing", pure())
    write(repo, {"LICENSE": b"text\n", "README.md": b"---\nlicense: mit\n---\n# Pure\n"})
    answer = repack(factory)
    assert answer.returncode == 0, answer.stderr
    name, files = members(factory)
    assert name == "pure_thing-1-py3-none-any.whl"
    assert sorted(path for path in files if "dist-info" not in path) == ["pure_thing/__init__.py", "pure_thing/_ops.py"]
    metadata = files["pure_thing-1.dist-info/METADATA"].decode()
    assert "Version: 1\n" in metadata
    assert "Requires-Dist: einops\n" in metadata
    assert "License-Expression: Apache-2.0\n" in metadata
    assert metadata.endswith("\n# Pure\n")
    assert files["pure_thing-1.dist-info/licenses/LICENSE"] == b"text\n"
    assert told(factory) == {
        CUDA: {"status": "repacked", "wheel": name, "reason": None},
        CPU: {"status": "repacked", "wheel": name, "reason": None},
        "torch-rocm": {
            "status": "excluded",
            "reason": "it is for rocm, but wheelsmith repacks builds for the CPU and CUDA",
        },
    }
    assert (factory.folder / "dist/index/cpu/pure-thing/index.html").is_file()
    assert (factory.folder / "dist/index/cu130/pure-thing/index.html").is_file()
    assert (factory.folder / "dist/report.html").is_file()


@pytest.mark.release("repacks twice")
def test_the_same_builds_give_the_same_bytes(factory):
    lay_out(factory.folder / "repo", CUDA, "pure_thing", pure())
    assert repack(factory).returncode == 0
    os.utime(factory.folder / "repo/build/torch-cuda/__init__.py", (0, 0))
    (factory.folder / "repo/build/torch-cuda/__init__.py").chmod(0o777)
    assert repack(factory, "--force", "--out", "again").returncode == 0
    assert members(factory) == members(factory, "again")


@pytest.mark.release("repacks twice")
def test_a_pure_wheel_replaces_that_of_other_variants_which_has_its_name(factory):
    repo = factory.folder / "repo"
    for variant in (CUDA, CPU):
        lay_out(repo, variant, "pure_thing", pure())
    cudas = []
    for chosen in (CUDA, "torch-c{pu,pp}"):
        assert repack(factory, "--only", chosen).returncode == 0
        state = json.loads((factory.folder / "dist/index/_state/pure-thing.json").read_text())
        (entry,) = state["entries"]
        cudas.append({cell["cuda"] for cell in entry["cells"]})
    assert "13.0" in cudas[0]
    assert cudas[1] == {None}


@pytest.mark.release("both ways are proven by themselves")
def test_what_wheelsmith_publishes_to_the_hub_gives_the_same_wheel_again(factory):
    files = {**pure(), "_ops.py": NOARCH_OPS.format(module="pure_thing").encode()}
    for variant in (CUDA, CPU):
        lay_out(factory.folder / "repo", variant, "pure_thing", files)
    assert repack(factory).returncode == 0
    (offer,) = read_release(factory.folder / "dist").uploads
    (factory.folder / "repo").rename(factory.folder / "before")
    write(factory.folder / "repo", build_layout(open_wheel(offer.wheel).files, offer.entry))
    assert repack(factory, "--out", "again").returncode == 0
    (name, before), (again, after) = members(factory), members(factory, "again")
    assert name == again
    # These record the source: a folder of the Hub has further files.
    records = {path for path in before if path.endswith((".cdx.json", "build-plan.json", "RECORD"))}
    assert len(records) == 3
    assert {path for path in before if before[path] != after[path]} == records
    assert before.keys() == after.keys()


def test_another_name_and_version(factory):
    lay_out_old(factory.folder / "repo", CUDA, "einops", pure())
    answer = repack(factory)
    assert answer.returncode == 2
    assert "its builds have no version" in answer.stderr
    assert "--version 1" in answer.stderr
    answer = repack(factory, "--version", "04-beta")
    assert answer.returncode == 2
    assert "choose other names: --distribution einops-kernel --module einops_kernel" in answer.stderr
    named = ("--version", "4.0-beta", "--distribution", "einops-kernel", "--module", "einops_kernel")
    answer = repack(factory, *named)
    assert answer.returncode == 0, answer.stderr
    assert "1 variant without metadata.json" in answer.stderr
    name, files = members(factory)
    assert name == "einops_kernel-4.0b0-py3-none-any.whl"
    assert "einops_kernel/__init__.py" in files


def test_a_package_that_imports_itself_by_name_keeps_it(factory):
    lay_out(factory.folder / "repo", CUDA, "pure_thing", pure(code="from pure_thing._ops import ops\n"))
    answer = repack(factory, "--module", "other")
    assert answer.returncode == 1
    assert "it cannot be renamed to other: __init__.py imports pure_thing by name" in answer.stderr


# --- hostile folders ----------------------------------------------------------------------------------------------


def test_a_file_that_was_changed_or_added_later(factory):
    folder = lay_out(factory.folder / "repo", CUDA, "pure_thing", pure())
    (folder / "later.py").write_text("evil = 1\n")
    assert refusal(factory) == "metadata.json has no digest of later.py"
    (folder / "later.py").unlink()
    (folder / "__init__.py").write_text("evil = 1\n")
    assert refusal(factory) == "__init__.py does not match its digest in metadata.json"


@pytest.mark.parametrize("name", ["build/torch-cuda/x.py", "LICENSE"])
def test_a_link_into_what_git_keeps(factory, name):
    """A clone's settings may hold the password that it was fetched with."""
    lay_out(factory.folder / "repo", CUDA, "pure_thing", pure())
    write(factory.folder / "repo", {".git/config": b"url = https://user:secret@host/repo\n"})
    (factory.folder / "repo" / name).symlink_to(os.path.relpath(".git/config", Path(name).parent))
    answer = repack(factory)
    assert answer.returncode != 0
    assert f"{Path(name).name} leads into .git, which is not part of the source" in answer.stderr
    assert not (factory.folder / "dist/wheels").exists()


def test_a_good_variant_beside_a_bad_one_has_its_wheel(factory):
    repo = factory.folder / "repo"
    lay_out(repo, CUDA, "pure_thing", pure())
    (repo / "build/torch-cpu").symlink_to("/etc")
    answer = repack(factory)
    assert answer.returncode == 1
    assert told(factory)[CPU] == {"status": "refused", "reason": "build/torch-cpu is not a folder"}
    assert told(factory)[CUDA]["status"] == "repacked"


def test_what_the_check_refuses_has_its_reason(factory):
    """Nothing of a library that is none is loaded; its reader ends in the sandbox."""
    broken = {**pure(), "_pure_thing_cpu_0a1b2c3.abi3.so": b"\x7fELF" + b"\xff" * 5000}
    lay_out(factory.folder / "repo", "torch213-cxx11-cpu-x86_64-linux", "pure_thing", broken)
    answer = repack(factory)
    assert answer.returncode == 1
    found = told(factory)
    assert "cannot be read as an ELF file" in found["torch213-cxx11-cpu-x86_64-linux"]["reason"]
    assert {each["status"] for each in found.values()} == {"failed"}


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("--only", "*-rocm"), 3, "matches no variant"),
        (("--version", "1+cu130"), 2, "has a local version"),
    ],
)
def test_a_mistake_on_the_command_line(factory, argv, code, said):
    lay_out(factory.folder / "repo", CUDA, "pure_thing", pure())
    answer = repack(factory, *argv)
    assert answer.returncode == code
    assert said in answer.stderr


def test_nothing_to_repack(factory):
    answer = factory.run_in_process("repack", "hub:../x")
    assert (answer.returncode, "is not a Hub repo" in answer.stderr) == (2, True)
    lay_out(factory.folder / "repo", "torch-rocm", "pure_thing", pure())
    assert repack(factory).returncode == 3
    answer = factory.run_in_process("repack", "nowhere")
    assert answer.returncode == 4
    assert "name a folder with build/<variant>/ in it, or a Hub repo as hub:org/name" in answer.stderr


# --- a Hub repo ---------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(factory):
    """A Hub with a repo of two variants, one of which nobody asks for."""
    repo = factory.folder / "repo"
    lay_out(repo, CUDA, "pure_thing", pure())
    lay_out(repo, "torch-metal", "pure_thing", {**pure(), "big.bin": b"x" * (11 << 20)})
    write(repo, {"LICENSE": b"text\n", "src/kernel.cu": b"not wanted\n"})
    with serve(Hub()) as running:
        running.add_folder("org/pure-thing", repo)
        yield running


def from_hub(factory, hub, *argv, **env):
    """Repack in a process of its own, for the Hub's client reads its environment when it is imported."""
    return factory.run("repack", *argv, "--engine", "bwrap", **hub.environment(factory.folder / "hf", **env))


def test_only_what_is_wanted_is_fetched(factory, hub):
    answer = from_hub(factory, hub, "hub:org/pure-thing@main")
    assert answer.returncode == 0, answer.stderr
    assert "info: 1 variant of org/pure-thing to fetch: " in answer.stderr
    fetched = [line for line in hub.requests if "/resolve/" in line]
    assert fetched
    assert not [line for line in fetched if "metal" in line or "kernel.cu" in line]
    assert told(factory)["torch-metal"]["status"] == "excluded"
    state = json.loads((factory.folder / "dist/index/_state/pure-thing.json").read_text())
    source = state["entries"][0]["provenance"]["source"]
    assert (source["origin"], source["revision"]) == ("hub:org/pure-thing", "main")
    assert source["commit"] == hub.repos["org/pure-thing"].branches["main"]
    assert "pure_thing-1.dist-info/licenses/LICENSE" in members(factory)[1]


@pytest.mark.release("digests of metadata.json say the same of most files")
def test_a_large_file_that_is_not_the_listed_one_is_refused(factory, hub):
    """The Hub says the sha256 of large files; what a cache or a proxy gives instead is not taken."""
    repo = hub.repos["org/pure-thing"]
    big = b"\0" * (11 << 20)
    data = json.loads(repo.first["build/torch-cuda/metadata.json"])
    del data["digest"]
    files = {**repo.first, "build/torch-cuda/metadata.json": json.dumps(data).encode(), "build/torch-cuda/x.bin": big}
    hub.add("org/large", files=files)
    hub.repos["org/large"].faults["build/torch-cuda/x.bin"] = b"\1" * len(big)
    answer = from_hub(factory, hub, "hub:org/large@main", "--distribution", "large")
    assert answer.returncode == 1, answer.stderr
    assert "build/torch-cuda/x.bin differs from the file that the Hub lists" in answer.stderr


@pytest.mark.release("the words for a Hub that fails are those of every kernel")
@pytest.mark.parametrize(
    ("repo", "env", "code", "said"),
    [
        ("hub:org/none", {}, 4, "there is no kernel org/none on the Hub"),
        ("hub:org/pure-thing@v9", {}, 4, "has no revision 'v9'"),
        (
            "hub:org/pure-thing",
            {"HF_HUB_OFFLINE": "1"},
            4,
            "hf download org/pure-thing --revision main --local-dir DIR",
        ),
    ],
)
def test_a_repo_that_cannot_be_had(factory, hub, repo, env, code, said):
    answer = from_hub(factory, hub, repo, **env)
    assert answer.returncode == code
    assert said in answer.stderr


@pytest.mark.release("one more repack")
def test_a_hub_with_hostile_names_is_refused_before_anything_is_fetched(factory, hub):
    files = hub.repos["org/pure-thing"].first
    hub.add("org/evil", files={**files, "build/torch-cuda/../../../x.py": b"1", "build/torch-c*/x.py": b"1"})
    hub.requests.clear()
    answer = from_hub(factory, hub, "hub:org/evil@main")
    assert answer.returncode == 1, answer.stderr
    assert "the kernel has a file with an unsafe name" in answer.stderr
    assert not [line for line in hub.requests if "/resolve/" in line]


def test_a_wheel_is_laid_out_of_its_own_variant_alone(factory):
    """Of a repo with many variants each would else be copied once for every other."""
    repo, names = factory.folder / "repo", [f"torch2{minor}-cxx11-cpu-x86_64-linux" for minor in (11, 13)]
    for name in names:
        lay_out(repo, name, "pure_thing", {**pure(), "_pure_thing_cpu_0a1b2c3.abi3.so": b"\x7fELF"})
    run = Request(matrix=Path(), cache=factory.cache, engine="bwrap")
    prepared, _ = prepare_repack(RepackRequest(repo=str(repo), run=run))
    for plan, name in zip(prepared.plans, names, strict=True):
        command.lay_out(plan, prepared.source, factory.folder / name)
        assert [path.name for path in (factory.folder / name / "src/build").iterdir()] == [name]
        assert (factory.folder / name / "src/build" / name / "_pure_thing_cpu_0a1b2c3.abi3.so").is_file()
