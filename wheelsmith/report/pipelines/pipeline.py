"""What a pipeline does, whichever CI system runs it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from importlib.resources import files

from wheelsmith.base.errors import SettingError

# What may stand in a command between double quotes, in YAML and in a shell.
_PLAIN = re.compile(r"[A-Za-z0-9_.,:/@+=~<>\[\] -]+")
_SHARDS, _PYTHON = re.compile(r"auto|[1-9]\d{0,2}", re.ASCII), re.compile(r"3\.\d{1,2}", re.ASCII)
WRITTEN = "# Written by: wheelsmith ci "  # how each begins
_TOKEN = re.compile(r"<<([a-z-]+)>>")
# What each storage reads, as its own tools do.
_SECRETS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"),
    "gs": ("GOOGLE_SERVICE_ACCOUNT_KEY",),
    "az": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"),
    "hf": ("HF_TOKEN",),
}
_BUCKETS = {"s3", "gs", "az"}
# What pip installs beside wheelsmith, where it is needed.
_FOR_BUCKETS, _FOR_SIGNING = ("'obstore>=0.11'",), ("'securesystemslib>=1.6'", "'cryptography>=44'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What its owner decides.

    :param matrix: the path of the matrix in the repository.
    :param shards: ``auto``, or a number of jobs.
    :param locked: refuse what is not as wheelsmith.lock has it.
    :param wheelsmith: what pip is told to install.
    :param python: the Python that runs it.
    :param sign: by the secret WHEELSMITH_KEY.
    :param publish: where to; None keeps the wheels as the pipeline's artifact.
    """

    matrix: str = "matrix.yaml"
    shards: str = "auto"
    locked: bool = False
    wheelsmith: str
    python: str = "3.12"
    sign: bool = False
    publish: str | None = None

    def check(self) -> None:
        """Refuse words that could say something else where they come to stand.

        :raises SettingError: with the word.
        """
        shapes = {"matrix": _PLAIN, "wheelsmith": _PLAIN, "publish": _PLAIN, "shards": _SHARDS, "python": _PYTHON}
        for name, shape in shapes.items():
            word = getattr(self, name)
            if word is not None and not shape.fullmatch(word):
                raise SettingError(f"{word!r} cannot stand in a pipeline", remedy=f"give --{name} a plainer one")

    def command(self, system: str) -> str:
        """Return the command that writes this pipeline."""
        words = ["wheelsmith", "ci", system]
        for option, value, default in (
            ("--matrix", self.matrix, "matrix.yaml"),
            ("--shards", self.shards, "auto"),
            ("--wheelsmith", self.wheelsmith, None),
            ("--python", self.python, "3.12"),
            ("--publish", self.publish, None),
        ):
            words += [option, value] if value and value != default else []
        words += ["--locked"] if self.locked else []
        words += ["--sign"] if self.sign else []
        return shlex.join(words)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the variables that publishing reads, as the storage's own tools do."""
        return _SECRETS.get(_scheme(self), ())


def _scheme(pipeline: Pipeline) -> str:
    return (pipeline.publish or "").partition("://")[0]


def common_words(pipeline: Pipeline, system: str) -> dict[str, str]:
    """Return what stands in the parts of every system's pipeline.

    :raises SettingError: a word cannot stand in it.
    """
    pipeline.check()
    done = [word for word, used in (("Sign", pipeline.sign), ("Publish", pipeline.publish)) if used]
    needed = (*(_FOR_BUCKETS if _scheme(pipeline) in _BUCKETS else ()), *(_FOR_SIGNING if pipeline.sign else ()))
    return {
        "command": pipeline.command(system),
        "wheelsmith": pipeline.wheelsmith,
        "python": pipeline.python,
        "matrix": pipeline.matrix,
        "locked": " --locked" if pipeline.locked else "",
        "shards": pipeline.shards,
        "publishes": " and ".join(done).capitalize(),
        "extras": "".join(f" {each}" for each in needed),
        "target": pipeline.publish or "",
    }


def whole(pipeline: Pipeline, system: str, words: dict[str, str]) -> str:
    """Return a pipeline: what every one has, and the job after join as far as its owner wants one.

    :param words: what stands in the parts.
    """
    parts = ["", "-publish"] if pipeline.sign or pipeline.publish else [""]
    parts += ["-sign"] if pipeline.sign else []
    parts += ["-target"] if pipeline.publish else []
    parts += ["-signed"] if pipeline.sign and not pipeline.publish else []
    return "".join(filled(f"{system}{part}.yml", words) for part in parts)


def filled(part: str, words: dict[str, str]) -> str:
    """Return a part of a pipeline with its words put in; they stand as ``<<word>>``, which no CI system has."""
    text = files(__package__).joinpath("parts", part).read_text(encoding="utf-8")
    return _TOKEN.sub(lambda match: words[match[1]], text)
