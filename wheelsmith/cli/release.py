"""``wheelsmith release``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wheelsmith.base.errors import ExitCode, ReleaseError, WheelsmithError
from wheelsmith.base.redact import redact
from wheelsmith.base.units import counted
from wheelsmith.cli.options import engine_option, make_request, matrix_option
from wheelsmith.cli.run_with_reports import exit_code, progress_option, run_prepared
from wheelsmith.cli.storage import channel_option, dry_run_option, open_index, show_writes, target_argument
from wheelsmith.run.release import (
    BuiltVersion,
    ReleaseStep,
    built,
    changes_since,
    check_again,
    examine_live,
    live_wheels,
    refuse_incomplete,
    release_of,
)

if TYPE_CHECKING:
    from wheelsmith.wheel.attestation.policy import SignaturePolicy

_CHANGES = "CHANGES.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Release:
    """What was asked for.

    :param index: where it is published.
    :param url: where that is served; None where nobody said so.
    """

    index: str
    url: str | None
    matrix: Path
    engine: str | None
    out: Path
    key: str | None
    public_key: Path | None
    incomplete: bool
    dry_run: bool
    progress: str


@click.command("release")
@target_argument
@channel_option
@click.option(
    "--url", help="Where INDEX is served, as installers are given it without simple/: the last step looks there."
)
@matrix_option
@engine_option
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("dist"), show_default=True, help="Where it is built."
)
@click.option("--key", metavar="KEY", help="Sign by this private key, given as to wheelsmith sign.")
@click.option("--public-key", type=click.Path(path_type=Path), help="The public key of a --key that is in a service.")
@click.option("--incomplete", is_flag=True, help="Release it though planned cells have no wheel.")
@click.option(
    "--step",
    "steps",
    type=click.Choice([step.value for step in ReleaseStep]),
    multiple=True,
    help="Do this step alone, of what lies in --out. Repeatable.",
)
@dry_run_option
@progress_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    target: str,
    channel: str | None,
    url: str | None,
    steps: tuple[str, ...],
    **given: Any,
) -> None:
    """Release a locked matrix from this machine: build, check, sign, tell the changes, publish, look at what is live.

    Each step can be done again alone. With --dry-run it builds and checks, signs and writes nothing to INDEX.
    """
    from wheelsmith.index.publish.promote import channel_address

    if channel is not None:
        target, url = channel_address(target, channel), url and channel_address(url, channel)
    release = _Release(index=target, url=url, **given)
    if release.public_key and not release.key:
        raise click.UsageError("--public-key goes with --key")
    if ReleaseStep.LIVE in steps and url is None:
        raise click.UsageError("--step live looks where --url says")
    asked = [ReleaseStep(step) for step in steps] or list(ReleaseStep)
    for step in [step for step in ReleaseStep if step in asked]:
        try:
            said = _STEPS[step](release)
        except WheelsmithError:
            click.echo(f"{step}: failed; mended, do it alone with --step {step}, and what comes after it", err=True)
            raise
        click.echo(f"{step}: {said}", err=True)
    # A release of what there is is still one that lacks something.
    ctx.exit(ExitCode.CELLS_FAILED if built(release.out).failed else ExitCode.OK)


def _build(release: _Release) -> str:
    from wheelsmith.report import reporter
    from wheelsmith.run.prepare import prepare

    request = make_request(release.matrix, release.engine, out=release.out, locked=True)
    prepared = prepare(request, reporter("plain", release.matrix.parent))
    code = exit_code(run_prepared(prepared, progress=release.progress, as_json=False))
    if code not in {ExitCode.OK, ExitCode.CELLS_FAILED}:
        raise click.exceptions.Exit(code)
    found = _found(release)
    return f"{found.state.project} {found.version}"


def _found(release: _Release) -> BuiltVersion:
    found = built(release.out)
    if not release.incomplete:
        refuse_incomplete(found)
    return found


def _check(release: _Release) -> str:
    return f"{counted(check_again(release.out, _found(release)), 'wheel')} tell the truth"


def _sign(release: _Release) -> str:
    if release.key is None:
        return "nothing, without --key"
    if release.dry_run:
        return "nothing, in a dry run"
    from wheelsmith.base.ci import ci_run
    from wheelsmith.run.signatures import sign
    from wheelsmith.wheel.attestation.keys import key_signer

    signer = key_signer(release.key, release.public_key)
    signed = sign(release.out, signer, ci_run())
    return f"{counted(sum(each.new for each in signed), 'wheel')} signed, {sum(not each.new for each in signed)} before"


def _changes(release: _Release) -> str:
    from wheelsmith.base.files import atomic_write
    from wheelsmith.index.storage.location import open_storage
    from wheelsmith.report.markdown import changes_text

    text = changes_text(changes_since(open_storage(release.index), _found(release)))
    atomic_write(release.out / _CHANGES, text.encode())
    # Events of a run are JSON, and stdout has nothing else then.
    click.echo(text, err=release.progress == "json")
    return str(release.out / _CHANGES)


def _publish(release: _Release) -> str:
    from wheelsmith.index.publish.kernels_layout import hub_builds
    from wheelsmith.index.publish.publishing import publish

    found = release_of(release.out, _found(release))
    opened = open_index(release.index, dry_run=release.dry_run)
    with hub_builds(found.offers, release.index) as beside:
        published = publish(opened.used, found, beside.builds)
    show_writes(opened.writes)
    new, known = counted(len(published.new), "wheel"), counted(len(published.known), "was", "were")
    return f"{new} {'would be new' if release.dry_run else 'new'}, {known} there: {opened.name}"


def _live(release: _Release) -> str:
    if release.dry_run:
        return "nothing, in a dry run"
    if release.url is None:
        return "nobody looked, without --url"
    from wheelsmith.report import reporter

    found = _found(release)
    names = list(live_wheels(release.url, found, reporter("plain", release.out), _policy(release)))
    if not names:
        raise ReleaseError("no wheel of it is for everybody to see", remedy="see advertise in matrix.yaml")
    examine_live(release.url, found)
    signed = ", signed" if release.key else ""
    return f"{counted(len(names), 'wheel')} as built{signed}: {redact(release.url)}"


def _policy(release: _Release) -> SignaturePolicy | None:
    if release.key is None:
        return None
    from wheelsmith.wheel.attestation.keys import key_signer
    from wheelsmith.wheel.attestation.policy import SignaturePolicy

    return SignaturePolicy(keys=(key_signer(release.key, release.public_key).public,))


_STEPS: dict[ReleaseStep, Callable[[_Release], str]] = {
    ReleaseStep.BUILD: _build,
    ReleaseStep.CHECK: _check,
    ReleaseStep.SIGN: _sign,
    ReleaseStep.CHANGES: _changes,
    ReleaseStep.PUBLISH: _publish,
    ReleaseStep.LIVE: _live,
}
