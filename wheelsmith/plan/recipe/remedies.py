"""Remedies for common mistakes of projects, from their code before a build, and from its output afterwards."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import BuildPlan
from wheelsmith.plan.feasibility import least_cxx_std
from wheelsmith.plan.recipe.cmake_code import CMakeSwitch, read_switches
from wheelsmith.plan.recipe.project_hints import SuggestedSettings, hint_for
from wheelsmith.plan.recipe.setup_code import SetupCode, lacking_sources, old_standard, read_setup_code, standard_files

# Import name → distribution, where they differ.
_DISTRIBUTIONS = {
    "Cython": "cython", "PIL": "pillow", "cpuinfo": "py-cpuinfo", "cv2": "opencv-python-headless",
    "distutils": "setuptools", "git": "gitpython", "google": "protobuf", "pkg_resources": "setuptools<81",
    "skbuild": "scikit-build", "skbuild_core": "scikit-build-core", "sklearn": "scikit-learn", "yaml": "pyyaml",
}  # fmt: skip
_OWN_TOOLS = {"build", "packaging", "pyproject_hooks"}  # which every build has
_CUDA_VARIABLES = {"FORCE_CUDA", "TORCH_CUDA_ARCH_LIST"}  # which every build for CUDA has
_COMMON_VARIABLES = _CUDA_VARIABLES | {
    "CC", "CFLAGS", "CI", "CUDA_HOME", "CUDA_PATH", "CXX", "HOME", "LD_LIBRARY_PATH", "MAX_JOBS", "PATH", "PYTHONPATH",
}  # fmt: skip
_QUOTE = r"[\x22\x27]"
# A question about GPUs → its answer, as a script of sed. Others have no short answer.
_ANSWERS = {
    "is_available": r"s/torch\.cuda\.is_available\(\)/True/g",
    "device_count": r"s/torch\.cuda\.device_count\(\)/1/g",
    "get_device_capability": r"s/torch\.cuda\.get_device_capability\([^)]*\)/({}, {})/g",
}
# cpp_extension adds the cell's capabilities only if there are no others.
_NO_FLAGS = rf"s/{_QUOTE}(-gencode|--generate-code|-arch=|arch=compute_)[^\x22\x27]*{_QUOTE}/\x22-DNDEBUG\x22/g"
_NO_VARIABLE = r"s/^( *)os\.environ\[.TORCH_CUDA_ARCH_LIST.\] *=[^=]/\1_ = /"
# torch warns that NumPy is missing, which breaks no build.
_NO_MODULE = re.compile(r"(?<!initialize NumPy: )No module named '([\w.]+)'")
_NO_NETWORK = re.compile(r"urlopen error|name resolution|Name or service not known|Network is unreachable|Max retries")
_NO_SOURCE = re.compile(r"error: '?([^\s']+)'?(?:, needed by .*missing and no known rule|: No such file or directory)")
_TOO_OLD = re.compile(r"#error\W+C\+\+(\d+) or later|requires? (?:at least )?C\+\+(\d+)")
_WRONG_CAPABILITY = re.compile(r"Unsupported gpu architecture|no machine code for")
_LACKS_GPU = re.compile(r"\b(gpu|cuda|nvidia|device)", re.IGNORECASE)
_NO_CODE = re.compile(r"platform any|does not use (?P<device>CUDA)")
_WITHOUT_CUDA = re.compile(rf"{_NO_CODE.pattern}|no machine code for")
_NETWORK = "a build has no network"
_NO_GPU = "no build sees a GPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCode(Record):
    """What the files of a project show.

    :param paths: all of its files.
    :param standards: build file → the content that may name a C++ standard.
    :param switches: the variables of CMake that leave CUDA out, if the build passes ``CMAKE_ARGS`` to CMake.
    """

    paths: tuple[str, ...]
    setup: SetupCode
    standards: dict[str, str]
    switches: tuple[CMakeSwitch, ...]


def read_project_code(paths: Collection[str], read: Callable[[str], bytes]) -> ProjectCode:
    """Read the files of a project that decide its build.

    :param read: path → content.
    """
    code = read("setup.py") if "setup.py" in paths else b""
    # The CMakeLists.txt of some projects builds something else.
    only = ("setup.py",) if code and b"cmake" not in code.lower() else paths
    standards = {path: read(path).decode(errors="replace") for path in standard_files(only)}
    build = code + (read("pyproject.toml") if "pyproject.toml" in paths else b"")
    # scikit-build reads CMAKE_ARGS, and so does many a setup.py. Others have no common way to set a variable.
    switches = read_switches(paths, read) if re.search(rb"scikit-build|skbuild|CMAKE_ARGS", build) else ()
    return ProjectCode(
        paths=tuple(paths),
        setup=read_setup_code(code),
        standards=standards,
        switches=tuple(switch for switch in switches if switch.name.encode() not in build),
    )


def plan_remedies(code: ProjectCode, plans: Iterable[BuildPlan]) -> Iterator[str]:
    """Yield the remedies for what can be seen before the build, once for all cells."""
    found = (text for plan in plans if plan.project for text in _plan_remedies(code, plan))
    yield from dict.fromkeys(found)


def missing_sources(code: ProjectCode) -> str | None:
    """Return the remedy for sources that setup.py names and the project lacks, or None."""
    lacking = lacking_sources(code.setup, code.paths)
    return f"setup.py names {', '.join(lacking[:3])}; {_no_source(code, lacking[0])}" if lacking else None


def suggest_settings(code: ProjectCode, plans: Iterable[BuildPlan]) -> SuggestedSettings | None:
    """Return the settings that the code shows to be missing from matrix.yaml, or None.

    A command that patches setup.py is a suggestion, since setup.py may ask for a GPU and build without one.
    """
    plans = tuple(plan for plan in plans if plan.project)
    env = {name: value for plan in plans for name, value in _missing_forcing(code.setup, plan).items()}
    modules = dict.fromkeys(name for plan in plans for name in _undeclared(code, plan))
    patch, why = next((found for plan in plans if (found := _patch(code.setup, plan))), (None, None))
    old = any(_older_standard(code, plan) for plan in plans)
    switches = dict.fromkeys(switch for plan in plans for switch in _missing_switches(code, plan))
    if not (env or modules or patch or old or switches):
        return None
    return SuggestedSettings(
        env=env,
        build_requires=tuple(_distributions(modules)),
        why=f"else setup.py looks for a ready wheel, but {_NETWORK}",
        before_build=patch,
        needs_before_build=False,
        before_build_why=why,
        cxx_standard="torch" if old else None,
        cuda_env=_cmake_arguments(switches),
        cuda_why=_without_cuda(switches),
    )


def _plan_remedies(code: ProjectCode, plan: BuildPlan) -> Iterator[str]:
    yield from filter(None, [_older_standard(code, plan)])
    if hint_for(plan.wheel.distribution) is None:  # else its settings are known
        yield from filter(None, [_ready_wheel(code.setup, plan)])
        patch, why = _patch(code.setup, plan) or (None, None)
        if patch:
            yield f"{why}; patch it, such as before-build: {json.dumps(patch)}"
        yield from filter(None, [_switch_remedy(code, plan)])
    if missing := _undeclared(code, plan):
        yield f"setup.py imports {', '.join(missing)}, which its build requirements lack; {_build_requires(missing)}"


def _undeclared(code: ProjectCode, plan: BuildPlan) -> list[str]:
    """Return the modules that setup.py imports and the build environment lacks."""
    environment = plan.project.environment if plan.project else ()
    installed = {wheel.name for wheel in environment} | {wheel.project for wheel in plan.requires}
    known = installed | _OWN_TOOLS | sys.stdlib_module_names - {"distutils"}
    own = {path.partition("/")[0].removesuffix(".py") for path in code.paths}
    imports = code.setup.imports
    names = {name: canonicalize_name(re.split("[<>=]", _DISTRIBUTIONS.get(name, name))[0]) for name in imports}
    return [name for name, needed in names.items() if name not in known | own and needed not in known]


def _patch(setup: SetupCode, plan: BuildPlan) -> tuple[str, str] | None:
    """Return a command that keeps setup.py to the capabilities of a plan, and the reason; None if it is not needed."""
    if not plan.cell.toolkit or (plan.project and plan.project.before_build):
        return None
    if _CUDA_VARIABLES & set(setup.variables):
        return None
    if setup.gpu:
        question, line = min(setup.gpu.items(), key=lambda item: item[1])
        return _patch_command(setup, plan), f"setup.py:{line} asks for a GPU ({question}), but {_NO_GPU}"
    if setup.capabilities and set(setup.capabilities) != set(_numbers(plan)):
        return _patch_command(setup, plan), _other_capabilities(setup, plan)
    return None


def _missing_switches(code: ProjectCode, plan: BuildPlan) -> tuple[CMakeSwitch, ...]:
    """Return the switches that a cell with CUDA needs and its settings do not name."""
    if not (plan.cell.toolkit and plan.project):
        return ()
    project = plan.project
    given = f"{project.variables} {project.config_settings}"
    return tuple(switch for switch in code.switches if switch.name not in given)


def _cmake_arguments(switches: Collection[CMakeSwitch]) -> dict[str, str]:
    return {"CMAKE_ARGS": " ".join(switch.argument for switch in switches)} if switches else {}


def _without_cuda(switches: Collection[CMakeSwitch]) -> str | None:
    """Return the reason why a build leaves CUDA out, or None."""
    named = (f"{switch.file}:{switch.line} sets {switch.name} to {switch.default}" for switch in switches)
    return ", ".join(named) or None


def _switch_remedy(code: ProjectCode, plan: BuildPlan) -> str | None:
    switches = _missing_switches(code, plan)
    rule = {"where": {"cuda": "*.*"}, "set": {"env": _cmake_arguments(switches)}}
    return f"{_without_cuda(switches)}; add to matrix.yaml: rules: {json.dumps([rule])}" if switches else None


def failure_remedy(code: ProjectCode, plan: BuildPlan, message: str, lines: Iterable[str]) -> str | None:
    """Return the remedy for a failed build, or None.

    :param message: the message of the failure.
    :param lines: the lines of its output.
    """
    setup, text = code.setup, "\n".join((message, *lines))
    if match := _NO_MODULE.search(text):
        return _no_module(code, match[1].partition(".")[0])
    if _NO_NETWORK.search(text):
        return _ready_wheel(setup, plan) or f"{_NETWORK}: remove the download with before-build"
    if _TOO_OLD.search(text) and (remedy := _older_standard(code, plan)):
        return remedy
    if match := _NO_SOURCE.search(text):
        name = match[1].removeprefix("/work/src/")
        is_elsewhere = name in code.paths or f"<{name}>" in text  # a header of torch or another library
        return None if is_elsewhere else _no_source(code, name)
    return _no_device_code(code, plan, message, text)


def _no_device_code(code: ProjectCode, plan: BuildPlan, message: str, text: str) -> str | None:
    """Return the remedy for a build that compiled nothing or not for the GPUs of its plan, or None.

    :param text: the message and the output.
    """
    setup = code.setup
    if _WITHOUT_CUDA.search(message) and (remedy := _switch_remedy(code, plan)):
        return remedy
    if plan.cell.toolkit and setup.capabilities and _WRONG_CAPABILITY.search(text):
        return f"{_other_capabilities(setup, plan)}; {_before_build(setup, plan)}"
    if plan.cell.toolkit and setup.gpu and (_NO_CODE.search(message) or _LACKS_GPU.search(text)):
        return _no_gpu(setup, plan)
    if match := _NO_CODE.search(message):
        return f"nothing was compiled{' for CUDA' if match['device'] else ''}; {_settings(setup, plan)}"
    return None


def _missing_forcing(setup: SetupCode, plan: BuildPlan) -> dict[str, str]:
    return {name: value for name, value in setup.forcing.items() if name not in _given(plan)}


def _ready_wheel(setup: SetupCode, plan: BuildPlan) -> str | None:
    if missing := _missing_forcing(setup, plan):
        return f"setup.py looks for a ready wheel, but {_NETWORK}; add to matrix.yaml: env: {json.dumps(missing)}"
    if setup.downloads and not setup.forcing:
        return f"setup.py:{setup.downloads} downloads a wheel, but {_NETWORK}; {_settings(setup, plan)}"
    return None


def _older_standard(code: ProjectCode, plan: BuildPlan) -> str | None:
    least = least_cxx_std(plan.cell)
    if "WHEELSMITH_CXX_STANDARD" in _given(plan):
        return None
    for file, text in code.standards.items():
        if old := old_standard(text, least):
            needs = f"torch {plan.cell.release} needs C++{least}"
            return f"{file}:{old[1]} names C++{old[0]}, but {needs}; add to matrix.yaml: cxx-standard: torch"
    return None


def _no_gpu(setup: SetupCode, plan: BuildPlan) -> str:
    return f"{_NO_GPU}: setup.py must go by TORCH_CUDA_ARCH_LIST or FORCE_CUDA; {_before_build(setup, plan)}"


def _other_capabilities(setup: SetupCode, plan: BuildPlan) -> str:
    return f"setup.py compiles for {', '.join(setup.capabilities)}, not for gpu-archs ({', '.join(_numbers(plan))})"


def _before_build(setup: SetupCode, plan: BuildPlan) -> str:
    return f"patch it, such as before-build: {json.dumps(_patch_command(setup, plan))}"


def _patch_command(setup: SetupCode, plan: BuildPlan) -> str:
    """Return the command that answers questions about GPUs, and removes a project's own capabilities."""
    first = (_numbers(plan) or ("8.0",))[0].split(".")
    scripts = [script.format(*first) for question, script in _ANSWERS.items() if question in setup.gpu]
    scripts += [_NO_FLAGS] * setup.flags + [_NO_VARIABLE] * setup.sets_variable
    script = "; ".join(scripts) or "s/OLD/NEW/"
    return f"sed -i -E '{script}' setup.py"


def _numbers(plan: BuildPlan) -> tuple[str, ...]:
    """Return the capabilities of a plan without suffixes, such as ``9.0``."""
    return tuple(dict.fromkeys(text.removesuffix("+PTX").rstrip("af") for text in plan.wheel.gpu_archs))


def _no_module(code: ProjectCode, name: str) -> str:
    if any(path.partition("/")[0] in {name, f"{name}.py"} for path in code.paths):
        line = json.dumps("sed -i '1i import os, sys; sys.path.insert(0, os.getcwd())' setup.py")
        return (
            f"{name} is the project's own, and its folder is not on sys.path of a build (PEP 517); before-build: {line}"
        )
    return _build_requires([name])


def _build_requires(modules: Iterable[str]) -> str:
    return f"add to matrix.yaml: build-requires: {json.dumps(_distributions(modules))}"


def _distributions(modules: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(_DISTRIBUTIONS.get(name, name.replace("_", "-")) for name in modules))


def _no_source(code: ProjectCode, name: str) -> str:
    place = "take it from git (kernel.git)" if "PKG-INFO" in code.paths else "add it, or name it in kernel.include"
    return f"the source lacks {name}: {place}"


def _given(plan: BuildPlan) -> dict[str, str]:
    """Return the environment variables of a project's build."""
    return plan.project.variables if plan.project else {}


def _settings(setup: SetupCode, plan: BuildPlan) -> str:
    """Return a sentence about the settings that setup.py may need."""
    given = _COMMON_VARIABLES | set(_given(plan))
    variables = {name: text for name, text in setup.variables.items() if name not in given}
    named = []
    if variables:
        named.append(f"env: {json.dumps(dict(list(variables.items())[:12]))}")
    if setup.options:
        named.append(f"config-settings: {json.dumps({'--build-option': list(setup.options)})}")
    if not named:
        return "setup.py reads no variables or options: see the project's own instructions"
    return f"settings that setup.py reads, for matrix.yaml: {' and '.join(named)}"
