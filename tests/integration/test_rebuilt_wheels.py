"""A wheel records its plan; built again from it, it is the same, and what was changed in it is found and named."""

import functools
import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import wants
from factory import Factory
from kernels import matrix, tiny_kernel, write
from loopback import serving, serving_files
from plans import plan
from sampled import sampled
from wheels import make_wheel

from wheelsmith.base.json_dataclass import canonical_json
from wheelsmith.model import ImageId, Project

pytestmark = pytest.mark.xdist_group("rebuilt wheels")

SETTINGS = "toolchain: host\n"
MATRIX, SOURCE = ("--matrix", "matrix.yaml"), ("--source", "k")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A compiled kernel and a pure one, built."""
    wants.program("g++")
    factory = Factory.at(tmp_path_factory.mktemp("rebuilt"))
    tiny_kernel(factory.folder / "k")
    matrix(factory.folder, "k", more=SETTINGS)
    answer = factory.run("build-matrix", "--engine", "bwrap")
    assert answer.returncode == 0, answer.stderr
    return factory


@pytest.fixture
def wheel(made, tmp_path):
    """A copy, to change."""
    (path,) = (made.folder / "dist/wheels").glob("*.whl")
    return shutil.copy(path, tmp_path / path.name)


def change(path, **members):
    """Change members of a wheel, by the ends of their names, and have RECORD agree; None leaves one out."""
    folder = path.parent / "unpacked"
    subprocess.run([sys.executable, "-m", "wheel", "unpack", path, "-d", folder], check=True, capture_output=True)
    (root,) = folder.iterdir()
    for end, make in members.items():
        (file,) = (each for each in root.rglob("*") if each.is_file() and each.name.endswith(end.replace("__", ".")))
        file.write_bytes(make(file.read_bytes()))
    path.unlink()
    subprocess.run([sys.executable, "-m", "wheel", "pack", root, "-d", path.parent], check=True, capture_output=True)
    shutil.rmtree(folder)


def again(made, *argv):
    answer = made.run("verify-rebuild", "--engine", "bwrap", "--json", *map(str, argv))
    return answer, json.loads(answer.stdout)["wheels"] if answer.stdout else []


def test_a_wheel_names_the_plan_that_its_results_name(made, wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/build-plan.json"))
        text = archive.read(name)
    (cell,) = made.results().values()
    assert hashlib.sha256(text).hexdigest() == cell["plan_digest"]
    assert canonical_json(json.loads(text)) == text
    assert str(made.folder) not in text.decode()


def test_a_wheel_tells_what_it_consists_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if "/sboms/" in each)
        found = json.loads(archive.read(name))
        (extension,) = (archive.read(each) for each in archive.namelist() if each.endswith(".so"))
    assert name == "tiny-1+cpu.torch2.13.dist-info/sboms/tiny.cdx.json"
    linked = {each["name"] for each in found["components"] if each["bom-ref"].startswith("linked:")}
    assert "libc.so.6" in linked
    assert all(library.encode() in extension for library in linked)
    assert subprocess.run([sys.executable, "-m", "twine", "check", "--strict", wheel]).returncode == 0


@pytest.mark.network
@pytest.mark.parametrize("by", [MATRIX, pytest.param(SOURCE, marks=pytest.mark.release("the same from a source"))])
def test_it_is_equal_by_its_matrix_and_by_its_source(made, wheel, by):
    answer, (found,) = again(made, wheel, *by)
    assert (answer.returncode, found["verdict"], found["differences"]) == (0, "equal", []), answer.stderr
    assert found["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()


@pytest.mark.release("each builds a wheel again; the first ones are quick")
@pytest.mark.network
def test_a_whole_index_is_built_again(made):
    answer, found = again(made, "dist")
    assert (answer.returncode, [each["verdict"] for each in found]) == (0, ["equal"]), answer.stderr


@pytest.fixture
def address(made):
    with serving(made.folder / "dist" / "index") as url:
        yield url


@pytest.mark.release("each builds a wheel again; the first ones are quick")
@pytest.mark.network
@pytest.mark.parametrize("root", sampled(["simple/", "cpu"], "cpu"))
def test_a_published_index_is_built_again_from_its_address(made, address, root):
    answer, found = again(made, f"{address}/{root}")
    assert (answer.returncode, [each["verdict"] for each in found]) == (0, ["equal"]), answer.stderr


def test_the_address_of_a_whole_index_is_answered_with_the_one_to_use(made, address):
    answer, _ = again(made, address)
    assert answer.returncode == 4
    assert f"verify one of them, as in {address.rstrip('/')}/simple/" in answer.stderr


@pytest.mark.release("each builds a wheel again; the first ones are quick")
@pytest.mark.parametrize("link", ["http://[::1/x", "file:///etc/tiny"])
def test_a_wheel_of_an_index_that_cannot_be_fetched_is_not_passed_over(made, wheel, tmp_path, link):
    page = tmp_path / "served/simple/tiny/index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="{link}-1-py3-none-any.whl">tiny-1-py3-none-any.whl</a>')
    (page.parents[1] / "index.html").write_text('<a href="tiny/">tiny</a>')
    with serving_files(tmp_path / "served") as url:
        answer, found = again(made, f"{url}/simple/")
    assert (answer.returncode, found) == (4, []), answer.stderr


@pytest.mark.release("each builds a wheel again; the first ones are quick")
@pytest.mark.network
def test_a_wheel_that_cannot_be_read_takes_nobodys_answer(made, wheel, tmp_path):
    (tmp_path / "folder").mkdir()
    shutil.copy(wheel, tmp_path / "folder")
    (tmp_path / "folder/broken-1-py3-none-any.whl").write_bytes(b"PK")
    answer, found = again(made, tmp_path / "folder")
    assert (answer.returncode, [each["verdict"] for each in found]) == (1, ["not rebuilt", "equal"]), answer.stderr


@pytest.mark.release("each builds a wheel again; the first ones are quick")
@pytest.mark.network
def test_the_answers_are_a_page(made, wheel, tmp_path):
    change(wheel, _ops__py=lambda data: data.replace(b"import torch\n", b"import torch  # <b>mine</b>\n"))
    answer, _ = again(made, wheel, "dist", "--page", tmp_path / "rebuilt.html")
    assert answer.returncode == 1
    page = (tmp_path / "rebuilt.html").read_text()
    assert "<b>1 equal, 1 different</b>" in page
    assert "&lt;b&gt;mine" in page
    assert "<b>mine" not in page


@pytest.mark.release("each builds a wheel again; the first ones are quick")
@pytest.mark.network
def test_two_wheels_of_one_cell_are_both_built_again(made, tmp_path):
    for name, version in (("one", "7"), ("other", "8")):
        text = f"version: '{version}'\n{(made.folder / 'matrix.yaml').read_text()}"
        (made.folder / f"{name}.yaml").write_text(text)
        answer = made.run("build-matrix", "--engine", "bwrap", "--matrix", f"{name}.yaml", "--out", name)
        assert answer.returncode == 0, answer.stderr
    answer, found = again(made, "one", "other", "--source", "k")
    assert (answer.returncode, [each["verdict"] for each in found]) == (0, ["equal", "equal"]), answer.stderr


@pytest.mark.release("each builds a wheel again; the first ones are quick")
@pytest.mark.network
def test_a_build_that_fails_says_why(made, wheel):
    text = (made.folder / "matrix.yaml").read_text()
    (made.folder / "small.yaml").write_text(f"{text}engine: {{memory: 24MiB}}\n")
    answer, (found,) = again(made, wheel, "--matrix", "small.yaml")
    assert (answer.returncode, found["verdict"]) == (1, "not rebuilt"), answer.stderr
    assert found["differences"][0].startswith("build: out of memory")


@pytest.mark.release("each builds a wheel again; the first ones are quick")
@pytest.mark.network
def test_variant_wheels_are_built_again_too(tmp_path):
    wants.program("g++")
    factory = Factory.at(tmp_path)
    tiny_kernel(factory.folder / "k")
    matrix(factory.folder, "k", more=f"{SETTINGS}output: {{variants: true}}\n")
    assert factory.run("build-matrix", "--engine", "bwrap").returncode == 0
    answer, found = again(factory, "dist")
    assert (answer.returncode, [each["verdict"] for each in found]) == (0, ["equal", "equal"]), found


@pytest.mark.network
def test_a_changed_byte_of_a_member_is_named_with_its_place(made, wheel):
    change(wheel, abi3__so=lambda data: data.replace(b"42\0", b"43\0"))
    answer, (found,) = again(made, wheel)
    assert (answer.returncode, found["verdict"]) == (1, "different")
    (library, record) = found["differences"]
    assert library.partition(" ")[0].endswith(".abi3.so")
    assert "in .rodata" in library
    assert "RECORD differs" in record


@pytest.mark.release("each builds a wheel again; the first ones are quick")
@pytest.mark.network
def test_the_same_files_packed_otherwise_are_not_the_same_wheel(made, wheel):
    with zipfile.ZipFile(wheel) as archive:
        files = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        for info, data in files:
            archive.writestr(info, data, zipfile.ZIP_STORED)
    _, (found,) = again(made, wheel)
    assert found["differences"] == ["all files are the same, but the archives differ"]


FIELD = pytest.mark.release("the same of another field")


@pytest.mark.network
@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        pytest.param(
            ("recipe", "steps", 0, "argv", 1),
            "-O0",
            'recipe.steps[0].argv[1]: the wheel has "-O0", the plan has',
            marks=FIELD,
        ),
        (("headers", "digest"), "0" * 64, 'headers.digest: the wheel has "0000'),
        pytest.param(
            ("environment", "LD_PRELOAD"),
            "/evil.so",
            'environment.LD_PRELOAD: the wheel has "/evil.so", the plan has',
            marks=FIELD,
        ),
        pytest.param(("source", "tree"), "0" * 64, "the source differs: its files have the digest", marks=FIELD),
        pytest.param(("recipe_version",), 1, "recipe_version: the wheel has 1, the plan has", marks=FIELD),
        (("wheel", "version"), "9+cpu.torch2.13", ("there is no plan for tiny 9+cpu.torch2.13", "wheel.metadata: the")),
        pytest.param(
            ("recipe", "generated", "../../evil"), "x", "recipe.generated.../../evil: the wheel has", marks=FIELD
        ),
    ],
)
@pytest.mark.parametrize("by", [MATRIX, SOURCE])
def test_a_plan_that_was_changed_is_not_run_and_what_was_changed_is_named(made, wheel, by, path, value, says):
    def write(text):
        data = json.loads(text)
        inside = data
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = value
        return canonical_json(data)

    change(wheel, **{"build-plan.json": write})
    answer, (found,) = again(made, wheel, *by)
    assert (answer.returncode, found["verdict"]) == (1, "not rebuilt"), answer.stderr
    assert found["differences"][0].startswith(says)


def nested(depth):
    return functools.reduce(lambda inner, _: [inner], range(depth), [])


HOSTILE = [
    ("module", "tiny{__import__('os').system('echo')}"),
    ("module", "x" * 10_000_000),
    ("module", None),
    ("distribution", "torch"),
    ("distribution", "tiny\x1b[31m"),
    ("declared", ["*"]),
    ("toolkit", "999.9"),
    ("arch", "../x"),
    ("framework", "evil"),
    ("gpu_archs", ["evil"]),
    ("version", "\u202e1"),
    ("release", "2.99"),
    ("more", nested(600)),
]


@pytest.mark.release("each builds a wheel again; the first ones are quick")
@pytest.mark.network
def test_what_a_stranger_records_is_held_to_the_rules_of_a_matrix(made, wheel, tmp_path):
    """Each beside an honest wheel, which gets its answer; what is said is bounded, and obeyed by no terminal."""
    places = []
    for number, (name, value) in enumerate(HOSTILE):

        def write(text, name=name, value=value):
            data = json.loads(text)
            data["wheel"][name] = value
            return canonical_json(data)

        (tmp_path / str(number)).mkdir()
        places.append(Path(shutil.copy(wheel, tmp_path / str(number))))
        replace_member(places[-1], "build-plan.json", write)
    answer, found = again(made, *places, wheel, "--source", "k")
    assert (answer.returncode, len(found)) == (1, len(HOSTILE) + 1), answer.stderr
    assert [each["verdict"] for each in found[:-1]] == ["not rebuilt"] * len(HOSTILE), found
    assert found[-1]["verdict"] == "equal"
    assert max(len(text) for each in found for text in each["differences"]) < 700
    assert "\x1b" not in answer.stderr
    assert "\u202e" not in answer.stderr


def replace_member(path, end, make):
    """Change one member, whatever RECORD says of it."""
    with zipfile.ZipFile(path) as archive:
        files = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, data in files:
            archive.writestr(info, make(data) if info.filename.endswith(end) else data)


@pytest.mark.network
def test_a_project_is_built_again_by_its_matrix(made, wheel, tmp_path):
    write(tmp_path / "p", {"pyproject.toml": "[project]\nname = 'p'\nversion = '1'\n"})
    answer, found = again(made, wheel, "--source", tmp_path / "p")
    assert (answer.returncode, found) == (2, []), answer.stderr
    assert "--matrix matrix.yaml" in answer.stderr


def test_what_records_no_plan_or_cannot_be_read_is_not_rebuilt(made, tmp_path):
    make_wheel(tmp_path / "w", "helper", "1.0")
    (path,) = (tmp_path / "w").glob("*.whl")
    broken = tmp_path / "broken-1-py3-none-any.whl"
    broken.write_bytes(b"no wheel")
    answer, found = again(made, path, broken)
    assert answer.returncode == 1
    assert [each["verdict"] for each in found] == ["not rebuilt", "not rebuilt"]
    assert found[0]["differences"][0].startswith("it records no plan")


def test_check_refuses_a_plan_of_another_wheel(made, wheel):
    def write(text):
        data = json.loads(text)
        data["wheel"]["version"] = "9"
        return canonical_json(data)

    change(wheel, **{"build-plan.json": write})
    answer = made.run("check", str(wheel))
    assert (answer.returncode, "recorded-plan: it records a plan for tiny 9" in answer.stdout) == (1, True)
    change(wheel, **{"build-plan.json": lambda text: b"{" * 100_000})
    answer = made.run("check", str(wheel))
    assert (answer.returncode, "build-plan.json cannot be read" in answer.stdout) == (1, True)


def test_what_a_matrix_tells_a_projects_build_is_in_no_wheel():
    """Variables may hold what is nobody else's: their sha256 stands for them."""
    project = Project(
        python="3.12", environment=(), variables={"TOKEN": "hidden-value"}, before_build="echo hidden-value"
    )
    image = ImageId(name="registry.example/hidden-value", digest="sha256:0")
    told = replace(plan(1), project=project, image=image)
    assert b"hidden-value" not in told.recorded()
    assert told.recorded() != replace(told, project=replace(project, variables={})).recorded()
    assert told.recorded() != replace(told, image=replace(image, digest="sha256:1")).recorded()
    assert told.recorded() == replace(told, project=replace(project, test_requires=("pytest",))).recorded()
