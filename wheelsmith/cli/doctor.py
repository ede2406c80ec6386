"""The command ``wheelsmith doctor``."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import click

from wheelsmith.base.errors import EngineError, ExitCode
from wheelsmith.base.files import default_cache
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.units import counted, show_binary_size, show_size
from wheelsmith.cli.options import json_option
from wheelsmith.engine import (
    ContainerEngine,
    Engine,
    Readiness,
    available_cores,
    available_memory,
    engines,
    run_selftest,
    this_machine,
    with_installed_toolkit,
    with_installed_toolset,
)
from wheelsmith.frameworks import frameworks
from wheelsmith.model import ARCHES, PINNED, CellSettings, ImageId, ignore
from wheelsmith.platforms import cxx_toolchain, header_libraries, platforms, python_headers
from wheelsmith.toolchain import Toolchains

_ENOUGH_DISK = 4 * 2**30  # bytes: two toolkits, their torch headers, and space to build


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom(Record):
    """A requirement of builds on this machine.

    :param needed: False if an alternative exists.
    """

    what: str
    ok: bool
    found: str
    needed: bool = True
    remedy: str | None = None


@click.command("doctor")
@json_option()
@click.pass_context
def command(ctx: click.Context, *, as_json: bool) -> None:
    """Show what this machine can build and what is missing.

    The command also tests each promise of SECURITY.md on each available engine. It does not use the network.
    """
    from wheelsmith.report import make_console

    symptoms = [*_engines(), *_promises(), *_compilers(), *_machine(), *_toolchains()]
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "symptoms": [s.to_json() for s in symptoms]}, indent=1))
    else:
        console = make_console(stderr=False)
        for symptom in symptoms:
            mark, style = ("✓", "green") if symptom.ok else ("✗", "red") if symptom.needed else ("-", "yellow")
            console.print(f"{mark} {symptom.what}: {symptom.found}", style=style, soft_wrap=True)
            if symptom.remedy and not symptom.ok:
                console.print(f"  help: {symptom.remedy}", soft_wrap=True)
    ctx.exit(ExitCode.OK if all(s.ok or not s.needed for s in symptoms) else ExitCode.ENVIRONMENT)


def _engines() -> Iterator[Symptom]:
    for engine in engines(default_cache()).values():
        probe = engine.probe()
        ready = probe.readiness is Readiness.READY
        found = f"{probe.version or 'ready'} ({engine.isolation})" if ready else f"{probe.readiness}: {probe.detail}"
        # Engine local always works, but it does not confine builds.
        yield Symptom(what=f"engine {engine.name}", ok=ready, found=found, needed=False, remedy=probe.remedy)


def _promises() -> Iterator[Symptom]:
    for engine in engines(default_cache()).values():
        if engine.probe().readiness is not Readiness.READY:
            continue
        try:
            for promise in run_selftest(engine, _find_image(engine)):
                yield Symptom(
                    what=f"{promise.engine}: {promise.what}",
                    ok=promise.holds,
                    found=promise.found,
                    needed=False,
                )
        except EngineError as error:
            what, found = f"{engine.name}: containment of builds", f"not tested: {error.message}"
            yield Symptom(what=what, ok=False, found=found, needed=False, remedy=error.remedy)


def _find_image(engine: Engine) -> ImageId | None:
    """Return an image that wheelsmith made, or None for an engine without images.

    :raises EngineError: the engine has no such image.
    """
    from wheelsmith.engine.images import list_images, recipes

    if not isinstance(engine, ContainerEngine):
        return None
    for image in list_images(engine):
        if image.name in recipes():
            return engine.build_host(image.name).image
    remedy = f"wheelsmith image build debian --engine {engine.name}"
    raise EngineError("the engine has no image that wheelsmith built", remedy=remedy)


def _compilers() -> Iterator[Symptom]:
    here = this_machine()
    toolchains, policy = Toolchains(default_cache(), ignore), CellSettings().manylinux
    for arch in ARCHES:
        host = with_installed_toolset(here, arch).toolset(arch)
        pinned = cxx_toolchain(PINNED, policy, here.machine, arch)
        found = host.version if host else "none"
        if pinned:
            place = "cached" if toolchains.find(pinned.prefix) else "fetched when needed"
            found = f"{pinned.compilers.title} for manylinux_{policy}, {place}; toolchain: host has {found}"
        package = "g++" if arch == here.machine else f"g++-{arch.replace('_', '-')}-linux-gnu"
        yield Symptom(
            what=f"compiler for {arch}",
            ok=bool(host or pinned),
            found=found,
            needed=arch == here.machine,
            remedy=f"apt-get install {package}",
        )


def _machine() -> Iterator[Symptom]:
    cache = default_cache()
    existing = next(path for path in (cache, *cache.parents) if os.path.exists(path))  # noqa: PTH110  # Path.exists raises in a closed folder
    free = shutil.disk_usage(existing).free
    yield Symptom(
        what="cache",
        ok=free >= _ENOUGH_DISK,
        found=f"{cache}, {show_size(free)} free",
        remedy="free disk space, or choose another folder with WHEELSMITH_CACHE",
    )
    user = "root" if os.getuid() == 0 else f"user {os.getuid()}"
    granted = f"{counted(available_cores(), 'core')}, {show_binary_size(available_memory())} of memory available"
    yield Symptom(what="resources", ok=True, found=f"{granted}, as {user}")
    yield Symptom(what="python", ok=True, found=f"{platform.python_version()} at {sys.executable}")


def _toolchains() -> Iterator[Symptom]:
    from wheelsmith.toolchain.downloads import is_available_locally

    toolchains, arch = Toolchains(default_cache(), ignore), platform.machine()
    for each in platforms().values():
        if each.home_variable and (there := with_installed_toolkit(this_machine(), each.name).toolkits):
            found = there[each.name]
            yield Symptom(what=each.title, ok=True, found=f"{found.version} ({found.release}) at {found.home}")
    prefixes = {
        f"{each.title} {version}": each.prefix(version, arch, arch)
        for each in platforms().values()
        for version in each.toolkits()
        if each.is_packaged and arch in ARCHES
    }
    prefixes |= {
        f"{each.name} {minor}": each.prefix(release, arch)
        for each in frameworks().values()
        for minor, release in each.releases().items()
        if each.headers and arch in release.wheels
    }
    libraries = {**header_libraries(), python_headers().name: python_headers()}
    prefixes |= {name: library.prefix for name, library in libraries.items()}
    archives = {
        name for name, library in libraries.items() if library.archive and is_available_locally(library.archive)
    }
    here = [name for name, prefix in prefixes.items() if toolchains.find(prefix) or name in archives]
    rest = [name for name in prefixes if name not in here]
    yield Symptom(what="cached toolchains", ok=True, found=", ".join(here) or "none")
    yield Symptom(what="toolchains fetched when needed", ok=True, found=", ".join(rest) or "none")
