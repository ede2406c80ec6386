"""An extension that calls every library of the toolkit, and the driver."""

import os

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension, CUDAExtension

LIBRARIES = ["cublas", "cublasLt", "cusparse", "cusolver", "curand", "cufft", "nvrtc", "cupti", "nvidia-ml", "cuda"]

if os.environ["WHEELSMITH_COMPUTE"] == "cpu":
    extension = CppExtension("every_library._C", ["binding.cpp"])
else:
    extension = CUDAExtension("every_library._C", ["binding.cpp", "calls.cu"], libraries=LIBRARIES)

setup(packages=["every_library"], ext_modules=[extension], cmdclass={"build_ext": BuildExtension})
