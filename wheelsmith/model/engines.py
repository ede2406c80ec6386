"""The engines that there are: a further one is its module in ``wheelsmith/engine`` and a line here."""

from __future__ import annotations

from dataclasses import dataclass


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
