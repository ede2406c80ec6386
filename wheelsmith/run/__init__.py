"""One run: from matrix.yaml to an index, with a result for every cell."""
