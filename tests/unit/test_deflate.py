"""Another deflate than zlib's packs the same files otherwise, so a plan names it."""

import zlib
from dataclasses import replace

import pytest
from plans import plan

from wheelsmith.base import zlib_fingerprint


@pytest.fixture(autouse=True)
def forgotten():
    zlib_fingerprint.non_zlib_fingerprint.cache_clear()
    yield
    zlib_fingerprint.non_zlib_fingerprint.cache_clear()


def test_zlib_itself_is_not_named():
    if "zlib-ng" in zlib.ZLIB_RUNTIME_VERSION:
        pytest.skip("this Python has zlib-ng")
    assert zlib_fingerprint.non_zlib_fingerprint() is None
    assert b"deflate" not in plan(1).recorded()


def test_another_one_is_another_plan(monkeypatch):
    real = zlib.compressobj
    monkeypatch.setattr(zlib, "compressobj", lambda level, *how: real(1, *how))
    found = zlib_fingerprint.non_zlib_fingerprint()
    assert found
    made = replace(plan(1), deflate=found)
    assert found.encode() in made.recorded()
    assert made.build_digest != plan(1).build_digest
