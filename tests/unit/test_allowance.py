"""What wheelsmith keeps for a build is counted."""

import pytest

from wheelsmith.base.errors import OutputError
from wheelsmith.pipeline.compiler_proxy import Quota


def test_no_more_is_kept_than_may_be():
    quota = Quota(10)
    assert list(quota.counted([b"12345", b"67890"])) == [b"12345", b"67890"]
    with pytest.raises(OutputError):
        list(quota.counted(iter([b"1"])))
    assert quota.is_spent


def test_what_is_given_back_may_be_kept_again():
    quota = Quota(10)
    quota.take(11)
    assert quota.is_spent
    quota.take(-11)
    assert list(quota.counted([b"1234567890"])) == [b"1234567890"]
