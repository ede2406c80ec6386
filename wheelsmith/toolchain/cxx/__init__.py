"""Compilers that run on any Linux machine, with libraries that keep what they make to a policy."""
