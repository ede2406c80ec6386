"""Kernels that are called as another project is."""

import pytest

from wheelsmith.base.errors import MatrixError
from wheelsmith.base.projects import known_projects
from wheelsmith.plan.pypi_names import with_import_name
from wheelsmith.plan.recipe.build_toml import parse_build_toml

TOML = """\
[general]
name = "{name}"
version = 1
edition = 5
license = "MIT"
backends = ["cuda"]
{hub}
[torch-noarch]
"""


def named(name, *, distribution=None, module=None, repo=None, hub=""):
    spec = parse_build_toml(TOML.format(name=name, hub=hub))
    return with_import_name(spec, distribution=distribution, module=module, repo=repo, file="matrix.yaml")


@pytest.mark.parametrize(
    ("name", "project", "owners"),
    [
        ("einops", "einops is another project", "import einops belongs to einops"),
        ("mamba-ssm", "mamba-ssm is another project", "import mamba_ssm belongs to mamba-ssm"),
        ("sonic-moe", "sonic-moe is another project", ""),
        ("fla", "", "import fla belongs to fla-core and flash-linear-attention"),
        ("types", "", "import types belongs to Python"),
        ("yaml", "", "import yaml belongs to pyyaml"),
    ],
)
def test_a_name_of_anothers_is_refused_with_what_to_write(name, project, owners):
    with pytest.raises(MatrixError) as caught:
        named(name, repo=f"kernels-community/{name}")
    assert project in str(caught.value)
    assert owners in str(caught.value)
    own = f"kernels-community-{name}"
    lines = f"under kernel: distribution: {own}, module: {own.replace('-', '_')}"
    assert lines in caught.value.remedy
    kept = named(name, distribution=own, module=own.replace("-", "_"))
    assert (kept.module, kept.package) == (own.replace("-", "_"), name.replace("-", "_"))


def test_the_name_that_is_suggested_is_of_the_hub_repo_or_else_plain():
    for more, own in (({"hub": '[general.hub]\nrepo-id = "me/einops"'}, "me-einops"), ({}, "einops-kernel")):
        with pytest.raises(MatrixError) as caught:
            named("einops", **more)
        assert f"distribution: {own}, module: {own.replace('-', '_')}" in caught.value.remedy


def test_half_a_name_of_its_own_is_not_enough():
    with pytest.raises(MatrixError, match="import einops belongs to einops") as caught:
        named("einops", distribution="my-einops", repo="a/einops")
    assert caught.value.remedy.endswith("under kernel: module: a_einops")
    with pytest.raises(MatrixError, match="einops is another project"):
        named("einops", module="my_einops")
    with pytest.raises(MatrixError, match="import numpy belongs to"):
        named("relu", module="numpy")


def test_whoever_writes_the_projects_own_name_means_it():
    assert named("einops", distribution="Einops").module == "einops"
    assert named("mamba-ssm", distribution="mamba_ssm").module == "mamba_ssm"


def test_every_namesake_is_found_by_each_of_its_names():
    known = known_projects()
    assert known.kernels
    for project, module in known.kernels.items():
        assert project in known.modules.get(module, (project,))
        for name in (project, module.replace("_", "-")):
            with pytest.raises(MatrixError):
                named(name)
