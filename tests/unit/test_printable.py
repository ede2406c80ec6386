"""What a build prints is shown as it is: no terminal, build server or board takes it for more than words."""

import pytest

from wheelsmith.base.errors import WheelsmithError
from wheelsmith.base.sanitize import may_hold_password, shown_address, visible, without_credentials
from wheelsmith.pipeline.cell_log import CellLog
from wheelsmith.report.errors import show_error


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


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("'https://me:t0ken@h/x': 403, git@h:o/p", "'https://h/x': 403, git@h:o/p"),
        ("ssh://me@h/x and http://a:p@ss@h:8/y@v1", "ssh://h/x and http://h:8/y@v1"),
        ("https://h and me@x", "https://h and me@x"),
    ],
)
def test_addresses_are_told_without_their_passwords(said, shown):
    assert without_credentials(said) == shown


@pytest.mark.parametrize("number", ["1" + "0" * 400, "9" * 4000, "\u0661\u0662"])
def test_numbers_that_nobody_can_count_with_are_words(number, tmp_path):
    heard = []
    cell_log = CellLog("cell", tmp_path / "logs" / "cell.log", heard.append)
    with cell_log.command("build") as output:
        output.read(f"[wheelsmith {number}/1] x")
        output.read("[wheelsmith 3/4] y")
    assert [type(event).__name__ for event in heard] == ["CellLine", "CellProgress"]


def test_a_log_is_written_in_the_place_of_a_link(tmp_path):
    outside, log = tmp_path / "outside", tmp_path / "logs" / "cell.log"
    outside.write_text("mine")
    log.parent.mkdir()
    log.symlink_to(outside)
    cell_log = CellLog("cell", log, [].append)
    for name in ("one", "two"):
        with cell_log.command(name) as output:
            output.read("said")
    assert outside.read_text() == "mine"
    assert log.read_text() == "── one\nsaid\n── two\nsaid\n"


@pytest.mark.parametrize(
    "address",
    [
        *("ftp://user:hunter2@h/x", "http://user:hunter2@[::1/x", "http://user:hunt/er2@127.0.0.1:9/x"),
        *("https:/user:hunter2@h/", "HTTPS//user:hunter2@h/x", "s3://AKIA:hunter2@bucket/x", "//me:hunter2@h/x"),
        *("git+https://me:hunter2@h/x", "me:hunter2@h.example/x", "hTTps;//me:hunter2@h/x", '"https://me:hunter2@h'),
        *(
            "https://me:8080/hunter2@h:9/x",
            "https://me:/hunter2@h/x",
            "https://me:hunter2%40h/x",
            "https://u:p@hunter2@h/x",
        ),
        *("https://me:hunter2\uff20h/x", "https\uff1a//me\uff1ahunter2@h/x", "https://localhost:1/me:hunter2@h/x"),
        *("https://org/me:hunter2@h/x", "https://me:12#hunter2@h/x", "https://me:12?hunter2@h/x", "https//hunter2@h/x"),
        *("https://u:p@hunter2/x@h/y", "https://u:123/hunter2%40h/x", "https:///hunter2@h/x"),
        *("file:/me:hunter2@h/x", "hub:me:hunter2@h/x", "https:///me:hunter2@h/x"),
    ],
)
def test_a_mistyped_address_is_shown_without_its_password(address):
    shown = shown_address(address)
    assert ("hunt" in shown, "er2" in shown, shown[-2:]) == (False, False, address[-2:])


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://me:hunter2/simple", "https://…"),
        ("https\uff1a//me:hunter2/simple", "https://…"),
        ("ftp://h/x?token=hunter2", "ftp://h/x"),
        ("https://h/x#hunter2", "https://h/x"),
        ("https://me:hunter2@h/x?y", "https://h/x"),
        ("https://me:8080/hunter2@h/x?token=hunter2", "…@h/x"),
        ("htps;//h/x?sig=hunter2", "htps;//h/x"),
        ("gs//b?x=hunter2", "gs//b"),
    ],
)
def test_of_an_address_its_place_is_shown(address, shown):
    assert shown_address(address) == shown
    assert may_hold_password(address) == (address != "https://h/x#hunter2")


@pytest.mark.parametrize(
    "address",
    [
        *("wheels/v1@main/index", "https://h/p@1/x", "file:///w@1/x", "http://h:9/x", ".", "git@github.com:org/name"),
        *(
            "https://bücher.example/x",
            "http://[::1]:8/x",
            "https://[::1]/x@y",
            "git+https://h/o/w@v1.2",
            "s3://bucket/a/b",
            "a b/c:d",
        ),
        *("/a:b/c@d", "./a:b@c", "../a:b@c", "hf://spaces/org/name@main"),
    ],
)
def test_other_places_are_shown_as_they_are(address):
    assert shown_address(address) == address
    assert not may_hold_password(address)


def test_whom_ssh_greets_is_no_secret():
    assert shown_address("git+ssh://git@h/w@v1") == "git+ssh://h/w@v1"
    assert not may_hold_password("git+ssh://git@h/w@v1")
    assert may_hold_password("git+ssh://git:hunter2@h/w@v1")
