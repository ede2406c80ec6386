"""A Python of the machine is a part of what a project is built from: by its headers and options, not its place."""

import pytest

from wheelsmith.engine import with_python_digest
from wheelsmith.model import BuildHost, ImageId

OPTIONS = (
    "build_time_vars = {{'CFLAGS': '-O3', 'LDSHARED': 'gcc -L{prefix}/lib', 'abs_srcdir': '{built}',"
    " 'prefix': '{prefix}'}}"
)


def installed(prefix, *, built="/tmp/1", options=OPTIONS, header="#define A 1\n", apart=""):
    """Lay out as much of a Python as is looked at, and give its digest."""
    for folder in ("bin", "lib/python3.11", "include/python3.11/cpython", "include/x86_64-linux-gnu/python3.11"):
        (prefix / folder).mkdir(parents=True)
    (prefix / "bin/python3.11").touch()
    (prefix / "include/python3.11/cpython/object.h").write_text(header)
    (prefix / "include/x86_64-linux-gnu/python3.11/pyconfig.h").write_text(apart)
    data = options.format(prefix=prefix, built=built) if options else ""
    (prefix / "lib/python3.11/_sysconfigdata__linux_x86_64-linux-gnu.py").write_text(data)
    return digest_of(prefix)


def digest_of(prefix, version="3.11", image=None):
    host = BuildHost(
        image=image,
        machine="x86_64",
        python="3.11",
        toolsets=(),
        pythons={"3.11": str(prefix / "bin/python3.11")},
        cuda=None,
    )
    return with_python_digest(host, version).python_digests.get("3.11")


@pytest.fixture
def known(tmp_path):
    return installed(tmp_path / "a")


def test_its_place_does_not_count_nor_where_it_was_built(known, tmp_path):
    assert known == installed(tmp_path / "elsewhere", built="/home/me/2")
    (tmp_path / "elsewhere/lib/python3.11/os.py").write_text("more")
    assert known == digest_of(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    "other",
    [
        {"header": "#define A 2\n"},
        {"apart": "#define B 1\n"},
        {"options": OPTIONS.replace("-O3", "-O2")},
        {"options": OPTIONS.replace("'CFLAGS': '-O3', ", "")},
        {"options": "import os"},
        {"options": "build_time_vars = [1]"},
        {"options": ""},
    ],
    ids=str,
)
def test_headers_and_options_count(known, other, tmp_path):
    assert known != installed(tmp_path / "b", **other)


def test_an_images_python_is_counted_with_the_image(known, tmp_path):
    assert known
    assert digest_of(tmp_path / "a", image=ImageId(name="debian", digest="sha256:1")) is None
    assert digest_of(tmp_path / "a", version=None) is None
    assert digest_of(tmp_path / "a", version="3.12") is None
