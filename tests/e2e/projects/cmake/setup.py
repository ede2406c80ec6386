"""CMake as a program that setup.py starts, without torch's targets."""

import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class CMakeBuild(build_ext):
    """Have CMake build what setuptools then packs."""

    def build_extension(self, ext: Extension) -> None:
        """Build the one target."""
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        options = [f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={target.parent}", "-DCMAKE_BUILD_TYPE=Release"]
        subprocess.run(["cmake", "-S", ".", "-B", self.build_temp, *options], check=True)
        subprocess.run(["cmake", "--build", self.build_temp], check=True)


setup(
    packages=["cmake_by_hand"],
    ext_modules=[Extension("cmake_by_hand._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
