"""Split a matrix file with several kernels into one matrix for each kernel, as YAML nodes, which know their places."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import PurePosixPath

import yaml

from wheelsmith.base.errors import MatrixError, Place
from wheelsmith.frameworks import frameworks
from wheelsmith.matrix.types import KernelRef

KERNELS, INCLUDE = "kernels", "include"
_AXES, _FRAMEWORK, _KERNEL = "axes", "framework", "kernel"
OF_RUN = ("engine", "output", "remote-cache")  # settings of a run, not of a kernel
_MERGED = {_AXES, "env", "config-settings"}  # a kernel's values replace common values of the same name
_JOINED = {"rules", "build-requires", "test-requires"}  # a kernel's items follow the common ones
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_OF_SOURCE = {field.name.replace("_", "-") for field in fields(KernelRef)}
_USUAL_STEM = "matrix"  # such a file has the name of its folder
_Pairs = list[tuple[yaml.Node, yaml.Node]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelNode:
    """The matrix of one kernel.

    :param name: the name in ``kernels``, or after the included file.
    :param folder: the folder of the included file, relative to the main file; ``.`` for the main file.
    :param own: the keys that are not common to all kernels, and the names of the kernel's own axes.
    """

    name: str
    folder: str
    node: yaml.MappingNode
    own: tuple[str, ...]


def has_kernels(root: yaml.Node) -> bool:
    """Return True if a file has several kernels, instead of one under ``kernel``."""
    return isinstance(root, yaml.MappingNode) and bool({KERNELS, INCLUDE} & _keys(root))


def split_kernels(root: yaml.MappingNode, read: Callable[[str, Place], yaml.Node]) -> tuple[KernelNode, ...]:
    """Return a matrix for each kernel, with the common settings of the file.

    :param read: returns the root of an included file; its arguments are the path and its place in the main file.
    :raises MatrixError: the file is not of this form.
    """
    if _KERNEL in _keys(root):
        place = place_of(_key(root, _KERNEL))
        raise MatrixError("kernel and kernels cannot be used together", where=place, remedy="move it under kernels")
    common = _without(root, {KERNELS, INCLUDE})
    found = [*_entries(root, common, ".")]
    for item in _included(root):
        included = read(item.value, place_of(item))
        if not isinstance(included, yaml.MappingNode) or INCLUDE in _keys(included):
            raise MatrixError("an included file has kernel or kernels, and no include", where=place_of(included))
        folder = str(PurePosixPath(item.value).parent)
        own = _without(included, {KERNELS, *OF_RUN})
        merged = _merge(common, own)
        if _KERNEL in _keys(included):
            name = name_after(item.value)
            _check_name(name, place_of(item))
            found.append(KernelNode(name=name, folder=folder, node=merged, own=_own_keys(own)))
        found += _entries(included, merged, folder)
    _check_distinct(found)
    if not found:
        raise MatrixError("there is no kernel", where=place_of(root), remedy="add one under kernels")
    return tuple(found)


def name_after(file: str) -> str:
    """Return the name of the only kernel of an included file."""
    path = PurePosixPath(file)
    return path.parent.name if path.stem == _USUAL_STEM else path.stem


def place_of(node: yaml.Node) -> Place:
    """Return the place of a node in its file."""
    return Place(file=node.start_mark.name, line=node.start_mark.line + 1, column=node.start_mark.column + 1)


def _entries(root: yaml.MappingNode, common: yaml.MappingNode, folder: str) -> Iterator[KernelNode]:
    """Yield the entries of ``kernels``, each with the common settings."""
    for key, node in root.value:
        if key.value != KERNELS:
            continue
        if not isinstance(node, yaml.MappingNode):
            raise MatrixError(
                "kernels must be a mapping", where=place_of(node), remedy="give each kernel a name, such as relu: {…}"
            )
        for name, entry in node.value:
            _check_name(name.value, place_of(name))
            if not isinstance(entry, yaml.MappingNode):
                raise MatrixError(f"{name.value} must be a mapping", where=place_of(entry))
            for other, _ in entry.value:
                if other.value in OF_RUN:
                    raise MatrixError(
                        f"{other.value} is the same for all kernels", where=place_of(other), remedy="move it to the top"
                    )
            own = _own_keys(entry)
            yield KernelNode(name=name.value, folder=folder, node=_merge(common, _nest_source(entry)), own=own)


def _own_keys(entry: yaml.MappingNode) -> tuple[str, ...]:
    axes = _value(entry, _AXES)
    return tuple(sorted(_keys(entry) | (_keys(axes) if axes else set())))


def _nest_source(entry: yaml.MappingNode) -> yaml.MappingNode:
    """Return an entry in the form of a matrix, with the keys of its source under ``kernel``."""
    source = [(key, value) for key, value in entry.value if key.value in _OF_SOURCE]
    others = [(key, value) for key, value in entry.value if key.value not in _OF_SOURCE]
    key = yaml.ScalarNode(tag="", value=_KERNEL, start_mark=entry.start_mark)
    return _mapping(entry, [(key, _mapping(entry, source)), *others])


def _merge(common: yaml.MappingNode, own: yaml.MappingNode) -> yaml.MappingNode:
    """Return common settings with a kernel's own. Repeated keys of its own stay, so that they are reported."""
    axes, own_axes = _value(common, _AXES), _value(own, _AXES)
    releases = {*frameworks()}
    names_framework = _FRAMEWORK in _keys(own) or bool(own_axes and releases & _keys(own_axes))
    if names_framework:
        common = _without(common, {_FRAMEWORK})
        if isinstance(axes, yaml.MappingNode):
            common = _replace(common, _AXES, _without(axes, releases))
    pairs: _Pairs = [(key, value) for key, value in common.value if key.value not in _keys(own)]
    for key, value in own.value:
        before = _value(common, str(key.value))
        if key.value in _MERGED and isinstance(before, yaml.MappingNode) and isinstance(value, yaml.MappingNode):
            others = [pair for pair in before.value if pair[0].value not in _keys(value)]
            pairs.append((key, _mapping(value, [*others, *value.value])))
        elif key.value in _JOINED and isinstance(before, yaml.SequenceNode) and isinstance(value, yaml.SequenceNode):
            items = [*before.value, *value.value]
            pairs.append((key, yaml.SequenceNode(tag=value.tag, value=items, start_mark=value.start_mark)))
        else:
            pairs.append((key, value))
    return _mapping(own, pairs)


def _included(root: yaml.MappingNode) -> Iterator[yaml.ScalarNode]:
    for key, node in root.value:
        if key.value == INCLUDE:
            items: list[yaml.Node] = node.value if isinstance(node, yaml.SequenceNode) else [node]
            for item in items:
                if item is node or not isinstance(item, yaml.ScalarNode):
                    raise MatrixError("include must be a list of files", where=place_of(item))
                yield item


def _check_name(name: object, where: Place) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise MatrixError(
            f"{name!r} is not a name for a kernel", where=where, remedy="use letters, digits, dots, _ and -"
        )


def _check_distinct(found: Iterable[KernelNode]) -> None:
    """Reject two kernels with names that differ in case only, because they share a folder for logs."""
    first: dict[str, KernelNode] = {}
    for each in found:
        if first.setdefault(each.name.lower(), each) is not each:
            raise MatrixError(f"two kernels are named {each.name}", where=place_of(each.node), remedy="rename one")


def _keys(node: yaml.Node) -> set[str]:
    return {key.value for key, _ in node.value if isinstance(key.value, str)} if isinstance(node.value, list) else set()


def _key(node: yaml.MappingNode, name: str) -> yaml.Node:
    found: yaml.Node = next(key for key, _ in node.value if key.value == name)
    return found


def _value(node: yaml.MappingNode, name: str) -> yaml.Node | None:
    return next((value for key, value in node.value if key.value == name), None)


def _without(node: yaml.MappingNode, names: set[str]) -> yaml.MappingNode:
    return _mapping(node, [pair for pair in node.value if pair[0].value not in names])


def _replace(node: yaml.MappingNode, name: str, value: yaml.Node) -> yaml.MappingNode:
    return _mapping(node, [(key, value if key.value == name else old) for key, old in node.value])


def _mapping(like: yaml.Node, pairs: _Pairs) -> yaml.MappingNode:
    return yaml.MappingNode(tag="tag:yaml.org,2002:map", value=pairs, start_mark=like.start_mark)
