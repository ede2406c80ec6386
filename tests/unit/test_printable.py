"""What a build prints is shown as it is: no terminal, build server or board takes it for more than words."""

import pytest

from wheelsmith.base.errors import WheelsmithError
from wheelsmith.base.sanitize import visible
from wheelsmith.cli.app import show_error
from wheelsmith.pipeline.cell_log import CellLog


@pytest.mark.parametrize(
    "said",
    [
        *("##[set-output name=x]y", "  ##[add-mask]e", "a ####[x]y", "##vso[task.setvariable v=x]y", "##teamcity[x]"),
        *("::stop-commands::x", "\t ::add-matcher::x", ":::warning::x"),
    ],
)
def test_build_servers_are_told_nothing(said, capsys):
    show_error(WheelsmithError(said))
    for shown in (visible(said), capsys.readouterr().err):
        assert not any(word in shown for word in ("##[", "##vso[", "##teamcity["))
        assert not shown.strip().startswith("::")


@pytest.mark.parametrize(
    "said", ["std::vector<int>::at", "# 1 [x]", "## [a]", "a::b", "foo.cpp:3:1: error", "#[derive]"]
)
def test_words_stay_as_they_are(said):
    assert visible(said) == said


@pytest.mark.parametrize("number", ["1" + "0" * 400, "9" * 4000, "\u0661\u0662"])
def test_numbers_that_nobody_can_count_with_are_words(number, tmp_path):
    heard = []
    cell_log = CellLog("cell", tmp_path / "logs" / "cell.log", heard.append)
    with cell_log.command("build", ()) as output:
        output.read(f"[wheelsmith {number}/1] x")
        output.read("[wheelsmith 3/4] y")
    assert [type(event).__name__ for event in heard] == ["CommandStarted", "CellLine", "CellProgress"]


def test_a_log_is_written_in_the_place_of_a_link(tmp_path):
    outside, log = tmp_path / "outside", tmp_path / "logs" / "cell.log"
    outside.write_text("mine")
    log.parent.mkdir()
    log.symlink_to(outside)
    cell_log = CellLog("cell", log, [].append)
    for name in ("one", "two"):
        with cell_log.command(name, ()) as output:
            output.read("said")
    assert outside.read_text() == "mine"
    assert log.read_text() == "── one\nsaid\n── two\nsaid\n"
