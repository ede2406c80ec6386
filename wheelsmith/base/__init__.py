"""Errors, files, JSON records, addresses and text. Every other package may import these modules."""
