"""Turn build.toml into the exact compile and link commands of one cell."""
