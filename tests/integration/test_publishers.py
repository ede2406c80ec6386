"""Many publishers at once, some of them killed."""

import os

import pytest
from flaky_proxy import Faults, FlakyProxy
from loopback_s3 import BUCKET, CLOUDS, environment, loopback_s3, needs_s3, only
from storm import Storm, unleash

from wheelsmith.index.target import open_storage

STORM = Storm(publishers=6, wheels=4, batch=2, projects=2, kills=2, stay_dead=2)
LONG_STORM = Storm(publishers=32, wheels=20, batch=2, projects=4, kills=24, stay_dead=2)
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
    # All but one publisher, which was abandoned, have reported all of their wheels; they have one in common.
    assert weather.reported >= (storm.publishers - weather.abandoned) * (storm.wheels - 1) + 1
    assert weather.wrong == ()
    assert weather.mended_again == ()


@pytest.mark.parametrize("storm", [STORM, pytest.param(LONG_STORM, marks=pytest.mark.release("the same, longer"))])
def test_to_a_folder(storm, tmp_path):
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
