"""Compilers, Pythons and GPU toolkits that an engine offers for builds."""

from __future__ import annotations

from dataclasses import dataclass, field

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model.pinned import PrefixId


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset(Record):
    """The host compilers that an engine offers for one CPU architecture.

    :param cxx: the C++ compiler to call, e.g. ``g++`` or ``aarch64-linux-gnu-g++``.
    :param version: the compiler's own version text, for display.
    :param digest: sha256 over the programs and libraries that decide the bytes of an object file.
    :param prefix: the prefix that contains them; None for compilers of the machine or the image.
    :param policy: the manylinux policy of their output, e.g. ``manylinux_2_28``; None if unknown.
    """

    arch: str
    cxx: str
    version: str
    digest: str
    prefix: PrefixId | None = None
    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageId(Record):
    """A container image.

    :param name: the requested name: ``debian``, or an image reference.
    :param digest: the engine's ID of the image content, ``sha256:…``.
    """

    name: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolkitHome(Record):
    """A GPU toolkit that is installed on the machine or in the image.

    :param version: ``major.minor``, e.g. ``12.4``.
    :param release: the full version, e.g. ``12.4.131``.
    :param digest: sha256 over its programs and headers.
    :param arch: the architecture that it builds wheels for; None for the machine's own.
    """

    home: str
    version: str
    release: str
    digest: str
    arch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildHost(Record):
    """Compilers, Pythons and GPU toolkits that an engine offers, on this machine or in one image.

    :param image: the image that builds run in; None if they see the machine itself.
    :param machine: the CPU architecture that programs run on.
    :param python: the ``major.minor`` of its ``python3``.
    :param pythons: ``major.minor`` → the program's path.
    :param toolsets: its C++ compilers. Those of a machine are added where a plan needs them.
    :param toolkits: platform → its toolkit; likewise.
    :param hidden_pythons: ``major.minor`` → the reason why builds cannot use this installed Python.
    :param python_digests: ``major.minor`` → sha256 over the parts of a Python that decide an extension's bytes.
        It contains requested Pythons only, and none of an image, because the image's digest covers them.
    """

    image: ImageId | None
    machine: str
    python: str
    toolsets: tuple[Toolset, ...]
    pythons: dict[str, str]
    toolkits: dict[str, ToolkitHome]
    python_digests: dict[str, str] = field(default_factory=dict)
    hidden_pythons: dict[str, str] = field(default_factory=dict)

    def toolset(self, arch: str) -> Toolset | None:
        """Return the compilers for ``arch``, or None if there are none."""
        return next((toolset for toolset in self.toolsets if toolset.arch == arch), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEngine:
    """The import location of an engine, so that code that only names engines imports none of them.

    :param place: its module and its class.
    :param images: True if it runs builds in container images.
    """

    place: tuple[str, str]
    images: bool = False


AUTO = "auto"
# In order of preference.
ENGINES = {
    "podman": KnownEngine(place=("wheelsmith.engine.podman", "Podman"), images=True),
    "docker": KnownEngine(place=("wheelsmith.engine.docker", "Docker"), images=True),
    "bwrap": KnownEngine(place=("wheelsmith.engine.bwrap", "Bubblewrap")),
    "local": KnownEngine(place=("wheelsmith.engine.local", "Local")),
}
IMAGE_ENGINES = tuple(name for name, known in ENGINES.items() if known.images)
IMAGES_OPTION = f"--engine {' or '.join(IMAGE_ENGINES)}"
