"""Every symbol that a compiled file needs is offered by something."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.wheel.elf import Extension
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.requirements import TorchRequirement
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.symbols import symbol_table


def _examine(wheel: Inspection) -> Iterator[Finding]:
    for name, extension in wheel.extensions.items():
        yield _extension(name, extension, wheel.torch_requirement)


def _extension(name: str, extension: Extension, torch: TorchRequirement | None) -> Finding:
    """Find a provider for every symbol that the dynamic linker will look for.

    A symbol with a version was found in its library when the extension was linked. The others are torch's, which was
    linked as empty stand-ins, or Python's.
    """
    free = [
        symbol
        for symbol, version in extension.undefined.items()
        if version is None and not symbol.startswith(("Py", "_Py"))
    ]
    table = symbol_table(extension.arch)
    if torch is None or table is None:
        missing = [f"{name} needs {symbol}, and the wheel requires no torch" for symbol in free]
        return finding("symbols", missing, "every symbol has a provider")
    promised = set(torch.releases) & set(table.releases)
    if not promised:
        return finding("symbols", [f"no torch that satisfies {torch.text} is known"], "")
    wrong = [
        f"torch {', '.join(sorted(lacking, key=_version))} does not export {symbol}"
        for symbol in free
        if (lacking := promised - table.exported_by(symbol))
    ]
    text = f"{len(free)} symbols, all exported by torch {', '.join(sorted(promised, key=_version))}"
    return finding("symbols", wrong, text)


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


RULE = Rule(
    name="symbols",
    proves="every symbol is exported by every torch release that the wheel may be installed beside",
    examine=_examine,
)
