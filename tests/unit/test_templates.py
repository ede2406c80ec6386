"""Compiled templates lie where Python keeps compiled modules, and nowhere else."""

import os
import sys
from pathlib import Path

import pytest

import wheelsmith
from wheelsmith.base import templates

PACKAGE = "wheelsmith.index.site"
BESIDE = Path(wheelsmith.__file__).parent / "index" / "site" / "__pycache__"


@pytest.fixture(autouse=True)
def writing(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    BESIDE.mkdir(exist_ok=True)


def test_they_are_kept_beside_the_code():
    assert templates._bytecode_folder(PACKAGE) == str(BESIDE)


def test_who_may_not_change_the_code_keeps_none(monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert templates._bytecode_folder(PACKAGE) is None
    assert templates.template_environment(PACKAGE).get_template("layout.html")


def test_none_is_kept_where_python_keeps_none(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert templates._bytecode_folder(PACKAGE) is None
