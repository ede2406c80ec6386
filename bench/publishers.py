"""The compared tools with the same wheels: wheelsmith, dumb-pypi and pypiserver."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.catalogue import STEADY, Item, entry, listed, write_state
from bench.stopwatch import CommandCost, run_timed
from wheelsmith.index.entries.entry import IndexEntry

# Projects with wheels that are fetched. A static index does not need the files of the others.
FETCHED = (STEADY, "kernel_001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The folders of a measurement.

    :param folder: the folder of all files, with every wheel in ``wheels``.
    :param tools: the environment with the other tools.
    :param environment: the environment variables of commands.
    """

    folder: Path
    tools: Path
    environment: dict[str, str]

    @property
    def wheels(self) -> Path:
        """Return the folder of wheels."""
        return self.folder / "wheels"


@dataclass(slots=True)
class Ours:
    """wheelsmith, called through the functions that its commands use."""

    site: Site
    inner: list[float] = field(default_factory=list)

    @property
    def out(self) -> Path:
        """Return the output folder."""
        return self.site.folder / "wheelsmith"

    def prepare(self, projects: dict[str, list[tuple[Item, IndexEntry]]]) -> None:
        """Write the states and files of a published index, without pages."""
        for distribution, known in projects.items():
            write_state(self.out, [each for _, each in known], distribution)
            for item, each in known if distribution in FETCHED else []:
                path = self.out / each.path
                path.parent.mkdir(parents=True)
                path.hardlink_to(self.site.wheels / each.filename)
                path.with_name(f"{each.filename}.metadata").write_bytes(item.metadata)

    def clear(self) -> None:
        """Remove all pages."""
        for root in self.out.iterdir():
            if root.name not in {"_state", "files"}:
                shutil.rmtree(root)
        (self.out / "_state" / ".listing.json").unlink(missing_ok=True)

    def render(self) -> CommandCost:
        """Render all pages."""
        return self._step("render", self.out)

    def add(self, item: Item, wheel: Path) -> CommandCost:
        """Publish a further wheel."""
        del item
        return self._step("add", self.out, wheel)

    def serve(self, port: int) -> tuple[Sequence[str | Path], str]:
        """Return the command that serves the index, and the path of the root for pip."""
        command = (sys.executable, "-m", "wheelsmith", "serve", self.out, "--port", str(port))
        return command, "simple/"

    def _step(self, *argv: str | Path) -> CommandCost:
        outputs: list[str] = []
        command = (sys.executable, "-m", "bench.index_step", *argv)
        took = run_timed(command, self.site.environment, outputs=outputs)
        self.inner.append(float(outputs[0]))
        return took


@dataclass(slots=True)
class DumbPypi:
    """dumb-pypi, which renders static pages from a list.

    :param options: further options for dumb-pypi.
    """

    site: Site
    name: str
    options: tuple[str, ...] = ()
    packages: list[str] = field(default_factory=list)

    @property
    def out(self) -> Path:
        """Return the output folder."""
        return self.site.folder / self.name / "out"

    def prepare(self, projects: dict[str, list[tuple[Item, IndexEntry]]]) -> None:
        """Write the package list, and the files that will be fetched."""
        self.out.mkdir(parents=True)
        for distribution, known in projects.items():
            self.packages += [listed(each) for _, each in known]
            for item, each in known if distribution in FETCHED else []:
                self._offer(item, self.site.wheels / each.filename)
        self._list.write_text("\n".join(self.packages) + "\n")

    def clear(self) -> None:
        """Remove all pages, but not the files."""
        for path in self.out.iterdir():
            if path.is_dir() and path.name != "packages":
                shutil.rmtree(path)

    def render(self) -> CommandCost:
        """Render all pages."""
        return self._run()

    def add(self, item: Item, wheel: Path) -> CommandCost:
        """Add a wheel to the list and render the changes relative to the previous list."""
        previous = self._list.with_name("previous.json")
        shutil.copy(self._list, previous)
        self.packages.append(listed(entry(item, wheel)))
        self._list.write_text("\n".join(self.packages) + "\n")
        took = self._run("--previous-package-list-json", previous)
        self._offer(item, wheel)
        return took

    def serve(self, port: int) -> tuple[Sequence[str | Path], str]:
        """Return the command that serves the index, and the path of the root for pip."""
        return (sys.executable, "-m", "http.server", str(port), "-b", "127.0.0.1", "-d", self.out), "simple/"

    @property
    def _list(self) -> Path:
        return self.out.with_name("packages.json")

    def _offer(self, item: Item, wheel: Path) -> None:
        path = self.out / "packages" / wheel.name
        path.parent.mkdir(exist_ok=True)
        path.hardlink_to(wheel)
        path.with_name(f"{wheel.name}.metadata").write_bytes(item.metadata)

    def _run(self, *more: str | Path) -> CommandCost:
        command = (self.site.tools / "bin" / "dumb-pypi", "--package-list-json", self._list, "--output-dir", self.out)
        fixed = ("--packages-url", "../../packages", "--no-generate-timestamp")
        return run_timed((*command, *fixed, *self.options, *more), self.site.environment)


@dataclass(slots=True)
class PypiServer:
    """pypiserver, which renders pages from its folder on request."""

    site: Site

    def serve(self, port: int) -> tuple[Sequence[str | Path], str]:
        """Return the command that serves the index, and the path of the root for pip."""
        program, options = self.site.tools / "bin" / "pypi-server", ("-i", "127.0.0.1", "-p", str(port))
        return (program, "run", *options, "--disable-fallback", "-a", ".", "-P", ".", self.site.wheels), "simple/"

    def add(self, item: Item, wheel: Path) -> None:
        """Copy a further wheel to the folder."""
        del item
        shutil.copy(wheel, self.site.wheels)
