"""Provides compilers, CUDA toolkits, headers and build environments as read-only folders, made from pinned files."""

from wheelsmith.toolchain.prefixes import Toolchains
