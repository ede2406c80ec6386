"""Extension modules whose tables lie: whoever reads them must neither crash nor be held up."""

import contextlib
import io
import random
import shutil
import struct
import subprocess

import pytest
from elftools.elf.elffile import ELFFile

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.elf import read_extension

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc here")
SOURCE = 'extern int puts(const char*);\nint shout() { return puts("x"); }\n'


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elf")
    (folder / "e.c").write_text(SOURCE)
    subprocess.run(["gcc", "-shared", "-fPIC", "e.c", "-o", "e.so"], cwd=folder, check=True)
    return (folder / "e.so").read_bytes()


def test_an_endless_table_of_versions(library):
    """Four thousand million entries, each of which is followed by itself."""
    data = bytearray(library)
    elf = ELFFile(io.BytesIO(library))
    for number, section in enumerate(elf.iter_sections()):
        if section.name == ".gnu.version_r":
            header = elf["e_shoff"] + number * elf["e_shentsize"]
            struct.pack_into("<I", data, header + 44, 0xFFFFFFFF)
            struct.pack_into("<I", data, section["sh_offset"] + 12, 0)
    with pytest.raises(WheelError, match=r"says that it has 4294967295 entries|more or fewer versions than the chain"):
        read_extension("e.so", io.BytesIO(data))


def test_damaged_tables_are_told_or_read(library):
    headers = struct.unpack_from("<Q", library, 40)[0]
    for seed in range(1500):
        chance = random.Random(seed)
        data = bytearray(library)
        for _ in range(chance.choice((1, 2, 4))):
            at = chance.choice((chance.randrange(64), chance.randrange(headers, len(data)), chance.randrange(0x1000)))
            data[at] = chance.choice((0, 1, 255, chance.randrange(256)))
        with contextlib.suppress(WheelError):
            read_extension("e.so", io.BytesIO(data))
