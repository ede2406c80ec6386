"""What lies where the commands of each page run, and why some commands are not run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import build_folders
import loopback_hub
import loopback_s3
import pytest
import shop
import torches
import wants
from factory import ROOT, Factory
from kernels import NOARCH_TOML, matrix, tiny_kernel, write
from loopback import running, serving
from loopback_azure import azurite, loopback_azure
from loopback_gcs import LoopbackGcs
from loopback_github import serve_github
from outside import outside
from page_examples import Command
from upload_server import upload_server
from web_hosts import nginx
from wheels import make_wheel, offer

from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell

T = TypeVar("T")
VENV_PROGRAMS = Path(sys.executable).parent


@dataclass
class Setting:
    """Where the commands of a page run.

    :param folder: where they begin.
    :param path: folders with programs, the first of PATH.
    :param stands_for: texts of the page, and the texts in their place: a server of this machine, for example.
    :param before: command → what happens before it.
    :param open: servers, which end with the page.
    """

    request: pytest.FixtureRequest
    factory: Factory
    open: ExitStack
    folder: Path
    path: list[Path] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    stands_for: dict[str, str] = field(default_factory=dict)
    before: dict[str, Callable[[], object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        home = self.factory.folder / "home"
        home.mkdir()
        self.stands_for["~/"] = f"{home}/"
        self.programs.mkdir()
        for name in ("wheelsmith", "uv", "hf"):
            (self.programs / name).symlink_to(VENV_PROGRAMS / name)

    @property
    def programs(self) -> Path:
        """The programs of the tests' environment that pages use; its pip is not one of them."""
        return self.factory.folder / "programs"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the shell: pip finds no wheels of this machine, and changes virtual environments alone."""
        others = [path for path in os.environ["PATH"].split(os.pathsep) if path != str(VENV_PROGRAMS)]
        path = [*self.path, self.programs, Path(sys.base_prefix, "bin"), *others]
        fixed = {"PATH": os.pathsep.join(map(str, path)), "COLUMNS": "200", "PYTHONUNBUFFERED": "1", "ROOT": str(ROOT)}
        pip = {"PIP_FIND_LINKS": "", "PIP_REQUIRE_VIRTUALENV": "1"}
        return self.factory.environment(**{**self.env, **fixed, **pip})

    def typed(self, text: str) -> str:
        """Return what stands in the place of a text of the page."""
        for old, new in self.stands_for.items():
            text = text.replace(old, new)
        return text

    def enter(self, manager: AbstractContextManager[T]) -> T:
        """Start something that ends with the page."""
        return self.open.enter_context(manager)

    def run(self, script: str) -> str:
        """Run a script before the commands of the page; return what it prints."""
        bash = ["bash", "-euc", script]
        done = subprocess.run(bash, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


SETTINGS: dict[str, Callable[[Setting], object]] = {}
PLACEHOLDER = "it contains a placeholder"
ROOT_ONLY = "it changes the system"
OTHER_PROGRAM = "it is a command of another project"
# Page → the beginning of a command → why it is not run.
NOT_RUN: dict[str, dict[str, str]] = {
    "README.md": {"scripts/build": "scripts/test runs it", "scripts/test": "it runs this test"},
    "docs/explanation/variants.md": {"uv pip install": "test_variant_wheels.py runs it"},
    "docs/how-to/containers.md": {
        "apt-get install": ROOT_ONLY,
        "usermod": ROOT_ONLY,
        "podman run": PLACEHOLDER,
        "wheelsmith image build manylinux_2_28": PLACEHOLDER,
    },
    "docs/how-to/cuda-12.md": {"wheelsmith image build nvidia": PLACEHOLDER},
    "docs/how-to/each-python.md": {
        "wheelsmith build-matrix": "test_other_pythons.py builds such a project",
        "wheelsmith serve": "nothing was built",
        "pip install": "nothing was built",
    },
    "docs/how-to/hub-kernels.md": {"wheelsmith plan": "test_upstream_builds.py runs it"},
    "docs/how-to/install-wheelsmith.md": {"apt-get install": ROOT_ONLY},
    "docs/how-to/publish-to-a-bucket.md": {"aws": OTHER_PROGRAM, "gcloud": OTHER_PROGRAM},
    "docs/how-to/publish-to-the-hub.md": {"hf auth login": "it needs an account"},
    "docs/how-to/publish.md": {"rsync": "another machine"},
    "docs/how-to/ready-wheels.md": {"wheelsmith build-matrix": PLACEHOLDER},
    "docs/how-to/dask.md": {
        "pip install": "the tests have it",
        "dask": "test_dask.py runs it",
        "wheelsmith build-matrix": "test_dask.py runs it",
    },
    "docs/how-to/share-a-cache.md": {
        "export": PLACEHOLDER,
        "wheelsmith build-matrix": "test_shared_caches.py runs it",
    },
    "docs/how-to/torch-prereleases.md": {"wheelsmith plan": "test_torch_prereleases.py runs it"},
    "docs/how-to/rocm.md": {"podman build": PLACEHOLDER, "wheelsmith pick": "test_pick_for_amd.py runs it"},
    "docs/how-to/serve.md": {
        "apt-get install": ROOT_ONLY,
        "cp docs/how-to": ROOT_ONLY,
        "wheelsmith publish /srv": ROOT_ONLY,
        "nginx -t": ROOT_ONLY,
    },
    "docs/how-to/sign.md": {
        "wheelsmith verify dist --repository": "test_keyless.py runs it",
        "wheelsmith verify dist --identity": "test_keyless.py runs it",
        "cosign": "test_keyless.py and test_signing.py run it",
        "sigstore": "test_keyless.py runs it",
    },
}
# Likewise why its output is not compared.
NOT_COMPARED: dict[str, dict[str, str]] = {
    "docs/how-to/cache.md": {"wheelsmith cache": "the cache of another machine"},
    "docs/how-to/each-python.md": {"wheelsmith plan": "it lists the Pythons of a machine"},
    "docs/how-to/lock.md": {"wheelsmith lock": "a smaller matrix", "wheelsmith vendor": "a smaller matrix"},
    "docs/how-to/pipelines.md": {"wheelsmith plan --shards": "it depends on the times of earlier builds"},
    "docs/how-to/test-on-every-torch.md": {"wheelsmith test-matrix": "it lists the Pythons of a machine"},
}


def why_not(table: dict[str, dict[str, str]], command: Command) -> str | None:
    """Return the reason that a table has for a command."""
    reasons = table.get(command.page, {})
    return next((reason for start, reason in reasons.items() if command.text.startswith(start)), None)


def setting(*pages: str) -> Callable[[Callable[[Setting], None]], Callable[[Setting], None]]:
    """Register how pages are prepared."""

    def register(prepare: Callable[[Setting], None]) -> Callable[[Setting], None]:
        SETTINGS.update(dict.fromkeys(pages, prepare))
        return prepare

    return register


# --- parts of settings ----------------------------------------------------------------------------------------------


def _serves(at: Setting, folder: str = "dist/index") -> None:
    """Let the page's server listen on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    at.stands_for |= {f"serve {folder} &": f"serve {folder} --port {port} &", "127.0.0.1:8000": f"127.0.0.1:{port}"}


def _is_served(at: Setting, address: str, folder: str) -> None:
    (at.folder / folder).mkdir(parents=True, exist_ok=True)
    at.stands_for[address] = at.enter(serving(at.folder / folder))


def _own_python(at: Setting, torch: Path | None = None) -> None:
    """Let ``python`` and ``pip`` be those of an environment, with a stand-in for torch."""
    venv = at.factory.folder / "own-python"
    at.run(f"python3 -m venv {venv}")
    at.path.insert(0, venv / "bin")
    at.env["VIRTUAL_ENV"] = str(venv)
    if torch:
        version = torch.name.split("-")[1]
        at.run(f"pip install --quiet --no-index --no-deps --find-links {torch.parent} torch=={version}")


def _user_has_torch(at: Setting, python: str) -> None:
    """Give the user's environment the tests' own torch, so that pip finds it installed."""
    packages = at.request.getfixturevalue("whole_torch")
    make = f"{python} -m venv user"
    at.stands_for[make] = f"{make} && echo {packages} > $(echo user/lib/python*/site-packages)/torch.pth"


def _installs_tools(at: Setting) -> None:
    tools = at.factory.folder / "tools"
    at.env |= {"UV_TOOL_DIR": str(tools), "UV_TOOL_BIN_DIR": str(tools / "bin")}
    at.path.insert(0, tools / "bin")


def _pure(folder: Path, name: str) -> None:
    """Write a kernel with nothing compiled, which is built in a blink."""
    init = f"torch-ext/{name.replace('-', '_')}/__init__.py"
    write(folder, {"build.toml": NOARCH_TOML.replace('"pure"', f'"{name}"'), init: "", "README.md": f"# {name}\n"})


def _pure_matrix(at: Setting, name: str = "pure", more: str = "") -> None:
    _pure(at.folder / "k", name)
    matrix(at.folder, "k", cuda="cpu, 13.0", more=more)


def _pure_run(at: Setting, name: str = "pure", more: str = "") -> None:
    """Leave what a run of a small kernel leaves."""
    _pure_matrix(at, name, more)
    at.run("wheelsmith build-matrix")


def _default_run(at: Setting) -> None:
    """Leave what a run of this repository's matrix leaves."""
    built = at.request.getfixturevalue("built")
    at.env["WHEELSMITH_CACHE"] = str(built.cache)
    at.run(f"cp -r $ROOT/matrix.yaml $ROOT/examples . && cp -r {built.folder}/first dist")


def _has_bucket(at: Setting) -> str:
    url = f"http://127.0.0.1:{at.enter(loopback_s3.loopback_s3())}"
    at.env |= loopback_s3.environment(url)
    return url


def _has_hub(at: Setting) -> loopback_hub.Hub:
    hub = at.enter(loopback_hub.serve(loopback_hub.Hub()))
    at.env |= hub.environment(at.factory.folder / "hf")
    return hub


def _has_torch_index(at: Setting) -> None:
    """Let torch's index be one of this machine's, and PyPI empty."""
    roots = {"download.pytorch.org": at.factory.folder / "pytorch", "pypi.org": at.factory.folder / "pypi"}
    shop.make_torches(roots["download.pytorch.org"])
    roots["pypi.org"].mkdir()
    at.env |= at.enter(outside(roots, at.factory.folder))


def _writes_pipelines(at: Setting) -> None:
    at.run("git init --quiet")
    option = "--wheelsmith 'wheelsmith-factory @ git+https://example.org/wheelsmith@v1'"
    at.stands_for |= {f"ci {system} ": f"ci {system} {option} " for system in ("github", "gitlab", "buildkite")}


# Pages that need no more than a script.
_SCRIPTS = {
    "docs/how-to/cuda-12.md": "mkdir mirror && touch mirror/cuda_nvcc-linux-x86_64-12.8.93-archive.tar.xz "
    "mirror/nvidia-cuda-toolkit_12.4.131~12.4.1-2_amd64.deb",
    "docs/how-to/hub-kernels.md": "mkdir mirror && touch mirror/cutlass-4.0.0.tar.gz",
    "docs/how-to/each-python.md": "cp -r $ROOT/examples/add_constant .",
    "docs/how-to/ready-wheels.md": "printf 'kernel: {sdist: causal-conv1d==1.7.0}\\ngpu-archs: [9.0]\\n"
    "axes: {torch: [2.11], cuda: [13.0], python: [3.12]}\\n' >matrix.yaml",
}
SETTINGS |= {page: partial(Setting.run, script=script) for page, script in _SCRIPTS.items()}


# --- the pages ------------------------------------------------------------------------------------------------------


@setting("README.md")
def _readme(at: Setting) -> None:
    at.run("git clone --quiet $ROOT . && cp -r $ROOT/examples/img2gray ../home/my-kernel")
    _own_python(at, shop.torch_wheel(at.factory.folder / "made", "2.14.0", None))
    _installs_tools(at)
    _serves(at)


@setting("docs/tutorial/own-kernel.md")
def _own_kernel(at: Setting) -> None:
    at.folder = at.factory.folder / "squareplus"
    _user_has_torch(at, "python3")
    _serves(at)


@setting("docs/tutorial/jax.md", "docs/tutorial/tensorflow.md", "docs/tutorial/mindspore.md")
def _other_frameworks(at: Setting) -> None:
    _serves(at)


@setting("docs/tutorial/setup-py-project.md")
def _setup_py_project(at: Setting) -> None:
    wants.program("python3.11")
    at.folder = at.factory.folder / "hardmish"
    if sys.version_info[:2] == (3, 11):
        _user_has_torch(at, "python3.11")
    _serves(at)


@setting("docs/how-to/install-wheelsmith.md")
def _install_wheelsmith(at: Setting) -> None:
    commit = at.run("git -C $ROOT rev-parse HEAD")
    at.stands_for |= {"git+REPOSITORY": f"git+file://{ROOT}", "REPOSITORY": str(ROOT), "COMMIT": commit}
    _installs_tools(at)


@setting("docs/how-to/cache.md")
def _cache(at: Setting) -> None:
    at.env["WHEELSMITH_CACHE"] = str(at.factory.folder / "own-cache")
    _pure_run(at)
    at.run("chmod -R u+w ../own-cache && for wheel in $(find ../own-cache -name '*.whl'); do echo >$wheel; done")


@setting("docs/how-to/channels.md")
def _channels(at: Setting) -> None:
    _has_bucket(at)
    _pure_run(at, "img2gray", "version: 1.2.dev20261124\n")
    at.run("mv dist nightly && rm -r k matrix.yaml")
    at.stands_for["--channel nightly"] = "--channel nightly --from nightly"
    _default_run(at)
    at.run("wheelsmith publish index --channel test")
    _is_served(at, "http://127.0.0.1:8000", "index/test")
    write(at.folder, {"tests/smoke.py": "import importlib.metadata\nimportlib.metadata.version('img2gray')\n"})
    _own_python(at)
    _has_torch_index(at)


@setting("docs/how-to/test-on-every-torch.md")
def _test_on_every_torch(at: Setting) -> None:
    _pure_run(at, "img2gray")
    at.run("wheelsmith publish index --channel test")
    write(at.folder, {"smoke.py": "import importlib.metadata\nimportlib.metadata.version('img2gray')\n"})
    for words in ("pytest img2gray/tests", "pytest tests"):
        at.stands_for[f"--with pytest -- {words}"] = "-- python smoke.py"
    _is_served(at, "https://wheels.example.org/", "index/test")
    _own_python(at)
    _has_torch_index(at)


@setting("docs/how-to/choose-a-wheel.md")
def _choose_a_wheel(at: Setting) -> None:
    shop.make_shop(at.folder / "index")
    _is_served(at, "http://127.0.0.1:8000", "index")
    at.stands_for["manylinux_2_28"] = "manylinux_2_17"
    _own_python(at, shop.torch_wheel(at.folder / "made", "2.11.0", "13.0"))


@setting("docs/how-to/containers.md")
def _containers(at: Setting) -> None:
    at.request.getfixturevalue("podman_image")
    _pure_matrix(at, more="engine: {name: podman, image: debian}\n")


@setting("docs/how-to/install.md")
def _install(at: Setting) -> None:
    world = at.enter(torches.world(at.folder))
    at.stands_for |= {
        "https://kernels.example.org": world.index.rstrip("/"),
        "https://download.pytorch.org/whl": world.whl,
        "https://pypi.org/simple": world.pypi,
    }
    make_wheel(at.folder / "pypi/simple/einops", "einops", "0.8.1")
    files = {"torch/__init__.py": b"from torch import version\n", "torch/version.py": b"cuda = '12.8'\n"}
    _own_python(at, make_wheel(at.folder / "made", "torch", "2.9.1+cu128", files=files))
    write(at.folder, {"requirements.in": "kernel==2+cu128.torch2.9\ntorch==2.9.1+cu128\n"})
    at.env |= {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": world.pypi, "NO_PROXY": "127.0.0.1"}


@setting("docs/how-to/kernel-sets.md")
def _kernel_sets(at: Setting) -> None:
    for name in ("activation", "relu"):
        _pure(at.folder / name, name)
    kernels = "kernels:\n  activation: {path: activation}\n  relu: {path: relu, axes: {torch: [2.13]}}\n"
    (at.folder / "matrix.yaml").write_text(f"axes: {{torch: [2.11, 2.13], cuda: [cpu]}}\n{kernels}")


@setting("docs/how-to/new-torch.md")
def _new_torch(at: Setting) -> None:
    repo = tiny_kernel(at.folder / "repo")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    for argv in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "x"), ("tag", "v1"), ("tag", "v2")):
        subprocess.run([*git, *argv], cwd=repo, check=True)
    axes = "axes:\n  torch: [2.11, 2.13]\n  cuda: [cpu, 13.0]\n"
    (at.folder / "matrix.yaml").write_text(f"kernel: {{git: repo, revision: v1}}\n\n{axes}")
    wheelsmith = [at.programs / "wheelsmith", "lock", "--quiet"]
    subprocess.run(wheelsmith, cwd=at.folder, env=at.environment, check=True)
    _writes_pipelines(at)


@setting("docs/how-to/lock.md")
def _lock(at: Setting) -> None:
    _pure(at.factory.folder / "repo", "activation")
    repo = _has_hub(at).add_folder("kernels-community/activation", at.factory.folder / "repo")
    kernel = "{hub: kernels-community/activation, revision: v1}"
    write(at.folder, {"matrix.yaml": f"kernel: {kernel}\naxes: {{torch: [2.11, 2.13], cuda: [cpu, 13.0]}}\n"})

    def move() -> None:
        line = {"path": "NEWS", "content": "bmV3cwo=", "encoding": "base64"}
        repo.apply("v1", [{"key": "header", "value": {"summary": "news"}}, {"key": "file", "value": line}])

    at.before["wheelsmith build-matrix --locked"] = move
    at.before["wheelsmith vendor"] = lambda: repo.branches.update(v1=repo.branches["main"])


@setting("docs/how-to/migrate-kernel-builder.md")
def _from_kernel_builder(at: Setting) -> None:
    _pure(at.folder, "pure")


@setting("docs/how-to/migrate-cpp-extension.md")
def _from_cpp_extension(at: Setting) -> None:
    _pure_matrix(at)
    _writes_pipelines(at)


@setting("docs/how-to/pipelines.md")
def _pipelines(at: Setting) -> None:
    _default_run(at)
    at.run("wheelsmith lock")
    _writes_pipelines(at)


@setting("docs/how-to/publish-to-a-bucket.md")
def _publish_to_a_bucket(at: Setting) -> None:
    at.stands_for |= {
        "https://ACCOUNT.r2.cloudflarestorage.com": _has_bucket(at),
        "KEY_ID=…": "KEY_ID=a",
        "KEY=…": "KEY=b",
    }
    google = at.enter(LoopbackGcs())
    at.enter(running(google))
    program = azurite(at.request.config.cache.mkdir("azurite"))
    azure = at.enter(loopback_azure(program, at.factory.folder / "azurite"))
    at.env |= google.environ | azure
    at.stands_for |= {"mywheels": azure["AZURE_STORAGE_ACCOUNT"], "my-wheels": "wheels", "$web": "wheels"}
    _pure_run(at)
    _own_python(at)


@setting("docs/how-to/publish-to-the-hub.md")
def _publish_to_the_hub(at: Setting) -> None:
    _has_hub(at)
    at.env["HF_TOKEN"] = "hf_token"
    _pure_run(at, "relu")


@setting("docs/how-to/publish-to-github-releases.md")
def _publish_to_github_releases(at: Setting) -> None:
    github = at.enter(serve_github())
    at.env |= github.environ
    at.stands_for |= {"TOKEN=…": f"TOKEN={github.token}", "https://acme.github.io/kernels/": github.index}
    _pure_run(at, "relu")
    _own_python(at, shop.torch_wheel(at.folder / "made", "2.11.0", "13.0"))


@setting("docs/how-to/publish.md")
def _publish(at: Setting) -> None:
    _pure_run(at, "my-kernel")
    at.stands_for |= {"TARGET": "target", "a/dist": "dist", "b/dist": "dist"}
    _is_served(at, "https://wheels.example.org", "dist/index")
    _own_python(at)
    _has_torch_index(at)


@setting("docs/how-to/release.md")
def _release(at: Setting) -> None:
    wants.program("openssl")
    people = {f"GIT_{who}_{what}": "ada" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    at.env |= people | {"GIT_CONFIG_GLOBAL": os.devnull}
    at.run(
        "cp -r $ROOT/matrix.yaml $ROOT/examples . && sed -i 's/  image: debian/  name: bwrap/' matrix.yaml;"
        "git init -q && git add . && git commit -qm Kernel;"
        "mkdir ../home/keys; openssl genpkey -algorithm ed25519 -out ../home/keys/release.key;"
        "openssl pkey -in ../home/keys/release.key -pubout -out ../home/keys/release.pub"
    )
    at.stands_for["s3://wheels/kernels"] = "released"
    _is_served(at, "https://wheels.example.org/kernels", "released")
    at.path.insert(0, at.request.getfixturevalue("torch_python").parent)
    at.run("pip uninstall --quiet --yes setuptools")  # it is older than torch's own
    _serves(at, "index/stable")


@setting("docs/how-to/repack.md")
def _repack(at: Setting) -> None:
    hub, repos = _has_hub(at), at.factory.folder / "repos"
    for wheel in (at.request.getfixturevalue("built").folder / "first/wheels").iterdir():
        compute, torch = wheel.name.split("-")[1].removeprefix("1+").split(".torch")
        variant = f"torch{torch.replace('.', '')}-cxx11-{compute}-x86_64-linux"
        build_folders.lay_out(repos / "activation", variant, *build_folders.package_of(wheel))
    build_folders.lay_out(repos / "einops", "torch-cuda", "einops", build_folders.pure())
    for name in ("activation", "einops"):
        hub.add_folder(f"kernels-community/{name}", repos / name)


@setting("docs/how-to/serve.md")
def _serve(at: Setting) -> None:
    wants.program("nginx")
    cells = [Cell(release=t, toolkit=c, arch="x86_64") for t in ("2.9", "2.10") for c in (None, "13.0")]
    _index(at, "kernel", *cells)
    _index(at, "other", cells[0])
    at.stands_for["https://wheels.example.org"] = at.enter(nginx(at.folder / "dist/index"))


def _index(at: Setting, name: str, *cells: Cell) -> None:
    """Add a wheel for each combination to the index of a run."""
    versions = [f"1+{cell.compute}.torch{cell.release}" for cell in cells]
    wheels = [make_wheel(at.factory.folder / "made", name, version) for version in versions]
    index = Index(Folder(at.folder / "dist/index"))
    index.add([offer(wheel, cell) for wheel, cell in zip(wheels, cells, strict=True)], upload_time=shop.NOW)


@setting("docs/how-to/sign.md")
def _sign(at: Setting) -> None:
    wants.program("openssl")
    _default_run(at)
    at.stands_for["s3://wheels/kernels"] = "index"
    _is_served(at, "https://wheels.example.org", "index")
    write(at.folder, {"policy.yaml": "keys: [../home/keys/release.pub]\n"})


@setting("docs/how-to/publish-to-pypi.md")
def _publish_to_pypi(at: Setting) -> None:
    _default_run(at)
    (at.programs / "twine").symlink_to(VENV_PROGRAMS / "twine")
    address = at.enter(upload_server(at.factory.folder / "uploaded"))
    at.stands_for["twine upload"] = f"twine upload -u u -p p --repository-url {address}/"
    files = {"torch/__init__.py": b"from torch import version\n", "torch/version.py": b"cuda = '13.0'\n"}
    # The user's pip may know where the real 2.13.0 is.
    _own_python(at, make_wheel(at.folder / "made", "torch", "2.13.9", files=files))


@setting("docs/how-to/verify-rebuild.md")
def _verify_rebuild(at: Setting) -> None:
    _default_run(at)
    at.run("mv dist/wheels/* . && rm -r dist")
    _pure_run(at)


@setting("docs/reference/wheel-index.md")
def _wheel_index(at: Setting) -> None:
    _index(at, "kernel", Cell(release="2.11", toolkit="13.0", arch="x86_64"))
    at.stands_for["s3://wheels/kernels"] = "index"
