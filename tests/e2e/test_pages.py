"""The pages that people see, in a browser: every path through the picker, the commands that it gives, who can use it.

Chromium and npm must be there; without them the tests are skipped, but never in CI (CI=true).
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import wants
from loopback import serving
from node_tools import node_tools
from outside import outside
from plans import planned_run
from sampled import sampled
from shop import make_pypi, make_shop, make_torches
from states import of_torch, project

from wheelsmith.index.entries.catalogue import catalogue_of
from wheelsmith.index.pick.decide import Overrides
from wheelsmith.index.pick.machine import Machine
from wheelsmith.index.pick.together import decide_together
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.install_commands import Installer, Presence, fill_template, slot_values, template_for
from wheelsmith.index.resolve.target import Choice, Target
from wheelsmith.index.site.human import human_pages
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell
from wheelsmith.model.events import RunFinished
from wheelsmith.report.page import report_page
from wheelsmith.report.timeline import Bar, Timeline

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pages")]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
AXES = ("torch", "compute", "arch", "python")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    root = tmp_path_factory.mktemp("shop")
    make_shop(root / "index")
    return root


@pytest.fixture(scope="module")
def base(shop):
    with serving(shop / "index") as url:
        yield f"{url}/"


@pytest.fixture(scope="module")
def browser():
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        wants.absent("no Chromium is installed")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        wants.absent("playwright is not installed")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def visit(browser, base):
    """Open a page of the index; whatever the browser complains of fails the test."""
    complaints, contexts = [], []

    def visit(path, **options):
        url = path if "://" in path else base + path
        context = browser.new_context(**{"viewport": {"width": 1100, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="module")
def judges(request):
    return node_tools(request.config)


def command_of(page):
    return page.locator("#command").text_content()


# --- every path --------------------------------------------------------------------------------------------------

ALL_ANSWERS = """
(paths) => paths.map((path) => {
  history.replaceState(null, "", "#" + path);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
  const command = document.getElementById("command");
  return command ? [command.textContent] : document.querySelector(".reason").textContent;
})
"""


detail = pytest.mark.release("the quick tier has the way to a command, in pages of the same templates")


@pytest.mark.parametrize("project", sampled(["activation", "rmsnorm", "layers", "fused"], "rmsnorm"))
def test_every_path_gives_the_command_or_the_reason_that_the_rules_give(visit, base, shop, project):
    """Every combination, and for every different answer every way to write it."""
    page = visit(f"projects/{project}/")
    chooser = Chooser(catalogue_of(Index(Folder(shop / "index")).known(project)))
    axes = chooser.axes
    forms = list(product(Installer, Presence))
    expected, seen = {}, set()
    for number, values in enumerate(product(axes.releases, axes.computes, axes.archs, axes.pythons)):
        target = Target(**dict(zip(("release", *AXES[1:]), values, strict=True)))
        answer = chooser.choose(target)
        new = (answer, target.release, target.compute) not in seen
        seen.add((answer, target.release, target.compute))
        for installer, torch in forms if new else [forms[number % len(forms)]]:
            query = "&".join(f"{axis}={value}" for axis, value in zip(AXES, values, strict=True))
            expected[f"{query}&with={torch}&installer={installer}"] = said(answer, target, installer, torch, base)
    paths = list(expected)
    assert dict(zip(paths, page.evaluate(ALL_ANSWERS, paths), strict=True)) == expected
    assert any(isinstance(each, list) for each in expected.values())


def said(answer, target, installer, torch, base):
    if not isinstance(answer, Choice):
        return f"No wheel: {answer.reason}."
    told = template_for(installer, torch, others=bool(answer.wheel.requires))
    return [fill_template(told, {**slot_values(answer, target, torch), "base": base}).text()]


# --- the commands, run ---------------------------------------------------------------------------------------------

SHELL = ("pip", "uv", "dockerfile")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PATCH = {"2.9": "2.9.1", "2.11": "2.11.0", "2.13": "2.13.0"}
# The project, its torch and compute platform, and the version that must come.
A = ("activation", "2.11", "cu130", "1.1+cu130.torch2.11")
FOLDED = ("activation", "2.13", "cu132", "1.1+cu130.torch2.13")
OLDER = ("activation", "2.9", "cpu", "1.0+cpu.torch2.9")
STABLE = ("rmsnorm", "2.13", "cpu", "0.3+cpu")
PURE = ("layers", "2.11", "cu130", "2.0")
PURE_BESIDE_OTHERS = ("fused", "2.11", "cpu", "1.0")
WITH_OTHERS = ("fused", "2.11", "cu130", "1.0+cu130.torch2.11")
SAMPLE = [
    *((run, "uv", has) for run in (FOLDED, OLDER, STABLE, PURE, WITH_OTHERS) for has in ("present", "absent")),
    *((run, "uv-project", "absent") for run in (A, STABLE, PURE, PURE_BESIDE_OTHERS)),
    *((run, "pip", "present") for run in (A, OLDER, PURE_BESIDE_OTHERS, WITH_OTHERS)),
    *((run, "pip", "absent") for run in (FOLDED, STABLE, PURE, WITH_OTHERS)),
    (A, "dockerfile", "absent"),
    (A, "requirements", "present"),
    (WITH_OTHERS, "requirements", "absent"),
]


def path_of(run, installer, has):
    return f"torch={run[1]}&compute={run[2]}&arch=x86_64&python={PYTHON}&with={has}&installer={installer}"


@pytest.fixture(scope="module")
def commands(browser, base):
    """What the pages say for a path, read in one visit to each."""

    def read(project, paths):
        page = browser.new_page()
        page.goto(f"{base}projects/{project}/")
        answers = page.evaluate(ALL_ANSWERS, paths)
        page.close()
        return dict(zip(paths, (text for (text,) in answers), strict=True))

    wanted = {}
    for run, installer, has in SAMPLE:
        wanted.setdefault(run[0], []).append(path_of(run, installer, has))
    wanted["activation"] += [path_of(A, installer, has) for installer in ("pip", "uv") for has in Presence]
    return {project: read(project, paths) for project, paths in wanted.items()}


@pytest.fixture(scope="module")
def world(shop, tmp_path_factory):
    """The environment of commands: their hosts are on this machine, and PyPI's are strangers."""
    folder = tmp_path_factory.mktemp("outside")
    make_torches(folder / "pytorch")
    make_pypi(folder / "pypi")
    with outside({"download.pytorch.org": folder / "pytorch", "pypi.org": folder / "pypi"}, folder) as environment:
        yield environment


@pytest.fixture
def venv(tmp_path, world):
    return Venv(tmp_path / "venv", world)


class Venv:
    """A clean environment whose pip is the one that runs the tests, told to work on it."""

    def __init__(self, folder, environment):
        subprocess.run([uv(), "venv", "--quiet", "--python", sys.executable, folder], env=environment, check=True)
        self.folder = folder
        pip = folder / "bin" / "pip"
        pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --python {folder}/bin/python "$@"\n')
        pip.chmod(0o755)
        path = f"{folder / 'bin'}:{Path(uv()).parent}:{environment['PATH']}"
        self.environment = {**environment, "VIRTUAL_ENV": str(folder), "PATH": path}

    def run(self, command, **options):
        return subprocess.run(
            ["sh", "-c", command], env=self.environment, capture_output=True, text=True, timeout=120, **options
        )

    def install_torch(self, version):
        index = f"https://download.pytorch.org/whl/{version.partition('+')[2]}"
        answer = self.run(f"uv pip install --quiet torch=={version} --default-index {index}")
        assert answer.returncode == 0, answer.stderr

    def versions(self):
        answer = self.run("uv pip list --quiet --format json")
        return {item["name"]: item["version"] for item in json.loads(answer.stdout)}


def uv():
    return shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def perform(venv, installer, text, folder):
    if installer in SHELL:
        return venv.run(text.removeprefix("RUN "))
    if installer == "requirements":
        (folder / "requirements.txt").write_text(text + "\n")
        return venv.run("pip install -r requirements.txt", cwd=folder)
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.11"\n{text}\n'
    )
    return venv.run("uv sync --active", cwd=folder)


@pytest.mark.release("an environment for every command")
@pytest.mark.parametrize(
    ("run", "installer", "has"), SAMPLE, ids=lambda value: "-".join(value) if isinstance(value, tuple) else value
)
def test_commands_install_just_what_they_say(commands, venv, tmp_path, run, installer, has):
    project, torch, compute, version = run
    wanted = f"{PATCH[torch]}+{compute}"
    if has == "present":
        venv.install_torch(wanted)
    answer = perform(venv, installer, commands[project][path_of(run, installer, has)], tmp_path)
    assert answer.returncode == 0, answer.stderr + answer.stdout
    found = venv.versions()
    assert (found[project], found["torch"]) == (version, wanted)
    assert ("einops" in found) is (run in {PURE, WITH_OTHERS})


@pytest.mark.release("an environment for every command")
@pytest.mark.parametrize("installer", ["pip", "uv", "requirements"])
def test_a_torch_that_is_there_is_not_replaced_by_another_release(commands, venv, tmp_path, installer):
    venv.install_torch("2.9.1+cu128")
    answer = perform(venv, installer, commands["activation"][path_of(A, installer, "present")], tmp_path)
    assert answer.returncode != 0
    assert venv.versions() == {"torch": "2.9.1+cu128"}


@pytest.mark.release("an environment for every command")
def test_another_build_of_the_same_torch_gives_way_only_to_a_command_that_names_it(commands, venv, tmp_path):
    venv.install_torch("2.11.0+cpu")
    command = commands["activation"][path_of(A, "pip", "absent")]
    assert "torch==2.11.0+cu130" in command
    assert perform(venv, "pip", command, tmp_path).returncode == 0
    assert venv.versions()["torch"] == "2.11.0+cu130"


@pytest.mark.release("an environment for every command")
def test_the_tables_for_browsers_without_scripts_have_commands_that_run(visit, base, venv):
    page = visit("projects/activation/", java_script_enabled=False)
    assert not page.locator(".picker").is_visible()
    row = page.locator(".commands tr", has=page.get_by_role("rowheader", name="2.11")).filter(has_text="CUDA 13.0")
    command = row.filter(has_text="x86_64").locator("code").first.text_content()
    assert "--extra-index-url" in command
    answer = venv.run(f"INDEX={shlex.quote(base.rstrip('/'))}\n{command}")
    assert answer.returncode == 0, answer.stderr
    assert venv.versions() == {"activation": "1.1+cu130.torch2.11", "torch": "2.11.0+cu130"}


# --- using it ------------------------------------------------------------------------------------------------------


def test_choices_stay_in_the_address_over_reload_and_back(visit):
    page = visit("projects/activation/")
    opened = command_of(page)
    page.get_by_text("2.11", exact=True).first.click()
    page.get_by_text("CUDA 13.0", exact=True).first.click()
    page.get_by_text("Dockerfile").click()
    chosen = command_of(page)
    assert chosen.startswith("RUN pip install --no-cache-dir activation==1.1+cu130.torch2.11 ")
    page.reload()
    assert command_of(page) == chosen
    for _ in range(3):
        page.go_back()
    assert command_of(page) == opened
    page.go_forward()
    page.go_forward()
    page.go_forward()
    assert command_of(page) == chosen


def test_impossible_choices_answer_with_the_reason_and_a_way_out(visit):
    page = visit("projects/activation/#torch=2.13&compute=cu126&arch=aarch64")
    answer = page.locator("#result")
    assert answer.get_attribute("role") == "status"
    assert "the build of activation 1.1 failed: compile: exit code 2" not in answer.text_content()  # 1.0 has one
    page.get_by_text("2.9", exact=True).first.click()
    assert "No wheel: there is no wheel of activation 1.1" not in answer.text_content()
    assert "CUDA 12.6" in page.locator(".picker").text_content()
    page.get_by_text("Linux x86_64", exact=True).first.click()
    assert answer.text_content().startswith(
        "No wheel: there is no wheel of activation 1.1 for this: torch 2.9 has CUDA 12.8."
    )
    assert not page.locator("#copy").is_visible()
    described = page.locator("label.none input").first.get_attribute("aria-description")
    assert described == "no wheel with the other choices"
    page.locator(".nearest a").first.click()
    assert "activation==" in command_of(page)


@detail
def test_dashes_are_explained_and_stand_on_the_axes_that_would_help(visit):
    def dashed(name):
        return page.locator(f"label.none [name={name}]").count()

    page = visit("projects/activation/#torch=2.9&compute=cu130&arch=x86_64&python=3.12")
    explanation = page.get_by_text("has no wheel with your other choices")
    assert page.locator(".reason").is_visible()
    assert explanation.is_visible()
    assert dashed("torch") == 1
    assert dashed("compute") == 3
    # No other CPU and no other Python has one either: these are not what is wrong.
    assert dashed("arch") == dashed("python") == 0
    page.get_by_text("2.13", exact=True).first.click()
    assert dashed("torch") == 1
    assert explanation.is_visible()
    page = visit("projects/rmsnorm/#torch=2.13&compute=cpu")
    assert page.locator("label.none").count() == 0
    assert not page.get_by_text("has no wheel with your other choices").is_visible()


@detail
def test_each_wheel_that_the_picker_gives_is_linked_to_its_answer(visit):
    page = visit("projects/activation/")
    links = page.locator("a.choose")
    assert links.count() > 10
    for number in range(links.count()):
        name = links.nth(number).locator("xpath=../..").locator(".wheel-name").text_content()
        links.nth(number).evaluate("(link) => { link.closest('details').open = true; link.click(); }")
        assert page.locator(".chosen .wheel-name").text_content() == name
    groups = page.locator("section[aria-labelledby=wheels] > .items").first.locator("h3")
    assert groups.all_text_contents() == ["CUDA 13.0", "CUDA 12.8", "CUDA 12.6", "CPU"]


def test_a_cell_of_the_matrix_is_a_question_to_the_picker(visit):
    page = visit("projects/activation/")
    page.locator("table.grid").first.locator("tr", has_text="torch 2.13").locator("td", has_text="folded").click()
    assert "activation==1.1+cu130.torch2.13" in command_of(page)
    assert "/cu132/" in command_of(page)
    page.get_by_text("hash, GPU code, provenance").click()
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    assert "compute=cu132" in page.url


def test_the_keyboard_alone_is_enough(visit):
    page = visit("projects/activation/#torch=2.11&compute=cu130&arch=x86_64&python=3.12")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for _ in range(5):  # the index, the theme, the source, the address, and the first question
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "torch"
    outline = "getComputedStyle(document.activeElement.nextElementSibling).outlineStyle"
    assert page.evaluate(outline) == "solid"
    page.keyboard.press("ArrowRight")
    assert "torch2.13" in command_of(page)
    for name in ("compute", "arch", "python", "with", "installer"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.name") == name
    page.keyboard.press("ArrowRight")
    assert command_of(page).startswith("uv pip install")


def test_the_command_and_the_address_are_copied(visit, base):
    page = visit("projects/activation/", permissions=["clipboard-read", "clipboard-write"])
    assert "--extra-index-url" in command_of(page)  # torch is to be installed too
    for name, copied in (("the command", command_of(page)), ("the index URL", f"{base}cu132/")):
        page.get_by_role("button", name=f"Copy {name}").click()
        page.get_by_role("button", name=f"Copied {name}").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == copied
    page.get_by_role("button", name="Copy the command").wait_for()


def test_each_wheel_has_a_link_that_downloads_it(visit, shop):
    page = visit("projects/rmsnorm/")
    links = page.get_by_role("link", name="Download")
    assert links.count() == 2
    assert page.get_by_role("heading", name="rmsnorm", level=3).is_visible()
    assert page.get_by_role("link", name="Source").get_attribute("href") == "https://github.com/example/rmsnorm"
    assert "Linux on x86_64, glibc 2.17 or newer" in page.locator("dl.facts").first.text_content()
    with page.expect_download() as download:
        links.first.click()
    name = download.value.suggested_filename
    assert Path(download.value.path()).read_bytes() == next((shop / "index").rglob(name)).read_bytes()


@detail
def test_the_theme_follows_the_system_and_can_be_chosen(visit):
    ground = "getComputedStyle(document.body).backgroundColor"
    page = visit("projects/activation/", color_scheme="dark")
    dark = page.evaluate(ground)
    button = page.get_by_role("button", name="Theme")
    button.click()
    light = page.evaluate(ground)
    assert (light != dark, button.text_content()) == (True, "Theme: light")
    page.reload()
    assert page.evaluate(ground) == light
    assert visit("", color_scheme="light").evaluate(ground) == light


HERE = Machine(
    python="python", python_version="3.12", implementation="cpython", free_threaded=False, platform="linux",
    arch="x86_64", glibc="2.36", pip=True, torch=None, torch_compute=None, driver=None, gpus=(),
)  # fmt: skip


def found_in(page):
    return page.locator("#projects tbody tr:visible th a").all_text_contents()


def test_the_index_is_searched_for_what_is_true_of_one_combination(visit):
    page = visit("")
    assert found_in(page) == ["activation", "fused", "layers", "rmsnorm"]
    for words, found in (
        ("torch 2.9 cuda 12.8", ["activation"]),
        # activation has torch 2.9, and it has CUDA 13.0, but not both.
        ("torch 2.9 cuda 13", ["fused", "layers"]),
        ("torch 2.1", []),
        ("cuda 13 aarch64", ["activation", "layers"]),
        ("depr", ["fused"]),
        ("zz", []),
    ):
        page.get_by_label("Search").fill(words)
        assert found_in(page) == found, words
    assert page.get_by_text("No project has a wheel for all of this.").is_visible()
    page.get_by_label("Search").fill("rms")
    page.reload()
    assert found_in(page) == ["rmsnorm"]
    page.get_by_role("link", name="rmsnorm", exact=True).click()
    assert page.get_by_role("heading", level=1).text_content() == "rmsnorm 0.3"


def test_filters_show_one_column_and_stay_in_the_address(visit):
    page = visit("")
    page.locator("#torch").select_option("torch 2.13")
    page.locator("#compute").select_option("CUDA 12.6")
    assert found_in(page) == ["activation"]
    page.locator("#arch").select_option("aarch64")  # its 1.1 failed, but 1.0 is there
    link = page.locator("#projects tbody tr:visible .mark:not(.off)")
    assert (link.count(), link.text_content(), link.get_attribute("title")) == (
        1, "↶CUDA 12.6 older", "torch 2.13, CUDA 12.6: activation==1.0+cu126.torch2.13; compile: exit code 2",
    )  # fmt: skip
    assert page.locator("#projects thead th:visible").all_text_contents() == ["Project", "torch 2.13"]
    other = visit(page.url)
    assert (found_in(other), other.locator("#arch").input_value()) == (["activation"], "aarch64")
    other.locator("#projects .mark:not(.off):visible").click()
    assert "activation==1.0+cu126.torch2.13" in command_of(other)
    page.get_by_role("button", name="Reset").click()
    assert (len(found_in(page)), "#" in page.url) == (4, False)


def test_a_group_gets_the_command_that_pick_gives(visit, shop, base):
    page = visit("#projects=activation")
    group = page.locator("#group")
    page.get_by_label("Choose rmsnorm").check()
    assert group.locator("#summed").text_content() == "torch 2.13, torch 2.11 in common"
    assert group.locator("#common label").all_text_contents() == ["CPU", "CUDA 13.0"] * 2
    choosers = [Chooser(catalogue_of(Index(Folder(shop / "index")).known(name))) for name in ("activation", "rmsnorm")]
    group.locator(".combinations", has_text="torch 2.11").get_by_text("CUDA 13.0").click()
    for installer, keep in product((Installer.UV, Installer.PIP), (True, False)):
        group.locator(f"[name=installer][value={installer}] + span").click()
        group.locator(f"[name=with][value={'present' if keep else 'absent'}] + span").click()
        picked = decide_together(choosers, HERE, Overrides(torch="2.11", compute="13.0", keep_torch=keep))
        assert command_of(page) == picked.commands(installer, base).text()
    shared = visit(page.url)
    assert command_of(shared).startswith("pip install activation==1.1+cu130.torch2.11 rmsnorm==0.3+cu130 ")
    shared.get_by_label("Choose layers").check()
    assert command_of(shared).startswith("pip install einops ")
    shared.locator("#arch").select_option("aarch64")
    assert group_says(shared) == "rmsnorm is in the way: the others have torch 2.13, torch 2.11, torch 2.9 in common."
    shared.get_by_role("button", name="Remove rmsnorm").click()
    assert "layers==2.0" in command_of(shared)
    assert group_says(shared) == "For aarch64."
    shared.get_by_role("button", name="Clear").click()
    assert not shared.locator("#group").is_visible()


def group_says(page):
    return page.locator("#machines").text_content()


def test_the_grid_is_there_without_scripts(visit):
    page = visit("", java_script_enabled=False)
    row = page.locator("#projects tr", has=page.get_by_role("rowheader", name="activation"))
    cell = row.locator("td[data-label='torch 2.13']")
    assert [line.split() for line in cell.locator("p").all_text_contents()] == [
        ["CPU", "CUDA", "12.6", "13.0", "13.2", "x86_64"],
        ["CPU", "↶CUDA", "12.6", "older", "13.0", "13.2", "aarch64"],
    ]
    assert not page.locator("#group").is_visible()
    assert not page.locator("#projects input").first.is_visible()


# What scrolls or cuts off, beside what only screen readers are told.
SIDEWAYS = """
Array.from(document.querySelectorAll("main *"))
  .filter((each) => getComputedStyle(each).overflowX !== "visible" && each.clientWidth > 1)
  .filter((each) => each.scrollWidth > each.clientWidth)
  .map((each) => each.outerHTML.slice(0, 99))
"""


@pytest.mark.parametrize("width", [360, 390])
@pytest.mark.release("opens every page in several widths")
def test_a_phone_needs_no_sideways_scrolling(visit, width):
    for path in (
        "",
        "projects/activation/",
        "projects/fused/#installer=uv-project",
        "projects/activation/#torch=2.9&compute=cu130",
        "projects/rmsnorm/",
    ):
        page = visit(path, viewport={"width": width, "height": 800})
        page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") == width, path
        # Not even within a part of it: no column is where nobody looks for it.
        assert page.evaluate(SIDEWAYS) == [], path


@detail
def test_a_matrix_of_many_columns_shows_all_of_them_on_a_phone(visit, tmp_path):
    computes = (None, "11.8", "12.1", "12.4", "12.6", "12.8", "13.0", "13.2", "13.3")
    many = project(*(of_torch(torch, cuda) for torch in ("2.11", "2.13") for cuda in computes))
    (tmp_path / "page.html").write_bytes(human_pages(many)["projects/k/index.html"])
    page = visit((tmp_path / "page.html").as_uri(), viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate(SIDEWAYS) == []
    cells = page.locator("table.grid td[data-column]")
    assert cells.count() == 18
    for number in range(18):
        box = cells.nth(number).bounding_box()
        assert 0 <= box["x"] < box["x"] + box["width"] <= 390


@detail
def test_the_charts_of_a_report_use_the_width_and_have_one_axis(visit, tmp_path):
    cell = Cell(release="2.11", toolkit="13.0", arch="x86_64")
    record = planned_run(kernel="k").record((), interrupted=False)
    finished = RunFinished(results=(), excluded=(), interrupted=False, seconds=80)
    bar = Bar(row=cell.id, kind="compile", start=0, end=80, text="compile")
    timeline = Timeline(seconds=80, stages=(bar,), steps=(replace(bar, row="0"),))
    (tmp_path / "report.html").write_bytes(report_page(record, "bwrap", finished, timeline))
    address = (tmp_path / "report.html").as_uri()
    page = visit(address, viewport={"width": 1280, "height": 800})
    whole, *bars = (page.locator(each) for each in (".bars", ".bars >> nth=0 >> .bar", ".bars >> nth=1 >> .bar"))
    first, second = (each.bounding_box() for each in bars)
    assert first["width"] > 0.7 * whole.first.bounding_box()["width"]
    assert (first["x"], first["width"]) == (second["x"], second["width"])
    phone = visit(address, viewport={"width": 390, "height": 800})
    assert phone.evaluate(SIDEWAYS) == []
    assert phone.locator(".bar").first.bounding_box()["width"] > 300


@pytest.mark.release("another way to open the same page")
def test_a_page_works_from_a_folder(visit, shop):
    page = visit((shop / "index" / "index.html").as_uri())
    page.get_by_role("link", name="rmsnorm").click()
    assert f"--index-url {(shop / 'index').as_uri()}/" in command_of(page)


# --- the judges ----------------------------------------------------------------------------------------------------


@pytest.mark.release("needs packages of npm")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(visit, judges, theme):
    axe = (judges / "axe-core" / "axe.min.js").read_text()
    for path in ("", "projects/activation/#torch=2.9&compute=cu130", "projects/fused/", "projects/rmsnorm/"):
        page = visit(path, color_scheme=theme)
        page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
        page.evaluate(axe)
        found = page.evaluate("axe.run({ resultTypes: ['violations'] })")
        assert [(item["id"], item["nodes"][0]["html"]) for item in found["violations"]] == [], path
        assert found["passes"]


@pytest.mark.release("needs packages of npm")
def test_every_page_is_valid_html(shop, judges):
    index = shop / "index"
    pages = [
        *index.glob("*.html"),
        *index.glob("projects/*/index.html"),
        *index.glob("simple/**/*.html"),
        *index.glob("cu130/**/*.html"),
    ]
    assert len(pages) > 10
    (judges.parent / ".htmlvalidate.json").write_text('{"root": true, "extends": ["html-validate:standard"]}')
    command = [judges / ".bin" / "html-validate", "--config", judges.parent / ".htmlvalidate.json", *pages]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stdout
