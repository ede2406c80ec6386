"""``wheelsmith schema``."""

from __future__ import annotations

import json

import click


@click.command("schema")
def command() -> None:
    """Print the JSON Schema of matrix.yaml.

    Editors with a YAML language server use it to complete and check: wheelsmith schema > matrix.schema.json
    """
    from wheelsmith.matrix.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
