"""The command ``wheelsmith release``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from wheelsmith.base.ci import detect_ci_run
from wheelsmith.base.errors import ExitCode, ReleaseError, WheelsmithError
from wheelsmith.base.files import atomic_write
from wheelsmith.base.redact import redact
from wheelsmith.base.units import counted
from wheelsmith.cli.options import engine_option, kernel_option, make_request, matrix_option
from wheelsmith.cli.run_with_reports import exit_code, preparing_reporter, progress_options, run_prepared
from wheelsmith.cli.storage import (
    channel_option,
    dry_run_option,
    open_index,
    published_text,
    show_writes,
    target_argument,
)
from wheelsmith.index.entries.state import add_entries
from wheelsmith.index.entries.stored_states import load_project
from wheelsmith.index.publish.kernels_layout import hub_builds
from wheelsmith.index.publish.promote import NOT_STABLE_REMEDY, channel_address, why_not_stable
from wheelsmith.index.publish.publishing import publish
from wheelsmith.index.storage.location import open_storage
from wheelsmith.model.run_record import RunRecord
from wheelsmith.report.markdown import changes_text
from wheelsmith.run.prepared_set import prepare_set
from wheelsmith.run.release import (
    BuiltVersion,
    ReleaseStep,
    built_release,
    changes_since,
    check_live_pages,
    check_names,
    read_built_versions,
    recheck,
    require_complete,
    verify_live_wheels,
)
from wheelsmith.run.signatures import sign
from wheelsmith.wheel.attestation.keys import key_signer
from wheelsmith.wheel.attestation.policy import SignaturePolicy

_CHANGES = "CHANGES.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Release:
    """A release, with a method for each step.

    :param index: the index that receives the wheels.
    :param channel: the channel of the index, or None.
    :param url: the address at which the index is served, or None if unknown.
    """

    index: str
    channel: str | None
    url: str | None
    matrix: Path
    kernels: tuple[str, ...]
    engine: str | None
    out: Path
    key: str | None
    public_key: Path | None
    incomplete: bool
    dry_run: bool
    progress: str

    def build(self) -> str:
        """Build the locked matrix, unless the index has other wheels of its names."""
        request = make_request(self.matrix, self.engine, kernels=self.kernels, out=self.out, locked=True)
        prepared = prepare_set(request, preparing_reporter(self.progress, self.matrix.parent))
        if prepared.failures and not self.incomplete:
            name, reason = next(iter(prepared.failures.items()))
            raise ReleaseError(f"{name} cannot be built: {reason}", remedy="fix it, or use --incomplete")
        storage = open_storage(self.index)
        for run, _ in prepared.by_kernel(()):
            check_names(storage, run)
        code = exit_code(run_prepared(prepared, progress=self.progress, as_json=False))
        if code not in {ExitCode.OK, ExitCode.CELLS_FAILED}:
            raise click.exceptions.Exit(code)
        versions = self._found()
        for found in versions:
            # The names of some wheels are known only now.
            add_entries(load_project(storage, found.state.project)[0], found.entries)
        return ", ".join(f"{found.state.project} {found.version}" for found in versions)

    def check(self) -> str:
        """Check every wheel again."""
        return f"{counted(sum(recheck(self.out, found) for found in self._found()), 'wheel')} passed"

    def sign(self) -> str:
        """Sign every wheel."""
        if self.key is None:
            return "skipped without --key"
        if self.dry_run:
            return "skipped in a dry run"
        return sign(self.out, key_signer(self.key, self.public_key), detect_ci_run()).summary

    def changes(self) -> str:
        """Write the changes since the previous version to ``CHANGES.md`` and print them."""
        storage = open_storage(self.index)
        text = "\n".join(changes_text(changes_since(storage, found)) for found in self._found())
        atomic_write(self.out / _CHANGES, text.encode())
        # With --progress json, stdout contains only events.
        click.echo(text, err=self.progress == "json")
        return str(self.out / _CHANGES)

    def publish(self) -> str:
        """Publish the version to the index."""
        found = built_release(self.out, self._found())
        opened = open_index(self.index, dry_run=self.dry_run)
        with hub_builds(found.uploads, self.index) as hub:
            published = publish(opened.storage, found, hub.builds)
        show_writes(opened.writes)
        return f"{published_text(published, 'published', dry_run=self.dry_run)}: {opened.name}"

    def live(self) -> str:
        """Download the published wheels as installers do, and compare and examine them."""
        if self.dry_run:
            return "skipped in a dry run"
        if self.url is None:
            return "skipped without --url"
        policy = None
        if self.key is not None:
            policy = SignaturePolicy(keys=(key_signer(self.key, self.public_key).public,))
        listen, count = preparing_reporter(self.progress, self.out), 0
        for found in self._found():
            names = list(verify_live_wheels(self.url, found, listen, policy))
            if not names:
                what = f"{found.state.project} {found.version}"
                raise ReleaseError(f"{what} has no wheel in the index", remedy="check advertise in matrix.yaml")
            check_live_pages(self.url, found)
            count += len(names)
        signed = " and signed" if policy else ""
        return f"{counted(count, 'wheel')} unchanged{signed}: {redact(self.url)}"

    def _found(self) -> tuple[BuiltVersion, ...]:
        versions = read_built_versions(self.out)
        for found in versions:
            if not self.incomplete:
                require_complete(found)
            if why := why_not_stable(found.entries, self.channel):
                text = f"{found.state.project} {found.version} has wheels {why}"
                raise ReleaseError(text, remedy=NOT_STABLE_REMEDY)
        return versions


@click.command("release")
@target_argument
@channel_option
@click.option("--url", metavar="URL", help="Public address of INDEX, without simple/. The last step verifies it.")
@matrix_option
@kernel_option
@engine_option
@click.option("--out", type=click.Path(path_type=Path), default=Path("dist"), show_default=True, help="Output folder.")
@click.option("--key", metavar="KEY", help="Private key, as for wheelsmith sign.")
@click.option("--public-key", type=click.Path(path_type=Path), help="Public key in PEM if --key is in a service.")
@click.option("--incomplete", is_flag=True, help="Release even if planned wheels are missing.")
@click.option(
    "--step",
    "steps",
    type=click.Choice([step.value for step in ReleaseStep]),
    multiple=True,
    help="Run only this step, with the files in --out. Repeatable.",
)
@dry_run_option
@progress_options
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
    """Build, check, sign and publish a locked matrix, then verify the index.

    With --dry-run, the command builds and checks, but neither signs nor publishes.
    """
    if channel is not None:
        target, url = channel_address(target, channel), url and channel_address(url, channel)
    release = _Release(index=target, channel=channel, url=url, **given)
    if release.public_key and not release.key:
        raise click.UsageError("--public-key requires --key")
    if ReleaseStep.LIVE in steps and url is None:
        raise click.UsageError("--step live requires --url")
    selected = [ReleaseStep(step) for step in steps] or list(ReleaseStep)
    for step in [step for step in ReleaseStep if step in selected]:
        try:
            result = getattr(release, step)()
        except WheelsmithError as error:
            if error.exit_code is not ExitCode.NOTHING_SELECTED:
                text = f"{step}: failed; after a fix, repeat it with --step {step}, and then the later steps"
                click.echo(text, err=True)
            raise
        click.echo(f"{step}: {result}", err=True)
    # An incomplete release exits with the code of failed cells.
    ctx.exit(ExitCode.OK if RunRecord.read(release.out).is_complete else ExitCode.CELLS_FAILED)
