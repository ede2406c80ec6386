"""Compilers that need none of the machine's, with libraries that keep what they make to a policy."""
