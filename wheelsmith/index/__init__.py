"""A static package index: where it lies, what it knows, which wheel of it is right, and what goes into it."""
