"""Code for AMD GPUs is found in clang's bundles, and compared with the labels there."""

import io
import struct
import sys
import zlib
from importlib import import_module

import pytest

from wheelsmith.base.files import read_facts
from wheelsmith.wheel.gpu import GpuCode, read_gpu_code
from wheelsmith.wheel.rules.compute_platform import compare

NUMBERS = read_facts("wheelsmith.platforms", "rocm.json")["processors"]
HOST = ("host-x86_64-unknown-linux-gnu-", b"")


def code_object(processor, machine=224):
    number = processor if isinstance(processor, int) else NUMBERS[processor]
    return struct.pack("<4s14xH28xI", b"\x7fELF", machine, 0x500 | number) + bytes(80)


def device(processor, content=None, kind="hipv4"):
    return f"{kind}-amdgcn-amd-amdhsa--{processor}", code_object(processor) if content is None else content


def bundle(*entries):
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries))
    at = len(head) + sum(24 + len(name) for name, _ in entries)
    table, data = b"", b""
    for name, content in entries:
        table += struct.pack("<QQQ", at + len(data), len(content), len(name)) + name.encode()
        data += content
    return head + table + data


def zstandard(data):
    module = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    return module.compress(data)


def compressed(content, version, method=1):
    packed = zstandard(content) if method else zlib.compress(content)
    form = {1: "<IQ", 2: "<IIQ", 3: "<QQQ"}[version]
    head = 8 + struct.calcsize(form)
    sizes = (len(content), 7) if version == 1 else (head + len(packed), len(content), 7)
    return b"CCOB" + struct.pack("<HH", version, method) + struct.pack(form, *sizes) + packed


def read(data, name="lib.so"):
    return read_gpu_code(io.BytesIO(data), len(data), name)


WHOLE = bundle(HOST, device("gfx90a"), device("gfx1100"))


@pytest.mark.parametrize("before", [b"", b"\x7fELF" + bytes(4092), bytes(5 << 20)])
@pytest.mark.parametrize(
    "data", [WHOLE, *(compressed(WHOLE, version, method) for version in (1, 2, 3) for method in (0, 1))]
)
def test_code_is_found_anywhere(before, data):
    code = read(before + data)
    assert (code.machine_code, code.mistakes) == ({"gfx90a", "gfx1100"}, ())
    assert code.machine_capabilities == ("gfx90a", "gfx1100")
    assert (code.is_for_amd, code.is_for_nvidia) == (True, False)


def test_several_bundles_and_features_of_a_target():
    other = bundle(HOST, (device("gfx942")[0] + ":sramecc+:xnack-", code_object("gfx942")))
    assert read(WHOLE + bytes(100) + other).machine_code == {"gfx90a", "gfx942", "gfx1100"}


def test_a_generic_target():
    assert read(bundle(HOST, device("gfx9-4-generic"))).machine_code == {"gfx9-4-generic"}


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        (device("gfx90a", code_object("gfx942")), "code labelled gfx90a, .*: the code object itself is for gfx942"),
        (device("gfx90a", code_object(0xFE)), "code labelled gfx90a, .*: its architecture 0xfe is unknown"),
        (device("gfx90a", b"BC\xc0\xde" + bytes(80)), "code labelled gfx90a, .*: it is not a code object for AMD"),
        (device("gfx90a", b""), "code labelled gfx90a, .*: it is truncated"),
    ],
)
def test_labels_are_compared(entry, mistake):
    code = read(bundle(HOST, entry))
    assert code.machine_code == set()
    with pytest.raises(AssertionError, match=mistake):
        raise AssertionError(*code.mistakes)


def test_a_code_object_alone():
    assert read(code_object("gfx942"), "kernel.hsaco").machine_code == {"gfx942"}
    assert read(code_object(0xFE), "kernel.hsaco").mistakes == ("its architecture 0xfe is unknown",)


def test_a_file_that_begins_as_a_bundle_must_be_one():
    assert read(WHOLE[:200], "kernel.dat").mistakes == ("it is an offload bundle that cannot be read",)


@pytest.mark.parametrize(
    "data",
    [
        b"reads __CLANG_OFFLOAD_BUNDLE__\0 and CCOB\0 files",
        b"__CLANG_OFFLOAD_BUNDLE__" + bytes(100),
        b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 2) + b"text" * 30,
        WHOLE[:200],
        compressed(WHOLE, 2)[:-20],
        b"CCOB" + struct.pack("<HH", 2, 1) + b"text" * 30,
    ],
)
def test_what_only_looks_like_a_bundle_is_none(data):
    assert not read(b"text " + data).present


@pytest.mark.parametrize(
    ("compute", "needed", "mistakes"),
    [
        ("rocm7.2", ("libamdhip64.so.7", "libtorch_hip.so"), []),
        ("rocm7.2", ("libamdhip64.so.6",), ["does not need libamdhip64.so.7", "needs libamdhip64.so.6"]),
        ("rocm6.4", ("libamdhip64.so.6",), []),
        ("rocm7.2", ("libamdhip64.so.7", "libcudart.so.13"), ["needs libcudart.so.13"]),
        ("cu130", (), ["contains code for AMD GPUs"]),
        ("cpu", (), ["contains GPU code: gfx90a, gfx1100"]),
    ],
)
def test_the_release_in_the_version_is_that_of_the_runtime(compute, needed, mistakes):
    found = compare("lib.so", needed, read(WHOLE), compute)
    assert [part for part in mistakes if part not in found.message] == []
    assert found.ok is not bool(mistakes)


def test_code_for_nvidias_gpus_is_not_for_rocm():
    code = GpuCode(machine_code=frozenset({"9.0", "gfx942"}))
    found = compare("lib.so", ("libamdhip64.so.7",), code, "rocm7.2")
    assert found.message == "the version is for ROCm 7.2, but lib.so contains code for NVIDIA GPUs"
