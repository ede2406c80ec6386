"""The commands of the documentation: those of a page run in their order, and print what the page shows."""

import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from factory import Factory
from page_examples import File, agrees, read_page
from page_settings import NOT_COMPARED, NOT_RUN, SETTINGS, Setting, why_not
from page_shell import shell

pytestmark = [pytest.mark.e2e, pytest.mark.network, pytest.mark.timeout(3600)]
# A command that prints such a line fails.
FAILURE = re.compile(r"^(error:|✗)", re.MULTILINE)
QUICK = {"docs/how-to/migrate-kernel-builder.md", "docs/reference/wheel-index.md"}
DEAR = pytest.mark.release("pages do what other tests do, one step after the other")
MARKS = {page: () if page in QUICK else DEAR for page in SETTINGS}
MARKS["docs/how-to/containers.md"] = [DEAR, pytest.mark.xdist_group("containers")]


@pytest.mark.parametrize("page", [pytest.param(page, marks=marks) for page, marks in MARKS.items()])
def test_the_commands_of_a_page(page, request, tmp_path):
    with ExitStack() as open_:
        factory = Factory.at(tmp_path / "at")
        at = Setting(request=request, factory=factory, open=open_, folder=factory.folder / "here")
        at.folder.mkdir()
        SETTINGS[page](at)
        at.folder.mkdir(exist_ok=True)
        run = at.enter(shell(at.folder, at.environment, tmp_path / "outputs"))
        for item in read_page(page):
            if isinstance(item, File):
                path = Path(run("pwd")[1].strip(), item.path)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(item.text)
            elif why_not(NOT_RUN, item) is None:
                _check(item, at, run)


def _check(command, at, run):
    at.before.get(command.text, lambda: None)()
    code, output = run(at.typed(command.text))
    place = f"{command.page}:{command.line}: {command.text}\n{output}"
    assert (code != 0) == bool(FAILURE.search(command.shown)), f"exit code {code} of {place}"
    if command.shown and why_not(NOT_COMPARED, command) is None:
        assert agrees(at.typed(command.shown), output), place
