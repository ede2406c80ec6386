"""Every fault that bench/mutants plants has its line in the product."""

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_product_has_the_lines(monkeypatch):
    loader = SourceFileLoader("mutants", str(ROOT / "bench/mutants"))
    module = module_from_spec(spec_from_loader("mutants", loader))
    monkeypatch.setitem(sys.modules, "mutants", module)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(module)
    lost = [fault.name for fault in module.FAULTS if fault.right not in (ROOT / "wheelsmith" / fault.file).read_text()]
    assert not lost
