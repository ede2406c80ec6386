"""Many publishers at once, some of them killed, some of them forgers."""

import os
from contextlib import ExitStack

import pytest
from flaky_proxy import Faults, FlakyProxy
from forged_inputs import FORGERIES
from loopback_azure import CONTAINER, azurite, loopback_azure
from loopback_github import OWNER, serve_github
from loopback_s3 import BUCKET, CLOUDS, environment, loopback_s3, needs_s3, only
from storm import Storm, unleash

from wheelsmith.index.storage.location import open_storage

STORM = Storm(publishers=6, wheels=4, batch=2, projects=2, kills=2, stay_dead=2, forgers=2)
LONG_STORM = Storm(publishers=32, wheels=20, batch=2, projects=4, kills=24, stay_dead=2, forgers=20)
# As many wheels as it takes not to be done before anybody is killed.
FORGERS = Storm(publishers=4, wheels=16, batch=2, projects=2, kills=1, stay_dead=2, forgers=len(FORGERIES))
# Each kind more than once.
BAD_DAY = {
    "409": 5,
    "412": 7,
    "500": 29,
    "503": 31,
    "500-done": 37,
    "silence": 307,
    "silence-done": 293,
    "cut-done": 41,
}
PATIENCE = 3.0


def assert_all_is_well(weather, storm=STORM):
    assert weather.failed == []
    assert weather.killed == storm.kills
    assert weather.lost == []
    assert weather.admitted == []
    assert weather.refused == storm.forgers
    # All but one publisher, which was abandoned, have reported all of their wheels; they have one in common.
    assert weather.reported >= (storm.publishers - weather.abandoned) * (storm.wheels - 1) + 1
    assert weather.wrong == ()
    assert weather.fixed_again == ()


@pytest.mark.parametrize("storm", [STORM, pytest.param(LONG_STORM, marks=pytest.mark.release("the same, longer"))])
def test_to_a_folder(storm, tmp_path):
    """The long one starts 32 Pythons at once, and 24 of them twice."""
    target = str(tmp_path / "index")
    assert_all_is_well(unleash(storm, target, open_storage(target), tmp_path, dict(os.environ)), storm)


@pytest.mark.release("another storage: the folder's storm is quick")
@needs_s3
def test_to_a_bucket_on_a_bad_day(tmp_path):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(CLOUDS)}
    with loopback_s3() as port, FlakyProxy(port, Faults(BAD_DAY, patience=PATIENCE)) as proxy:
        target = f"s3://{BUCKET}/index"
        with only(environment(f"http://127.0.0.1:{port}")):
            environ = clean | environment(proxy.url, patience=PATIENCE)
            weather = unleash(STORM, target, open_storage(target), tmp_path, environ)
        assert_all_is_well(weather)
        assert set(proxy.faults.done) == set(BAD_DAY)


@pytest.mark.release("another storage: the folder's storm is quick")
def test_to_github_on_a_bad_day(tmp_path):
    """At no moment does a page name an asset that is not there."""
    storm = Storm(publishers=3, wheels=4, batch=2, projects=2, kills=2, stay_dead=2, pace=0.3, shared="99")
    target = f"github://{OWNER}"
    with serve_github() as github, only(github.environ):
        github.faults = {"500": 13, "500-done": 17, "403": 19, "429": 23, "cut-done": 29, "starter": 11}
        weather = unleash(storm, target, open_storage(target), tmp_path, dict(os.environ))
        assert_all_is_well(weather, storm)
        assert github.broken == []
        assert {"500", "cut-done", "starter"} <= github.happened.keys()


@pytest.mark.release("another storage, and a forger of every kind: the folder's storm is quick")
@pytest.mark.parametrize("place", ["folder", "s3", "azure"])
def test_every_forgery_is_refused_in_the_middle_of_it(place, request, tmp_path):
    """Ten forgers are ten more programs that start at once; azurite is fetched where it is not there."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(CLOUDS)}
    with ExitStack() as stack:
        target, account = str(tmp_path / "index"), {}
        if place == "s3":
            pytest.importorskip("moto")
            target = f"s3://{BUCKET}/forged"
            account = environment(f"http://127.0.0.1:{stack.enter_context(loopback_s3())}")
        if place == "azure":
            program = azurite(request.config.cache.mkdir("azurite"))
            target = f"az://{CONTAINER}/forged"
            account = stack.enter_context(loopback_azure(program, tmp_path / "azurite"))
        stack.enter_context(only(account))
        assert_all_is_well(unleash(FORGERS, target, open_storage(target), tmp_path, clean | account), FORGERS)
