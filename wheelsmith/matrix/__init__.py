"""Reading, validation and expansion of matrix.yaml."""
