import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.path.append(str(Path(__file__).parent.parent))  # where bench lies, which is not installed
sys.path.append(str(Path(__file__).parent.parent / "scripts"))  # what maintainers run, likewise

import pytest
import tiers
from hypothesis import HealthCheck, settings

from wheelsmith.base.beneath import remove_tree

# A busy machine is no reason to fail: every test has a time-out of its own.
settings.register_profile("all", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("all"), max_examples=25)


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="run what can wait for a release, too")


@pytest.hookimpl(tryfirst=True)  # before pytest takes a folder that all runs of a user share
def pytest_configure(config):
    settings.load_profile("all" if config.option.all else "quick")
    if not config.option.basetemp and not hasattr(config, "workerinput"):
        config.option.basetemp = tempfile.mkdtemp(prefix="wheelsmith-tests-")
        config.add_cleanup(lambda: _remove(config))


def _remove(config):
    """Remove what the tests left, unless somebody will want to look at it; pytest itself fails of the deepest trees."""
    session = config.pluginmanager.get_plugin("session")
    if session is None or not session.testsfailed:
        remove_tree(Path(config.option.basetemp))


@pytest.hookimpl(tryfirst=True)  # pytest-xdist looks at groups in this hook, too
def pytest_collection_modifyitems(config, items):
    tiers.select(config, items)
    tiers.group(items)
    if not config.pluginmanager.has_plugin("randomly"):
        tiers.dearest_first(items)


def pytest_collection_finish(session):
    """Fail where groups are not kept together: it would be slow, and nobody would know why."""
    if session.config.getoption("loadgroup", False):
        lost = [item for item in session.items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
        if lost:
            raise pytest.UsageError(f"this pytest-xdist does not keep {lost[0].nodeid} in its group")


def pytest_terminal_summary(terminalreporter):
    if not hasattr(terminalreporter.config, "workerinput"):
        tiers.summarize(terminalreporter)
