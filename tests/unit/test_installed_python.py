"""A Python of the machine is a part of what a project is built from: by its headers and options, not its place."""

import sysconfig
from dataclasses import replace

import pytest

from wheelsmith.engine import with_python_digest
from wheelsmith.engine.backend import project
from wheelsmith.engine.installed_python import hide_unusable_pythons
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


def host_of(prefix, image=None):
    return BuildHost(
        image=image,
        machine="x86_64",
        python="3.11",
        toolsets=(),
        pythons={"3.11": f"{prefix}/bin/python3.11"},
        toolkits={},
    )


def digest_of(prefix, version="3.11", image=None):
    host = host_of(prefix, image)
    return with_python_digest(host, version).python_digests.get("3.11")


@pytest.fixture
def known(tmp_path):
    return installed(tmp_path / "a")


def test_its_place_does_not_count_nor_where_it_was_built(known, tmp_path):
    assert known == installed(tmp_path / "elsewhere", built="/home/me/2")
    (tmp_path / "elsewhere/lib/python3.11/os.py").write_text("more")
    assert known == digest_of(tmp_path / "elsewhere")


def test_fedora_keeps_its_options_in_lib64(tmp_path):
    installed(tmp_path / "a")
    installed(tmp_path / "b", options=OPTIONS.replace("-O3", "-O2"))
    for name in "ab":
        (tmp_path / name / "lib").rename(tmp_path / name / "lib64")
    assert digest_of(tmp_path / "a") != digest_of(tmp_path / "b")


@pytest.mark.parametrize(
    ("prefix", "why"),
    [
        ("/work/python", "it is in /work"),
        ("/tmp/python", "it is in /tmp"),
        ("/home/a,b/python", "at the comma"),
        ("/opt/python/cp311-cp311", None),
        ("/workshop", None),
    ],
)
def test_a_python_that_another_would_be_found_in_the_place_of_is_not_taken(prefix, why):
    host = hide_unusable_pythons(host_of(prefix))
    assert ("3.11" in host.pythons) is (why is None)
    assert (why or "") in host.hidden_pythons.get("3.11", "")
    assert hide_unusable_pythons(replace(host, pythons={})).pythons == {}


@pytest.mark.parametrize(
    ("said", "linker"),
    [
        ("gcc -shared -Wl,-rpath,/p/lib -L/p/lib", "gcc -shared -L/p/lib"),
        ("gcc -shared -Wl,-rpath=/p/lib -Wl,-rpath-link,/p/lib", "gcc -shared"),
        ("gcc -shared -Wl,--rpath,/p/lib -Wl,-R/p/lib", "gcc -shared -Wl,-R/p/lib"),
        ("gcc -shared -Wl,-rpath,/p/lib,-z,now", None),
    ],
)
def test_extensions_do_not_look_where_their_builders_python_is(said, linker, monkeypatch):
    known = {"prefix": "/p", "LDSHARED": said, "LDCXXSHARED": None, "CC": "gcc", "CXX": "g++"}
    monkeypatch.setattr(sysconfig, "get_config_var", known.get)
    for name in ("LDSHARED", "LDCXXSHARED", "CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    assert project._linker_variables() == ({"LDSHARED": linker} if linker else {})
    if linker:
        monkeypatch.setenv("CC", "clang -v")
        assert project._linker_variables()["LDSHARED"] == linker.replace("gcc", "clang -v")
        monkeypatch.setenv("LDSHARED", "mine")
        assert project._linker_variables() == {}


@pytest.mark.parametrize(
    "other",
    [
        {"header": "#define A 2\n"},
        {"apart": "#define B 1\n"},
        {"options": OPTIONS.replace("-O3", "-O2")},
        {"options": OPTIONS.replace("'CFLAGS': '-O3', ", "")},
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
