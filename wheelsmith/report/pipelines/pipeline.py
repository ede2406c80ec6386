"""What a pipeline does, whichever CI system runs it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, fields

from wheelsmith.base.errors import PackageIndexError, SettingError
from wheelsmith.base.redact import has_credentials, redact
from wheelsmith.index.entries.state import index_address
from wheelsmith.index.storage.location import parse_address

# What may stand in a command between double quotes, in YAML, where a colon and a space begin a value, and in a shell.
_PLAIN = re.compile(r"(?:[A-Za-z0-9_.,/@+=~<>\[\] -]|:(?! ))+")
# What a shell leaves alone between single quotes, with nothing that a CI system puts words in the place of.
_COMMAND = re.compile(r"""[A-Za-z0-9_.,:;/@+=~<>\[\](){}"&|*?!%^# -]+""")
_CHANNEL = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~%+-]+)*/?")
_RUNNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_PROJECT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_SHARDS, _PYTHON = re.compile(r"auto|[1-9]\d{0,2}", re.ASCII), re.compile(r"3\.\d{1,2}", re.ASCII)
DEFAULT_REQUIRED = "not-failed"
WRITTEN = "# Written by: wheelsmith ci "  # how each begins
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+(?:\[[^\]]*\])?\s*@\s*(?=\S*:)")  # before an address, for pip
# What each storage reads, as its own tools do.
_SECRETS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"),
    "gs": ("GOOGLE_SERVICE_ACCOUNT_KEY",),
    "az": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"),
    "hf": ("HF_TOKEN",),
}
_BUCKETS = {"s3", "gs", "az"}
# What pip installs beside wheelsmith, where it is needed.
_FOR_BUCKETS, _FOR_SIGNING = " 'obstore>=0.11'", " 'securesystemslib>=1.6' 'cryptography>=44'"
_FOR_KEYLESS = f" 'sigstore>=4.5' 'pypi-attestations>=0.0.30'{_FOR_SIGNING}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What its owner decides.

    :param matrix: the path of the matrix in the repository.
    :param shards: ``auto``, or a number of jobs.
    :param wheelsmith: what pip is told to install.
    :param python: the Python that runs it.
    :param publish: where to; None keeps the wheels as the pipeline's artifact.
    :param channel: of that index, which is published to; None publishes to the index itself.
    :param url: where the index is served.
    :param project: what its wheels are of.
    :param test: a command line that tests a wheel which is installed; None tests nothing.
    :param test_on: where that runs, each in a job of its own; empty takes one of the runners that jobs have anyway.
    :param promote: the channel that a version goes to of which no test failed.
    :param require: what its tests must have come to.
    :param locked: refuse what is not as wheelsmith.lock has it.
    :param sign: by the secret WHEELSMITH_KEY.
    :param keyless: sign by the token of the job.
    """

    matrix: str = "matrix.yaml"
    shards: str = "auto"
    wheelsmith: str
    python: str = "3.12"
    publish: str | None = None
    channel: str | None = None
    url: str | None = None
    project: str | None = None
    test: str | None = None
    test_on: tuple[str, ...] = ()
    promote: str | None = None
    require: str = DEFAULT_REQUIRED
    locked: bool = False
    sign: bool = False
    keyless: bool = False

    def check(self) -> None:
        """Refuse words that could say something else where they come to stand.

        :raises SettingError: with the word.
        """
        for name, shape in _SHAPES.items():
            given = getattr(self, name)
            for word in given if isinstance(given, tuple) else (given,):
                if word is not None and not shape.fullmatch(word):
                    option = f"--{name.replace('_', '-')}"
                    shown = redact(word)
                    raise SettingError(f"{shown!r} cannot stand in a pipeline", remedy=f"give {option} a plainer one")
        self._check_addresses()
        self._check_together()

    def _check_addresses(self) -> None:
        """Refuse addresses with a password, and such that other machines do not reach."""
        for name in ("publish", "url", "wheelsmith"):
            address = _REQUIREMENT.sub("", getattr(self, name) or "")
            if has_credentials(address):
                raise SettingError(
                    f"--{name} is no address, or has what may be a password: {redact(address)}",
                    remedy="everybody may read a pipeline: give credentials to the job, in the system's secrets",
                )
        if self.publish is not None and self._scheme not in _SECRETS:
            raise SettingError(
                "--publish names nothing that other machines reach", remedy="--publish s3://…, gs://…, az://… or hf://…"
            )
        if self.publish and self._scheme in _BUCKETS:
            parse_address(self.publish)

    def _check_together(self) -> None:
        """Refuse options of which one says nothing without another."""
        if self.sign and self.keyless:
            raise SettingError("wheels are signed by a key or without one", remedy="choose: --sign or --keyless")
        for name, others in (_NEEDS | ({"url": ("publish",)} if self.keyless else {})).items():
            default = DEFAULT_REQUIRED if name == "require" else None
            if getattr(self, name) in {default, ()}:
                continue
            missing = [other for other in others if not getattr(self, other)]
            if missing:
                option, needed = f"--{name.replace('_', '-')}", " and ".join(f"--{each}" for each in missing)
                raise SettingError(f"{option} needs {needed}", remedy=f"give both, or leave {option} out")
        if self.keyless and self.url:
            _check_served(self.url)
        if self.promote and self.promote == self.channel:
            raise SettingError(f"{self.promote} is where it is published already", remedy="--promote another channel")
        if self.test and not self.test.strip(" "):
            raise SettingError("the test is empty", remedy="--test 'python -m pytest tests'")

    def command(self, system: str) -> str:
        """Return the command that writes this pipeline."""
        words, flags = ["wheelsmith", "ci", system], []
        for field in fields(self):
            option, value = f"--{field.name.replace('_', '-')}", getattr(self, field.name)
            if value == field.default:
                continue
            if value is True:
                flags.append(option)
            else:
                words += [word for each in (value if isinstance(value, tuple) else (value,)) for word in (option, each)]
        return shlex.join([*words, *flags])

    @property
    def runners(self) -> tuple[tuple[int, str | None], ...]:
        """Return the number of each job that tests, and where it runs; None for where all others do."""
        return tuple(enumerate(self.test_on or (None,), 1))

    @property
    def signs(self) -> bool:
        """Say whether wheels are signed, by a key or without one."""
        return self.sign or self.keyless

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the variables that publishing reads, as the storage's own tools do."""
        return _SECRETS.get(self._scheme, ())

    @property
    def bucket_extras(self) -> str:
        """Return what pip installs beside wheelsmith to reach a bucket."""
        return _FOR_BUCKETS if self._scheme in _BUCKETS else ""

    @property
    def extras(self) -> str:
        """Return what pip installs beside wheelsmith to sign and publish."""
        return self.bucket_extras + _FOR_SIGNING * self.sign + _FOR_KEYLESS * self.keyless

    @property
    def tested(self) -> str:
        """Return the address of the channel that is published to and tested."""
        return f"{(self.publish or '').rstrip('/')}/{self.channel}"

    @property
    def served(self) -> str:
        """Return where that channel is served."""
        return f"{(self.url or '').rstrip('/')}/{self.channel}"

    @property
    def _scheme(self) -> str:
        return (self.publish or "").partition("://")[0]


# What each option that may be given is: the rest are flags.
_SHAPES = {
    "matrix": _PLAIN,
    "wheelsmith": _PLAIN,
    "publish": _PLAIN,
    "shards": _SHARDS,
    "python": _PYTHON,
    "channel": _CHANNEL,
    "url": _URL,
    "project": _PROJECT,
    "test": _COMMAND,
    "test_on": _RUNNER,
    "promote": _CHANNEL,
    "require": _CHANNEL,
}
_NEEDS = {
    "channel": ("publish",),
    "url": ("test",),
    "project": ("test",),
    "test_on": ("test",),
    "test": ("publish", "channel", "url", "project", "promote"),
    "promote": ("test",),
    "require": ("promote",),
}


def _check_served(url: str) -> None:
    """Refuse an address that ``publish --address`` would, after all was signed and stands in a public log.

    :raises SettingError: it is none of an index.
    """
    try:
        index_address(url)
    except PackageIndexError as error:
        why = f"{url} cannot be told to an index: {error.message}"
        raise SettingError(why, remedy="say where it is served: --url https://…") from None
