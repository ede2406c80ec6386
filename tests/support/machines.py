"""Machines that ``pick`` may find."""

from __future__ import annotations

from wheelsmith.index.pick.machine import Machine


def machine(
    *,
    torch: str | None = None,
    there: str | None = None,
    driver: str | None = None,
    python: str = "cpython",
    frameworks: dict[str, str] | None = None,
    packages: dict[str, str] | None = None,
) -> Machine:
    """Return an x86_64 machine without a GPU.

    :param torch: the installed version of torch.
    :param there: the installed version of tvm-ffi.
    :param frameworks: the versions of other installed frameworks.
    :param packages: the versions of their packages.
    :param driver: the CUDA release of the driver.
    """
    return Machine(
        python="/env/bin/python",
        python_version="3.12.1",
        implementation=python,
        platform="linux",
        arch="x86_64",
        glibc="2.36",
        pip=True,
        free_threaded=False,
        torch=torch,
        torch_compute=torch.partition("+")[2] if torch else None,
        frameworks=({"tvm-ffi": there} if there else {}) | (frameworks or {}),
        packages=packages or {},
        driver=driver,
        gpus=(),
    )
