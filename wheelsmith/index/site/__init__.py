"""The pages of an index for people."""
