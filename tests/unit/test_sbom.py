"""What a wheel consists of: as the schema wants it, from nothing but its plan and what it is linked with."""

import json
from dataclasses import replace

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from plans import plan

from wheelsmith.model import ImageId, LockedWheel, PrefixId, Project
from wheelsmith.platforms import cxx_toolchains
from wheelsmith.wheel.sbom import sbom, sbom_name

COMPILED = replace(
    plan(1),
    toolset=cxx_toolchains()[0].toolset,
    headers=PrefixId(kind="torch", version="2.13.0", arch="x86_64", digest="1" * 64),
    toolkit=PrefixId(kind="image-cuda", version="12.8", arch="x86_64", digest="2" * 64),
    libraries=(PrefixId(kind="library", version="cutlass_4_0", arch="any", digest="3" * 64),),
)
BUILT = replace(
    plan(2),
    project=Project(
        python="3.11",
        environment=(LockedWheel(name="Setup_Tools", version="80.1", sha256="4" * 64),),
        variables={"TOKEN": "secret"},
        before_build="echo secret",
    ),
)


def read(made, needed=()):
    return json.loads(sbom(made.recorded().decode(), needed))


def components(made, needed=()):
    return {each["name"]: each for each in read(made, needed)["components"]}


@pytest.mark.parametrize("made", [plan(1), COMPILED, BUILT], ids=["pure", "compiled", "project"])
def test_it_keeps_to_the_schema(made):
    text = sbom(made.recorded().decode(), {"libc.so.6", "libtorch.so"}).decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_it_depends_on_the_wheel_alone():
    one, other = (sbom(COMPILED.recorded().decode(), needed) for needed in (("a", "b"), ("b", "a")))
    assert one == other
    assert sbom(replace(COMPILED, image=ImageId(name="x", digest="y")).recorded().decode(), ("a", "b")) == one
    assert "timestamp" not in one.decode()
    assert read(plan(1))["serialNumber"] != read(plan(2))["serialNumber"]


def test_what_is_compiled_in_has_names_that_people_know():
    found = components(COMPILED, ("libcudart.so.13",))
    versions = {name: each.get("version") for name, each in found.items()}
    assert versions == {
        "k1 source": "1",
        "torch": "2.13.0",
        "cuda": "12.8",
        "cutlass": "4.0",
        "gcc": "12.2.0",
        "libcudart.so.13": None,
    }
    assert {each["scope"] for each in found.values()} == {"required"}
    (wheel,) = (each for each in read(COMPILED)["dependencies"] if each["ref"] == "wheel")
    assert len(wheel["dependsOn"]) == len(components(COMPILED))


def test_a_build_environment_is_told_of_and_what_a_build_was_told_is_not():
    found = components(BUILT)["Setup_Tools"]
    assert (found["scope"], found["purl"]) == ("excluded", "pkg:pypi/setup-tools@80.1")
    assert found["hashes"] == [{"alg": "SHA-256", "content": "4" * 64}]
    assert "secret" not in json.dumps(read(BUILT))


def test_two_of_a_name_are_told_apart_in_the_same_way_each_time():
    both = (*COMPILED.libraries, PrefixId(kind="library", version="cutlass_3_9", arch="any", digest="5" * 64))
    packages = tuple(LockedWheel(name="a", version=version, sha256="6" * 64) for version in ("1", "2", "1"))
    made = replace(COMPILED, libraries=both, project=replace(BUILT.project, environment=packages))
    assert read(made) == read(made)
    refs = [each["bom-ref"] for each in read(made)["components"]]
    assert len(refs) == len(set(refs)) == 8
    assert not any("BomRef" in ref for ref in refs)


def test_its_name_is_the_projects():
    assert sbom_name("My.Kernel_x") == "my-kernel-x.cdx.json"
