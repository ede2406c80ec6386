"""torch's own indexes with pre-releases: wheels of a few kilobytes with torch's layout and real libraries."""

from __future__ import annotations

import base64
import hashlib
import platform
import subprocess
import zipfile
from pathlib import Path
from urllib.parse import quote

from wheels import make_wheel

ARCH = platform.machine()
LIBRARIES = {
    "libc10.so": "namespace c10 { int candidate_answer() { return 42; } }",
    "libtorch_cpu.so": "namespace at { int candidate_tensor() { return 1; } }",
    "libtorch.so": "",
    "libtorch_global_deps.so": "",
}
# The constructor of c10::Error that has std::string of the C++11 ABI.
ERROR = """
#include <string>
namespace c10 {
struct SourceLocation { const char *function; const char *file; unsigned line; };
struct Error { Error(SourceLocation, std::string); };
Error::Error(SourceLocation, std::string) {}
}
"""
VERSION = "__version__ = '{version}'\ndebug = False\ncuda: Optional[str] = {cuda}\ngit_version = '0'\n"
ATEN = "#if __cplusplus < 201703L\n#error C++17 or later compatible compiler is required to use ATen.\n#endif\n"


def compiled(folder: Path, name: str, text: str) -> bytes:
    """Return the bytes of a real shared library."""
    source, library = folder / f"{name}.cpp", folder / name
    source.write_text(text)
    subprocess.run(["g++", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", library, source], check=True)
    return library.read_bytes()


def offer_torch(root: Path, scratch: Path, version: str, *computes: str, **symbols: str) -> None:
    """Add builds of a pre-release to the indexes under ``root``.

    :param symbols: further code of libc10, by any name.
    """
    kind = "nightly" if ".dev" in version else "test"
    for compute in computes:
        own = dict(LIBRARIES, **({"libtorch_cuda.so": "", "libc10_cuda.so": ""} if compute != "cpu" else {}))
        own["libc10.so"] += "".join(symbols.values()) + ERROR
        scratch.mkdir(parents=True, exist_ok=True)
        cuda = "None" if compute == "cpu" else f"'{compute[2:4]}.{compute[4:]}'"
        files = {
            "torch/__init__.py": f"__version__ = '{version}+{compute}'\n".encode(),
            "torch/version.py": VERSION.format(version=f"{version}+{compute}", cuda=cuda).encode(),
            "torch/include/ATen/ATen.h": ATEN.encode(),
            **{f"torch/lib/{name}": compiled(scratch, name, text) for name, text in own.items()},
        }
        folder = root / kind / compute / "torch"
        make_wheel(folder, "torch", f"{version}+{compute}", files=files, tag=f"cp311-cp311-manylinux_2_28_{ARCH}")
        write_page(folder)


def write_page(folder: Path) -> None:
    """Write the page of a project as torch's own index has it."""
    links = (
        f'<a href="{quote(wheel.name)}#sha256={hashlib.sha256(wheel.read_bytes()).hexdigest()}">{wheel.name}</a><br/>\n'
        for wheel in sorted(folder.glob("*.whl"))
    )
    (folder / "index.html").write_text(f"<!DOCTYPE html>\n<html><body>\n{''.join(links)}</body></html>\n")


def offer_real_torch(root: Path, wheel: Path, version: str) -> None:
    """Offer torch's own CPU wheel as a pre-release: only its version differs."""
    old, new = wheel.name.split("-")[1], f"{version}+cpu"
    folder = root / "test" / "cpu" / "torch"
    folder.mkdir(parents=True)
    record = {}
    with (
        zipfile.ZipFile(wheel) as given,
        zipfile.ZipFile(folder / wheel.name.replace(old, new, 1), "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made,
    ):
        for name in given.namelist():
            path = name.replace(f"torch-{old}.dist-info", f"torch-{new}.dist-info")
            if name.endswith(".dist-info/RECORD"):
                info = path
                continue
            data = given.read(name)
            if name == "torch/version.py" or name.endswith(".dist-info/METADATA"):
                data = data.replace(old.encode(), new.encode())
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record[path] = f"{path},sha256={digest},{len(data)}"
            member = zipfile.ZipInfo(path)
            member.external_attr = given.getinfo(name).external_attr
            made.writestr(member, data, zipfile.ZIP_DEFLATED)
        made.writestr(info, "\n".join([*record.values(), f"{info},,", ""]))
    write_page(folder)
