"""A source in a vendored folder, alone or among those of a set."""

from dataclasses import replace

import pytest

from wheelsmith.base.errors import SourceError
from wheelsmith.matrix.types import KernelRef
from wheelsmith.source.tree import make_tree, walk
from wheelsmith.source.vendored import read_vendored, vendor_source

KERNEL = KernelRef(sdist="relu==1")


@pytest.mark.parametrize("name", ["", "relu"])
def test_it_is_read_again_as_it_was(name, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "setup.py").write_text("setup()\n")
    (tmp_path / "vendored").mkdir()
    tree = make_tree(walk(tmp_path / "source"), origin="sdist:relu==1")
    vendor_source(tree, KERNEL, tmp_path / "vendored", name)
    found = read_vendored(tmp_path / "vendored", KERNEL, name)
    assert found
    assert found.id == tree.id
    with pytest.raises(SourceError, match="another kernel or revision"):
        read_vendored(tmp_path / "vendored", replace(KERNEL, sdist="relu==2"), name)
