"""GPUs are leased to one test at a time, and never while another program uses them."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from wheelsmith.base.errors import MachineError
from wheelsmith.platforms import Gpu, GpuMemory, platforms
from wheelsmith.run.testing import gpus
from wheelsmith.run.testing.gpus import GpuPool

GIB = 1 << 30
ONE, OTHER = (Gpu(name="NVIDIA H200", capability="9.0", uuid=f"GPU-{number}") for number in (1, 2))
SMALL = Gpu(name="NVIDIA T4", capability="7.5", uuid="GPU-3")


@pytest.fixture
def memory():
    return {gpu.uuid: GpuMemory(used=GIB // 2, total=140 * GIB) for gpu in (ONE, OTHER, SMALL)}


@pytest.fixture
def pool(tmp_path, memory, monkeypatch):
    monkeypatch.setattr(gpus, "_TICK", 0.01)
    monkeypatch.setattr(gpus, "_SETTLE_SECONDS", 0.05)
    return lambda **more: GpuPool(
        **{
            "folder": tmp_path / "gpus",
            "gpus": (ONE, OTHER, SMALL),
            "memory": lambda: memory,
            "patience": 0.1,
            "warn": pytest.fail,
            "cancel": threading.Event(),
        }
        | more
    )


def test_each_gpu_has_one_owner_also_among_several_runs(pool):
    owners, most = {ONE.uuid: 0, OTHER.uuid: 0}, set()

    def use(number):
        with pool().lease(ONE) as gpu:
            owners[gpu.uuid] += 1
            time.sleep(0.02)
            most.add(owners[gpu.uuid])
            owners[gpu.uuid] -= 1

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(use, range(12)))
    assert most == {1}


def test_a_gpu_that_another_program_uses_is_not_leased(pool, memory):
    memory[ONE.uuid] = GpuMemory(used=20 * GIB, total=140 * GIB)
    with pool().lease(ONE) as gpu:
        assert gpu == OTHER
        memory[OTHER.uuid] = memory[ONE.uuid]
        waiting = ThreadPoolExecutor(1).submit(pool().lease(ONE).__enter__)
        time.sleep(0.3)
        # It waits for the owner of the other one.
        assert not waiting.done()
        memory[OTHER.uuid] = GpuMemory(used=0, total=140 * GIB)
    assert waiting.result(5) == OTHER
    memory[SMALL.uuid] = GpuMemory(used=3 * GIB, total=16 * GIB)
    with pytest.raises(MachineError, match=r"other programs use the GPUs: NVIDIA T4 \(3 GiB of 16 GiB in use\)"):
        pool().lease(SMALL).__enter__()


def test_memory_that_a_test_leaves_in_use_is_told(pool, memory):
    told = []
    with pool(warn=told.append).lease(ONE):
        memory[ONE.uuid] = GpuMemory(used=5 * GIB, total=140 * GIB)
    assert told == ["a test has ended, but its GPU is not free: NVIDIA H200 (5 GiB of 140 GiB in use)"]


def test_a_run_that_is_cancelled_does_not_wait(pool):
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(KeyboardInterrupt):
        pool(cancel=cancel).lease(ONE).__enter__()


def test_memory_and_uuids_are_read_from_nvidia_smi(tmp_path, monkeypatch):
    answers = {"uuid,memory": "GPU-1, 532, 143771\\nGPU-2, [N/A], [N/A]", "compute_cap": "9.0, GPU-1, NVIDIA H200"}
    cases = "".join(f"*={query}*) echo '{text}';;\n" for query, text in answers.items())
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f"#!/bin/bash\ncase \"$1\" in\n{cases}'') echo 'CUDA Version: 13.0';;\nesac | sed 's/\\\\n/\\n/'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    devices = platforms()["cuda"].devices
    assert devices.memory() == {"GPU-1": GpuMemory(532 << 20, 143771 << 20)}
    assert devices.driver().gpus == (ONE,)
    assert devices.variables(ONE) == {"CUDA_VISIBLE_DEVICES": "GPU-1"}
    assert devices.variables(None) == {"CUDA_VISIBLE_DEVICES": ""}
