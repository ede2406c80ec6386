"""The requirement that installs the running wheelsmith in a pipeline."""

from __future__ import annotations

from collections.abc import Callable

from packaging.version import Version

from wheelsmith import __version__
from wheelsmith.base.distribution import DISTRIBUTION, running_origin
from wheelsmith.base.errors import SettingError, ToolchainError
from wheelsmith.base.redact import has_credentials
from wheelsmith.toolchain.package_index import list_files
from wheelsmith.toolchain.pip import pip_settings


def running_requirement(warn: Callable[[str], None]) -> str:
    """Return the requirement that installs the running wheelsmith on other machines.

    It names a repository and a commit, or a wheel and its hash.

    :param warn: receives a message if no index lists the hash.
    :raises SettingError: other machines cannot install the running wheelsmith.
    """
    origin = running_origin()
    if origin and origin.url and not origin.is_local:
        return origin.requirement()
    if origin and not origin.url and is_release(__version__):
        return released_requirement(__version__, warn)
    reason = "it comes from this machine" if origin is None or origin.url else "it is not a release"
    raise SettingError(
        f"other machines cannot install the running wheelsmith {__version__}: {reason}",
        remedy=f"pass a requirement for pip, such as --wheelsmith '{DISTRIBUTION} @ git+https://HOST/REPOSITORY@COMMIT'",
    )


def is_release(version: str) -> bool:
    """Return True if indexes may have this version. A development version is not the same everywhere."""
    parsed = Version(version)
    return not (parsed.is_devrelease or parsed.local)


def released_requirement(version: str, warn: Callable[[str], None]) -> str:
    """Return the requirement of a release: its wheel on the first configured index, with its hash.

    pip takes no ``--hash`` on its command line. A hash in the address does not require hashes of the dependencies.

    :param warn: receives a message if no index lists the hash.
    """
    wheel, reasons, settings = f"{DISTRIBUTION.replace('-', '_')}-{version}-py3-none-any.whl", [], pip_settings()
    for index in settings.indexes:
        try:
            files = list_files(DISTRIBUTION, index, settings)
        except ToolchainError as error:
            reasons.append(error.message)
            continue
        for file in files:
            url = file.location.url
            if file.filename == wheel and file.sha256 and url and not has_credentials(url):
                return f"{DISTRIBUTION} @ {url}#sha256={file.sha256}"
    requirement = f"{DISTRIBUTION}=={version}"
    warn(f"{requirement} is written without a hash: {'; '.join(reasons) or f'no index offers {wheel}'}")
    return requirement
