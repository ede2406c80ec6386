"""What differs from a lock is said by name, and what is written is what is read."""

import string
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans import plan

from wheelsmith.model import ImageId, PrefixId
from wheelsmith.plan.lock import (
    EnvironmentRequest,
    IndexedWheel,
    Lock,
    LockedEnvironment,
    LockedSource,
    Pin,
    differences,
    pins_of,
    read_lock,
    write_lock,
)
from wheelsmith.platforms import cxx_toolchains

HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
WORDS = st.text(string.ascii_letters + string.digits + " .-=+:/\"'\\é\n", max_size=20)
NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
WHEELS = st.builds(
    lambda name, number, sha256: IndexedWheel(
        name=name, version=f"{number}.0", sha256=sha256, url=f"https://x.invalid/{name}-{number}.0-py3-none-any.whl"
    ),
    NAMES,
    st.integers(0, 99),
    HEX,
)
REQUESTS = st.builds(
    EnvironmentRequest,
    requirements=st.just(()),
    rather=st.lists(WORDS, max_size=2).map(tuple),
    python=st.sampled_from(["3.11", "3.12"]),
    arch=st.sampled_from(["x86_64", "aarch64"]),
)
ENVIRONMENTS = st.builds(
    LockedEnvironment,
    name=st.from_regex(r"([a-z0-9_][a-z0-9_.-]{0,5}/)?torch2\d\d-cpu-[a-z0-9_]{1,6}", fullmatch=True),
    request=REQUESTS,
    wheels=st.lists(WHEELS, max_size=3, unique_by=lambda wheel: wheel.name).map(tuple),
)
SOURCES = st.builds(LockedSource, kernel=WORDS, revision=st.none() | WORDS, commit=HEX, tree=HEX)
LOCKS = st.builds(
    Lock,
    source=st.none() | SOURCES,
    cells=st.lists(WORDS, max_size=3, unique=True).map(tuple),
    pins=st.lists(st.builds(Pin, name=WORDS, digest=HEX), max_size=4, unique_by=lambda pin: pin.name).map(tuple),
    environments=st.lists(ENVIRONMENTS, max_size=2, unique_by=lambda each: each.name).map(tuple),
    sources=st.dictionaries(NAMES, SOURCES, max_size=2),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lock=LOCKS)
def test_what_is_written_is_what_is_read(tmp_path, lock):
    path = tmp_path / "wheelsmith.lock"
    write_lock(path, lock)
    assert read_lock(path) == lock
    named = {f"pylock.{each.name.replace('/', '.')}.toml" for each in lock.environments}
    assert {file.name for file in (tmp_path / "wheelsmith.lock.d").glob("*")} == named


@given(lock=LOCKS)
def test_nothing_differs_from_itself(lock):
    unique = {each.request: each for each in lock.environments}
    lock = replace(lock, environments=tuple(unique.values()))
    assert differences(lock, lock) == ()


def test_every_difference_is_named():
    source = LockedSource(kernel="hub:a/b", revision="v1", commit="c" * 40, tree="0" * 64)
    wheel = IndexedWheel(name="numpy", version="1.0", sha256="0", url="u")
    request = EnvironmentRequest(requirements=("numpy",), rather=(), python="3.12", arch="x86_64")
    environment = LockedEnvironment(name="torch213-cpu", request=request, wheels=(wheel,))
    lock = Lock(source=source, cells=(), pins=(Pin(name="torch", digest="1"),), environments=(environment,))

    def said(**changes):
        return differences(lock, replace(lock, **changes))

    def other(record, **changes):
        return type(record).from_json({**record.to_json(), **changes})

    assert said(source=other(source, tree="1" * 64)) == ("the files of hub:a/b v1 at cccccccccccc have changed",)
    newer = other(environment, wheels=[other(wheel, version="2.0").to_json()])
    assert said(environments=(newer,)) == ("numpy of torch213-cpu is now 2.0, was 1.0",)
    asked = other(environment, request=other(request, python="3.13").to_json())
    assert said(environments=(asked,)) == ("the environment of torch213-cpu is not in it",)


def test_pins_are_what_a_plan_is_made_from():
    pinned = cxx_toolchains()[0].toolset
    made = replace(plan(1), toolset=pinned, image=ImageId(name="debian", digest="sha256:1"))
    assert pins_of([made, made]) == (
        Pin(name="compilers gcc-12.2.0-manylinux_2_28 for x86_64", digest=pinned.digest),
        Pin(name="image debian", digest="sha256:1"),
    )


def test_a_pin_has_one_digest_whichever_cells_there_are():
    """Compilers for two policies, and those of two images, beside the toolkits there."""
    toolsets = [each.toolset for each in cxx_toolchains() if each.toolset.arch == "x86_64"]
    plans = [replace(plan(1), toolset=each) for each in toolsets]
    for number in (1, 2):
        image = ImageId(name=f"image-{number}", digest=f"sha256:{number}")
        own = replace(toolsets[0], prefix=None, digest=f"g{number}")
        toolkit = PrefixId(kind="image-cuda", version="12.8", arch="x86_64", digest=f"c{number}")
        plans.append(replace(plan(1), toolset=own, image=image, toolkit=toolkit))
    pins = pins_of(plans)
    assert len({pin.name for pin in pins}) == len(pins) == len(toolsets) + 6
    for each in plans:
        assert set(pins_of([each])) <= set(pins)
