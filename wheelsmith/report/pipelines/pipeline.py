"""Options of a pipeline that are independent of the CI system."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, fields

from wheelsmith.base.errors import PackageIndexError, SettingError
from wheelsmith.base.redact import has_credentials, redact
from wheelsmith.index.entries.state import normalize_address
from wheelsmith.index.storage.location import parse_address

# Text that is safe between double quotes in a shell command in YAML. A colon and a space would begin a YAML value.
_SAFE_CHARACTER = r"[A-Za-z0-9_.,/@+=~<>\[\] -]|:(?! )"
_SAFE_TEXT = re.compile(f"(?:{_SAFE_CHARACTER})+")
_SAFE_REQUIREMENT = re.compile(f"(?:{_SAFE_CHARACTER}|#)+")
# Text that is safe between single quotes in a shell, without characters that CI systems replace.
_SAFE_COMMAND = re.compile(r"""[A-Za-z0-9_.,:;/@+=~<>\[\](){}"&|*?!%^# -]+""")
_CHANNEL = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~%+-]+)*/?")
_RUNNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_PROJECT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_SHARDS, _PYTHON = re.compile(r"auto|[1-9]\d{0,2}", re.ASCII), re.compile(r"3\.\d{1,2}", re.ASCII)
_MATRIX = "matrix.yaml"
DEFAULT_REQUIRED = "not-failed"
WRITTEN = "# Written by: wheelsmith ci "  # the first line of each file
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+(?:\[[^\]]*\])?\s*@\s*(?=\S*:)")  # NAME @ before an address
# Storage → the environment variables that it reads; the storage's own tools use the same names.
_SECRETS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"),
    "gs": ("GOOGLE_SERVICE_ACCOUNT_KEY",),
    "az": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"),
    "hf": ("HF_TOKEN",),
    "github": ("GITHUB_TOKEN",),
}
_BUCKETS = {"s3", "gs", "az"}
# Requirements that pip installs with wheelsmith, if needed.
_BUCKET_REQUIREMENTS, _SIGNING_REQUIREMENTS = " 'obstore>=0.11'", " 'securesystemslib>=1.6' 'cryptography>=44'"
_KEYLESS_REQUIREMENTS = f" 'sigstore>=4.5' 'pypi-attestations>=0.0.30'{_SIGNING_REQUIREMENTS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The options of a pipeline.

    :param matrix: the path of the matrix in the repository.
    :param shards: ``auto``, or the number of build jobs.
    :param wheelsmith: the requirement of wheelsmith that pip installs.
    :param python: the Python version that runs wheelsmith.
    :param aarch64_on: the runner that builds projects for aarch64; None builds none.
    :param publish: the index to publish to; None keeps the wheels as the pipeline's artifact.
    :param channel: the channel of the index to publish to; None publishes to the index itself.
    :param url: the address at which the index is served.
    :param project: the name of the project.
    :param test: a command line that tests an installed wheel; None runs no test.
    :param test_on: the runners of the tests, each with a job; empty uses the runner of the other jobs.
    :param promote: the channel to which a tested version is promoted.
    :param require: the outcome of tests that promotion requires.
    :param locked: fail if anything differs from wheelsmith.lock.
    :param sign: sign with the key in the secret WHEELSMITH_KEY.
    :param keyless: sign with the token of the job.
    :param watch: look for newer releases and open a pull request, instead of building.
    """

    matrix: str = _MATRIX
    shards: str = "auto"
    wheelsmith: str
    python: str = "3.12"
    aarch64_on: str | None = None
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
    watch: bool = False

    def check(self) -> None:
        """Check that the options are consistent, and that each value is safe in a pipeline file.

        :raises SettingError: an option is unsafe, or contradicts another.
        """
        for name, pattern in _PATTERNS.items():
            value = getattr(self, name)
            for item in value if isinstance(value, tuple) else (value,):
                if item is not None:
                    check_value(name.replace("_", "-"), item, pattern)
        self._check_addresses()
        self._check_combination()

    def _check_addresses(self) -> None:
        """Reject addresses that contain a password, and indexes that other machines cannot reach."""
        for name in ("publish", "url", "wheelsmith"):
            address = _REQUIREMENT.sub("", getattr(self, name) or "")
            if has_credentials(address):
                raise SettingError(
                    f"--{name} is not an address, or may contain a password: {redact(address)}",
                    remedy="a pipeline is public: store credentials in the secrets of the CI system",
                )
        if self.publish is not None and self._scheme not in _SECRETS:
            raise SettingError(
                "other machines cannot reach the index of --publish",
                remedy="use --publish s3://…, gs://…, az://…, hf://… or github://…",
            )
        if self.publish and self._scheme in _BUCKETS:
            parse_address(self.publish)

    def _check_combination(self) -> None:
        """Reject options that contradict one another or that lack another option."""
        if self.watch:
            plain = Pipeline(matrix=self.matrix, wheelsmith=self.wheelsmith, python=self.python, watch=True)
            for option in (
                field.name for field in fields(self) if getattr(self, field.name) != getattr(plain, field.name)
            ):
                text = f"--watch cannot be used with --{option.replace('_', '-')}"
                raise SettingError(text, remedy="omit it: the pipeline without --watch builds and publishes")
        if self.sign and self.keyless:
            raise SettingError("--sign and --keyless cannot be used together", remedy="choose one of them")
        for name, others in (_REQUIRES | ({"url": ("publish",)} if self.keyless else {})).items():
            default = DEFAULT_REQUIRED if name == "require" else None
            if getattr(self, name) in {default, ()}:
                continue
            missing = [other for other in others if not getattr(self, other)]
            if missing:
                option, required = f"--{name.replace('_', '-')}", " and ".join(f"--{each}" for each in missing)
                raise SettingError(f"{option} needs {required}", remedy=f"pass both, or omit {option}")
        if self.keyless and self.url:
            _check_public_address(self.url)
        if self.promote and self.promote == self.channel:
            raise SettingError(
                f"--promote and --channel are the same channel: {self.promote}", remedy="choose another channel"
            )
        if self.test and not self.test.strip(" "):
            raise SettingError("--test is empty", remedy="pass a command, such as --test 'python -m pytest tests'")

    def command(self, system: str) -> str:
        """Return the command that generates this pipeline."""
        arguments, flags = ["wheelsmith", "ci", system], []
        for field in fields(self):
            option, value = f"--{field.name.replace('_', '-')}", getattr(self, field.name)
            if value == field.default:
                continue
            if value is True:
                flags.append(option)
            else:
                arguments += [
                    item for each in (value if isinstance(value, tuple) else (value,)) for item in (option, each)
                ]
        return shlex.join([*arguments, *flags])

    @staticmethod
    def read_matrix(text: str) -> str:
        """Return the path of the matrix in a file with the command that generated it in its first line."""
        words = shlex.split(text.partition("\n")[0])
        return words[words.index("--matrix") + 1] if "--matrix" in words[:-1] else _MATRIX

    @property
    def branch(self) -> str:
        """Return the branch of the pull request of ``watch``, one for each matrix."""
        words = re.findall(r"[A-Za-z0-9]+", self.matrix.removesuffix(".yaml"))
        return "-".join(("wheelsmith/bump", *words))

    @property
    def runners(self) -> tuple[tuple[int, str | None], ...]:
        """Return the number and runner of each test job. None means the runner of the other jobs."""
        return tuple(enumerate(self.test_on or (None,), 1))

    @property
    def signs(self) -> bool:
        """True if wheels are signed, with or without a key."""
        return self.sign or self.keyless

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of the environment variables that publishing needs."""
        return _SECRETS.get(self._scheme, ())

    @property
    def to_releases(self) -> bool:
        """True if publishing needs the permission to write releases and a branch of a repository on GitHub."""
        return self._scheme == "github"

    @property
    def bucket_extras(self) -> str:
        """Return the further requirements for access to a bucket."""
        return _BUCKET_REQUIREMENTS if self._scheme in _BUCKETS else ""

    @property
    def extras(self) -> str:
        """Return the further requirements for signing and publishing."""
        return self.bucket_extras + _SIGNING_REQUIREMENTS * self.sign + _KEYLESS_REQUIREMENTS * self.keyless

    @property
    def tested(self) -> str:
        """Return the storage address of the tested channel."""
        return f"{(self.publish or '').rstrip('/')}/{self.channel}"

    @property
    def served(self) -> str:
        """Return the address at which the tested channel is served."""
        return f"{(self.url or '').rstrip('/')}/{self.channel}"

    @property
    def _scheme(self) -> str:
        return (self.publish or "").partition("://")[0]


def check_value(option: str, value: str, pattern: re.Pattern[str]) -> None:
    """Check that the value of an option is safe in a file.

    :raises SettingError: it does not match the pattern.
    """
    if not pattern.fullmatch(value):
        raise SettingError(
            f"{redact(value)!r} cannot be used in a pipeline", remedy=f"pass a simpler value to --{option}"
        )


# Option with a value → its pattern. The other options are flags.
_PATTERNS = {
    "matrix": _SAFE_TEXT,
    "wheelsmith": _SAFE_REQUIREMENT,
    "publish": _SAFE_TEXT,
    "shards": _SHARDS,
    "python": _PYTHON,
    "channel": _CHANNEL,
    "url": _URL,
    "project": _PROJECT,
    "test": _SAFE_COMMAND,
    "test_on": _RUNNER,
    "aarch64_on": _RUNNER,
    "promote": _CHANNEL,
    "require": _CHANNEL,
}
_REQUIRES = {
    "channel": ("publish",),
    "url": ("test",),
    "project": ("test",),
    "test_on": ("test",),
    "test": ("publish", "channel", "url", "project", "promote"),
    "promote": ("test",),
    "require": ("promote",),
}


def _check_public_address(url: str) -> None:
    """Check an address as ``publish --address`` does, which runs only after the wheels are signed in a public log.

    :raises SettingError: the address cannot be that of an index.
    """
    try:
        normalize_address(url)
    except PackageIndexError as error:
        text = f"--url {url} is not valid: {error.message}"
        raise SettingError(text, remedy="pass the public address of the index: --url https://…") from None
