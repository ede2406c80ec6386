"""From build.toml to the exact compile and link commands of one cell."""
