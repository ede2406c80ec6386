"""Run a plan's steps with ninja and pack the results into a wheel.

The result depends only on the plan: this module adds no flags and does not use the current time. The wheel has the
platform tag ``linux_<arch>``. The repair, outside of the sandbox, computes its manylinux tag.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

_PLAN = "/work/plan.json"
_WORK = "/work"
_NINJA = "/opt/wheelsmith/bin/ninja"
_PATH_OPTIONS = ("-I", "-L", "--rocm-path=", "--gcc-install-dir=", "--sysroot=")
_FIXED_DATE = (2000, 1, 1, 0, 0, 0)
_STATUS = "[wheelsmith %f/%t] "


def get_requires_for_build_wheel(config_settings: object = None) -> list[str]:
    """Return no requirements, because the sandbox contains everything that a build uses."""
    del config_settings
    return []


def get_requires_for_build_sdist(config_settings: object = None) -> list[str]:
    """Return no requirements."""
    del config_settings
    return []


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    """Raise NotImplementedError, because kernels have no sdist."""
    del sdist_directory, config_settings
    raise NotImplementedError("a kernel has no sdist; use its repository as the source")


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: str | None = None) -> str:
    """Build the wheel of the plan and return its file name."""
    del config_settings, metadata_directory
    paths = Paths(json.loads(os.environ.get("WHEELSMITH_PATHS", "{}")))
    plan = json.loads(Path(paths.here(_PLAN)).read_text(encoding="utf-8"))
    work = Path(paths.here(_WORK))
    if plan["recipe"]["steps"]:
        _run_steps(plan["recipe"]["steps"], paths, work)
    return _write_wheel(plan, work, Path(wheel_directory))


class Paths:
    """Maps paths inside the sandbox to real paths, for the engine ``local``, which cannot mount folders.

    :param real: path inside the sandbox → real path; empty if they are the same.
    """

    def __init__(self, real: dict[str, str]) -> None:
        self._real = real

    def here(self, word: str) -> str:
        """Replace a path inside the sandbox with the real path, in one word of a command."""
        for target, real in self._real.items():
            for prefix in ("", *_PATH_OPTIONS):
                if word == prefix + target or word.startswith(prefix + target + "/"):
                    return prefix + real + word[len(prefix) + len(target) :]
        return word

    def command(self, step: dict[str, Any]) -> list[str]:
        """Return a step's command with real paths. Its output still contains the sandbox's paths."""
        argv = [self.here(word) for word in step["argv"]]
        maps = [f"-ffile-prefix-map={real}={target}" for target, real in self._real.items()]
        if step["kind"] == "check":
            return [sys.executable, *argv]
        if step["kind"] in {"cxx", "hip"}:
            return argv + maps
        if step["kind"] == "nvcc" and maps:
            source = step["argv"][-3]
            # nvcc puts a hash of the source's absolute path into the names of symbols.
            named = ["-Xcudafe", f"--orig_src_path_name {source}", "-Xcicc", f"--orig_src_path_name {source}"]
            return [*argv, "-Xcompiler", ",".join(maps), *named]
        return argv


def _run_steps(steps: list[dict[str, Any]], paths: Paths, work: Path) -> None:
    lines = ["ninja_required_version = 1.8", "builddir = build"]
    for number, step in enumerate(steps):
        (work / step["output"]).parent.mkdir(parents=True, exist_ok=True)
        command = shlex.join(paths.command(step)).replace("$", "$$")
        lines += [
            f"rule r{number}",
            f"  command = {command}",
            f"  description = {step['kind']} {step['output']}",
        ]
        lines.append(f"build {_escaped(step['output'])}: r{number} {' '.join(map(_escaped, step['inputs']))}")
    (work / "build" / "build.ninja").write_text("\n".join(lines) + "\n", encoding="utf-8")
    jobs = os.environ.get("WHEELSMITH_JOBS", "1")
    ninja = subprocess.run(
        [paths.here(_NINJA), "-f", "build/build.ninja", "-j", jobs],
        cwd=work,
        env={**os.environ, "NINJA_STATUS": _STATUS},
        check=False,
    )
    if ninja.returncode:
        # Raise SystemExit, because a traceback would hide the compiler's error message.
        sys.stdout.flush()
        raise SystemExit(ninja.returncode)


def _escaped(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def _write_wheel(plan: dict[str, Any], work: Path, target: Path) -> str:
    spec = plan["wheel"]
    stem = f"{_normalized(spec['distribution'])}-{spec['version']}"
    tag = f"{spec['python_tag']}-{spec['abi_tag']}-{spec['platform']}"
    files = {name: _read(work, source) for name, source in plan["recipe"]["contents"].items()}
    info = f"{stem}.dist-info"
    files[f"{info}/METADATA"] = spec["metadata"].encode()
    pure = str(spec["platform"] == "any").lower()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: wheelsmith\nRoot-Is-Purelib: {pure}\nTag: {tag}\n".encode()
    )
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    filename = f"{stem}-{tag}.whl"
    with zipfile.ZipFile(target / filename, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            member = zipfile.ZipInfo(name, _FIXED_DATE)
            member.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            archive.writestr(member, files[name], zipfile.ZIP_DEFLATED)
    return filename


def _read(work: Path, source: str) -> bytes:
    path = (work / source).resolve()
    if not path.is_relative_to(work.resolve()):
        raise SystemExit(f"{source} is outside of the work folder")
    return path.read_bytes()


def _normalized(name: str) -> str:
    return "_".join(part for part in name.lower().replace("-", "_").replace(".", "_").split("_") if part)


def _record(files: dict[str, bytes], own: str) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(files[name])])
    rows.writerow([own, "", ""])
    return text.getvalue().encode()
