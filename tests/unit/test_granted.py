"""What a process is granted: cores and memory, as the kernel's files say it on different systems."""

import os

import pytest

from wheelsmith.engine.cgroup import (
    _parent_folders,
    available_cores,
    available_memory,
    group_of_container,
    group_path,
    members,
)
from wheelsmith.engine.protocol import Limits

GIB = 2**30
FREE = "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n"


class Kernel:
    """Files as the kernel shows them to one process."""

    def __init__(self, root):
        self.proc = root / "proc"
        self.mounts = root / "sys fs cgroup"
        (self.proc / "self").mkdir(parents=True)
        (self.proc / "meminfo").write_text(FREE)
        self._mountinfo = []

    def mount(self, name, kind, options, root="/"):
        point = self.mounts / name if name else self.mounts
        point.mkdir(parents=True, exist_ok=True)
        shown = str(point).replace(" ", "\\040")
        self._mountinfo.append(f"31 24 0:27 {root} {shown} rw,nosuid shared:9 - {kind} cgroup {options}")
        (self.proc / "self" / "mountinfo").write_text("\n".join(self._mountinfo) + "\n")
        return point

    def place(self, *lines):
        (self.proc / "self" / "cgroup").write_text("\n".join(lines) + "\n")

    def run(self, pid, *lines):
        (self.proc / pid).mkdir()
        (self.proc / pid / "cgroup").write_text("\n".join(lines) + "\n")

    def group(self, path, **files):
        folder = self.mounts / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(f"{text}\n")
        return folder

    @property
    def cores(self):
        return available_cores(self.proc)

    @property
    def memory(self):
        return available_memory(self.proc)


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    return Kernel(tmp_path)


@pytest.fixture
def unified(kernel):
    kernel.mount("", "cgroup2", "rw,nsdelegate")
    kernel.place("0::/ci.slice/job.scope")
    return kernel


@pytest.fixture
def legacy(kernel):
    kernel.mount("memory", "cgroup", "rw,memory", root="/docker/abc")
    kernel.mount("cpu,cpuacct", "cgroup", "rw,cpu,cpuacct", root="/docker/abc")
    kernel.place("4:memory:/docker/abc", "3:cpu,cpuacct:/docker/abc", "0::/docker/abc")
    return kernel


def test_without_groups_it_is_the_machine(kernel):
    assert (kernel.cores, kernel.memory) == (16, 32 * GIB)


@pytest.mark.parametrize(("quota", "cores"), [("400000 100000", 4), ("150000 100000", 1), ("10000 100000", 1)])
def test_a_quota_bounds_cores(unified, quota, cores):
    unified.group("ci.slice/job.scope", cpu__max=quota)
    assert unified.cores == cores


def test_the_least_of_all_groups_above_holds(unified):
    stat = f"anon 1\ninactive_file {GIB}\n"
    unified.group("ci.slice", memory__max=4 * GIB, memory__current=3 * GIB, memory__stat=stat, cpu__max="200000 100000")
    unified.group("ci.slice/job.scope", memory__max=8 * GIB, memory__current=GIB, memory__stat=stat, cpu__max="max 1")
    assert (unified.cores, unified.memory) == (2, 2 * GIB)


def test_version_1_in_a_container(legacy):
    legacy.group(
        "memory",
        memory__limit_in_bytes=2 * GIB,
        memory__usage_in_bytes=GIB,
        memory__stat=f"inactive_file 7\ntotal_inactive_file {GIB // 2}",
    )
    legacy.group("cpu,cpuacct", cpu__cfs_quota_us=300000, cpu__cfs_period_us=100000)
    assert (legacy.cores, legacy.memory) == (3, GIB + GIB // 2)


def test_version_1_without_limits(legacy):
    legacy.group("memory", memory__limit_in_bytes=9223372036854771712, memory__usage_in_bytes=GIB, memory__stat="")
    legacy.group("cpu,cpuacct", cpu__cfs_quota_us=-1, cpu__cfs_period_us=100000)
    assert (legacy.cores, legacy.memory) == (16, 32 * GIB)


@pytest.mark.parametrize("path", ["/docker/abc/../../elsewhere", "/elsewhere", "/", "/docker/abcd"])
def test_a_group_outside_of_what_is_mounted_shows_as_the_mount(legacy, path):
    legacy.place(f"4:memory:{path}", f"3:cpu,cpuacct:{path}")
    legacy.group("memory", memory__limit_in_bytes=GIB, memory__usage_in_bytes=0, memory__stat="")
    assert legacy.memory == GIB


@pytest.mark.parametrize("text", ["", "nonsense\n", "0::\n", "4:memory\n", "\x00\n", "a b c d e f - cgroup2\n"])
def test_files_that_say_nothing(kernel, text):
    for name in ("mountinfo", "cgroup"):
        (kernel.proc / "self" / name).write_text(text)
    assert (kernel.cores, kernel.memory) == (16, 32 * GIB)


def test_a_group_is_made_within_every_limit(unified):
    slice_ = unified.group("ci.slice", memory__max="max", cpu__max="max 100000", pids__max=500)
    job = unified.group(
        "ci.slice/job.scope", memory__max="max", cpu__max="max 100000", pids__max="max", cpuset__cpus=""
    )
    place = group_path("memory", unified.proc / "self")
    assert place.folders == (job, slice_, unified.mounts)
    assert _parent_folders(place) == (slice_, job)
    (job / "memory.max").write_text("1000\n")
    assert _parent_folders(place) == (job,)
    (job / "memory.max").write_text("max\n")
    (slice_ / "pids.max").write_text("max\n")
    assert _parent_folders(place) == (unified.mounts, slice_, job)


def test_a_container_in_our_own_container_has_groups_beneath_ours(legacy):
    """The kernel names them as the machine sees them, and what is mounted here begins at our own group."""
    below = "/docker/abc/libpod_parent/libpod-feed"
    legacy.run("77", f"4:memory:{below}", f"3:cpu,cpuacct:{below}", "0::/docker/abc")
    memory = legacy.group("memory/libpod_parent/libpod-feed")
    cores = legacy.group("cpu,cpuacct/libpod_parent/libpod-feed")
    assert group_of_container("feed", "77", Limits(), legacy.proc).folders == (memory, cores)


@pytest.mark.parametrize(
    ("identity", "pid", "path"),
    [
        ("feed", "77", "/user.slice/shell.scope"),  # a number that here is somebody else's
        ("feed", "77", "/../libpod-feed"),
        ("feed", "78", "/libpod-feed"),
    ],
)
def test_what_is_not_the_containers_group_is_not_taken(unified, identity, pid, path):
    unified.group("user.slice/shell.scope")
    unified.run("77", f"0::{path}")
    assert group_of_container(identity, pid, Limits(), unified.proc).folders == ()


def test_a_process_of_another_namespace_is_nobody(tmp_path):
    (tmp_path / "cgroup.procs").write_text("0\n17\n0\n")
    assert members(tmp_path) == [17]
