"""One run: from matrix.yaml to an index, with an answer for every cell."""
