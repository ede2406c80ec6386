"""The classic extension: torch's own build tools, pybind11, one C++ and one CUDA file."""

import os

from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension

# wheelsmith says what to build for; by hand, it is whatever this machine has.
compute = os.environ.get("WHEELSMITH_COMPUTE", "cpu" if CUDA_HOME is None else "cuda")

sources = ["csrc/add_constant.cpp"]
if compute == "cpu":
    extension = CppExtension("add_constant._C", sources)
else:
    extension = CUDAExtension(
        "add_constant._C", [*sources, "csrc/add_constant_cuda.cu"], define_macros=[("USE_CUDA", None)]
    )

setup(
    name="add-constant",
    version="0.1.0",
    description="Add a constant to a tensor, and change the constant",
    license="Apache-2.0",
    packages=["add_constant"],
    ext_modules=[extension],
    cmdclass={"build_ext": BuildExtension},
    install_requires=["torch>=2.8"],
    python_requires=">=3.10",
)
