"""Pinned compilers that need no libraries of the machine, and that link extensions according to a manylinux policy."""
