import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.platforms.cuda import intersect_capabilities, parse_capability


@pytest.mark.parametrize(
    ("own", "requested", "answer"),
    [
        (None, ("8.0", "9.0+PTX"), ("8.0", "9.0+PTX")),
        # kernel-builder's own examples
        (("7.5", "8.0", "8.6", "9.0", "9.0a"), ("8.0", "8.6", "8.9", "9.0"), ("8.0", "8.6", "9.0a")),
        (("8.0+PTX",), ("9.0",), ("8.0+PTX",)),
        # machine code runs on its own major only
        (("9.0a", "10.0a"), ("8.0", "9.0"), ("9.0a",)),
    ],
)
def test_loose_intersection(own, requested, answer):
    assert intersect_capabilities(own, requested) == answer


capability = st.builds(
    "{}.{}{}{}".format,
    st.integers(5, 12),
    st.integers(0, 9),
    st.sampled_from(["", "a", "f"]),
    st.sampled_from(["", "+PTX"]),
)


@given(own=st.lists(capability, min_size=1, max_size=8), requested=st.lists(capability, min_size=1, max_size=8))
def test_an_intersection_invents_nothing_and_serves_somebody(own, requested):
    answer = intersect_capabilities(tuple(own), tuple(requested))
    numbers = {(parse_capability(c).number, parse_capability(c).suffix) for c in own}
    targets = {parse_capability(c).number for c in requested}
    for text in answer:
        chosen = parse_capability(text)
        assert (chosen.number, chosen.suffix) in numbers
        assert any(target == chosen.number if chosen.suffix else target >= chosen.number for target in targets)


@given(capability)
def test_a_capability_is_read_as_it_is_written(text):
    assert str(parse_capability(text)) == text
