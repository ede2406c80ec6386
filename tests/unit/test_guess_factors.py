"""A guess of memory that was too low raises the next ones like it, until one has shown what is enough."""

from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.pipeline.context import GuessFactors

WHAT = "k cicc"


@given(st.lists(st.floats(0.01, 30.0), max_size=40))
def test_every_piece_is_tried_often_enough_and_no_more(pieces):
    """Each takes what is guessed, or twice as much until it is enough; never is less guessed than was too little."""
    factors, too_low = GuessFactors(), 0.0
    for needed in pieces:
        given_, tries = factors.of(WHAT), 1
        assert given_ > too_low
        while given_ < needed:
            too_low = max(too_low, given_)
            factors.record_shortfall(WHAT, given_, 2 * given_)
            given_, tries = 2 * given_, tries + 1
        factors.succeeded(WHAT, needed)
        assert tries <= 6
