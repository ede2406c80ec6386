"""Read matrix.yaml and report all of its mistakes together, each with its place.

BaseLoader reads every scalar as text, so an unquoted 2.10 stays 2.10 and no stays no.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from wheelsmith.base.errors import MatrixError, MatrixMistakesError, Place, WheelsmithError
from wheelsmith.base.git_address import parse_git_address
from wheelsmith.base.suggest import did_you_mean
from wheelsmith.base.units import is_prerelease
from wheelsmith.frameworks import NIGHTLY
from wheelsmith.matrix.kernel_set import has_kernels, place_of, split_kernels
from wheelsmith.matrix.remote_cache import RemoteCacheSettings
from wheelsmith.matrix.types import (
    CudaCompatibility,
    EngineChoice,
    KernelRef,
    Matrix,
    MatrixRule,
    OutputSettings,
    ProjectSettings,
    Selector,
)
from wheelsmith.model import NO_FRAMEWORK, CellSettings

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

    from wheelsmith.matrix.schema import KernelModel, MatrixModel, SelectorModel, SettingsModel

SCHEMA_HINT = "see the schema with: wheelsmith schema"
_Path = tuple[str | int, ...]
_Model = TypeVar("_Model", bound="BaseModel")
_KEY = -1  # last part of the path of a key itself; no key is an integer, and no list has this index


def load_matrix(path: Path) -> Matrix:
    """Read a matrix file with one kernel.

    :raises MatrixMistakesError: the file has mistakes; the error lists all of them.
    :raises MatrixError: the file cannot be read, or has several kernels.
    """
    text, data = _read_file(path)
    return replace(parse_matrix(text, file=path.name), sha256=hashlib.sha256(data).hexdigest())


def load_matrices(path: Path, texts: Mapping[str, str] | None = None) -> tuple[Matrix, ...]:
    """Read a matrix file with one kernel, or with several kernels and files that it includes.

    :param texts: file, relative to the folder of the matrix → its text, if it is not to be read.
    :return: a matrix for each kernel; one without a name if the file has one kernel.
    :raises MatrixMistakesError: a file has mistakes; the error lists all of them.
    :raises MatrixError: a file cannot be read.
    """

    def read_file(name: str) -> tuple[str, bytes]:
        return (texts[name], texts[name].encode()) if texts else _read_file(path.parent / name)

    text, data = read_file(path.name)
    root, digest = _compose(text, path.name), hashlib.sha256(data)
    if not has_kernels(root):
        return (replace(parse_matrix(text, file=path.name), sha256=digest.hexdigest()),)

    def read(name: str, where: Place) -> yaml.Node:
        try:
            text, data = read_file(name)
        except MatrixError as error:
            raise MatrixError(error.message, where=where) from None
        digest.update(data)
        return _compose(text, name)

    return tuple(replace(each, sha256=digest.hexdigest()) for each in _make_matrices(root, path.name, read))


def _make_matrices(root: yaml.Node, file: str, read: Callable[[str, Place], yaml.Node]) -> list[Matrix]:
    from wheelsmith.matrix.schema import KernelInSetModel

    assert isinstance(root, yaml.MappingNode)  # noqa: S101  # see `has_kernels`
    found: list[Matrix] = []
    mistakes: dict[str, WheelsmithError] = {}
    for each in split_kernels(root, read):
        try:
            made = _matrix_of(each.node, file, KernelInSetModel)
        except MatrixMistakesError as error:
            mistakes |= {str(mistake): mistake for mistake in error.mistakes}
        else:
            kernel = _relative_to(made.kernel, each.folder)
            found.append(replace(made, name=each.name, kernel=kernel, own=each.own))
    if mistakes:
        raise MatrixMistakesError(tuple(mistakes.values()))
    return found


def _relative_to(kernel: KernelRef, folder: str) -> KernelRef:
    """Return a kernel whose folder is relative to the main file, not to the included one."""
    if kernel.path:
        return replace(kernel, path=str(Path(folder, kernel.path)))
    if kernel.git and parse_git_address(kernel.git).is_local and not kernel.git.startswith("file:"):
        return replace(kernel, git=str(Path(folder, kernel.git)))
    return kernel


def _read_file(path: Path) -> tuple[str, bytes]:
    try:
        data = path.read_bytes()
        return data.decode(), data
    except FileNotFoundError:
        raise MatrixError(
            f"there is no {path}",
            remedy="create it with wheelsmith init, or choose another file with --matrix",
        ) from None
    except UnicodeDecodeError as error:
        raise MatrixError(f"not UTF-8 text: {error.reason}", where=Place(file=str(path))) from None
    except IsADirectoryError:
        raise MatrixError(f"{path} is a folder", remedy=f"name the file in it: {path}/matrix.yaml") from None
    except OSError as error:
        raise MatrixError(f"{path} cannot be read: {error.strerror}") from None


def parse_matrix(text: str, *, file: str = "matrix.yaml") -> Matrix:
    """Read a matrix with one kernel from text.

    :param file: the file name for messages.
    :raises MatrixMistakesError: the text has mistakes; the error lists all of them.
    :raises MatrixError: the text is not a YAML mapping, or has several kernels.
    """
    from wheelsmith.matrix.schema import MatrixModel

    root = _compose(text, file)
    if has_kernels(root):
        raise MatrixError(
            "this command takes one kernel, and the file has kernels",
            where=Place(file=file),
            remedy="give the kernel a file of its own, which this one can include",
        )
    return _matrix_of(root, file, MatrixModel)


def _matrix_of(root: yaml.Node, file: str, form: type[MatrixModel]) -> Matrix:
    places: dict[_Path, Place] = {}
    mistakes: list[MatrixError] = []
    try:
        data = _to_data(root, (), places, mistakes)
    except RecursionError:
        raise MatrixError("nested too deeply", where=Place(file=file)) from None
    if not isinstance(data, dict):
        raise MatrixError("the file must be a mapping with kernel and axes", where=Place(file=file, line=1))
    model = _validate(form, data, places, mistakes)
    if model is not None:
        mistakes.extend(_check_selectors(model, places))
    if mistakes or model is None:
        mistakes.sort(key=lambda m: (m.where.line, m.where.column) if m.where else (0, 0))
        raise MatrixMistakesError(tuple(mistakes))
    return _make_matrix(model, places)


def read_yaml(text: str, file: str, model: type[_Model]) -> _Model:
    """Read YAML other than a matrix, with every scalar as text.

    :param file: the file name for messages.
    :raises MatrixError: the first mistake.
    """
    places: dict[_Path, Place] = {}
    mistakes: list[MatrixError] = []
    data = _to_data(_compose(text, file), (), places, mistakes)
    found = _validate(model, data, places, mistakes)
    if found is None or mistakes:
        raise mistakes[0]
    return found


def check_kernel(given: Mapping[str, str | list[str] | None]) -> KernelRef:
    """Validate a ``kernel`` section that comes from a command line.

    :param given: the values by key.
    :raises MatrixMistakesError: values are invalid; the place of each mistake is its key.
    """
    from pydantic import ValidationError

    from wheelsmith.matrix.schema import KernelModel

    try:
        return _make_kernel(KernelModel.model_validate(given))
    except ValidationError as error:
        places: dict[_Path, Place] = {(): Place(file="kernel")} | {(key,): Place(file=key) for key in given}
        mistakes = (_to_mistake(detail, places, KernelModel) for detail in error.errors(include_url=False))
        raise MatrixMistakesError(tuple(mistakes)) from None


def _compose(text: str, file: str) -> yaml.Node:
    try:
        loader = yaml.BaseLoader(text)
        loader.name = file  # of the marks
        root: yaml.Node | None = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = Place(file=file, line=mark.line + 1, column=mark.column + 1) if mark else Place(file=file)
        raise MatrixError(f"not YAML: {error.problem}", where=where) from None
    except yaml.YAMLError as error:
        raise MatrixError(f"not YAML: {' '.join(str(error).split())}", where=Place(file=file)) from None
    except RecursionError:
        raise MatrixError("nested too deeply", where=Place(file=file)) from None
    if root is None:
        raise MatrixError("the file is empty", where=Place(file=file, line=1), remedy=SCHEMA_HINT)
    return root


def _to_data(node: yaml.Node, path: _Path, places: dict[_Path, Place], mistakes: list[MatrixError]) -> Any:
    places.setdefault(path, place_of(node))
    if isinstance(node, yaml.ScalarNode):
        return node.value
    if isinstance(node, yaml.SequenceNode):
        return [_to_data(item, (*path, n), places, mistakes) for n, item in enumerate(node.value)]
    found: dict[str, Any] = {}
    for key, value in node.value:
        name = str(key.value)
        where = place_of(key)
        if name in found:
            mistakes.append(MatrixError(f"duplicate key {name!r}", where=where, remedy="keep one of them"))
            continue
        places[(*path, name, _KEY)] = where
        found[name] = _to_data(value, (*path, name), places, mistakes)
    return found


def _validate(
    model: type[_Model], data: object, places: dict[_Path, Place], mistakes: list[MatrixError]
) -> _Model | None:
    from pydantic import ValidationError

    try:
        return model.model_validate(data)
    except ValidationError as error:
        mistakes.extend(_to_mistake(detail, places, model) for detail in error.errors(include_url=False))
        return None


def _to_mistake(detail: ErrorDetails, places: dict[_Path, Place], model: type[BaseModel]) -> MatrixError:
    loc = detail["loc"]
    name = str(loc[-1]) if loc else "the file"
    kind = detail["type"]
    if kind == "extra_forbidden":
        return MatrixError(
            f"unknown key {name!r}", where=places[(*loc, _KEY)], remedy=did_you_mean(name, _valid_keys(loc, model))
        )
    where = _nearest_place(loc, places)
    if kind == "missing":
        return MatrixError(f"{name} is missing", where=where, remedy=SCHEMA_HINT)
    if kind == "literal_error":
        choices = [choice.strip(" '") for choice in str(detail["ctx"]["expected"]).replace(" or ", ",").split(",")]
        remedy = did_you_mean(str(detail["input"]), choices)
        return MatrixError(f"{detail['input']!r} is not one of {', '.join(choices)}", where=where, remedy=remedy)
    if kind == "value_error":
        return MatrixError(str(detail["ctx"]["error"]), where=where)
    if kind in {"too_short", "string_too_short"}:
        return MatrixError(f"{name} is empty", where=where)
    expected = {
        "list_type": "a list",
        "string_type": "one value",
        "model_type": "a mapping",
        "dict_type": "a mapping",
    }.get(kind)
    if kind == "list_type" and isinstance(detail["input"], str):
        return MatrixError(f"{name} must be a list: write [{detail['input']}]", where=where)
    if expected:
        return MatrixError(f"{name} must be {expected}", where=where, remedy=SCHEMA_HINT)
    return MatrixError(f"{name}: {detail['msg']}", where=where)


def _nearest_place(loc: tuple[str | int, ...], places: dict[_Path, Place]) -> Place:
    if loc[-1:] == ("[key]",):  # pydantic's name for an invalid key
        loc = (*loc[:-1], _KEY)
    while loc not in places:
        loc = loc[:-1]
    return places[loc]


def _valid_keys(loc: tuple[str | int, ...], model: type[BaseModel]) -> list[str]:
    """Return the keys that are valid in the place of an unknown key."""
    from wheelsmith.matrix.schema import keys_schema

    schema = keys_schema(model)
    definitions = schema.get("$defs", {})
    here = schema
    for part in loc[:-1]:
        here = here.get("items", {}) if isinstance(part, int) else here.get("properties", {}).get(part, {})
        references = [here, *here.get("anyOf", []), here.get("items", {})]
        found = next((r["$ref"] for r in references if "$ref" in r), None)
        if found and here.get("type") != "array":
            here = definitions[found.rsplit("/", 1)[1]]
        elif found:
            here = {"items": definitions[found.rsplit("/", 1)[1]]}
    return list(here.get("properties", {}))


def _check_selectors(model: MatrixModel, places: dict[_Path, Place]) -> Iterator[MatrixError]:
    """Yield a mistake for each rule that selects by a framework that is not an axis."""
    for number, rule in enumerate(model.rules):
        for key, selector in (("exclude", rule.exclude), ("where", rule.where)):
            for name in selector.releases.keys() - model.axes.releases.keys() if selector else ():
                where = places["rules", number, key, name, _KEY]
                remedy = f"the axis is {', '.join(model.axes.releases)}" if model.axes.releases else None
                yield MatrixError(f"a rule selects by {name}, which is not an axis", where=where, remedy=remedy)


def _make_matrix(model: MatrixModel, places: dict[_Path, Place]) -> Matrix:
    ((framework, releases),) = (model.axes.releases or {NO_FRAMEWORK: [""]}).items()
    source = next(name for name in ("hub", "git", "path", "sdist") if getattr(model.kernel, name))
    return Matrix(
        kernel=_make_kernel(model.kernel),
        place=str(places["kernel", source]),
        version=model.version,
        framework=framework,
        releases=tuple(releases),
        places={
            name: str(_nearest_place(("axes", framework, n), places))
            for n, name in enumerate(releases)
            if name == NIGHTLY or is_prerelease(name)
        },
        computes=model.axes.computes,
        arch=tuple(model.axes.arch),
        python=tuple(model.axes.python),
        settings=CellSettings(**_settings(model)),
        project=_make_project(model),
        cuda_compatibility=CudaCompatibility(model.cuda_compatibility),
        rules=tuple(_make_rule(model, n, places["rules", n]) for n in range(len(model.rules))),
        engine=EngineChoice(**model.engine.model_dump()),
        output=OutputSettings(**model.output.model_dump()),
        remote_cache=RemoteCacheSettings(
            addresses=tuple(model.remote_cache.addresses), signers=tuple(model.remote_cache.signers)
        ),
    )


def _make_kernel(model: KernelModel) -> KernelRef:
    return KernelRef(**{name: _freeze(value) for name, value in model.model_dump().items()})


def _make_rule(model: MatrixModel, number: int, place: Place) -> MatrixRule:
    rule = model.rules[number]
    changed = _settings(rule.set) if rule.set else {}
    return MatrixRule(
        where=_make_selector(rule.exclude or rule.where),
        exclude=rule.exclude is not None,
        reason=rule.reason,
        place=f"{place.file}:{place.line}",
        settings=CellSettings(**changed),
        sets=tuple(changed),
        project=_make_project(rule.set) if rule.set else ProjectSettings(),
    )


def _settings(model: MatrixModel | SettingsModel) -> dict[str, Any]:
    """Return the cell settings in a section of the matrix, by name."""
    names = (field.name for field in fields(CellSettings))
    given = {name: value for name in names if (value := getattr(model, name, None)) is not None}
    return {name: _freeze(value) for name, value in given.items()}


def _freeze(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _make_project(model: MatrixModel | SettingsModel) -> ProjectSettings:
    return ProjectSettings(
        env=model.env or {},
        build_requires=tuple(model.build_requires or ()),
        test_requires=tuple(model.test_requires or ()),
        config_settings={name: tuple(values) for name, values in (model.config_settings or {}).items()},
        before_build=model.before_build,
        cxx_standard=model.cxx_standard,
    )


def _make_selector(model: SelectorModel | None) -> Selector:
    if model is None:
        return Selector()
    return Selector(
        releases=tuple(pattern for patterns in model.releases.values() for pattern in patterns),
        toolkits={name: tuple(patterns) for name, patterns in model.toolkits.items()},
        arch=tuple(model.arch or ()),
        python=tuple(model.python or ()),
    )
