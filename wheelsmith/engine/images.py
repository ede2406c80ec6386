"""Build, list and remove container images for builds."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from wheelsmith.base.errors import EngineError
from wheelsmith.base.files import sha256_file
from wheelsmith.base.json_dataclass import Record, canonical_digest
from wheelsmith.engine import ContainerEngine, Docker, last_line, visible
from wheelsmith.engine.containers import BASE, IMAGE, RECIPE, client_environment, image_reference
from wheelsmith.toolchain.pip import pip_settings
from wheelsmith.toolchain.program import die_with_parent

_PINNED = re.compile(r".+@sha256:[0-9a-f]{64}")
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
_DEFAULT_CA = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecipe(Record):
    """A folder with a Dockerfile, and the base of the image.

    :param base: name of the recipe whose image is the base, or None.
    :param suite: name of the Debian release to create as the base with mmdebstrap, or None.
    :param example: example of a base for messages, if the recipe has neither.
    """

    name: str
    summary: str
    base: str | None
    suite: str | None
    example: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(Record):
    """An image that wheelsmith built.

    :param size: bytes.
    :param current: True if the recipe has not changed since.
    """

    name: str
    recipe: str
    digest: str
    size: int
    current: bool


@cache
def recipes() -> dict[str, ImageRecipe]:
    """Return name → recipe."""
    data = json.loads((_docker_folder() / "recipes.json").read_bytes())
    return {item["name"]: ImageRecipe.from_json(item) for item in data["recipes"]}


def build_image(
    engine: ContainerEngine,
    recipe: ImageRecipe,
    *,
    name: str,
    base: str | None,
    packages: tuple[str, ...],
    on_line: Callable[[str], None],
) -> Image:
    """Build an image, and first its base if that is missing and has a recipe or a Debian suite.

    :param name: name for use in matrix.yaml.
    :param base: an image reference with a digest, or a local image; None uses the recipe's base.
    :param packages: additional packages, for the build argument PACKAGES.
    :param on_line: called for each line of output.
    :raises EngineError: the name or the base is invalid, or the engine failed.
    """
    if not _NAME.fullmatch(name):
        raise EngineError(f"{name!r} is not a valid image name: use lowercase letters, digits, '.', '_' and '-'")
    start = base or _prepare_base(engine, recipe, on_line)
    if base and not _PINNED.fullmatch(base) and not engine.image_id(base):
        raise EngineError(
            f"the base {base} is not pinned by a digest, so it may change",
            remedy=f"use {base}@sha256:…; {engine.name} pull {base} prints the digest",
        )
    reference = image_reference(name)
    labels = {IMAGE: name, RECIPE: f"{recipe.name}:{_recipe_digest(recipe)}", BASE: start}
    with _secrets() as secrets:
        options = [
            *("--file", str(_docker_folder() / recipe.name / "Dockerfile"), "--tag", reference, "--network", "host"),
            *("--build-arg", f"BASE={start}", "--build-arg", f"PACKAGES={' '.join(packages)}"),
            *(word for item in labels.items() for word in ("--label", "=".join(item))),
            *(word for n, path in secrets.items() for word in ("--secret", f"id={n},src={path}")),
        ]
        _run_build(engine, [*options, str(_docker_folder())], on_line)
    image = next((image for image in list_images(engine) if image.name == name), None)
    if image is None:
        raise EngineError(f"{engine.name} reported success but did not create the image {name}")
    return image


def list_images(engine: ContainerEngine) -> tuple[Image, ...]:
    """Return the images that wheelsmith built, sorted by name. Images that lost their name to newer ones come last."""
    return tuple(sorted(_images(engine), key=lambda image: (not image.name, image.name, image.digest)))


def prune_images(engine: ContainerEngine, *, everything: bool) -> tuple[Image, ...]:
    """Remove images without a name or with a changed recipe, and return them.

    :param everything: remove all images that wheelsmith built.
    """
    removed: list[Image] = []
    while True:
        unwanted = [i for i in list_images(engine) if everything or not i.name or not i.current]
        # An image cannot be removed before the images that are based on it, so try the remaining ones again.
        removable = [image for image in unwanted if _remove(engine, image)]
        if not removable:
            return tuple(removed)
        removed += removable


def _remove(engine: ContainerEngine, image: Image) -> bool:
    result = engine.ask("image", "rm", image_reference(image.name) if image.name else image.digest)
    return result.returncode == 0


# --- base images --------------------------------------------------------------------------------------------


def _prepare_base(engine: ContainerEngine, recipe: ImageRecipe, on_line: Callable[[str], None]) -> str:
    if recipe.base:
        reference = image_reference(recipe.base)
        if not engine.image_id(reference):
            build_image(engine, recipes()[recipe.base], name=recipe.base, base=None, packages=(), on_line=on_line)
        return reference
    if recipe.suite:
        return _bootstrap(engine, recipe.suite, on_line)
    raise EngineError(
        f"image {recipe.name} needs a base",
        remedy=f"wheelsmith image build {recipe.name} --base REFERENCE@sha256:… (such as {recipe.example})",
    )


def _bootstrap(engine: ContainerEngine, suite: str, on_line: Callable[[str], None]) -> str:
    """Create an image of a minimal Debian with the apt configuration of this machine, and return its reference."""
    reference = image_reference(f"base-{suite}")
    if engine.image_id(reference):
        return reference
    program = shutil.which("mmdebstrap")
    if program is None:
        raise EngineError(
            f"the base image, Debian {suite}, cannot be created: mmdebstrap is not on PATH",
            remedy=f"apt-get install mmdebstrap, or pass a base: --base debian:{suite}-slim@sha256:…",
        )
    on_line(f"mmdebstrap {suite}")
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "base.tar"
        process = subprocess.run(
            [program, "--variant=minbase", "--quiet", suite, str(archive)],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if process.returncode:
            raise EngineError(f"mmdebstrap could not create Debian {suite}: {last_line(process.stderr)}")
        result = engine.ask("import", "--change", f"LABEL {IMAGE}=base-{suite}", str(archive), reference)
        if result.returncode:
            raise EngineError(f"{engine.name} cannot import an image: {result.stderr.strip()}")
    return reference


# --- building -----------------------------------------------------------------------------------------------


def _run_build(engine: ContainerEngine, options: list[str], on_line: Callable[[str], None]) -> None:
    if isinstance(engine, Docker) and not engine.has_buildkit():
        raise EngineError(
            "docker cannot keep secrets out of images without BuildKit",
            remedy="apt-get install docker-buildx, or build with --engine podman",
        )
    before = _container_ids(engine)
    process = subprocess.Popen(
        [*_die_with_parent(engine), *engine.client(), "build", *engine.build_options(), *options],
        env={**client_environment(), "DOCKER_BUILDKIT": "1", "BUILDKIT_PROGRESS": "plain"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    last = ""
    try:
        assert process.stdout is not None  # noqa: S101  # stdout=PIPE above
        for line in process.stdout:
            last = visible(line.rstrip("\n")) or last
            on_line(last)
        if process.wait():
            raise EngineError(f"{engine.name} could not build the image: {last}", remedy="see the output above")
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _remove_new_containers(engine, before)


def _die_with_parent(engine: ContainerEngine) -> tuple[str, ...]:
    """Return a command prefix that kills all processes of an image build when wheelsmith ends.

    Podman does not kill the running step of a build.
    """
    leader = die_with_parent()
    if engine.name == "podman" and os.getuid() == 0 and (program := shutil.which("unshare")):
        leader = (*leader, program, "--pid", "--mount-proc", "--fork", "--kill-child=SIGKILL")
    return leader


def _container_ids(engine: ContainerEngine) -> frozenset[str]:
    """Return the IDs of podman's containers, including those of image builds. Docker does not list the latter."""
    if engine.name != "podman":
        return frozenset()
    return frozenset(engine.ask("ps", "--all", "--external", "--quiet", "--no-trunc").stdout.split())


def _remove_new_containers(engine: ContainerEngine, before: frozenset[str]) -> None:
    time.sleep(0.2)  # let the killed step clean up first
    if left := _container_ids(engine) - before:
        engine.ask("rm", "--force", *engine.remove_options(), *left)


@contextmanager
def _secrets() -> Iterator[dict[str, str]]:
    """Yield secret → file with this machine's pip, apt and CA settings. No image layer contains them."""
    settings = pip_settings()
    ca = settings.cert or _DEFAULT_CA
    indexes = [url for url in settings.indexes if not url.startswith("file:")]
    lines = ["[global]", "disable-pip-version-check = true"]
    if indexes:
        lines += [f"index-url = {indexes[0]}", "extra-index-url =", *(f"    {url}" for url in indexes[1:])]
    if settings.trusted_hosts:
        lines += ["trusted-host =", *(f"    {host}" for host in settings.trusted_hosts)]
    if settings.proxy:
        lines.append(f"proxy = {settings.proxy}")
    with tempfile.TemporaryDirectory() as folder:
        pip, apt = Path(folder) / "pip.conf", Path(folder) / "apt.conf"
        pip.write_text("\n".join(lines) + "\n", encoding="utf-8")
        apt.write_text(_apt_proxies(), encoding="utf-8")
        found = {"pip": str(pip), "apt": str(apt)}
        if Path(ca).is_file():
            found["ca"] = ca
        yield found


def _apt_proxies() -> str:
    if shutil.which("apt-config") is None:
        return ""
    shown = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout  # noqa: S607
    return "".join(f"{line}\n" for line in shown.splitlines() if re.match(r"Acquire::https?::Proxy ", line))


# --- local images -------------------------------------------------------------------------------------------


def _images(engine: ContainerEngine) -> Iterator[Image]:
    listed = engine.ask("image", "ls", "--quiet", "--no-trunc", "--filter", f"label={IMAGE}")
    for digest in dict.fromkeys(listed.stdout.split()):
        shown = engine.ask("image", "inspect", digest)
        if shown.returncode:
            continue
        data = json.loads(shown.stdout)[0]
        labels = data["Config"].get("Labels") or {}
        name = labels.get(IMAGE, "")
        recipe = labels.get(RECIPE, "")
        yield Image(
            name=name if image_reference(name) in (data.get("RepoTags") or ()) else "",
            recipe=recipe.partition(":")[0] or "base",
            digest=digest,
            size=data["Size"],
            current=not recipe or recipe in {f"{item.name}:{_recipe_digest(item)}" for item in recipes().values()},
        )


def _docker_folder() -> Path:
    """Return the folder of Dockerfiles in the installed package or at the top of a checkout."""
    packed = Path(str(files("wheelsmith"))) / "docker"
    return packed if packed.is_dir() else packed.parent.parent / "docker"


@cache
def _recipe_digest(recipe: ImageRecipe) -> str:
    """Return a digest over the recipe and all files that the image depends on."""
    folders = [_docker_folder() / "shared", _docker_folder() / recipe.name]
    found = {
        p.relative_to(_docker_folder()).as_posix(): sha256_file(p) for f in folders for p in f.rglob("*") if p.is_file()
    }
    return canonical_digest([sorted(found.items()), recipe.to_json()])[:16]
