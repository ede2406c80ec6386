"""Storages of an index: folders, buckets and Hub repos behind one small protocol."""
