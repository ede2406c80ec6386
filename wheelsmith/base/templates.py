"""Pages' templates, compiled once a machine: that takes longer than to fill them."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket


class _BytecodeCache(FileSystemBytecodeCache):
    """Keeps templates' bytecode where it can: a page is written from a full disk, too."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


def template_environment(package: str) -> Environment:
    """Return what fills the templates of a package: in the folder ``templates`` beside its code."""
    kept = _bytecode_folder(package)
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_BytecodeCache(kept, "%s.jinja2") if kept else None,
    )


def text_environment(package: str) -> Environment:
    """Return what fills the templates of a package that are no pages: ``<<word>>`` and ``<% if … %>``.

    CI systems and shells give a meaning to Jinja's own braces.
    """
    return Environment(
        loader=PackageLoader(package),
        autoescape=False,  # noqa: S701  # YAML: who fills it quotes its words, or takes plain ones only
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
    )


def _bytecode_folder(package: str) -> str | None:
    """Return where Python keeps the bytecode of the package's modules, which whoever may write may change those, too.

    A cache of ours would not do: what is read from there is run.
    """
    folder = Path(str(files(package))) / "__pycache__"
    if sys.dont_write_bytecode or not folder.is_dir() or not os.access(folder, os.W_OK):
        return None
    return str(folder)
