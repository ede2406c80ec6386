"""What goes when the cache must become smaller, without a file being touched."""

import math
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.store import Bounds, CacheInventory, Kind
from wheelsmith.store.inventory import Content, Item
from wheelsmith.store.pruning import choose

KEYS = [f"content-{number}" for number in range(6)]


@st.composite
def stocks(draw):
    contents = {key: Content(path=Path(key), size=draw(st.integers(0, 100))) for key in KEYS}
    items = tuple(
        Item(
            kind=draw(st.sampled_from(list(Kind))),
            path=Path(f"item-{number}"),
            used=draw(st.integers(0, 8)),
            size=draw(st.integers(0, 100)),
            shares=frozenset(draw(st.lists(st.sampled_from(KEYS), max_size=3))),
        )
        for number in range(draw(st.integers(0, 12)))
    )
    return CacheInventory(items=items, contents=contents)


sizes = st.none() | st.integers(0, 1200)
times = st.just(-math.inf) | st.integers(0, 9) | st.just(math.inf)


def plain_size(items, stock):
    """What ``CacheInventory.size`` says, the slow way."""
    keys = {key for item in items for key in item.shares}
    return sum(item.size for item in items) + sum(stock.contents[key].size for key in keys)


@given(stocks(), sizes, times)
def test_the_cache_is_within_its_bounds_or_empty(stock, size, since):
    pruning = choose(stock, Bounds(size=size, since=since))
    kept = pruning.kept.items
    assert sorted(map(id, kept + pruning.removed.items)) == sorted(map(id, stock.items))
    assert all(item.used >= since and item.kind is not Kind.LEFTOVERS for item in kept)
    assert size is None or plain_size(kept, stock) <= size or not kept
    assert pruning.freed == plain_size(stock.items, stock) - plain_size(kept, stock)


@given(stocks(), sizes, times)
def test_nothing_goes_before_what_was_not_of_use_for_longer(stock, size, since):
    pruning = choose(stock, Bounds(size=size, since=since))
    gone = [item.used for item in pruning.removed.items if item.kind is not Kind.LEFTOVERS]
    assert max(gone, default=-math.inf) <= min((item.used for item in pruning.kept.items), default=math.inf)
    assert gone == sorted(gone)


@given(stocks(), sizes, times)
def test_nothing_goes_without_need(stock, size, since):
    pruning = choose(stock, Bounds(size=size, since=since))
    if pruning.removed.items and (last := pruning.removed.items[-1]).kind is not Kind.LEFTOVERS:
        too_much = size is not None and plain_size((*pruning.kept.items, last), stock) > size
        assert too_much or last.used < since
