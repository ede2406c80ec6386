"""Compile the sources of a setuptools project in parallel.

setuptools compiles one source after another. In the sandbox it finds this plugin through the entry point
``setuptools.finalize_distribution_options``. Each source gets a process of its own, because a project may change the
compiler object for each source, as torch's ``BuildExtension`` does.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

# Their commands build each extension without using the result of another.
_KNOWN_PACKAGES = {"setuptools", "distutils", "torch"}


def finalize(distribution: Any) -> None:
    """Extend the command ``build_ext`` of a ``setuptools.Distribution``."""
    command = distribution.get_command_class("build_ext")
    if "WHEELSMITH_LAUNCH" in os.environ and hasattr(command, "build_extensions"):
        distribution.cmdclass["build_ext"] = type(command.__name__, (_ParallelBuild, command), {})


class _ParallelBuild:
    """The part of ``build_ext`` that starts processes."""

    compiler: Any
    extensions: list[Any]

    def build_extensions(self) -> None:
        """Build all extensions, in processes of their own if they are independent."""
        build: Callable[[], None] = super().build_extensions  # type: ignore[misc]
        jobs, extensions = int(os.environ["MAX_JOBS"]), self.extensions
        is_parallel = len(extensions) > 1 and self._are_independent(build)
        jobs_of_each = max(1, jobs // len(extensions)) if is_parallel else jobs
        self.compiler.compile = partial(self._compile, self.compiler.compile, jobs_of_each)
        if is_parallel:
            _run_in_processes([partial(self._build_one, build, extension) for extension in extensions], jobs)
        else:
            build()

    def _are_independent(self, build: Callable[[], None]) -> bool:
        from setuptools.extension import Library

        # Extensions with a common source, as those of torch-spline-conv for the CPU and CUDA, write the same object.
        objects = [Path(source).with_suffix("") for extension in self.extensions for source in extension.sources]
        # torch with ninja writes one build.ninja for each extension to the same folder.
        return (
            not getattr(self, "use_ninja", False)
            and len(set(objects)) == len(objects)
            and all(_package(method) in _KNOWN_PACKAGES for method in (build, type(self).build_extension))  # type: ignore[attr-defined]
            and not any(isinstance(extension, Library) for extension in self.extensions)
        )

    def _build_one(self, build: Callable[[], None], extension: Any) -> None:
        self.extensions = [extension]
        build()

    def _compile(
        self,
        compile_: Callable[..., list[str]],
        jobs: int,
        sources: list[str],
        output_dir: str | None = None,
        *arguments: Any,
        **options: Any,
    ) -> list[str]:
        """Compile sources as ``Compiler.compile`` does, and return their objects."""
        objects: list[str] = self.compiler.object_filenames(sources, output_dir=output_dir or self.compiler.output_dir)
        if 1 in {len(objects), jobs} or len(set(objects)) < len(objects):
            return compile_(sources, output_dir, *arguments, **options)
        _run_in_processes([partial(compile_, [source], output_dir, *arguments, **options) for source in sources], jobs)
        return objects


def _package(method: Any) -> str:
    return str(method.__module__).partition(".")[0]


def _run_in_processes(calls: Iterable[Callable[[], object]], jobs: int) -> None:
    """Run calls in forked processes. Start no more after a failure.

    :param jobs: maximum number of processes at a time.
    :raises CompileError: a call failed. Its process has printed the error.
    """
    from setuptools.errors import CompileError

    context = multiprocessing.get_context("fork")
    waiting = deque(context.Process(target=_run, args=(call,)) for call in calls)
    running: dict[Any, Any] = {}
    has_failed = False
    while running or (waiting and not has_failed):
        while waiting and len(running) < jobs and not has_failed:
            process = waiting.popleft()
            process.start()
            running[process.sentinel] = process
        for sentinel in wait(list(running)):
            process = running.pop(sentinel)
            process.join()
            has_failed = has_failed or process.exitcode != 0
    if has_failed:
        raise CompileError("a source was not compiled; its error is above")


def _run(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception as error:  # noqa: BLE001  # setuptools shows the errors of a command in this way
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
