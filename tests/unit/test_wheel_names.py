"""What a wheel says of itself, and what it installs, in small wheels with nothing compiled."""

from dataclasses import replace

import pytest
from plans import plan
from zips import wheel_entries, write_zip

from wheelsmith.base.errors import WheelError
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
        {"metadata": METADATA + "License: several\n        lines\n"},
        {
            "metadata": METADATA + "License-File: LICENSE\nImport-Name: kernel\n",
            "files": {f"{INFO}/LICENSE": "", "kernel/__init__.py": ""},
        },
        {"files": {"kernel/torch/__init__.py": "", "kernel/pip.py": "", "kernel/a.pth": ""}},
    ],
)
def test_a_legal_wheel_is_accepted(options, tmp_path):
    assert findings(tmp_path, **options) == {}


@pytest.mark.parametrize(
    ("rule", "words", "options"),
    [
        ("name-and-version", "2 lines for Name", {"metadata": METADATA + "Name: torch\n"}),
        ("name-and-version", "is not kernel-1.data", {"files": {"kernel-2.data/purelib/a.py": ""}}),
        ("name-and-version", "contains a.py", {"files": {"kernel-1.data/a.py": ""}}),
        ("tags", "2 lines for Root-Is", {"wheel": WHEEL + "Root-Is-Purelib: false\nTag: py3-none-any\n"}),
        ("installs", "which belongs to", {"files": {"torch.cpython-311-x86_64-linux-gnu.so": ""}}),
        ("installs", "bin/pip3.12, which belongs to pip", {"files": {"kernel-1.data/scripts/pip3.12": "#!python"}}),
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
    spec = replace(plan(1).wheel, distribution="kernel", module="kernel")
    found = _installs(tmp_path, {path: b""}, spec)
    assert (found.ok, "outside its import packages" in found.message) == (False, True)
    assert "kernel.declare" in found.message
    assert _installs(tmp_path, {path: b""}, replace(spec, declared=("*",))).ok
    # A project may have several packages.
    assert _installs(tmp_path, {path: b""}, replace(spec, metadata=None)).ok == (path == OUTSIDE[-1])


@pytest.mark.parametrize("path", OUTSIDE[:-1])
def test_files_outside_of_the_packages_of_other_wheels_are_a_note(path, tmp_path):
    found = _installs(tmp_path, {path: b""})
    assert (found.ok, "outside its import packages: " in found.message) == (True, True)


def test_its_own_names_are_a_projects_own(tmp_path):
    path = tmp_path / "torch-1-py3-none-any.whl"
    points = b"[console_scripts]\ntorchrun = torch:main\n"
    entries = wheel_entries({"torch-1.dist-info/entry_points.txt": points}, name="torch")
    assert check_wheel(write_zip(path, entries)).ok


def test_a_name_for_too_many_tags_is_refused(tmp_path):
    tags = "-".join(".".join(f"a{n}" for n in range(20)) for _ in range(3))
    with pytest.raises(WheelError, match="more than 1000 tags"):
        check_wheel(write_zip(tmp_path / f"kernel-1-{tags}.whl", wheel_entries()))
