"""Publish the wheels of runs, of other indexes and of third parties. Readers never see an inconsistent index."""
