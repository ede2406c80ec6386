"""Operators of torch that a wheel registers: read from its Python code and its machine code."""
