"""Names and refusals of relabelled wheels: by the template of a project's setup.py, and as PyPI has them."""

import pytest
from in_process_worker import InProcessWorker
from wheels import make_wheel, offer

from wheelsmith.base.errors import SettingError, WheelError
from wheelsmith.model import Cell
from wheelsmith.run.relabel import PYPI_LIMIT, choose_wheels, relabel
from wheelsmith.wheel.relabel import replace_version
from wheelsmith.worker import Worker

DAO = "{name}-{version}+cu{cuda_major}torch{torch}cxx11abi{abi}-{python}-{python}-linux_{arch}.whl"
OF_TRANSFORMER_ENGINE = (
    "{name}-{version}+cu{cuda_major}torch{torch}.0+{compute}cxx11abi{abi}-{python}-{python}-linux_{arch}.whl"
)


@pytest.fixture(autouse=True)
def in_process_worker(monkeypatch):
    for name in ("__enter__", "__exit__", "call"):
        monkeypatch.setattr(Worker, name, getattr(InProcessWorker, name))


def wheel(folder, local="cu130.torch2.13", tag="py3-none-any", requires=None, name="flash_attn"):
    torch = local.rpartition("torch")[2]
    needs = requires or (f"torch=={torch}.*",)
    return offer(make_wheel(folder, name, f"2.8.3+{local}", requires=needs, tag=tag))


def named(tmp_path, template, *uploads, declared=(), max_size=PYPI_LIMIT):
    made = relabel(uploads, tmp_path / "out", template=template, max_size=max_size, declared=declared)
    names = sorted(name for each in made for name in each.files)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    return names


def for_python(tmp_path, minor, **more):
    """Return a wheel for x86_64 and one Python, as flash-attn's."""
    return wheel(tmp_path, tag=f"py3{minor}-none-any", **more)


def only_x86(upload):
    kept = [cell for cell in upload.entry.cells if cell.arch == "x86_64"]
    return offer(upload.wheel, *kept)


def test_the_template_gives_the_names_that_a_setup_py_guesses(tmp_path):
    made = make_wheel(tmp_path, "flash_attn", "2.8.3+cu130.torch2.13", requires=("torch==2.13.*",))
    given = only_x86(offer(made))
    names = named(tmp_path, DAO, given)
    assert "flash_attn-2.8.3+cu13torch2.13cxx11abiTRUE-cp312-cp312-linux_x86_64.whl" in names
    # Requires-Python is >=3.9, and the tag admits each Python from there on.
    pythons = {name.split("-")[2] for name in names}
    assert pythons == {f"cp3{minor}" for minor in range(9, 9 + len(pythons))}
    assert "cp320" not in pythons


def test_the_template_of_transformer_engine_names_the_build_of_torch(tmp_path):
    names = named(tmp_path, OF_TRANSFORMER_ENGINE, only_x86(wheel(tmp_path, "cu130.torch2.11")))
    wanted = "flash_attn-2.8.3+cu13torch2.11.0+cu130cxx11abiTRUE-cp313-cp313-linux_x86_64.whl"
    assert wanted in names


def test_a_wheel_for_several_torches_gets_a_name_for_each(tmp_path):
    given = wheel(tmp_path, "cu130.torchstable", requires=("torch>=2.11",))
    names = named(tmp_path, "{name}-{version}+torch{torch}{compute}-py3-none-{platform}.whl", given)
    assert {f"flash_attn-2.8.3+torch{torch}cu130-py3-none-any.whl" for torch in ("2.11", "2.13")} <= {*names}


@pytest.mark.parametrize(
    ("template", "locals_", "claimed"),
    [
        (None, ("cu130.torch2.12", "cu130.torch2.13"), "flash-attn 2.8.3"),
        (None, ("cpu.torch2.13", "cu130.torch2.13"), "flash-attn 2.8.3"),
        ("{name}-{version}+cu{cuda_major}torch{torch}-py3-none-any.whl", ("cu130.torch2.13", "cu132.torch2.13"),
         "flash_attn-2.8.3+cu13torch2.13-py3-none-any.whl"),
    ],
)  # fmt: skip
def test_two_wheels_of_one_name_are_refused_with_both_names(tmp_path, template, locals_, claimed):
    with pytest.raises(SettingError) as refused:
        named(tmp_path, template, *(wheel(tmp_path, local) for local in locals_))
    files = [f"flash_attn-2.8.3+{local}-py3-none-any.whl" for local in locals_]
    assert refused.value.message == f"{files[0]} and {files[1]} would both be {claimed}"
    torch, compute = "torch213", locals_[1].partition(".")[0]
    assert refused.value.remedy == f"choose one of them, for example by --only '{torch}-cxx11-{compute}-*'"
    assert not (tmp_path / "out").exists()


def test_wheels_of_other_tags_that_would_share_a_version_are_refused_too(tmp_path):
    with pytest.raises(SettingError, match="would both be flash-attn"):
        named(tmp_path, None, for_python(tmp_path, 11), for_python(tmp_path, 12, local="cu130.torch2.12"))


def test_wheels_of_one_variant_are_relabelled_together(tmp_path):
    names = named(tmp_path, None, for_python(tmp_path, 11), for_python(tmp_path, 12), wheel(tmp_path, name="other"))
    tags = ["flash_attn-2.8.3-py311-none-any.whl", "flash_attn-2.8.3-py312-none-any.whl"]
    assert names == [*tags, "other-2.8.3-py3-none-any.whl"]


def test_the_selection_leaves_one_variant(tmp_path):
    for torch in ("2.12", "2.13"):
        wheel(tmp_path, f"cu130.torch{torch}")
        wheel(tmp_path, f"cpu.torch{torch}")
    (chosen,), _ = choose_wheels([tmp_path], only=["torch213-*"], skip=["*-cpu-*"])
    assert str(chosen.entry.version) == "2.8.3+cu130.torch2.13"
    assert {cell.release for cell in chosen.entry.cells} == {"2.13"}


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{nam}-1-py3-none-any.whl", "has no value for {nam}"),
        ("{name}-{version}+cu{cuda_major}-py3-none-any.whl", "has no value for {cuda_major}"),
        ("{name}-{version}.tar.gz", "makes flash_attn-2.8.3.tar.gz, which is not the file name of a wheel"),
        ("{name-{version}", "is not a template"),
        ("{}-1-py3-none-any.whl", "is not a template"),
        ("{name}-1-py3-none-linux/any.whl", "makes flash_attn-1-py3-none-linux/any.whl, which is not"),
    ],
)
def test_a_wrong_template_is_refused(tmp_path, template, reason):
    with pytest.raises(SettingError) as refused:
        named(tmp_path, template, wheel(tmp_path, "cpu.torch2.13"))
    assert reason in refused.value.message


@pytest.mark.parametrize(
    ("requires", "reason"),
    [
        ("helper @ https://example.org/helper-1-py3-none-any.whl", "PyPI refuses a requirement with a URL: helper"),
        ('helper @ https://example.org/h.zip ; extra == "x"', "PyPI refuses a requirement with a URL: helper"),
        ("helper==1.0+cu130", "PyPI has no local versions, such as in helper==1.0+cu130"),
    ],
)
def test_what_pypi_refuses_is_found_before_the_upload(tmp_path, requires, reason):
    with pytest.raises(WheelError) as refused:
        named(tmp_path, None, wheel(tmp_path, requires=("torch==2.13.*", requires)))
    assert refused.value.message.startswith(reason)


def test_a_platform_that_pypi_refuses_is_found(tmp_path):
    with pytest.raises(WheelError, match="PyPI refuses the platform linux_x86_64"):
        named(tmp_path, None, wheel(tmp_path, tag="cp312-cp312-linux_x86_64"))


def test_a_wheel_beyond_the_limit_is_refused_and_a_raised_limit_takes_it(tmp_path):
    given = [for_python(tmp_path, 11), wheel(tmp_path, name="other")]
    with pytest.raises(
        WheelError, match=r"flash_attn-2\.8\.3-py311-none-any\.whl: it has .* the limit of PyPI is 100 B"
    ):
        named(tmp_path, None, *given, max_size=100)
    assert list((tmp_path / "out").iterdir()) == []
    assert len(named(tmp_path, None, *given, max_size=100_000)) == 2


def test_a_wheel_that_fails_the_check_is_refused(tmp_path):
    with pytest.raises(WheelError, match="the check failed: purity"):
        named(tmp_path, None, wheel(tmp_path, tag="cp312-cp312-manylinux_2_28_x86_64"))


def test_only_the_line_of_the_version_changes():
    metadata = b"Metadata-Version: 2.1\nName: k\nVersion: 1+cpu\nSummary: x\n\nVersion: 1+cpu\n"
    assert replace_version(metadata, "1") == metadata.replace(b"1+cpu", b"1", 1)
    # A recorded plan may have any text as its version.
    assert b"Version: \\g<9>\n" in replace_version(metadata, "\\g<9>")


def test_a_wheel_without_known_cells_gets_no_name(tmp_path):
    (tmp_path / "w").mkdir()
    upload = offer(make_wheel(tmp_path / "w", "k", "1+cu132", requires=("torch==2.6.*",)))
    assert upload.entry.cells == ()
    with pytest.raises(SettingError, match="does not tell its torch and CUDA"):
        named(tmp_path, DAO, upload)


def test_names_come_from_the_cells_of_the_wheel(tmp_path):
    cells = [Cell(release="2.6", toolkit="12.4", arch="x86_64", cxx11_abi=abi) for abi in (True, False)]
    made = make_wheel(tmp_path, "k", "1+cu124.torch2.6", requires=("torch==2.6.*",))
    names = named(tmp_path, "{name}-{version}+{abi}{cuda}-py3-none-any.whl", offer(made, *cells))
    assert names == ["k-1+FALSE12.4-py3-none-any.whl", "k-1+TRUE12.4-py3-none-any.whl"]
