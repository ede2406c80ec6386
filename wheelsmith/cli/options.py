"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wheelsmith.base.offline import go_offline, vendored_folder
from wheelsmith.base.units import parse_seconds, parse_size
from wheelsmith.model import ARCHES
from wheelsmith.model.build_host import AUTO, ENGINES

if TYPE_CHECKING:
    from wheelsmith.run.prepare import Request
    from wheelsmith.wheel.attestation.policy import Identity, SignaturePolicy

_F = TypeVar("_F", bound=Callable[..., Any])


def _complete_cells(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of cells from the matrix that ``--matrix`` names."""
    del parameter
    from wheelsmith.base.errors import WheelsmithError
    from wheelsmith.matrix.expand import cell_of, expand
    from wheelsmith.matrix.load import load_matrices

    try:
        matrices = load_matrices(Path(ctx.params.get("matrix") or "matrix.yaml"))
    except WheelsmithError:
        return []
    names = dict.fromkeys(cell_of(answer).id for matrix in matrices for answer in expand(matrix))
    return [name for name in names if name.startswith(incomplete)]


def _complete_kernels(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of kernels from the matrix that ``--matrix`` names."""
    del parameter
    from wheelsmith.base.errors import WheelsmithError
    from wheelsmith.matrix.load import load_matrices

    try:
        matrices = load_matrices(Path(ctx.params.get("matrix") or "matrix.yaml"))
    except WheelsmithError:
        return []
    return [matrix.name for matrix in matrices if matrix.name and matrix.name.startswith(incomplete)]


class Number(click.ParamType[int]):
    """A parameter type for an integer within limits. Only error messages show the limits."""

    name = "n"

    def __init__(self, least: int, most: int | None = None) -> None:
        self._range = click.IntRange(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        return self._range.convert(value, param, ctx)


class _Quantity(click.ParamType[float]):
    """A parameter type for a number with a unit."""

    def __init__(self, name: str, parse: Callable[[str], float]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the value in bytes or seconds."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


SIZE = _Quantity("size", parse_size)
DURATION = _Quantity("duration", parse_seconds)


matrix_option = click.option(
    "--matrix",
    type=click.Path(path_type=Path),
    default=Path("matrix.yaml"),
    show_default=True,
    help="The matrix file.",
)


engine_option = click.option(
    "--engine", type=click.Choice([AUTO, *ENGINES]), help="Build engine.  [default: from the matrix]"
)


def selection_options(command: _F) -> _F:
    """Add ``--arch``, ``--only`` and ``--skip``."""
    for name, text in (("--skip", "Skip these combinations"), ("--only", "Use only these combinations")):
        command = click.option(
            name,
            multiple=True,
            metavar="GLOB",
            shell_complete=_complete_cells,
            help=f"{text}, such as 'torch2{{11,13}}-*-cu130-*'. Repeatable.",
        )(command)
    return click.option("--arch", type=click.Choice(ARCHES), help="Use only combinations of this architecture.")(
        command
    )


kernel_option = click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="GLOB",
    shell_complete=_complete_kernels,
    help="Use only these kernels of a file with several. Repeatable.",
)


quiet_option = click.option("-q", "--quiet", is_flag=True, help="Show only warnings and failures.")
verbose_option = click.option("-v", "--verbose", is_flag=True, help="Show the commands that run.")


def chosen_mode(default: str, *, quiet: bool, verbose: bool) -> str:
    """Return the mode of the reporter that ``-q`` or ``-v`` selects.

    :param default: the mode without them.
    :raises click.UsageError: both are given.
    """
    if quiet and verbose:
        raise click.UsageError("--quiet cannot be used with --verbose")
    return "quiet" if quiet else "verbose" if verbose else default


locked_option = click.option("--locked", is_flag=True, help="Fail if anything differs from wheelsmith.lock.")


offline_option = click.option(
    "--offline",
    is_flag=True,
    help="Do not use the network. Missing files come from `wheelsmith vendor`.",
)


cell_argument = click.argument("cell", metavar="COMBINATION", shell_complete=_complete_cells)


def json_option(text: str = "Print the result as JSON.") -> Callable[[_F], _F]:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help=text)


declare_option = click.option(
    "--declare",
    "declared",
    multiple=True,
    metavar="PATH",
    help="Allow a file that belongs to another project, or a needed library: its path or name in the finding, or a "
    "pattern with *. Repeatable.",
)


def disable_network(matrix: Path) -> None:
    """Disable the network. Vendored files are in ``WHEELSMITH_VENDORED`` or next to the matrix."""
    from wheelsmith.plan.lock import vendor_path

    go_offline(vendored_folder() or vendor_path(matrix))


def make_request(
    matrix: Path,
    engine: str | None,
    remote_caches: tuple[str, ...] = (),
    remote_cache_signers: tuple[str, ...] = (),
    remote_cache_key: str | None = None,
    **fields: Any,
) -> Request:
    """Return the request that the options describe.

    :param fields: further fields of the request.
    """
    from wheelsmith.base.files import default_cache
    from wheelsmith.matrix.remote_cache import RemoteCacheSettings
    from wheelsmith.run.prepare import Request, cache_limit

    remote = RemoteCacheSettings(addresses=remote_caches, signers=remote_cache_signers, key=remote_cache_key)
    return Request(
        matrix=matrix,
        cache=default_cache(),
        cache_limit=cache_limit(),
        engine=engine,
        remote_cache=remote,
        **fields,
    )


jobs_option = click.option("-j", "--jobs", type=Number(1, 1024), help="CPU cores to use.  [default: all available]")


prune_option = click.option("--prune", is_flag=True, help="Remove wheels of an older source from the output folder.")


memory_option = click.option(
    "--memory", type=SIZE, help="Memory limit of the run, such as 8GiB.  [default: 80% of free memory]"
)


shard_plan_option = click.option(
    "--shard-plan",
    type=click.Path(path_type=Path),
    help="File with the plan of all jobs.  [default: wheelsmith.shards.json]",
)


def shard_plan_path(given: Path | None, matrix: Path) -> Path:
    """Return the path of the shard plan.

    :param given: the value of ``--shard-plan``.
    """
    from wheelsmith.plan.lock import shards_path

    return given or shards_path(matrix)


# --- trusted signers

# The options that policy_options adds.
POLICY_OPTIONS = ("keys", "policy", "identities", "issuer", "trust_config", "sources", "repositories", "builders")

trust_option = click.option(
    "--trust-config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Trusted certificates and logs in Sigstore's format.  [default: Sigstore's own]",
)


def policy_options(command: _F) -> _F:
    """Add the options that ``POLICY_OPTIONS`` names."""
    for option in (
        click.option("--builder", "builders", multiple=True, metavar="URI", help="Accepted builder. Repeatable."),
        click.option(
            "--repository",
            "repositories",
            multiple=True,
            metavar="URL",
            help="Accepted repository of a CI build. Without --identity, any of its workflows may sign without a key. "
            "Repeatable.",
        ),
        click.option(
            "--source",
            "sources",
            multiple=True,
            metavar="SOURCE",
            help="Accepted source, such as hub:org/name or git:https://…@revision. Repeatable.",
        ),
        click.option(
            "--policy",
            type=click.Path(path_type=Path),
            help="File with trusted keys, identities, sources, repositories and builders.",
        ),
        trust_option,
        click.option(
            "--issuer",
            metavar="URL",
            help="Issuer of the tokens for --identity and --repository.  [default: GitHub or GitLab]",
        ),
        click.option(
            "--identity",
            "identities",
            multiple=True,
            metavar="ADDRESS",
            help="Workflow with its revision, or mail address, that may sign without a key. * matches any text without "
            "slashes. Repeatable.",
        ),
        click.option(
            "--key",
            "keys",
            multiple=True,
            type=click.Path(path_type=Path),
            help="Trusted public key in PEM. Repeatable.",
        ),
    ):
        command = option(command)
    return command


def make_optional_policy(**options: Any) -> SignaturePolicy | None:
    """Return the signature policy, or None if no option requires signatures.

    :param options: as for ``make_policy``.
    :raises WheelsmithError: a key or the policy cannot be read.
    """
    return make_policy(**options) if any(options.values()) else None


def make_policy(
    *,
    keys: tuple[Path, ...],
    policy: Path | None,
    identities: tuple[str, ...],
    issuer: str | None,
    trust_config: Path | None,
    **restrictions: tuple[str, ...],
) -> SignaturePolicy:
    """Return the signature policy that the options describe.

    :param restrictions: sources, repositories and builders.
    :raises WheelsmithError: a key or the policy cannot be read.
    """
    from wheelsmith.wheel.attestation.keys import verifying_key
    from wheelsmith.wheel.attestation.policy import SignaturePolicy, read_policy

    if policy:
        if keys or identities or issuer:
            raise click.UsageError("--key, --identity and --issuer cannot be used with --policy")
        loaded = read_policy(policy).with_overrides(**restrictions)
        return replace(loaded, trust=trust_config) if trust_config else loaded
    signers = _identities(identities, restrictions["repositories"], issuer) if identities or not keys else ()
    if not (keys or signers):
        raise click.UsageError("no trusted signer: pass --key release.pub, --identity ADDRESS or --policy policy.yaml")
    trusted = SignaturePolicy(keys=tuple(map(verifying_key, keys)), identities=signers, trust=trust_config)
    return trusted.with_overrides(**restrictions)


def _identities(subjects: tuple[str, ...], repositories: tuple[str, ...], issuer: str | None) -> tuple[Identity, ...]:
    """Return the identities that may sign without a key.

    Each subject may sign in each repository. Without subjects, any workflow of the repositories may sign.
    """
    from wheelsmith.wheel.attestation.policy import Identity, known_issuer

    found = []
    for subject, repository in product(subjects or (None,), repositories or (None,)):
        address = subject or repository
        if address is None:
            return ()
        by = issuer or known_issuer(address)
        if by is None:
            raise click.UsageError(f"the issuer of tokens for {address} is unknown: pass --issuer URL")
        found.append(Identity(issuer=by, subject=subject, repository=repository))
    return tuple(found)


def remote_cache_options(command: _F) -> _F:
    """Add ``--remote-cache``, ``--remote-cache-signer`` and ``--remote-cache-key``."""
    for option in (
        click.option(
            "--remote-cache-key",
            metavar="KEY",
            help="Private key that signs what is written to the remote cache: a file, env:NAME or a URI.",
        ),
        click.option(
            "--remote-cache-signer",
            "remote_cache_signers",
            multiple=True,
            metavar="FILE",
            help="Use only what the owner of this public key wrote to the remote cache. Repeatable.",
        ),
        click.option(
            "--remote-cache",
            "remote_caches",
            multiple=True,
            metavar="ADDRESS",
            envvar="WHEELSMITH_REMOTE_CACHE",
            help="Cache that machines share: s3://…, gs://…, az://… or a folder. Repeatable: all are read, the first "
            "is written.  [default: WHEELSMITH_REMOTE_CACHE, or from the matrix]",
        ),
    ):
        command = option(command)
    return command
