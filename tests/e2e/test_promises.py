"""What doctor says of SECURITY.md's promises is what this machine does: each is tried where it holds and where not."""

import pytest

from wheelsmith.engine import Local, run_selftest
from wheelsmith.engine.bwrap import Bubblewrap
from wheelsmith.engine.sandbox_selftest import BOUNDED, DIES

pytestmark = pytest.mark.e2e
INSIDE = {
    "has no network, loopback or other sockets",
    "sees only declared host files, read-only",
    "sees no tokens and no variables of yours",
    "has a filter of system calls",
    "learns nothing about the host",
}


def test_an_engine_keeps_what_is_promised_of_it(confining):
    engine = confining.engine
    said = {promise.what: promise for promise in run_selftest(engine, confining.image)}
    broken = {what: promise.found for what, promise in said.items() if not promise.holds}
    # SECURITY.md says so of containers.
    allowed = {"learns nothing about the host"} if engine.has_images else set()
    assert set(broken) == allowed, broken
    assert set(said) == INSIDE | {BOUNDED, DIES}


def test_where_nothing_confines_it_says_so(tmp_path):
    """The same trial finds what is there to be found: that a sandbox shows nothing is no mistake of the trial's."""
    said = {promise.what: promise for promise in run_selftest(Local(), None)}
    assert {what for what, promise in said.items() if not promise.holds} == INSIDE - {
        "sees no tokens and no variables of yours"
    }
    assert "loopback is reachable" in said["has no network, loopback or other sockets"].found
    assert "no filter is active" in said["has a filter of system calls"].found


def test_an_engine_with_its_filter_open_is_found_out(monkeypatch):
    """A filter that lets everything through, in an otherwise whole sandbox."""
    let_through = bytes.fromhex("06000000 0000ff7f")  # BPF_RET, SECCOMP_RET_ALLOW
    monkeypatch.setattr("wheelsmith.engine.bwrap.launch_filter", lambda machine: let_through)
    said = {promise.what: promise for promise in run_selftest(Bubblewrap(), None)}
    broken = {what: promise.found for what, promise in said.items() if not promise.holds}
    assert "io_uring can be used" in broken["has a filter of system calls"]
    assert "AF_VSOCK" in broken["has no network, loopback or other sockets"]
