"""A wheel that was compiled in no sandbox may have paths of its machine in it: one with a sandbox makes its own."""

from types import SimpleNamespace

import pytest
from plans import plan

from wheelsmith.model import WheelRecord
from wheelsmith.run.build import stored_wheels
from wheelsmith.store import Store


@pytest.mark.parametrize("of_machine", [False, True])
@pytest.mark.parametrize("isolates", [False, True])
def test_who_finds_it(tmp_path, of_machine, isolates):
    wheel = tmp_path / "k1-1-py3-none-any.whl"
    wheel.write_bytes(b"x")
    sha256 = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    file = WheelRecord(filename=wheel.name, sha256=sha256, size=1, metadata_sha256="", requires_python=None)
    made, store = plan(1), Store(tmp_path / "store")
    store.put(made.build_digest, wheel, file, of_machine=of_machine)
    found = stored_wheels([made], tmp_path, SimpleNamespace(isolates=isolates))
    assert bool(found) is not (of_machine and isolates)
    # Whatever is noted later does not change where it was made.
    assert store.mark_checked(made.build_digest, store.find(made.build_digest)).of_machine is of_machine
    assert store.find(made.build_digest).of_machine is of_machine
