"""Publish wheels of runs, of indexes and of others, so that a reader never meets a half-written index."""
