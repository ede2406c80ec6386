import json
from dataclasses import replace

import pytest
import states
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from wheelsmith.base.errors import PackageIndexError, WheelError
from wheelsmith.index.entries.entry import IndexEntry, ProjectState, ProjectStatus
from wheelsmith.index.entries.render import simple_pages, variants_files
from wheelsmith.index.entries.state import add_entries, yank
from wheelsmith.index.entries.stored_states import dump_state, load_state
from wheelsmith.matrix.load import parse_matrix
from wheelsmith.model import Cell, CellSettings
from wheelsmith.model.wheel_name import read_wheel_name
from wheelsmith.wheel.gpu import GpuCode
from wheelsmith.wheel.variant import property_mistakes
from wheelsmith.wheel.variant_format import (
    NULL,
    Variant,
    dump_variants,
    parse_variant,
    variant_for,
    variant_mistakes,
    variant_version,
)

CU126 = variant_for("cu126", ["8.0", "9.0+PTX"])
CU130 = variant_for("cu130", ["8.0", "9.0", "12.0+PTX"])
NOTHING = variant_for("cpu", [])


def architectures(*capabilities: str) -> tuple[str, ...]:
    return variant_for("cu130", capabilities).properties["nvidia"].get("sm_arch", ())


# --- what a wheel is said to run on -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capability", "values"),
    [
        ("12.0+PTX", {"120_real", "120_virtual"}),
        # A GPU of 10.x, 11.x and 12.x compiles this PTX too, and offers no 90_virtual.
        ("9.0+PTX", {"90_real", "90_virtual", "100_virtual", "110_virtual", "120_virtual"}),
        # An older GPU of the same major must not take it: it would offer 80_virtual.
        ("8.6+PTX", {"86_real", "86_virtual", "90_virtual", "100_virtual", "110_virtual", "120_virtual"}),
        ("12.0a", {"120a_real"}),
        ("12.0a+PTX", {"120a_real", "120a_virtual"}),
    ],
)
def test_gpu_code_is_offered_to_what_can_run_it(capability, values):
    assert set(architectures(capability)) == values


def test_the_label_spells_the_properties():
    assert CU130.label == "cu130_80_90_120_120v"
    assert CU126.label == "cu126_80_90_90v_100v_110v_120v"
    assert variant_for("cu130", ()) == Variant(
        label="cu130", properties={"nvidia": {"cuda_version_lower_bound": ("13.0",)}}
    )
    assert Variant(label=NULL) == NOTHING


CAPABILITIES = st.builds(
    "{}.{}{}{}".format,
    st.integers(5, 12),
    st.integers(0, 9),
    st.sampled_from(["", "a", "f"]),
    st.sampled_from(["", "+PTX"]),
)
WHEELS = st.tuples(st.sampled_from(["cpu", "cu118", "cu126", "cu130"]), st.lists(CAPABILITIES, max_size=6))


@given(WHEELS, WHEELS)
def test_equal_labels_are_equal_properties_and_whatever_is_made_keeps_the_format(one, other):
    first, second = variant_for(*one), variant_for(*other)
    assert (first.label == second.label) == (first.properties == second.properties)
    assert parse_variant(dump_variants([first]), "k.whl", first.label) == first
    assert variant_mistakes(json.loads(dump_variants([first, second]))) == []


# --- names and versions -------------------------------------------------------------------------------------


def test_versions_of_variants_name_torch_alone_and_sort_above_plain_ones():
    assert variant_version("1.0+cu130.torch2.11") == variant_version("1.0+cpu.torch2.11") == "1.0+torch2.11"
    stable = ("1.0+cu130.torchstable", "1.0+cpu.torchstable", "1.0+cu130", "1.0+cpu")
    assert [variant_version(version) for version in stable] == ["1.0+torchstable"] * 4
    assert [variant_version(version) for version in ("1.0", "1.0+abc", "1.0+torch2.11", "1.0+cu13")] == [None] * 4
    ascending = ["1", "1+cpu", "1+cpu.torch2.13", "1+cu130", "1+cu130.torch2.13", "1+cu130.torchstable"]
    ascending += ["1+torch2.9", "1+torch2.10"]
    # A kernel may use the stable ABI on CUDA alone: who has a GPU must then not get the null variant of its CPU wheel.
    ascending += ["1+torchstable", "1.1"]
    assert sorted(ascending, key=Version) == ascending


@pytest.mark.parametrize(
    ("filename", "project", "version", "label"),
    [
        ("k-1-py3-none-any.whl", "k", "1", None),
        ("k_x-1-7-py3-none-any.whl", "k-x", "1", None),
        ("k-1+torch2.8-cp39-abi3-manylinux_2_28_x86_64-cu130_80.whl", "k", "1+torch2.8", "cu130_80"),
        ("k-1-7b-cp39-abi3-linux_x86_64-null.whl", "k", "1", "null"),
    ],
)
def test_names_of_wheels_with_and_without_a_label(filename, project, version, label):
    name = read_wheel_name(filename)
    assert (name.project, str(name.version), name.label) == (project, version, label)
    assert name.plain == (filename.replace(f"-{label}.whl", ".whl") if label else filename)


TAGS = "py3-none-any"


@pytest.mark.parametrize(
    "filename",
    [
        *(f"k-1-{TAGS}-{label}.whl" for label in ("CU130", "cu 130", "", "é", "../a", "a-b")),
        *(f"k-1-{TAGS}-cu130", f"k-1-{TAGS}-cu130.zip", f"k-1-x-{TAGS}-cu130.whl", f"k-x-{TAGS}-cu130.whl"),
        *(f"k-1-1-{TAGS}-a-b.whl", "-.whl", ".whl", ""),
    ],
)
def test_other_names_are_refused(filename):
    with pytest.raises(ValueError, match=r"."):
        read_wheel_name(filename)


# --- the format ---------------------------------------------------------------------------------------------


def metadata(**variants: object) -> dict[str, object]:
    return {**json.loads(dump_variants([])), "variants": variants}


SM = {"nvidia": {"sm_arch": ["80_real"]}}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "no variants"),
        (metadata(CU130=SM), "a label may only contain"),
        (metadata(null=SM), "without properties"),
        (metadata(a={}), "without properties"),
        (metadata(a={"nvidia": {}}), "'nvidia' is empty"),
        (metadata(a={"abi_dependency": {"torch": ["2.8"]}}), "namespace 'abi_dependency' has no provider"),
        (metadata(a={"nvidia": {"sm_arch": "80_real"}}), "there are none"),
        (metadata(a={"nvidia": {"sm_arch": ["80-real"]}}), "'80-real' may only contain"),
        (metadata(a={"nvidia": {"sm_arch": ["90_real", "80_real"]}}), "not sorted"),
        ({**metadata(a=SM), "$schema": "https://example.org"}, "$schema is not"),
        ({**metadata(a=SM), "providers": {}}, "providers is not"),
        ({**metadata(a=SM), "default-priorities": {"namespace": []}}, "default-priorities is not"),
        ({**metadata(a=SM), "more": 1}, "the key 'more' is unknown"),
    ],
)
def test_what_breaks_the_format_is_named(data, said):
    assert said in " ".join(variant_mistakes(data))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "not JSON"),
        (None, "there is no variant.json"),
        (dump_variants([CU126]), "the file name has the label 'cu130_80_90_120_120v'"),
        (dump_variants([]), "the file has none"),
    ],
)
def test_a_wheel_has_the_one_variant_of_its_name(data, said):
    with pytest.raises(WheelError, match=r"variant\.json") as error:
        parse_variant(data, "k.whl", CU130.label)
    assert said in error.value.message


@pytest.mark.parametrize(
    ("variant", "machine_code", "ptx", "said"),
    [
        (CU126, {"8.0", "9.0"}, {"9.0"}, None),
        (CU126, {"8.0"}, {"9.0"}, "it has sm_arch 90_real, but no code for it"),
        (NOTHING, {"8.0"}, set(), "the null variant is for every machine, but it has GPU code"),
    ],
)
def test_a_check_compares_the_gpus_with_the_code(variant, machine_code, ptx, said):
    code = GpuCode(machine_code=frozenset(machine_code), ptx=frozenset(ptx))
    assert (said is None and not list(property_mistakes(variant, code))) or said in property_mistakes(variant, code)


# --- in an index --------------------------------------------------------------------------------------------

X86, ARM = (Cell(release="2.9", toolkit="13.0", arch=arch) for arch in ("x86_64", "aarch64"))


def entry(variant: Variant | None, cell: Cell = X86, *, version: str = "1+torch2.9", plain: str | None = None):
    label = f"-{variant.label}" if variant else ""
    tag = f"cp39-abi3-manylinux_2_34_{cell.arch}{label}"
    return states.entry(version, cell, tag=tag, variant=variant, variant_of=plain)


PLAIN = entry(None, version="1+cu130.torch2.9")


def project(*entries: IndexEntry, **said: object) -> ProjectState:
    return add_entries(ProjectState(project="k", **said), entries)


def files(state: ProjectState, root: str) -> list[dict[str, object]]:
    return json.loads(simple_pages(state)[f"{root}/k/index.json"])["files"]


def test_nothing_of_it_is_told_of_what_is_kept_back_or_quarantined():
    hidden = replace(X86, settings=CellSettings(advertise=False))
    assert variants_files(project(entry(CU126, hidden))) == ()
    state = replace(project(PLAIN, entry(CU130)), status=ProjectStatus.QUARANTINED)
    assert files(state, "simple") == []


def test_a_state_with_variants_is_read_as_it_was_written():
    state = project(PLAIN, entry(CU130, plain=PLAIN.filename), entry(NOTHING))
    assert load_state(dump_state(state), "here", state.project) == state


def test_one_label_stands_for_one_set_of_properties_in_a_version():
    other = Variant(label=CU130.label, properties=CU126.properties)
    with pytest.raises(PackageIndexError, match="already has other properties"):
        project(entry(CU130), entry(other, ARM))
    again = Variant(label="other", properties=CU130.properties)
    with pytest.raises(PackageIndexError, match="has the properties of"):
        project(entry(CU130), entry(again))
    assert len(project(entry(CU130), entry(other, ARM, version="2+torch2.9")).entries) == 2


@pytest.mark.parametrize("chosen", [PLAIN.filename, "1+cu130.torch2.9", "1"])
def test_what_is_yanked_is_yanked_as_a_variant_too(chosen):
    state = project(PLAIN, entry(CU130, plain=PLAIN.filename), entry(NOTHING))
    yanked = {e.filename for e in yank(state, chosen, "it is broken").entries if e.yanked is not None}
    assert {PLAIN.filename, entry(CU130).filename} <= yanked
    assert (entry(NOTHING).filename in yanked) == (chosen == "1")


def test_a_matrix_asks_for_variants():
    axes = "kernel: {path: k}\naxes: {torch: [2.13], cuda: [13.0]}\n"
    assert [parse_matrix(axes + more).output.variants for more in ("", "output: {variants: true}\n")] == [False, True]
