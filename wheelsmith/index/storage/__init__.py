"""Where an index lies: a folder, a bucket or a Hub repo, behind one narrow protocol."""
