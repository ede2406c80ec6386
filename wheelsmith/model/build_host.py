"""What there is to build with, on this machine or in one image."""

from __future__ import annotations

from dataclasses import dataclass, field

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model.pinned import PrefixId


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset(Record):
    """The host compilers that an engine offers for one CPU architecture.

    :param cxx: the C++ compiler to call, e.g. ``g++`` or ``aarch64-linux-gnu-g++``.
    :param version: what it says of itself, for people.
    :param digest: sha256 over the programs and libraries that decide the bytes of an object file.
    :param prefix: that they lie in; None where the machine or the image has them.
    :param policy: the manylinux policy that what they make keeps to, as ``manylinux_2_28``; None where nobody knows.
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

    :param name: what was asked for: ``debian``, or a reference.
    :param digest: the engine's own id of its content, ``sha256:…``.
    """

    name: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaHome(Record):
    """A CUDA toolkit that was found where cells are built.

    :param version: ``12.4``.
    :param release: ``12.4.131``, as nvcc says it.
    :param digest: sha256 over its programs and headers.
    :param arch: that it makes wheels for; None where that is the machine's.
    """

    home: str
    version: str
    release: str
    digest: str
    arch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildHost(Record):
    """What an engine offers to build with, on this machine or in one image.

    :param image: None where the machine itself is what cells see.
    :param machine: the CPU architecture that programs run on.
    :param python: the ``major.minor`` of its ``python3``.
    :param pythons: ``major.minor`` → the program's path.
    :param hidden_pythons: ``major.minor`` → why the one that there is cannot be shown to a build.
    :param python_digests: ``major.minor`` → sha256 over what of a Python decides an extension's bytes; only of those
        that were asked for, and none of an image's, whose own digest counts them.
    """

    image: ImageId | None
    machine: str
    python: str
    toolsets: tuple[Toolset, ...]
    pythons: dict[str, str]
    cuda: CudaHome | None
    python_digests: dict[str, str] = field(default_factory=dict)
    hidden_pythons: dict[str, str] = field(default_factory=dict)

    def toolset(self, arch: str) -> Toolset | None:
        """Return the compilers for ``arch``, or None when there are none."""
        return next((toolset for toolset in self.toolsets if toolset.arch == arch), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEngine:
    """Where an engine is made, so that who only names it imports nothing of it.

    :param place: its module and its class.
    :param images: it runs builds in container images.
    """

    place: tuple[str, str]
    images: bool = False


AUTO = "auto"
# Those to prefer first.
ENGINES = {
    "podman": KnownEngine(place=("wheelsmith.engine.podman", "Podman"), images=True),
    "docker": KnownEngine(place=("wheelsmith.engine.docker", "Docker"), images=True),
    "bwrap": KnownEngine(place=("wheelsmith.engine.bwrap", "Bubblewrap")),
    "local": KnownEngine(place=("wheelsmith.engine.local", "Local")),
}
WITH_IMAGES = tuple(name for name, known in ENGINES.items() if known.images)
USE_IMAGES = f"--engine {' or '.join(WITH_IMAGES)}"
