"""Check a live index as pip and uv see it, and suggest fixes."""
