"""List new releases of torch and other frameworks, CUDA, CUTLASS and kernel-builder that wheelsmith's facts lack.

    python scripts/watch.py
    python scripts/watch.py --add --matrix RELEASE.md    # also run the scripts that add them

RELEASE.md is a file of pytorch/pytorch. The list is Markdown, for a pull request. A release that cannot be added is
listed with the error.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from package_index import published
from packaging.version import Version

from wheelsmith.frameworks import framework, torch_releases
from wheelsmith.plan.recipe.project_hints import dependencies
from wheelsmith.platforms import cuda_toolkits
from wheelsmith.platforms.header_libraries import header_libraries

SCRIPTS = Path(__file__).parent
KERNELS, CUTLASS = "https://github.com/huggingface/kernels", "https://github.com/NVIDIA/cutlass"
# In kernel-builder's repository: the header libraries of build.toml, and the names of python-depends by backend.
HEADERS, PYTHON_DEPENDS = "nix-builder/lib/deps.nix", "kernels-data/src/python_dependencies.json"
BACKENDS = ("cpu", "cuda")
# Framework → the script that writes its facts.
FACTS = {
    "tvm-ffi": "tvm_ffi.py",
    "jax": "jax_releases.py",
    "tensorflow": "tensorflow_releases.py",
    "mindspore": "mindspore_releases.py",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """A release that the facts lack.

    :param commands: the commands that add it; empty if a person must.
    """

    title: str
    commands: tuple[tuple[str, ...], ...] = ()


def main() -> None:
    """Print the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--add", action="store_true", help="run the scripts that add the releases")
    parser.add_argument("--matrix", help="RELEASE.md of pytorch/pytorch")
    parser.add_argument("--kernels", default=KERNELS, help="git repository of kernel-builder")
    parser.add_argument("--cutlass", default=CUTLASS, help="git repository of CUTLASS")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for news in (
            *torch_news(options.matrix),
            *cuda_news(),
            *framework_news(),
            *kernels_news(options, Path(scratch)),
        ):
            print(f"- {news.title}: {run(news.commands) if options.add else 'new'}", flush=True)


def run(commands: Iterable[tuple[str, ...]]) -> str:
    """Run the commands that add a release, and return the result."""
    done = "add it by hand"
    for command in commands:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            return f"not added: {(result.stderr.splitlines() or ['no message'])[-1]}"
        done = "added"
    return done


def newest_by_minor(project: str) -> dict[str, Version]:
    """Return the newest release of each minor version on the package index, oldest first."""
    return {f"{version.major}.{version.minor}": version for version in published(project)}


def torch_news(matrix: str | None) -> Iterator[News]:
    """Yield new minor and patch releases of torch."""
    known = torch_releases()
    for minor, version in newest_by_minor("torch").items():
        is_new_minor = minor not in known and Version(minor) > Version(next(iter(known)))
        if is_new_minor or (minor in known and version > Version(known[minor].version)):
            options = ("--matrix", matrix) if matrix else ()
            yield News(title=f"torch {version}", commands=(script("add_torch.py", str(version), *options),))


def cuda_news() -> Iterator[News]:
    """Yield new CUDA releases, beginning with the oldest that is assembled from packages."""
    known = cuda_toolkits()
    oldest = Version(next(version for version, toolkit in known.items() if toolkit.packages and version >= "13"))
    for minor in newest_by_minor("cuda-toolkit"):
        if Version(minor) > oldest and minor not in known:
            yield News(title=f"CUDA {minor}", commands=(script("add_cuda.py", minor),))


def framework_news() -> Iterator[News]:
    """Yield the newest release of each other framework if the facts lack it.

    Of tvm-ffi they have the newest patch release of each minor version, and of the others the first one.
    """
    date = datetime.now(UTC).date().isoformat()
    for name, program in FACTS.items():
        used, versions = framework(name), published(framework(name).project)
        newest = max(versions)
        first = min(each for each in versions if each.release[:2] == newest.release[:2])
        known = max(Version(release.version) for release in used.releases().values())
        if (newest if name == "tvm-ffi" else first) > known:
            yield News(title=f"{name} {newest}", commands=(script(program, date),))


def kernels_news(options: argparse.Namespace, scratch: Path) -> Iterator[News]:
    """Yield new dependencies of kernels that kernel-builder supports, such as CUTLASS releases.

    :param scratch: an empty folder.
    """
    kernels = scratch / "kernels"
    git("clone", "--quiet", "--depth", "1", options.kernels, str(kernels))
    for name in re.findall(r'"(cutlass_\d+_\d+)" =', (kernels / HEADERS).read_text()):
        if name not in header_libraries():
            yield cutlass_news(name, options.cutlass, scratch / name)
    depends = json.loads((kernels / PYTHON_DEPENDS).read_text())
    listed = {*depends["general"], *(name for each in BACKENDS for name in depends["backends"].get(each, ()))}
    for name in sorted(listed - {each.name for each in dependencies()}):
        yield News(title=f"python-depends {name} of kernel-builder")


def cutlass_news(name: str, url: str, clone: Path) -> News:
    """Return the news of a CUTLASS minor, at its newest tag."""
    minor = name.removeprefix("cutlass_").replace("_", ".")
    tags = re.findall(rf"refs/tags/(v{re.escape(minor)}\.\d+)$", git("ls-remote", "--tags", url), re.MULTILINE)
    if not tags:
        return News(title=f"CUTLASS {minor} of kernel-builder, which has no tag")
    tag = max(tags, key=Version)
    fetch = ("git", "clone", "--quiet", "--depth", "1", "--branch", tag, url, str(clone))
    add = script("header_library.py", name, tag, "--repository", str(clone), "--url", url)
    return News(title=f"CUTLASS {tag.removeprefix('v')}", commands=(fetch, add))


def script(name: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a script of this folder."""
    return (sys.executable, str(SCRIPTS / name), *arguments)


def git(*arguments: str) -> str:
    """Run git and return its output."""
    return subprocess.run(("git", *arguments), capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
