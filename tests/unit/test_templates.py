"""Compiled templates lie where Python keeps compiled modules, and nowhere else."""

import errno
import os
import sys
import tempfile
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


def test_a_full_disk_keeps_none_and_a_page_is_made_all_the_same(tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(templates, "_bytecode_folder", lambda package: str(tmp_path))
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", full)
    assert templates.template_environment(PACKAGE).get_template("layout.html")
    assert list(tmp_path.iterdir()) == []
