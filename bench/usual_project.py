"""Convert a kernel to a setup.py project that uses torch's cpp_extension."""

from __future__ import annotations

import shutil
from pathlib import Path

from wheelsmith.frameworks.torch import OPS, REGISTRATION
from wheelsmith.plan.recipe.build_toml import parse_build_toml
from wheelsmith.plan.recipe.spec import KernelSpec

_SOURCES = {".cpp", ".cu"}
# The same flags as in wheelsmith's build, so that both compile the same code.
_SETUP = """\
from pathlib import Path

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

here = Path(__file__).parent.resolve()
defines = {defines}
setup(
    name={name!r},
    version={version!r},
    packages=[{module!r}],
    package_dir={{"": "torch-ext"}},
    ext_modules=[
        CUDAExtension(
            {extension!r},
            sources={sources!r},
            include_dirs=[str(here / folder) for folder in {include!r}],
            define_macros=defines,
            extra_compile_args={{
                "cxx": ["-O3", "-DNDEBUG", "-std=c++{standard}"],
                "nvcc": ["-O3", "-DNDEBUG", "-std=c++{standard}", "--expt-relaxed-constexpr", "--expt-extended-lambda"],
            }},
            py_limited_api=True,
        )
    ],
    cmdclass={{"build_ext": BuildExtension}},
    options={{"bdist_wheel": {{"py_limited_api": "cp39"}}}},
)
"""


def lay_out(kernel: Path, target: Path, standard: int) -> None:
    """Copy a kernel to ``target``, and add a setup.py and the files that kernel-builder generates.

    :param standard: the C++ standard, such as 17.
    """
    shutil.copytree(kernel, target)
    spec = parse_build_toml((kernel / "build.toml").read_text())
    namespace = f"_{spec.module}_cuda"
    (target / "setup.py").write_text(_setup(spec, namespace, standard))
    (target / "generated").mkdir()
    (target / "generated" / "registration.h").write_text(REGISTRATION)
    (target / "torch-ext" / spec.module / "_ops.py").write_text(OPS.format(namespace=namespace))


def _setup(spec: KernelSpec, namespace: str, standard: int) -> str:
    assert spec.binding  # all kernels of the benchmark have a binding
    named = [*spec.binding.src, *(path for section in spec.sections for path in section.src)]
    include = [*spec.binding.include, *(path for section in spec.sections for path in section.include), "generated"]
    defines: list[tuple[str, str | None]] = [("CUDA_KERNEL", None), ("USE_CUDA", "1")]
    if floor := spec.binding.stable_abi.get("cuda"):
        major, minor = (int(part) for part in floor.split("."))
        defines.append(("TORCH_TARGET_VERSION", f"{(major << 56) | (minor << 48):#018x}"))
    return _SETUP.format(
        name=spec.name,
        version=str(spec.version),
        module=spec.module,
        extension=f"{spec.module}.{namespace}",
        sources=[path for path in named if Path(path).suffix in _SOURCES],
        include=list(dict.fromkeys(include)),
        defines=defines,
        standard=standard,
    )
