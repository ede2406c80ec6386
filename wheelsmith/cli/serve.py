"""The command ``wheelsmith serve``."""

from __future__ import annotations

from pathlib import Path

import click

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.cli.options import Number
from wheelsmith.index.storage.serve import make_server


@click.command("serve")
@click.argument("index", type=click.Path(path_type=Path), default=Path("dist/index"))
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option("--port", type=Number(0, 65535), default=8000, show_default=True, help="Port; 0 selects a free one.")
def command(*, index: Path, host: str, port: int) -> None:
    """Serve an index to pip and uv.

    This server is for development.
    """
    if not (index / "simple").is_dir():
        raise PackageIndexError(f"there is no index in {index}", remedy="build one: wheelsmith build-matrix")
    try:
        server = make_server(index, host, port)
    except OSError as error:
        raise PackageIndexError(
            f"cannot listen on {host}:{port}: {error.strerror}", remedy="choose another port with --port"
        ) from None
    base = f"http://{host}:{server.server_address[1]}"
    roots = sorted(
        path.name for path in index.iterdir() if path.is_dir() and path.name not in {"files", "projects", "_state"}
    )
    click.echo(f"{base}/  (for browsers)", err=True)
    for root in roots:
        click.echo(f"{base}/{root}/", err=True)
    click.echo("stop with Ctrl-C", err=True)
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
