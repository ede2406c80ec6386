"""What a wheel says of itself, and what it installs, in small wheels with nothing compiled."""

from dataclasses import replace

import pytest
from zips import tag_lines, wheel_entries, write_zip

from wheelsmith.base.errors import WheelError
from wheelsmith.model import WheelSpec
from wheelsmith.wheel.check import check_wheel

INFO = "kernel-1.dist-info"
METADATA = "Metadata-Version: 2.1\nName: kernel\nVersion: 1\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n"


def findings(
    tmp_path, *, filename=None, version="1", name="kernel", metadata=None, wheel=None, files=None, declared=()
):
    """Check a wheel and give what is wrong: rule → message."""
    path = tmp_path / (filename or f"kernel-{version}-py3-none-any.whl")
    entries = wheel_entries(
        {file: data.encode() for file, data in (files or {}).items()},
        name=name,
        version=version,
        metadata=metadata if isinstance(metadata, bytes | None) else metadata.encode(),
        wheel=wheel if isinstance(wheel, bytes | None) else wheel.encode(),
    )
    return {f.rule: f.message for f in check_wheel(write_zip(path, entries), declared=declared).findings if not f.ok}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"metadata": METADATA.replace("\n", "\r\n") + "\r\nText\r\n"},
        {"metadata": METADATA + "License: several\n        lines\n"},
        {
            "metadata": METADATA + "License-File: LICENSE\nImport-Name: kernel\n",
            "files": {f"{INFO}/LICENSE": "", "kernel/__init__.py": ""},
        },
        {"metadata": METADATA.replace("Version: 1\n", "Version: 1.0.0\n")},
        {"metadata": METADATA.replace("Version: 1\n", "Version: v1\n")},
        {
            "filename": "kernel-2024.1.2-py3-none-any.whl",
            "version": "2024.01.02",
            "metadata": METADATA.replace("Version: 1\n", "Version: 2024.01.02\n"),
        },
        {
            "filename": "my_kernel-1-py3-none-any.whl",
            "name": "My.Kernel",
            "metadata": METADATA.replace("Name: kernel", "Name: My.Kernel"),
        },
        {"filename": "kernel-1-py2.py3-none-any.whl", "wheel": WHEEL + "Tag: py2.py3-none-any\n"},
        {"files": {"yaml_like/__init__.py": "", "_kernel.py": ""}},
        {"files": {f"{INFO}/entry_points.txt": "[other.group]\npip = kernel:main\n"}},
        {"files": {"kernel/torch/__init__.py": "", "kernel/pip.py": "", "kernel/a.pth": ""}},
    ],
)
def test_a_legal_wheel_is_accepted(options, tmp_path):
    assert findings(tmp_path, **options) == {}


@pytest.mark.parametrize(
    ("rule", "words", "options"),
    [
        ("name-and-version", "METADATA says other", {"metadata": METADATA.replace("kernel", "other")}),
        ("name-and-version", "METADATA says version 2", {"metadata": METADATA.replace(": 1\n", ": 2\n")}),
        ("name-and-version", "0 lines for Name", {"metadata": METADATA.replace("Name: kernel\n", "")}),
        ("name-and-version", "2 lines for Name", {"metadata": METADATA + "Name: torch\n"}),
        ("name-and-version", "belongs to another project", {"filename": "other-1-py3-none-any.whl"}),
        ("name-and-version", "is not kernel-1.data", {"files": {"kernel-2.data/purelib/a.py": ""}}),
        ("name-and-version", "holds stdlib", {"files": {"kernel-1.data/stdlib/os.py": ""}}),
        ("name-and-version", "holds a.py", {"files": {"kernel-1.data/a.py": ""}}),
        ("metadata", "line that is no header", {"metadata": METADATA + "nonsense\nRequires-Dist: torch==2.6.*\n"}),
        ("metadata", "is no UTF-8", {"metadata": METADATA.encode() + b"Summary: \xff\n"}),
        ("metadata", "is no UTF-8", {"metadata": METADATA.encode() + b"\n\xff\n"}),
        ("metadata", "cannot be read", {"metadata": METADATA + "Requires-Dist: not a requirement!\n"}),
        ("metadata", "", {"metadata": METADATA.replace("2.1", "9.9")}),
        ("tags", "WHEEL says nothing", {"wheel": WHEEL}),
        ("tags", "WHEEL says py2-none-any, py3-none-any", {"wheel": WHEEL + tag_lines("py2.py3-none-any")}),
        ("tags", "no tag", {"wheel": WHEEL + "Tag: py3-none-any\nTag: nonsense\n"}),
        ("tags", "installers know 1.0", {"wheel": WHEEL.replace("1.0", "2.0") + "Tag: py3-none-any\n"}),
        ("tags", "it is true or false", {"wheel": WHEEL.replace("true", "maybe") + "Tag: py3-none-any\n"}),
        ("tags", "2 lines for Root-Is", {"wheel": WHEEL + "Root-Is-Purelib: false\nTag: py3-none-any\n"}),
        ("tags", "says build '2'", {"wheel": WHEEL + "Build: 2\nTag: py3-none-any\n"}),
        (
            "tags",
            "the file name '3'",
            {"filename": "kernel-1-3-py3-none-any.whl", "wheel": WHEEL + "Build: 2\nTag: py3-none-any\n"},
        ),
        ("tags", "excludes every Python", {"metadata": METADATA + "Requires-Python: <3\n"}),
        ("purity", "Root-Is-Purelib: false", {"wheel": WHEEL.replace("true", "false") + "Tag: py3-none-any\n"}),
        ("installs", "torch's", {"files": {"torch/__init__.py": ""}}),
        ("installs", "torch's", {"files": {"torch.cpython-311-x86_64-linux-gnu.so": ""}}),
        ("installs", "torch's", {"files": {"kernel-1.data/purelib/torch/hub.py": ""}}),
        ("installs", "the standard library's", {"files": {"json/__init__.py": ""}}),
        ("installs", "the project torch-99's", {"files": {"torch-99.egg-info/PKG-INFO": "Name: torch"}}),
        ("installs", "bin/pip3.12, which is pip's", {"files": {"kernel-1.data/scripts/pip3.12": "#!python"}}),
        ("installs", "bin/pip, which", {"files": {f"{INFO}/entry_points.txt": "[console_scripts]\npip = kernel:main"}}),
        ("entry-points", "no module:function", {"files": {f"{INFO}/entry_points.txt": "[gui_scripts]\na = kernel"}}),
        ("entry-points", "cannot be read", {"files": {f"{INFO}/entry_points.txt": "[gui_scripts]\na\n"}}),
    ],
)
def test_a_wheel_that_says_something_else_is_refused(rule, words, options, tmp_path):
    found = findings(tmp_path, **options)
    assert words in found[rule]


def test_another_projects_file_may_be_declared(tmp_path):
    files = {"kernel-1.data/scripts/pip": "", "kernel-1.data/purelib/torch/a.py": ""}
    assert set(findings(tmp_path, files=files)) == {"installs"}
    assert findings(tmp_path, files=files, declared=("bin/pip", "torch/*")) == {}
    assert "torch/a.py" in findings(tmp_path, files=files, declared=("bin/pip",))["installs"]


OUTSIDE = ("kernel.pth", "README.md", "kernel-1.data/data/etc/a.conf", "kernel-1.data/scripts/run", "more/__init__.py")


def _installs(folder, files, spec=None):
    path = write_zip(folder / "kernel-1-py3-none-any.whl", wheel_entries(files, name="kernel", version="1"))
    return next(found for found in check_wheel(path, spec).findings if found.rule == "installs")


@pytest.mark.parametrize("path", OUTSIDE)
def test_files_outside_of_a_kernels_package_are_declared(path, tmp_path):
    spec = WheelSpec(
        distribution="kernel",
        version="1",
        python_tag="py3",
        abi_tag="none",
        platform="any",
        metadata="",
        module="kernel",
        gpu_archs=(),
        release=None,
        toolkit=None,
        arch="any",
        stable_abi=None,
    )
    found = _installs(tmp_path, {path: b""}, spec)
    assert (found.ok, "outside of its import packages" in found.message) == (False, True)
    assert "kernel.declare" in found.message
    assert _installs(tmp_path, {path: b""}, replace(spec, declared=("*",))).ok
    # A project may have several packages.
    assert _installs(tmp_path, {path: b""}, replace(spec, metadata=None)).ok == (path == OUTSIDE[-1])


@pytest.mark.parametrize("path", OUTSIDE[:-1])
def test_files_outside_of_the_packages_of_other_wheels_are_a_note(path, tmp_path):
    found = _installs(tmp_path, {path: b""})
    assert (found.ok, "outside of its import packages: " in found.message) == (True, True)


def test_its_own_names_are_a_projects_own(tmp_path):
    path = tmp_path / "torch-1-py3-none-any.whl"
    points = b"[console_scripts]\ntorchrun = torch:main\n"
    entries = wheel_entries({"torch-1.dist-info/entry_points.txt": points}, name="torch")
    assert check_wheel(write_zip(path, entries)).ok


def test_a_name_for_too_many_tags_is_refused(tmp_path):
    tags = "-".join(".".join(f"a{n}" for n in range(20)) for _ in range(3))
    path = write_zip(tmp_path / f"kernel-1-{tags}.whl", wheel_entries())
    with pytest.raises(WheelError, match="more than 1000 tags"):
        check_wheel(path)
