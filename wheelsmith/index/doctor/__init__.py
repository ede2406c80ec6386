"""Check a live index as pip and uv see it: what fails, and what fixes it."""
