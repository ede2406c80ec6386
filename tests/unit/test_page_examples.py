"""Every command that a page shows is run by a test or has a reason, and every option of wheelsmith's exists."""

import click
import pytest
from page_examples import PAGES, Command, agrees, commands
from page_settings import NOT_COMPARED, NOT_RUN, SETTINGS, why_not

from wheelsmith.cli.app import cli

COMMANDS = commands()


def test_every_command_is_run_or_has_a_reason():
    assert [command for command in COMMANDS if command.page not in SETTINGS and not why_not(NOT_RUN, command)] == []


@pytest.mark.parametrize("table", [NOT_RUN, NOT_COMPARED])
def test_every_reason_is_that_of_a_command(table):
    needed = {
        (each.page, start) for each in COMMANDS for start in table.get(each.page, ()) if each.text.startswith(start)
    }
    assert needed == {(page, start) for page, reasons in table.items() for start in reasons}
    assert set(SETTINGS) <= {each.page for each in COMMANDS if not why_not(NOT_RUN, each)}


@pytest.mark.parametrize(
    "command", [each for each in COMMANDS if each.wheelsmith is not None], ids=lambda each: f"{each.page}:{each.line}"
)
def test_wheelsmith_knows_the_command_and_its_options(command):
    parse(command.wheelsmith)


def parse(words):
    """Find the command, and let its parser read the options."""
    command, words = cli, list(words)
    while isinstance(command, click.Group):
        context = click.Context(command, info_name="wheelsmith")
        _, command, words = command.resolve_command(context, words)
    _, left, _ = command.make_parser(click.Context(command)).parse_args(words)
    return left


@pytest.mark.parametrize("words", [["biuld"], ["plan", "--shard"], ["index", "tset"], ["plan", "--engine"]])
def test_a_command_or_an_option_that_is_not_there_is_found(words):
    with pytest.raises(click.UsageError):
        parse(words)


@pytest.mark.parametrize(
    ("shown", "output", "same"),
    [
        ("a\n…\nd", "a\nb\nc\nd\n", True),
        ("a\n…\nd", "a\nd\n", True),
        ("a … d", "a b d\n", True),
        ("4 built in 46s", "4 built in 1m 2s\n", True),
        ("k @87f82c3, 98.7 kB", "k @1234567,  3 B\n", True),
        ("4 built", "3 built\n", False),
        ("a", "a\nb\n", False),
        ("a.c", "abc\n", False),
    ],
)
def test_what_varies_is_not_compared(shown, output, same):
    assert agrees(shown, output) == same


def test_the_pages_are_read():
    assert len(PAGES) > 45
    continued = Command(page="", line=1, text="A=1 wheelsmith plan \\\n  --locked  # twice", shown="")
    assert continued.wheelsmith == ["plan", "--locked"]
    assert any("\n" in each.text for each in COMMANDS)
