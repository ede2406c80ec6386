"""The compilers of CUDA 12 come from a pinned package or archive, wherever that lies, and from no other."""

import hashlib
import io
import tarfile

import pytest

from wheelsmith.base.errors import ToolchainError
from wheelsmith.cli.doctor import _toolchains
from wheelsmith.model import PinnedPackage
from wheelsmith.model.events import ignore
from wheelsmith.toolchain.cuda_compilers import _DEBIAN_PATHS, install_compilers
from wheelsmith.toolchain.downloads import fetch_package, is_available_locally
from wheelsmith.toolchain.pip import PipSettings

NAME = "nvidia-cuda-toolkit_12.4.131~12.4.1-2_amd64.deb"
SETTINGS = PipSettings(
    indexes=(), find_links=(), cert=None, client_cert=None, proxy=None, trusted_hosts=(), timeout=10.0
)
FILES = {name: name.encode() for name in _DEBIAN_PATHS}
MORE = {"./usr/bin/nvcc": b"#!/bin/sh\n", "./etc/nvcc.profile": b"Debian's\n"}


def tar(files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755 if "/bin/" in name else 0o644
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("./usr/lib/nvidia-cuda-toolkit/bin/nvcc.profile")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/nvcc.profile"
        archive.addfile(link)
    return data.getvalue()


def package(*members):
    """Return an ar archive, each member with a header of 60 bytes, and an even length."""
    parts = [b"!<arch>\n"]
    for name, content in members:
        parts += [f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode(), content]
        parts.append(b"\n" * (len(content) % 2))
    return b"".join(parts)


def debian(files):
    return package(("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), ("data.tar.xz", tar(files)))


@pytest.fixture
def lay_out(tmp_path):
    def lay_out(content, name=NAME):
        (tmp_path / name).write_bytes(content)
        install_compilers(tmp_path / name, tmp_path / "cuda")
        return {str(p.relative_to(tmp_path / "cuda")): p for p in (tmp_path / "cuda").rglob("*") if p.is_file()}

    return lay_out


def test_they_lie_as_in_nvidias_own_toolkits(lay_out):
    found = lay_out(debian({**MORE, **FILES}))
    profile = found.pop("bin/nvcc.profile").read_text()
    assert "$(TOP)/nvvm/bin" in profile
    assert "Debian" not in profile
    assert {name: path.read_bytes().decode() for name, path in found.items()} == {
        v: k for k, v in _DEBIAN_PATHS.items()
    }
    assert {name for name, path in found.items() if not path.stat().st_mode & 0o111} == {
        "nvvm/libdevice/libdevice.10.bc"
    }


def test_they_lie_so_from_nvidias_archive_too(lay_out):
    top = "cuda_nvcc-linux-x86_64-12.8.93-archive"
    files = {f"{top}/{path}": path.encode() for path in (*_DEBIAN_PATHS.values(), "bin/nvcc.profile", "LICENSE")}
    found = lay_out(tar(files), f"{top}.tar.xz")
    assert "$(TOP)/nvvm/bin" in found.pop("bin/nvcc.profile").read_text()
    assert {name: path.read_bytes().decode() for name, path in found.items()} == {
        path: path for path in _DEBIAN_PATHS.values()
    }
    with pytest.raises(ToolchainError, match=r"12\.8\.93-archive\.tar\.xz lacks bin/ptxas"):
        lay_out(tar({name: content for name, content in files.items() if "ptxas" not in name}), f"{top}.tar.xz")


def test_the_one_that_was_pinned_is_taken_wherever_it_lies(tmp_path, monkeypatch):
    content = debian(FILES)
    pin = PinnedPackage(
        filename=NAME,
        url=f"file://{tmp_path}/nowhere/{NAME}",
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
    )
    places = {name: tmp_path / name for name in ("empty", "other", "right")}
    for folder in places.values():
        folder.mkdir()
    (places["other"] / NAME).write_bytes(debian(MORE))
    monkeypatch.setenv("WHEELSMITH_ARCHIVES", " ".join(map(str, places.values())))
    assert not is_available_locally(PinnedPackage(filename="other.deb", url=pin.url, sha256=pin.sha256, size=1))
    with pytest.raises(ToolchainError) as raised:
        fetch_package(pin, tmp_path, SETTINGS, ignore)
    assert f"{places['other']}/{NAME}: its sha256 differs from the pinned one" in raised.value.message
    assert f"{places['empty']}/{NAME}: it does not exist" in raised.value.message
    assert "WHEELSMITH_ARCHIVES=FOLDER-OR-URL" in raised.value.remedy
    (places["right"] / NAME).write_bytes(content)
    assert fetch_package(pin, tmp_path, SETTINGS, ignore) == places["right"] / NAME
    assert is_available_locally(pin)


def test_doctor_lists_what_is_fetched_when_needed(tmp_path, monkeypatch):
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path))
    _, later = (symptom.found.split(", ") for symptom in _toolchains())
    assert {"CUDA 12.4", "CUDA 12.8", "CUDA 13.0"} <= set(later)
