"""A wheel for torch's stable ABI beside wheels for one torch each: which of them installers take."""

import pytest
from command_line import run_command
from installers import reported, sources
from loopback import serving
from packaging.version import Version
from torches import HERE, NOW
from wheels import make_wheel, offer

from wheelsmith.frameworks.local_version import find_outranked, local_version_of
from wheelsmith.index.publish.verify import advise
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell

pytestmark = [pytest.mark.network, pytest.mark.xdist_group("installers")]
INSTALLERS = [
    pytest.param("pip 23.2", marks=pytest.mark.release("an older pip, which takes the same")),
    "newest pip",
    "uv",
]
REPORT = ("install", "--dry-run", "--quiet", "--report", "-")
NEWER = tuple(Cell(release=torch, toolkit="13.0", arch=HERE) for torch in ("2.11", "2.12"))
STABLE = f"2+{local_version_of(NEWER[0], stable_abi=True)}"
BEFORE = "2+cu130"  # what such a wheel was called before


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """A kernel that uses torch's stable ABI from 2.11 on, and has a wheel each for torch 2.9 and 2.10.

    ``moved`` was published before stable-ABI wheels had a name of their own, and again since; ``kept`` before alone.
    """
    folder = tmp_path_factory.mktemp("stable")
    names = {"kernel": [STABLE], "moved": [BEFORE, STABLE], "kept": [BEFORE]}
    offers = [_offer(folder, name, version, "torch>=2.11", NEWER) for name in names for version in names[name]]
    for name in names:
        for torch in ("2.9", "2.10"):
            cell = Cell(release=torch, toolkit="13.0", arch=HERE)
            version = f"2+{local_version_of(cell, stable_abi=False)}"
            offers.append(_offer(folder, name, version, f"torch=={torch}.*", (cell,)))
    made = Index(Folder(folder / "index"))
    made.add(offers, upload_time=NOW)
    with serving(folder / "index") as address:
        yield made, f"{address}/cu130/"


def _offer(folder, name, version, requires, cells):
    tag = f"cp39-abi3-manylinux_2_17_{HERE}"
    return offer(make_wheel(folder / "wheels", name, version, requires=(requires,), tag=tag), *cells)


def taken(tools, installer, python, where, *asked):
    """Return what an installer would put into an environment."""
    if installer != "uv":
        return reported(tools.pip(installer, "--python", python, *REPORT, *sources(installer, *where), *asked))
    answer = tools.uv("pip", "install", "--dry-run", "--python", python, *sources(installer, *where), *asked)
    assert answer.returncode == 0, answer.stderr
    changes = (line[3:].split("==") for line in answer.stderr.splitlines() if line.startswith(" + "))
    return dict(changes)


@pytest.mark.parametrize("installer", INSTALLERS)
@pytest.mark.parametrize(
    ("asked", "kernel", "torch"),
    [
        ((), STABLE, "2.12.1"),
        (("torch==2.9.0",), "2+cu130.torch2.9", "2.9.0"),
        (("torch==2.11.*",), STABLE, "2.11.1"),
        (("torch<2.11",), "2+cu130.torch2.10", "2.10.1"),
    ],
    ids=["no torch", "an old torch", "a newer torch", "no newer than"],
)
def test_torch_decides_and_without_one_the_newest(installer, asked, kernel, torch, index, tools, loopback):
    where = (index[1], f"{loopback.whl}/cu130/")
    found = taken(tools, installer, tools.environment("empty"), where, "kernel", *asked)
    assert found == {"kernel": kernel, "torch": f"{torch}+cu130"}


@pytest.mark.parametrize("installer", INSTALLERS)
@pytest.mark.parametrize(("torch", "kernel"), [("2.9", "2+cu130.torch2.9"), ("2.12", STABLE)])
def test_a_torch_that_is_there_or_that_a_constraint_names_decides(
    installer, torch, kernel, index, tools, loopback, tmp_path
):
    there = tools.environment(f"torch {torch}", f"torch=={torch}.0", index=f"{loopback.whl}/cu130/")
    assert taken(tools, installer, there, (index[1],), "kernel") == {"kernel": kernel}
    constraint = tmp_path / "constraint.txt"
    constraint.write_text(f"torch=={torch}.0+cu130\n")
    where = (index[1], f"{loopback.whl}/cu130/")
    found = taken(tools, installer, tools.environment("empty"), where, "--constraint", constraint, "kernel")
    assert found == {"kernel": kernel, "torch": f"{torch}.0+cu130"}


@pytest.mark.parametrize("installer", INSTALLERS)
@pytest.mark.release("installs with every pip")
def test_what_was_published_before_stays_and_is_passed_over(installer, index, tools, loopback):
    where = (index[1], f"{loopback.whl}/cu130/")
    empty = tools.environment("empty")
    assert taken(tools, installer, empty, where, "moved") == {"moved": STABLE, "torch": "2.12.1+cu130"}
    assert taken(tools, installer, empty, where, f"moved=={BEFORE}") == {"moved": BEFORE, "torch": "2.12.1+cu130"}
    # What the new name is for: without it, the older torch won.
    assert taken(tools, installer, empty, where, "kept") == {"kept": "2+cu130.torch2.10", "torch": "2.10.1+cu130"}
    assert taken(tools, installer, empty, where, "kept", "torch==2.12.*")["kept"] == BEFORE


def test_the_old_name_is_told_where_it_lets_an_older_torch_win(index, monkeypatch, capsys):
    storage = index[0]._storage
    (told,) = advise(storage)
    assert told.message.startswith("kept 2+cu130, for more than one torch, sorts below 2+cu130.torch2.10")
    assert told.remedy.startswith(f"build kept 2 again with this wheelsmith and publish it: the new wheel {STABLE}")
    answer = run_command(monkeypatch, capsys, "index", "verify", storage.name)
    assert (answer.code, answer.out) == (0, "")
    assert f"note: {told.message}\n  help: {told.remedy}\n" in answer.err


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        (["2+cu130", "2+cu130.torch2.10"], {"2+cu130": "2+cu130.torch2.10"}),
        (["2+cu130", "2+cu130.torch2.10", "2+cu130.torchstable"], {}),
        (["2+cu130", "2+cu126.torch2.10"], {}),
        (["2+cu130"], {}),
        ([], {}),
        # Who names no version gets the newest, and the old ones were there when its pins were made.
        (["2+cu130", "2+cu130.torch2.10", "3+cu130.torchstable"], {}),
    ],
)
def test_what_sorts_above_the_old_name(versions, found):
    answer = find_outranked(map(Version, versions))
    assert {str(old): str(by) for old, by in answer.items()} == found
