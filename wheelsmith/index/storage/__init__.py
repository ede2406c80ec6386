"""Storages of an index: folders, buckets, Hub repos and GitHub behind one small protocol."""
