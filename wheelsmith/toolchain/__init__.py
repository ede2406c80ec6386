"""CUDA toolkits and torch headers as read-only folders, made from pinned files."""

from wheelsmith.toolchain.prefixes import Toolchains
