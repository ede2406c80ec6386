"""Real installers and variantlib against an index with variant wheels."""

import hashlib
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from loopback import serving, serving_files
from mousebender import simple
from packaging.version import Version
from pypi_simple import PyPISimple
from variantlib.constants import VALIDATION_WHEEL_NAME_REGEX
from variantlib.variant_dist_info import VariantDistInfo
from wheels import make_wheel, offer

from wheelsmith.base.errors import WheelError
from wheelsmith.index.entries.render import variants_files
from wheelsmith.index.publish.input_folders import external_wheels
from wheelsmith.index.publish.release import UploadReader, variant_wheels
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.index.storage.protocol import ConflictError
from wheelsmith.model import Cell
from wheelsmith.store import Store
from wheelsmith.wheel import read_variant
from wheelsmith.wheel.archive import open_wheel, record_mistakes
from wheelsmith.wheel.check import check_wheel
from wheelsmith.wheel.variant import make_variant
from wheelsmith.wheel.variant_format import dump_variants, variant_for

pytestmark = [pytest.mark.xdist_group("variants"), pytest.mark.usefixtures("in_process_worker")]

NOW = "2026-01-02T03:04:05Z"
TORCHES = ("2.9", "2.10")
COMPUTES = {"cpu": None, "cu126": "12.6", "cu130": "13.0"}
CODE = {"cpu": (), "cu126": ("8.0", "9.0+PTX"), "cu130": ("8.0", "9.0", "12.0+PTX")}
LABEL = {compute: variant_for(compute, code).label for compute, code in CODE.items()}


def plain(folder, name, compute, torch=None):
    """A wheel for one torch, or, without one, for every torch from 2.9 on."""
    version = f"1+{compute}.torch{torch}" if torch else f"1+{compute}"
    path = make_wheel(folder, name, version, requires=(f"torch=={torch}.*" if torch else "torch>=2.9",))
    cells = [
        Cell(release=release, toolkit=COMPUTES[compute], arch="x86_64") for release in ([torch] if torch else TORCHES)
    ]
    given = offer(path, *cells)
    return replace(given, entry=replace(given.entry, gpu_archs=CODE[compute]))


def with_variants(folder, offers):
    (folder / "work").mkdir(parents=True, exist_ok=True)
    with UploadReader() as reader:
        return (*offers, *variant_wheels(offers, Store(folder / "store"), folder / "work", reader))


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Kernels: a wheel a torch; torch's stable ABI; that on CUDA alone; no CPU wheel; nothing compiled."""
    root = tmp_path_factory.mktemp("variants")
    made = root / "plain"
    offers = [plain(made, "kernel", compute, torch) for torch in TORCHES for compute in COMPUTES]
    offers += [plain(made, "stable", compute) for compute in COMPUTES]
    offers += [plain(made, "mixed", compute) for compute in ("cu126", "cu130")]
    offers += [plain(made, "mixed", "cpu", torch) for torch in TORCHES]
    offers += [plain(made, "cudaonly", compute, "2.9") for compute in ("cu126", "cu130")]
    offers += [offer(make_wheel(made, "pure", "1"))]
    for torch in TORCHES:
        make_wheel(root / "torches", "torch", f"{torch}.0")
    Index(Folder(root / "index")).add(with_variants(root, offers), upload_time=NOW)
    with serving(root / "index") as url:
        yield root, url


def environment(*prefixes, **more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NV_VARIANT_", *prefixes))}
    return kept | {key: value for key, value in more.items() if value is not None}


def uv(index, tmp_path, *wanted, driver=None, capability=None, preview="wheel-variants", root="simple", more=()):
    """Install, and give what was: name → version and the label of a variant."""
    folder, url = index
    command = [Path(sys.executable).with_name("uv"), "pip", "install", "--no-config", "--target", tmp_path / "site"]
    command += ["--cache-dir", tmp_path / "cache", "--default-index", f"{url}/{root}/", *more]
    forced = {
        "UV_PREVIEW_FEATURES": preview,
        "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": driver,
        "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": capability,
    }
    answer = subprocess.run(
        [*command, "--find-links", folder / "torches", *wanted],
        env=environment("UV_", **forced),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr
    return {info.name.split("-")[0]: installed(info) for info in (tmp_path / "site").glob("*.dist-info")}


def installed(info):
    variant = info / "variant.json"
    label = next(iter(json.loads(variant.read_text())["variants"])) if variant.exists() else None
    version = re.search(r"^Version: (.*)$", (info / "METADATA").read_text(), re.MULTILINE)[1]
    return version if label is None else (version, label)


# What a machine has, and the compute platform whose wheel is right for it.
MACHINES = [
    ("13.0", "9.0", "cu130"),
    ("12.8", "8.6", "cu126"),
    ("13.1", "12.1", "cu130"),
    ("12.8", "12.0", "cu126"),  # by the PTX of 9.0
    ("12.4", "9.0", "cpu"),  # the driver is too old for all of them
    ("13.0", "7.5", "cpu"),  # no code for this GPU
    (None, None, "cpu"),
]


@pytest.mark.parametrize("torch", TORCHES)
@pytest.mark.parametrize(("driver", "capability", "compute"), MACHINES)
def test_uv_takes_the_variant_for_the_machine_and_its_torch(driver, capability, compute, torch, index, tmp_path):
    found = uv(index, tmp_path, "kernel", f"torch=={torch}.0", driver=driver, capability=capability)
    assert found == {"kernel": (f"1+torch{torch}", LABEL[compute]), "torch": f"{torch}.0"}


@pytest.mark.parametrize(("driver", "capability", "compute"), MACHINES[::3])
def test_uv_chooses_also_where_no_version_names_a_torch(driver, capability, compute, index, tmp_path):
    machine = {"driver": driver, "capability": capability}
    found = uv(index, tmp_path, "stable", "mixed", "pure", "torch==2.9.0", **machine)
    null = ("1+torch2.9", LABEL["cpu"])
    expected = ("1+torchstable", LABEL[compute])
    mixed = null if compute == "cpu" else expected
    assert found == {"stable": expected, "mixed": mixed, "pure": "1", "torch": "2.9.0"}


@pytest.mark.parametrize(("driver", "compute"), [("12.8", "cu126"), ("12.4", None), (None, None)])
def test_uv_takes_the_plain_wheel_where_there_is_no_null_variant(driver, compute, index, tmp_path):
    found = uv(index, tmp_path, "cudaonly", "torch==2.9.0", driver=driver, capability=driver and "9.0")
    assert found["cudaonly"] == (("1+torch2.9", LABEL[compute]) if compute else "1+cu130.torch2.9")


def test_uv_takes_the_plain_wheel_when_it_is_not_asked_for_variants(index, tmp_path):
    found = uv(index, tmp_path, "kernel", "torch==2.9.0", driver="12.8", capability="9.0", preview=None)
    assert found == {"kernel": "1+cu130.torch2.9", "torch": "2.9.0"}


def test_the_root_of_a_platform_has_its_plain_wheels_for_uv_too(index, tmp_path):
    machine = {"driver": "13.0", "capability": "9.0", "root": "cu126"}
    assert uv(index, tmp_path, "kernel", "torch==2.9.0", **machine)["kernel"] == "1+cu126.torch2.9"


def test_uv_reads_a_host_that_has_html_alone(index, tmp_path):
    root, _ = index
    with serving_files(root / "index") as url:
        found = uv((root, url), tmp_path, "kernel", "torch==2.9.0", driver="12.8", capability="9.0")
    assert found["kernel"] == ("1+torch2.9", LABEL["cu126"])


def test_uv_pins_a_version_by_the_hashes_of_all_its_variants(index, tmp_path):
    wanted, pinned = tmp_path / "in.txt", tmp_path / "pinned.txt"
    wanted.write_text("kernel\ntorch==2.9.0\n")
    folder, url = index
    places = ("--default-index", f"{url}/simple/", "--find-links", folder / "torches", "--cache-dir", tmp_path / "c")
    command = [Path(sys.executable).with_name("uv"), "pip", "compile", "--no-config", "--generate-hashes", *places]
    subprocess.run(
        [*command, "-q", "-o", pinned, wanted],
        env=environment("UV_", UV_PREVIEW_FEATURES="wheel-variants"),
        check=True,
        capture_output=True,
        timeout=120,
    )
    variants = [
        e
        for e in Index(Folder(folder / "index")).states()["kernel"].entries
        if e.filename.startswith("kernel-1+torch2.9-")
    ]
    assert {entry.sha256 for entry in variants} <= set(re.findall(r"sha256:(\w+)", pinned.read_text()))
    machine = {"driver": "12.8", "capability": "9.0"}
    found = uv(index, tmp_path, "-r", pinned, more=("--require-hashes",), **machine)
    assert found["kernel"] == ("1+torch2.9", LABEL["cu126"])


# --- pip ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["==23.2.1", ">=26"])
def pip(request, tmp_path_factory):
    """The oldest pip that is supported, and the newest that there is."""
    folder = tmp_path_factory.mktemp("pip")
    fetch = [sys.executable, "-m", "pip", "install", "-q", "--no-compile", "--target", folder, f"pip{request.param}"]
    subprocess.run(fetch, check=True, capture_output=True, timeout=120)

    def run(*argv):
        return subprocess.run(
            [sys.executable, "-m", "pip", "--disable-pip-version-check", "--isolated", "--no-cache-dir", *argv],
            env=environment("PIP_", PIP_CONFIG_FILE=os.devnull, PYTHONPATH=str(folder)),
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


@pytest.mark.release("every installer with every combination")
@pytest.mark.network
@pytest.mark.parametrize(
    ("root", "wanted", "version"),
    [
        ("simple", ("kernel", "torch==2.9.0"), "1+cu130.torch2.9"),
        ("cu126", ("kernel", "torch==2.10.0"), "1+cu126.torch2.10"),
        ("simple", ("stable",), "1+cu130"),
    ],
)
def test_pip_passes_over_variants(root, wanted, version, pip, index):
    folder, url = index
    common = ("--index-url", f"{url}/{root}/", "--find-links", str(folder / "torches"))
    answer = pip("install", "--dry-run", "--ignore-installed", "-q", "--report", "-", *common, *wanted)
    assert answer.returncode == 0, answer.stderr
    chosen = {i["metadata"]["name"]: i["metadata"]["version"] for i in json.loads(answer.stdout)["install"]}
    assert chosen[re.split("=", wanted[0])[0]] == version
    assert "variant" not in answer.stderr


# --- variantlib ---------------------------------------------------------------------------------------------


def published(root):
    """Every project with variants: its files of variants, by version."""
    states = Index(Folder(root / "index")).states()
    return {name: found for name, state in states.items() if (found := variants_files(state))}


@pytest.mark.release("needs variantlib; uv judges the same files in the quick tier")
def test_variantlib_reads_every_file_as_it_was_meant(index, tmp_path):
    root, _ = index
    wheels = [path for path in (root / "index" / "files").rglob("*.whl") if read_variant(path)]
    assert len(wheels) == 15
    for wheel in wheels:
        contents, label = open_wheel(wheel), VALIDATION_WHEEL_NAME_REGEX.fullmatch(wheel.name)["variant_label"]
        read = VariantDistInfo(contents.files[f"{contents.info}/variant.json"], expected_label=label)
        assert read.variant_desc.to_dict() == {
            namespace: {name: list(values) for name, values in features.items()}
            for namespace, features in read_variant(wheel).properties.items()
        }
        (tmp_path / wheel.name).symlink_to(wheel)
    run = [Path(sys.executable).with_name("variantlib")]
    made = subprocess.run([*run, "generate-index-json", "-d", tmp_path], capture_output=True, text=True, timeout=60)
    assert (made.returncode, re.findall("ERROR|WARNING", made.stderr)) == (0, []), made.stderr
    ours = {file.filename: json.loads(file.data) for found in published(root).values() for file in found}
    theirs = {path.name: json.loads(path.read_bytes()) for path in tmp_path.glob("*-variants.json")}
    # Its URL of the schema is not the one that uv knows.
    assert {name: {**data, "$schema": ""} for name, data in ours.items()} == {
        name: {**data, "$schema": ""} for name, data in theirs.items()
    }
    shown = subprocess.run([*run, "analyze-wheel", "-i", wheels[0]], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr


# --- the index ----------------------------------------------------------------------------------------------


def test_other_peoples_parsers_read_a_page_with_variants(index):
    root, url = index
    pages = {}
    for kind in ("text/html", "application/vnd.pypi.simple.v1+json"):
        with PyPISimple(endpoint=f"{url}/simple/", accept=kind) as client:
            packages = client.get_project_page("kernel").packages
            pages[kind] = [(p.filename, p.url, p.digests, p.is_yanked, p.metadata_digests or None) for p in packages]
    html, data = pages.values()
    assert html == data
    assert [p[0] for p in html if p[0].endswith(".json")] == [
        "kernel-1+torch2.9-variants.json",
        "kernel-1+torch2.10-variants.json",
    ]
    page = (root / "index" / "simple" / "kernel" / "index.json").read_text()
    details = simple.parse_project_details(page, "application/vnd.pypi.simple.v1+json", "kernel")
    assert all(file["size"] and file["upload-time"] for file in details["files"])
    assert Version("1+torch2.10") in map(Version, details["versions"])


def test_a_variant_wheel_is_the_plain_wheel_and_its_bytes_depend_on_nothing_else(tmp_path):
    given = plain(tmp_path, "kernel", "cu126", "2.9")
    variant = variant_for("cu126", CODE["cu126"])
    made = []
    for name, umask in (("a", 0o022), ("b/c", 0o077)):
        before = os.umask(umask)
        try:
            made.append(make_variant(given.wheel, variant, "1+torch2.9", tmp_path / name))
        finally:
            os.umask(before)
    one, other = made
    assert one.name == other.name == f"kernel-1+torch2.9-py3-none-any-{LABEL['cu126']}.whl"
    assert one.read_bytes() == other.read_bytes()
    contents, before = open_wheel(one), open_wheel(given.wheel)
    assert record_mistakes(contents) == []
    assert contents.files["kernel.py"] == before.files["kernel.py"]
    assert contents.files.keys() - {f"{contents.info}/variant.json"} == {
        name.replace(before.info, contents.info) for name in before.files
    }
    changed = before.files[f"{before.info}/METADATA"].replace(b"1+cu126.torch2.9", b"1+torch2.9")
    assert contents.files[f"{contents.info}/METADATA"] == changed
    assert read_variant(one) == variant
    # Its content is pure Python here, so the check misses the GPU code that the variant promises, and that alone.
    assert [finding.rule for finding in check_wheel(one).findings if not finding.ok] == ["variant"]


def test_the_store_keeps_variant_wheels(tmp_path):
    offers = [plain(tmp_path, "kernel", "cu126", "2.9")]
    first = with_variants(tmp_path, offers)[1]
    kept = first.wheel.stat().st_mtime_ns
    again = with_variants(tmp_path, offers)[1]
    assert (again, again.wheel.stat().st_mtime_ns) == (first, kept)
    assert first.entry.variant_of == offers[0].entry.filename
    assert (first.entry.gpu_archs, first.entry.cells) == (CODE["cu126"], offers[0].entry.cells)


def test_a_variant_wheel_that_somebody_else_made_is_taken_when_it_keeps_the_format(tmp_path):
    variant = variant_for("cu126", ["8.0"])
    path = make_wheel(tmp_path / "w", "k", "1", files={"k-1.dist-info/variant.json": dump_variants([variant])})
    named = path.rename(path.with_name("k-1-py3-none-any-cu126_80.whl"))
    Index(Folder(tmp_path / "index")).add(external_wheels([named]), upload_time=NOW)
    (entry,) = Index(Folder(tmp_path / "index")).states()["k"].entries
    assert (entry.variant, entry.cells) == (variant, ())
    for label in ("cu130", "null"):
        wrong = named.with_name(f"k-1-py3-none-any-{label}.whl")
        wrong.write_bytes(named.read_bytes())
        with pytest.raises(WheelError, match="the file name has the label"):
            external_wheels([wrong])
    without = make_wheel(tmp_path / "w", "k", "2")
    with pytest.raises(WheelError, match=r"there is no variant\.json"):
        external_wheels([without.rename(without.with_name("k-2-py3-none-any-cu126_80.whl"))])


def test_what_an_older_page_names_stays_until_it_is_collected(tmp_path):
    index, storage = Index(Folder(tmp_path / "index")), Folder(tmp_path / "index")
    for compute in ("cpu", "cu126"):
        index.add(with_variants(tmp_path, [plain(tmp_path, "kernel", compute, "2.9")]), upload_time=NOW)
    first, second = sorted(
        (tmp_path / "index" / "files").rglob("*-variants.json"), key=lambda path: path.stat().st_size
    )
    assert [len(json.loads(path.read_bytes())["variants"]) for path in (first, second)] == [1, 2]
    assert index.remove_unused(older_than=0) == ()
    assert [Path(key).name for key in index.remove_unused(older_than=time.time() + 1)] == [first.name]
    assert second.exists()
    assert verify(storage) == ()
    second.write_bytes(b"{}")
    assert [str(trouble).endswith("differs from the state") for trouble in verify(storage)] == [True]
    second.unlink()
    assert len(verify(storage)) == 1
    index.repair()
    assert verify(storage) == ()


class Crowded(Folder):
    """A folder whose writers exclude each other no more than those of a bucket do, and which watches every page."""

    lock = threading.Lock()
    ahead: list[str]

    def transaction(self, work):
        return work(self)

    def swap(self, key, data, tag):
        time.sleep(random.uniform(0, 0.005))
        if key.endswith("/kernel/index.html"):
            for name, sha256 in re.findall(r'href="\.\./\.\./([^"#]*)#sha256=(\w+)"', data.decode()):
                stored = self.read(unquote(name))
                if stored is None or hashlib.sha256(stored.data).hexdigest() != sha256:
                    self.ahead.append(name)
        with self.lock:
            super().swap(key, data, tag)


def test_no_page_names_what_is_not_there_however_many_publish_at_once(tmp_path):
    storage = Crowded(tmp_path / "index")
    storage.ahead = []
    offers = [plain(tmp_path, "kernel", compute, torch) for torch in TORCHES for compute in COMPUTES]
    jobs = [with_variants(tmp_path, [given]) for given in offers]
    errors: list[BaseException] = []

    def publish(job):
        try:
            Index(storage).add(job, upload_time=NOW)
        except ConflictError as error:
            errors.append(error)

    threads = [threading.Thread(target=publish, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (errors, storage.ahead) == ([], [])
    (older, newer) = variants_files(Index(storage).states()["kernel"])
    assert json.loads(older.data)["variants"].keys() == json.loads(newer.data)["variants"].keys() == {*LABEL.values()}
    Index(storage).repair()
    assert verify(storage) == ()


def test_uv_refuses_a_file_of_variants_that_is_not_the_pages(tmp_path):
    """That is why it is written first, and under its hash."""
    root = tmp_path / "r"
    Index(Folder(root / "index")).add(with_variants(root, [plain(root, "kernel", "cpu", "2.9")]), upload_time=NOW)
    make_wheel(root / "torches", "torch", "2.9.0")
    (file,) = (root / "index" / "files").rglob("*-variants.json")
    file.write_bytes(file.read_bytes() + b"\n")
    with serving(root / "index") as url, pytest.raises(AssertionError, match="Hash mismatch"):
        uv((root, url), tmp_path, "kernel")
