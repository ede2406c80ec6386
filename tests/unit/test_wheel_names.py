"""What a wheel says of itself, what it installs and what it requires, in small wheels with nothing compiled."""

from dataclasses import replace

import pytest
from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename
from zips import tag_lines, wheel_entries, write_zip

from wheelsmith.base.errors import WheelError
from wheelsmith.frameworks import torch_releases
from wheelsmith.model import WheelSpec
from wheelsmith.wheel.check import check_wheel
from wheelsmith.wheel.headers import read_headers
from wheelsmith.wheel.marker_environments import environments, named_pythons
from wheelsmith.wheel.requirements import read_requirements, requires_python, torch_markers, torch_requirement

INFO = "kernel-1.dist-info"
NEWEST = list(torch_releases())[-1]
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
        {"metadata": METADATA.replace("Name: kernel", "Name: Kernel")},
        {"metadata": METADATA.replace("\n", "\r\n") + "\r\nText\r\n"},
        {"metadata": METADATA + "\nA description.\n\nName: not a header\n"},
        {"metadata": METADATA + "Summary: Kérnel ✓\n\nDéscription\n"},
        {"metadata": METADATA + "License: several\n        lines\n"},
        {
            "metadata": METADATA + "License-File: LICENSE\nImport-Name: kernel\n",
            "files": {f"{INFO}/LICENSE": "", "kernel/__init__.py": ""},
        },
        {"metadata": METADATA + "Requires-Python: >=3.9,!=3.9.7\n"},
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
        {"filename": "kernel-1-2post-py3-none-any.whl", "wheel": WHEEL + "Build: 2post\nTag: py3-none-any\n"},
        {"filename": "kernel-1-py2.py3-none-any.whl", "wheel": WHEEL + tag_lines("py2.py3-none-any")},
        {"filename": "kernel-1-py2.py3-none-any.whl", "wheel": WHEEL + "Tag: py2.py3-none-any\n"},
        {"wheel": WHEEL.replace("\n", "\r\n") + "Tag: py3-none-any\r\n"},
        {"wheel": WHEEL.replace("1.0", "1.9") + "Tag: py3-none-any\n"},
        {"files": {"kernel-1.data/scripts/run-kernel": "#!python", "kernel-1.data/purelib/kernel/more.py": ""}},
        {"files": {"yaml_like/__init__.py": "", "_kernel.py": ""}},
        {"files": {f"{INFO}/entry_points.txt": "[console_scripts]\nrun-kernel = kernel:main\n"}},
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
        ("name-and-version", "METADATA says Ké", {"metadata": METADATA.replace("kernel", "Kérnel")}),
        ("name-and-version", "METADATA says version 2", {"metadata": METADATA.replace(": 1\n", ": 2\n")}),
        ("name-and-version", "version 1+cu130", {"metadata": METADATA.replace(": 1\n", ": 1+cu130\n")}),
        ("name-and-version", "0 lines for Name", {"metadata": METADATA.replace("Name: kernel\n", "")}),
        ("name-and-version", "2 lines for Name", {"metadata": METADATA + "Name: torch\n"}),
        ("name-and-version", "2 lines for Version", {"metadata": METADATA + "version: 2\n"}),
        ("name-and-version", "METADATA says version", {"metadata": METADATA.replace(": 1\n", f": {'9' * 6000}\n")}),
        ("name-and-version", "belongs to another project", {"filename": "other-1-py3-none-any.whl"}),
        ("name-and-version", "belongs to another project", {"filename": "kernel-2-py3-none-any.whl"}),
        ("name-and-version", "is not kernel-1.data", {"files": {"kernel-2.data/purelib/a.py": ""}}),
        ("name-and-version", "is not kernel-1.data", {"files": {"torch.data/platlib/torch/a.py": ""}}),
        ("name-and-version", "holds stdlib", {"files": {"kernel-1.data/stdlib/os.py": ""}}),
        ("name-and-version", "a.py (a file)", {"files": {"kernel-1.data/a.py": ""}}),
        ("metadata", "no header: 'nonsense'", {"metadata": METADATA + "nonsense\nRequires-Dist: torch==2.6.*\n"}),
        ("metadata", "no header", {"metadata": "\ufeff" + METADATA}),
        ("metadata", "goes over several lines", {"metadata": METADATA + "Requires-Dist: numpy\n ; extra == 'x'\n"}),
        ("metadata", "control character", {"metadata": METADATA + "Summary: a\rName: torch\n"}),
        ("metadata", "control character", {"metadata": METADATA + "Summary: a\u2028Name: torch\n"}),
        ("metadata", "is not UTF-8", {"metadata": METADATA.encode() + b"Summary: \xff\n"}),
        ("metadata", "description is not UTF-8", {"metadata": METADATA.encode() + b"\n\xff\n"}),
        ("metadata", "cannot be read", {"metadata": METADATA + "Requires-Dist: not a requirement!\n"}),
        ("metadata", "cannot be read", {"metadata": METADATA + "Requires-Dist: tôrch==2.11.*\n"}),
        ("metadata", "nested too deeply", {"metadata": METADATA + f"Requires-Dist: a; {'(' * 3000}\n"}),
        ("metadata", "has a number of 100 digits", {"metadata": METADATA + f"Requires-Dist: a=={'9' * 5000}\n"}),
        ("metadata", "more than 5000", {"metadata": METADATA + "Requires-Dist: a\n" * 5001}),
        ("metadata", "Requires-Python 'three'", {"metadata": METADATA + "Requires-Python: three\n"}),
        ("metadata", "kinds of headers", {"metadata": METADATA + "".join(f"X{n}: a\n" for n in range(300))}),
        ("metadata", "its headers are longer", {"metadata": METADATA + "Classifier: a\n" * 20_000}),
        ("metadata", "", {"metadata": METADATA.replace("2.1", "9.9")}),
        ("tags", "WHEEL says py2-none-any", {"wheel": WHEEL + "Tag: py2-none-any\n"}),
        ("tags", "WHEEL says nothing", {"wheel": WHEEL}),
        ("tags", "WHEEL says py2-none-any, py3-none-any", {"wheel": WHEEL + tag_lines("py2.py3-none-any")}),
        ("tags", "no tag", {"wheel": WHEEL + "Tag: py3-none-any\nTag: pý3-none-any\n"}),
        ("tags", "no tag", {"wheel": WHEEL + "Tag: py3-none-any\nTag: nonsense\n"}),
        ("tags", "no tag", {"wheel": WHEEL + "Tag: py3-none-any\nTag: .3-none-any\n"}),
        ("tags", "no tag", {"wheel": WHEEL + "Tag: py3-none-any\nTag: " + "-".join(["a." * 40 + "a"] * 3) + "\n"}),
        ("tags", "installers know 1.0", {"wheel": WHEEL.replace("1.0", "2.0") + "Tag: py3-none-any\n"}),
        ("tags", "installers know 1.0", {"wheel": WHEEL.replace("1.0", "one") + "Tag: py3-none-any\n"}),
        ("tags", "installers know 1.0", {"wheel": "Root-Is-Purelib: true\nTag: py3-none-any\n"}),
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


KNOWN = ("2.9", "2.10", "2.11", "2.12")
ONE = "cp311-cp311-manylinux_2_28_x86_64"


def torch(*lines, tag=ONE, python=""):
    """Return what is required of torch: text, known releases, others, where none is needed, what is wrong."""
    tags = parse_wheel_filename(f"kernel-1-{tag}.whl")[3]
    read = read_requirements(lines)
    assert not read.wrong
    return torch_requirement(read.lines, environments(tags, SpecifierSet(python)), KNOWN)


@pytest.mark.parametrize(
    "lines",
    [
        ("torch==2.11.*",),
        ("Torch==2.11.*",),
        ("TORCH (==2.11.*)",),
        ("torch==2.11.0",),
        ("torch==2.11.1",),
        ("torch===2.11.0",),
        ("torch==2.11.0+cu130",),
        ("torch==2.11.*,!=2.11.1",),
        ("torch~=2.11.0",),
        ("torch>=2.11,<2.12",),
        ("torch>=2.11", "torch<2.12"),
        ("torch>=2.9", "torch==2.11.*"),
        ("torch>=2.11.0,<=2.11.3",),
        ("torch[opt-einsum]==2.11.*",),
        ("torch==2.11.*; sys_platform == 'linux'",),
        ("torch==2.11.*; platform_machine == 'x86_64'", "torch==2.9.*; platform_machine == 'aarch64'"),
        ("torch==2.11.*", "torch==2.11.0; extra == 'old'"),
        ("torch==2.11.*; python_version >= '3.11'", "torch==2.9.*; python_version < '3.11'"),
    ],
)
def test_one_release_is_required(lines):
    found = torch(*lines)
    assert (found.releases, found.beyond, found.absent, found.wrong) == (("2.11",), (), (), ())


@pytest.mark.parametrize(
    ("lines", "releases", "beyond"),
    [
        (("torch",), KNOWN, ("older than 2.9", "later than 2.12")),
        (("torch>=2.11",), ("2.11", "2.12"), ("later than 2.12",)),
        (("torch>=2.11,<3",), ("2.11", "2.12"), ("later than 2.12",)),
        (("torch<2.11",), ("2.9", "2.10"), ("older than 2.9",)),
        (("torch~=2.10",), ("2.10", "2.11", "2.12"), ("later than 2.12",)),
        (("torch!=2.11.*,>=2.10,<2.13",), ("2.10", "2.12"), ()),
        (("torch==2.13.*",), (), ("later than 2.12",)),
        (("torch==2.13.0.dev20260101",), (), ("the pre-release 2.13.0.dev20260101",)),
        (("torch==1.13.1",), (), ("older than 2.9",)),
    ],
)
def test_what_a_range_reaches(lines, releases, beyond):
    found = torch(*lines)
    assert (found.releases, found.beyond, found.wrong) == (releases, beyond, ())


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("torch==2.11.*", "torch<2.11"), "no release can be torch"),
        (("torch==2.11.*,==2.12.*",), "no release can be torch"),
        (("torch===nonsense",), "no release can be torch"),
        (("torch @ https://example.org/torch-2.11.0-py3-none-any.whl",), "from a URL"),
        (("torch==2.11.*",) * 21, "21 lines"),
        (("torch" + ",".join(f"!=2.{n}" for n in range(90)),), "too many clauses"),
        (("torch; " + " or ".join(["os_name == 'a'"] * 90),), "longer than 1000"),
    ],
)
def test_what_cannot_be_had_or_known(lines, words):
    assert words in torch(*lines).wrong[0]


def test_a_requirement_for_some_environments_only():
    some = torch("torch==2.11.*; python_version < '3.12'", tag="cp39-abi3-manylinux_2_28_x86_64", python=">=3.9")
    assert some.absent[0] == "Python 3.12 on linux x86_64"
    assert torch("torch==2.11.*; sys_platform == 'win32'") is None
    assert torch("torch==2.11.*; extra == 'torch'") is None
    both = torch(
        "torch==2.11.*; platform_machine == 'x86_64'",
        "torch==2.12.*; platform_machine != 'x86_64'",
        tag="py3-none-any",
    )
    assert both.releases == ("2.11", "2.12")


def test_the_stable_abi_serves_later_pythons():
    versions = {
        item["python_version"]
        for item in environments(parse_wheel_filename("k-1-cp310-abi3-linux_x86_64.whl")[3], SpecifierSet("<3.13"))
    }
    assert versions == {"3.10", "3.11", "3.12"}


@pytest.mark.parametrize(
    ("version", "requires", "words"),
    [
        ("1+cu130.torch2.11", ("torch==2.11.*",), None),
        ("1+cu130.torch2.11", ("Torch>=2.11,<2.12",), None),
        ("1+cu130", ("torch>=2.11",), None),
        ("1+cu130", (), None),
        ("1+cu130.torchstable", ("torch>=2.11",), None),
        ("1+cu130.torchstable", ("torch>=2.16",), None),
        ("1+cu130.torchstable", (), "the version says torchstable, and no torch is required"),
        ("1+cu130.torchstable", ("torch==2.11.*",), f"which leaves out torch {NEWEST}"),
        ("1+cu130.torchstable", ("torch>=2.11,<2.13",), f"which leaves out torch {NEWEST}"),
        ("1", (), None),
        ("1+cu130.torch2.11", (), "no torch is required"),
        ("1+cu130.torch2.11", ("torch==2.11.*; extra == 'torch'",), "no torch is required"),
        ("1+cu130.torch2.11", ("torch==2.11.*; python_version < '3.12'",), "no torch is required for Python 3.12"),
        ("1+cu130.torch2.11", ("torch==2.12.*",), "which may be 2.12"),
        ("1+cu130.torch2.11", ("torch>=2.11",), "which may be 2.12"),
        ("1+cu130.torch2.11", ("torch>=2.11", "torch<2.11"), "no release can be"),
        ("1+cu130.torch2.11", ("torch @ https://example.org/torch.whl",), "from a URL"),
        ("1+cpu.torch2.11", ("torch==2.11.*", "torch==2.12.*; sys_platform == 'linux'"), "no release can be"),
        ("1+cu130", ("torch==2.11.*",), None),
        ("1+cu130.torch2.11", ("torch==2.11.0+cu130",), None),
        ("1+cu130.torch2.11", ("torch==2.11.0+git1234567",), None),
        ("1+cu130.torch2.11", ("torch==2.11.*,!=2.11.0+cpu",), None),
        ("1+cu130", ("torch===2.11.0+cpu",), "torch for cpu"),
        ("1+cpu.torch2.11", ("torch==2.11.0+cu118.with.pypi.cudnn",), "torch for cu118"),
        ("1+cpu.torch2.11", ("torch==2.11.0+rocm6.4",), "torch for rocm6"),
        ("1", ("torch<2", "torch>2"), "no release can be"),
    ],
)
def test_the_version_names_the_torch_that_is_required(version, requires, words, tmp_path):
    metadata = METADATA.replace("Version: 1", f"Version: {version}") + "Requires-Python: >=3.9\n"
    found = findings(tmp_path, version=version, metadata=metadata + "".join(f"Requires-Dist: {r}\n" for r in requires))
    assert found == {} if words is None else words in found["torch-requirement"]


def test_requires_python_is_followed_within_reason():
    assert requires_python(None) == SpecifierSet()
    assert requires_python("three") is None
    assert requires_python(f">={'9' * 5000}") is None
    assert requires_python(",".join([">=3"] * 1000)) is None


def test_headers_are_read_as_mail_is():
    headers = read_headers(b"Name: a\nname:  b \nSummary: one\n two\n\nName: c\n")
    assert headers.get_all("NAME") == ("a", "b ")
    assert (headers.get("Summary"), headers.get("Version"), headers.wrong) == ("one\n two", None, ())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('python_full_version != "3.11.9"', 'python_full_version == "3.11.9"'),
        ('implementation_version != "3.11.9"', 'implementation_version == "3.11.9"'),
        ('python_full_version != "3.11.0rc1"', 'python_full_version == "3.11.0rc1"'),
        ('python_full_version <= "3.11.4"', 'python_full_version > "3.11.4"'),
        (
            'python_full_version < "3.11.5" or python_full_version >= "3.11.7"',
            'python_full_version >= "3.11.5" and python_full_version < "3.11.7"',
        ),
    ],
)
def test_a_marker_may_single_out_a_patch_release(one, other):
    tag, python = parse_wheel_filename("k-1-cp311-cp311-linux_x86_64.whl")[3], SpecifierSet(">=3.11,<3.12")
    read = read_requirements([f"torch==2.11.*; {one}", f"torch==2.10.*; {other}"])
    found = environments(tag, python, named_pythons(torch_markers(read.lines)))
    assert torch_requirement(read.lines, found, KNOWN).releases == ("2.10", "2.11")


def test_what_no_tag_says_is_not_followed():
    assert "no tag says" in torch("torch==2.11.*; platform_release == ''").wrong[0]
    assert "no tag says" in torch("torch==2.11.*; 'a' in platform_version").wrong[0]
    many = " or ".join(f"python_full_version == '3.11.{patch}'" for patch in range(1, 70, 3))
    assert "too many versions of Python" in torch(f"torch==2.11.*; {many}").wrong[0]
