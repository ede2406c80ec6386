import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.model import BuildResult, Cell, CellSettings, Failure, Status, Timing, WheelRecord
from wheelsmith.model.wheel_name import wheel_stem
from wheelsmith.platforms import parse_capability

texts = st.text(max_size=20)
cells = st.builds(
    Cell,
    release=st.from_regex(r"\A2\.[0-9]{1,2}\Z"),
    toolkit=st.none() | st.from_regex(r"\A1[0-9]\.[0-9]\Z"),
    arch=st.sampled_from(["x86_64", "aarch64"]),
    settings=st.builds(CellSettings, gpu_archs=st.none() | st.lists(texts).map(tuple), advertise=st.booleans()),
)
wheels = st.builds(
    WheelRecord,
    filename=texts,
    sha256=texts,
    size=st.integers(0),
    metadata_sha256=texts,
    requires_python=st.none() | texts,
)
results = st.builds(
    BuildResult,
    cell=cells,
    plan_digest=texts,
    status=st.sampled_from(Status),
    wheel=st.none() | wheels,
    failure=st.none() | st.builds(Failure, stage=texts, message=texts, tail=st.lists(texts).map(tuple)),
    timings=st.lists(st.builds(Timing, stage=texts, seconds=st.floats(0, 1e6))).map(tuple),
    log=st.none() | texts,
)


@given(results)
def test_what_is_written_as_json_is_read_again(result):
    assert BuildResult.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_names():
    assert wheel_stem("My.Kernel-x") == "my_kernel_x"
    assert parse_capability("9.0a+PTX") == (9, 0, "a", True)
    for wrong in ("9", "sm_90", "9.0b", "123.0", "9.0+ptx"):
        with pytest.raises(ValueError):
            parse_capability(wrong)
