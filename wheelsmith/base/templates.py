"""Jinja environments for templates.

Compiling a template takes longer than rendering it, so the bytecode of pages is cached on the machine.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket


class _BytecodeCache(FileSystemBytecodeCache):
    """Caches the bytecode of templates. Ignores write errors, so that pages render even if the disk is full."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


def template_environment(package: str) -> Environment:
    """Return the environment for the HTML templates in a package's ``templates`` folder."""
    folder = _bytecode_folder(package)
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_BytecodeCache(folder, "%s.jinja2") if folder else None,
    )


def text_environment(package: str) -> Environment:
    """Return the environment for a package's text templates. Their syntax is ``<<name>>`` and ``<% if … %>``.

    CI systems and shells interpret Jinja's default braces.
    """
    return Environment(
        loader=PackageLoader(package),
        autoescape=False,  # noqa: S701  # for YAML; callers quote the values or accept plain words only
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
    """Return the package's ``__pycache__`` folder, or None if it is not writable.

    Cached bytecode is executed. A user who can write to this folder can change the package's modules anyway, so the
    cache gives no further rights; a separate cache folder might.
    """
    folder = Path(str(files(package))) / "__pycache__"
    if sys.dont_write_bytecode or not folder.is_dir() or not os.access(folder, os.W_OK):
        return None
    return str(folder)
