"""matrix.yaml: what a kernel's users run, read with every mistake at its place."""
