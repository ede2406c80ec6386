"""The ``wheelsmith`` command, which imports the module of a command only when it runs that command."""

from __future__ import annotations

import importlib
import io
import signal
import sys

import click

from wheelsmith.base.errors import ExitCode, MatrixMistakesError, WheelsmithError, system_error
from wheelsmith.base.redact import redact
from wheelsmith.base.sanitize import visible
from wheelsmith.base.suggest import closest
from wheelsmith.cli.streams import SafeStreams

# Command → its line in --help, so that --help imports no command.
_COMMANDS = {
    "init": "Write a first matrix.yaml for a kernel or a project.",
    "plan": "Show what would be built and why the rest is excluded.",
    "lock": "Record the exact build inputs in wheelsmith.lock.",
    "outdated": "Show what is newer than the matrix.",
    "bump": "Take a newer release of torch, CUDA or the kernel into the matrix.",
    "vendor": "Download all build inputs to a folder, for builds without a network.",
    "build-matrix": "Build all combinations, check the wheels and write an index.",
    "ci": "Generate a pipeline for a CI system.",
    "join": "Merge the output of several jobs into one index.",
    "sign": "Sign the wheels of a run with statements of their provenance.",
    "verify": "Verify the signatures and provenance of wheels.",
    "repack": "Convert the builds of a Hub repo to checked wheels.",
    "check": "Check the metadata, symbols and GPU code of wheels.",
    "verify-rebuild": "Rebuild wheels from their recorded plans and compare every byte.",
    "publish": "Publish wheels to a folder, a bucket, a Hub repo or GitHub.",
    "relabel": "Give checked wheels a version without the local part, for PyPI.",
    "release": "Build, check, sign and publish a locked matrix, then verify the index.",
    "test": "Install the wheel for this machine in a fresh environment and run a command.",
    "test-matrix": "Test every wheel of a version with each torch, Python and GPU that it is for.",
    "promote": "Promote a version from one channel of an index to another.",
    "index": "Change and examine an index.",
    "serve": "Serve an index to pip and uv.",
    "coverage": "Show which project of an index has a wheel for which combination.",
    "pick": "Choose the wheel for this machine and print the install command.",
    "schema": "Print the JSON Schema of matrix.yaml.",
    "image": "Build, list and remove container images.",
    "cache": "Show, verify and prune the cache.",
    "doctor": "Show what this machine can build and what is missing.",
    "shell": "Open a shell in the sandbox of a combination.",
    "completion": "Print a shell completion script.",
}


# Command → its module and attribute, if it shares the module with another command.
_SHARED_MODULES = {
    "completion": ("shell", "completion"),
    "promote": ("publish", "promote_command"),
    "schema": ("init", "schema"),
    "sign": ("signatures", "sign_command"),
    "vendor": ("lock", "vendor_command"),
    "verify": ("signatures", "verify_command"),
}
_MAX_LENGTH = 2000  # characters of an error; it may quote an untrusted file


class SuggestingGroup(click.Group):
    """A group that suggests the closest command for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command and its arguments.

        :raises click.UsageError: there is no such command; the message suggests one.
        """
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            close = closest(args[0], known)
            hint = f"Did you mean {close!r}?" if close else f"Available: {', '.join(known)}."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(SuggestingGroup):
    """A group that imports the module of a command when the command is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which users need them."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import and return a command."""
        if name not in _COMMANDS:
            return None
        module, attribute = _SHARED_MODULES.get(name, (name.replace("-", "_"), "command"))
        command: click.Command = getattr(importlib.import_module(f"wheelsmith.cli.{module}"), attribute)
        del ctx
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001  # as click calls it
    if wanted:
        from wheelsmith.cli.version import version_text

        click.echo(version_text())
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the versions of wheelsmith, Python and the build engines, and exit.",
)
def cli() -> None:
    """Build, check and publish wheels for every combination of torch, CUDA and CPU architecture.

    matrix.yaml describes the kernel and the combinations.
    """


def main() -> None:
    """Run the command line and exit with its exit code."""
    # SIGTERM acts like Ctrl-C, so that no unfinished work remains.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with SafeStreams() as streams:
        code = _run(streams)
    sys.exit(int(code or 0))


def _run(streams: SafeStreams) -> int | None:
    try:
        code: int | None = cli.main(prog_name="wheelsmith", standalone_mode=False)
        streams.check()
    except WheelsmithError as error:
        return _report(error)
    except OSError as error:
        return _report(system_error(error))
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        error.show(shown := io.StringIO())
        sys.stderr.write(redact(shown.getvalue()))
        return ExitCode.USAGE
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write("interrupted\n")
        return ExitCode.INTERRUPTED
    return code


def _report(error: WheelsmithError) -> ExitCode:
    show_error(error)
    return error.exit_code


def show_error(error: WheelsmithError) -> None:
    """Write an error and its remedy to stderr. A ``MatrixMistakesError`` becomes one error for each mistake."""
    for mistake in error.mistakes if isinstance(error, MatrixMistakesError) else (error,):
        sys.stderr.write(f"error: {visible(redact(str(mistake))[:_MAX_LENGTH].replace(chr(10), ' '))}\n")
        if mistake.remedy:
            sys.stderr.write(f"  help: {visible(redact(mistake.remedy).replace(chr(10), ' '))}\n")
