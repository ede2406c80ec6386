"""Change single values in the text of a matrix file. Comments, order, quotes, anchors and line ends stay.

PyYAML's nodes know their places, so that the text is changed there and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

from wheelsmith.base.errors import MatrixError, Place
from wheelsmith.matrix.kernel_set import name_after

_LINES = re.compile(r"[\r\n\x85\u2028\u2029]")  # ends of lines in YAML
_COMMENT = re.compile(r"[ \t]*(#.*)?")
_PROPERTIES = re.compile(r"([&!]\S*\s+)*")  # anchor and tag of a value
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+/~=-]*")
_QUOTES = ("'", '"')
_KERNEL, _KERNELS = "kernel", "kernels"
_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis in a matrix file."""

    values: tuple[str, ...]
    place: Place


class _Loader(yaml.BaseLoader):
    """Gives an alias of a scalar its own place, not that of the anchor."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose the next node."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        if isinstance(event, yaml.AliasEvent) and isinstance(node, yaml.ScalarNode):
            node = copy(node)
            node.start_mark, node.end_mark = event.start_mark, event.end_mark
        return node


def included(text: str, *, file: str) -> tuple[str, ...]:
    """Return the files that a matrix file includes, relative to its folder.

    :raises MatrixError: the text is not YAML.
    """
    node = _items(_compose(text, file)).get("include")
    return tuple(str(item.value) for item in node.value) if isinstance(node, yaml.SequenceNode) else ()


def find_kernels(texts: Mapping[str, str]) -> dict[str, tuple[str, _Path]]:
    """Return the name of each kernel → its file and the keys of the mapping with its source.

    :param texts: file → text, the main file first. The name of its only kernel is ``kernel``.
    :raises MatrixError: a text is not YAML.
    """
    found: dict[str, tuple[str, _Path]] = {}
    for number, (file, text) in enumerate(texts.items()):
        root = _items(_compose(text, file))
        if _KERNEL in root:
            found[name_after(file) if number else _KERNEL] = (file, (_KERNEL,))
        found |= {name: (file, (_KERNELS, name)) for name in _items(root.get(_KERNELS))}
    return found


def find_axes(texts: Mapping[str, str], name: str) -> tuple[Axis, ...]:
    """Return every axis of a name: those of the files, and those of the kernels in ``kernels``.

    :param texts: file → text.
    :raises MatrixError: a text is not YAML.
    """
    return tuple(
        Axis(values=tuple(str(item.value) for item in node.value), place=_place(node, file))
        for file, text in texts.items()
        for _, node in _axes(_compose(text, file), name)
    )


def add_release(texts: Mapping[str, str], axis: str, release: str, *, instead_of: str | None = None) -> dict[str, str]:
    """Return texts with a release on every axis of a name that lacks it.

    The release goes between older and newer ones. A list in descending order stays so.

    :param texts: file → text.
    :param instead_of: a release that the new one replaces; axes without it do not change.
    :raises MatrixError: more than the axis would change, as with an anchor that something else uses.
    """
    return {file: _add(text, axis, release, instead_of, file) for file, text in texts.items()}


def set_value(text: str, path: _Path, value: str, *, file: str) -> str:
    """Return the text with another value in the place of a scalar.

    :param path: the keys of the scalar, such as ``kernel`` and ``revision``.
    :raises KeyError: there is none.
    :raises MatrixError: more than the scalar would change.
    """
    return _checked(text, _replace(text, _find(_compose(text, file), path), value), {path: value}, file)


def _add(text: str, axis: str, release: str, instead_of: str | None, file: str) -> str:
    wanted: dict[_Path, Any] = {}
    places: dict[int, tuple[yaml.SequenceNode, int]] = {}  # kernels may share a list
    for path, node in _axes(_compose(text, file), axis):
        values = [str(item.value) for item in node.value]
        if release in values or (instead_of and instead_of not in values):
            continue
        at = values.index(instead_of) if instead_of else _position(values, release)
        values[at : at + bool(instead_of)] = [release]
        wanted[path], places[node.start_mark.index] = values, (node, at)
    new = text
    for _, (node, at) in sorted(places.items(), reverse=True):  # from the end, so that earlier places stay right
        new = _replace(new, node.value[at], release) if instead_of else _insert(new, node, at, release)
    return _checked(text, new, wanted, file)


def _compose(text: str, file: str) -> yaml.Node:
    try:
        root: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise MatrixError(f"not YAML: {' '.join(str(error).split())}", where=Place(file=file)) from None
    return root or yaml.MappingNode("", [])


def _axes(root: yaml.Node, name: str) -> Iterator[tuple[_Path, yaml.SequenceNode]]:
    kernels = _items(_items(root).get(_KERNELS))
    for prefix, node in (((), root), *(((_KERNELS, kernel), entry) for kernel, entry in kernels.items())):
        axis = _items(_items(node).get("axes")).get(name)
        if isinstance(axis, yaml.SequenceNode) and axis.value:
            yield (*prefix, "axes", name), axis


def _items(node: yaml.Node | None) -> dict[str, yaml.Node]:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return {str(key.value): value for key, value in pairs}


def _find(node: yaml.Node, path: _Path) -> yaml.Node:
    for key in path:
        node = _items(node)[key]
    return node


def _position(values: list[str], release: str) -> int:
    """Return the index at which a release keeps a list in order. Values that are no releases are passed over."""
    known = [(at, version) for at, value in enumerate(values) if (version := version_of(value))]
    new = version_of(release)
    if new is None or not known:
        return len(values)
    older = [at for at, version in known if version < new]
    if len(known) > 1 and all(first > second for (_, first), (_, second) in pairwise(known)):
        return older[0] if older else known[-1][0] + 1
    return older[-1] + 1 if older else known[0][0]


def version_of(text: str) -> Version | None:
    """Return the version of a release on an axis; None for another value such as ``cpu``."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _replace(text: str, node: yaml.Node, value: str) -> str:
    start, end = node.start_mark.index, node.end_mark.index
    match = _PROPERTIES.match(text, start, end)
    return text[: match.end() if match else start] + _scalar(value, node) + text[end:]


def _insert(text: str, sequence: yaml.SequenceNode, at: int, value: str) -> str:
    """Insert a value into a list: behind the value before it, or in front of the first one."""
    like = sequence.value[max(at - 1, 0)]
    start, end = like.start_mark.index, like.end_mark.index
    if not sequence.flow_style:
        start = text.rfind("-", 0, start)
    indent, rest = _LINES.split(text[:start])[-1], _LINES.split(text[end:])[0]
    line_end, newline = end + len(rest), "\r\n" if "\r\n" in text else "\n"
    new = ("" if sequence.flow_style else "- ") + _scalar(value, like)
    after_value = rest.lstrip(" \t")
    is_alone = not indent.strip() and _COMMENT.fullmatch(after_value.removeprefix(","))
    separator = newline + indent if not sequence.flow_style else f",{newline}{indent}" if is_alone else ", "
    if at == 0:
        return text[:start] + new + separator + text[start:]
    if not sequence.flow_style:
        return text[:line_end] + separator + new + text[line_end:]
    if not is_alone:
        return text[:end] + separator + new + text[end:]
    # A comment behind the value before it stays there.
    head, tail = ("", ",") if after_value.startswith(",") else (",", "")
    return text[:end] + head + rest + newline + indent + new + tail + text[line_end:]


def _scalar(value: str, like: yaml.Node) -> str:
    """Return a value as YAML, in the quotes of another one."""
    quote = like.style if isinstance(like, yaml.ScalarNode) and like.style in _QUOTES else ""
    if quote == "'" or not (quote or _PLAIN.fullmatch(value)):
        return "'" + value.replace("'", "''") + "'"
    return f"{quote}{value}{quote}"


def _checked(before: str, after: str, wanted: Mapping[_Path, Any], file: str) -> str:
    """Return the new text if it differs from the old one in the wanted values only."""
    root = _compose(before, file)
    expected = _data(root)
    for path, value in wanted.items():
        place = expected
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
    try:
        found = _data(_compose(after, file))
    except MatrixError:
        found = None
    if found == expected:
        return after
    path = next(iter(wanted))
    raise MatrixError(
        f"{'.'.join(path)} cannot be changed without changing something else",
        where=_place(_find(root, path), file),
        remedy="edit it by hand: its anchor may be used elsewhere",
    )


def _data(node: yaml.Node) -> Any:
    """Return new lists and mappings also for aliases."""
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _data(value) for key, value in node.value}
    return [_data(item) for item in node.value] if isinstance(node, yaml.SequenceNode) else node.value


def _place(node: yaml.Node, file: str) -> Place:
    return Place(file=file, line=node.start_mark.line + 1, column=node.start_mark.column + 1)
