"""Read from setup.py, without running it, what often makes its build fail in a sandbox."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from wheelsmith.base.json_dataclass import Record
from wheelsmith.plan.recipe.static_setup_metadata import parse_code

_GPU = {
    "is_available", "device_count", "current_device", "get_device_capability", "get_device_properties",
    "get_device_name", "get_arch_list",
}  # fmt: skip
_DOWNLOADS = {"urlopen", "urlretrieve", "requests", "httpx", "urllib3", "wget"}
_OPPOSITES = {"0": "1", "false": "true", "off": "on", "no": "yes", "": "1"}
_CAPABILITY = re.compile(r"\b(?:compute|sm)_(\d+)(\d)[af]?\b")
_LISTED = re.compile(r"(\d+\.\d)[af]?(\+PTX)?")
_SOURCE = re.compile(r"[\w./+-]+\.(c|cc|cpp|cxx|cu)")
# In a compiler's option, CMake, and Meson. CMake's feature cxx_std_17 leaves the compiler's default if it is as new.
_STANDARD = re.compile(
    r"(?:-std=(?:c|gnu)\+\+|(?:CXX|CUDA)_STANDARD\s+|(?:cxx|cuda)_std_|cpp_std=(?:c|gnu)\+\+)(\d\d)\b"
)
_LONGEST = 1 << 18  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupCode(Record):
    """What the code of setup.py shows.

    :param variables: the environment variables that it reads → the value that it looks for, or ``1``.
    :param options: options of its own command line.
    :param gpu: questions about GPUs → line of the first one.
    :param flags: it passes capabilities to nvcc itself.
    :param sets_variable: it sets TORCH_CUDA_ARCH_LIST.
    :param capabilities: the compute capabilities that it names, such as ``3.7``.
    :param imports: the modules that it imports in any case.
    :param sources: the source files that it names.
    :param downloads: line of a download of a wheel, or None.
    """

    variables: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    gpu: dict[str, int] = field(default_factory=dict)
    flags: bool = False
    sets_variable: bool = False
    capabilities: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    downloads: int | None = None

    @property
    def forcing(self) -> dict[str, str]:
        """The variables that make it compile instead of looking for a ready wheel."""
        named = re.compile(r"FORCE_(BUILD|COMPIL|SOURCE)|(BUILD|COMPILE)_FROM_SOURCE|NO_PREBUILT|SKIP_DOWNLOAD")
        return {name: value for name, value in self.variables.items() if named.search(name)}


def read_setup_code(code: bytes) -> SetupCode:
    """Return what setup.py shows; nothing if it is not Python."""
    tree = parse_code(code)
    if tree is None:
        return SetupCode()
    nodes = tuple(ast.walk(tree))
    texts = {node: node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names = {str(getattr(node, "attr", getattr(node, "id", ""))): node for node in nodes}
    ready = any(".whl" in text for text in texts.values()) and next((names[n] for n in _DOWNLOADS if n in names), None)
    return SetupCode(
        variables=_variables(nodes),
        options=tuple(dict.fromkeys(_options(nodes))),
        gpu=_gpu_questions(nodes),
        flags=any("compute_" in text for text in texts.values()),
        sets_variable=bool(listed := _listed_capabilities(nodes)),
        capabilities=tuple(sorted({*listed, *_capabilities(texts.values())}, key=float)),
        imports=tuple(dict.fromkeys(_imports(tree))),
        sources=tuple(dict.fromkeys(_sources(nodes))),
        downloads=getattr(ready, "lineno", None) if ready else None,
    )


def old_standard(text: str, least: int) -> tuple[int, int] | None:
    """Return the newest C++ standard that a build file names and its line, if it is older than another one.

    :param text: the content of setup.py, CMakeLists.txt or another file.
    """
    found = [
        (int(match[1]), number)
        for number, line in enumerate(text[:_LONGEST].splitlines(), 1)
        if not line.lstrip().startswith("#")
        for match in _STANDARD.finditer(line)
        if not match[1].startswith("9")  # C++98
    ]
    newest = max(found, key=lambda item: item[0], default=None)
    return newest if newest and newest[0] < least else None


def standard_files(paths: Collection[str]) -> Iterator[str]:
    """Yield the build files of a project that may name a C++ standard: those at the top, and one folder below."""
    for path in paths:
        name = path.rpartition("/")[2]
        if path.count("/") <= 1 and (
            name in {"CMakeLists.txt", "meson.build"} or path in {"setup.py", "pyproject.toml"}
        ):
            yield path


def lacking_sources(setup: SetupCode, paths: Collection[str]) -> tuple[str, ...]:
    """Return the sources that setup.py names and no file of the project is. A name may lack its first folders."""
    known = [f"/{path}" for path in paths]
    wanted = (name.removeprefix("./").lstrip("/") for name in setup.sources if ".." not in name)
    return tuple(name for name in wanted if not any(path.endswith(f"/{name}") for path in known))


def _variables(nodes: tuple[ast.AST, ...]) -> dict[str, str]:
    named = {
        node.targets[0].id: node.value.value
        for node in nodes
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    # A function of its own that reads a variable whose name it is given.
    readers = {
        function.name
        for function in nodes
        if isinstance(function, ast.FunctionDef)
        and any(key is not None and _text(key, named) is None for key in map(_key_of, ast.walk(function)))
    }

    def key(node: ast.AST) -> str | None:
        if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name) and node.func.id in readers:
            return _text(node.args[0], named)
        found = _key_of(node)
        return None if found is None else _text(found, named)

    found: dict[str, str] = {}
    for node in nodes:
        if (name := key(node)) and re.fullmatch(r"[A-Za-z_]\w*", name):
            found.setdefault(name, _opposite_of_default(node))
    found |= {name: value for node in nodes if isinstance(node, ast.Compare) for name, value in _compared(node, key)}
    return found


def _key_of(node: ast.AST) -> ast.expr | None:
    """Return the expression of the variable's name if a node reads the environment."""
    match node:
        case ast.Subscript(value=value, slice=name, ctx=ast.Load()) if _is_environ(value):
            return name
        case ast.Call(func=ast.Attribute(value=value, attr="get" | "pop"), args=[name, *_]) if _is_environ(value):
            return name
        case ast.Call(func=ast.Attribute(attr="getenv") | ast.Name(id="getenv"), args=[name, *_]):
            return name
        case ast.Compare(left=name, ops=[ast.In() | ast.NotIn()], comparators=[value]) if _is_environ(value):
            return name
    return None


def _is_environ(node: ast.expr) -> bool:
    return getattr(node, "attr", getattr(node, "id", "")) == "environ"


def _text(node: ast.expr, named: dict[str, str]) -> str | None:
    """Return the value of a text that is made of literals and names of literals, or None."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return named.get(name)
        case ast.FormattedValue(value=value):
            return _text(value, named)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [_text(left, named), _text(right, named)]
        case ast.JoinedStr(values=values):
            parts = [_text(value, named) for value in values]
        case _:
            return None
    return None if None in parts else "".join(map(str, parts))


def _opposite_of_default(node: ast.AST) -> str:
    default = node.args[1] if isinstance(node, ast.Call) and len(node.args) > 1 else None
    text = default.value if isinstance(default, ast.Constant) and isinstance(default.value, str) else ""
    opposite = _OPPOSITES.get(text.lower(), "1")
    return opposite.upper() if text.isupper() else opposite.capitalize() if text.istitle() else opposite


def _compared(node: ast.Compare, key: Callable[[ast.AST], str | None]) -> Iterator[tuple[str, str]]:
    """Yield the variable in a comparison, with the value that it is compared with."""
    value = node.comparators[0]
    choices = value.elts if isinstance(value, ast.Tuple | ast.List | ast.Set) else [value]
    texts = [str(item.value) for item in choices if isinstance(item, ast.Constant) and item.value]
    if isinstance(node.ops[0], ast.Eq | ast.In) and texts and texts[0].lower() not in _OPPOSITES:
        yield from ((name, texts[0]) for inner in ast.walk(node.left) if (name := key(inner)))


def _options(nodes: tuple[ast.AST, ...]) -> Iterator[str]:
    for node in nodes:
        match node:
            case (
                ast.Compare(left=ast.Constant(value=str(text)), ops=[ast.In() | ast.NotIn()], comparators=[argv])
                | ast.Call(
                    func=ast.Attribute(value=argv, attr="remove" | "index"), args=[ast.Constant(value=str(text))]
                )
            ) if getattr(argv, "attr", getattr(argv, "id", "")) == "argv" and text.startswith("-"):
                yield text


def _gpu_questions(nodes: tuple[ast.AST, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr=name)) if (
                name in _GPU and getattr(of, "attr", getattr(of, "id", "")) == "cuda"
            ):
                found.setdefault(name, node.lineno)
            case ast.Constant(value=str(text)) if text.split(" ")[0].endswith("nvidia-smi"):
                found.setdefault("nvidia-smi", node.lineno)
    return found


def _capabilities(texts: Collection[str]) -> Iterator[str]:
    for text in texts:
        yield from (f"{match[1]}.{match[2]}" for match in _CAPABILITY.finditer(text))


def _listed_capabilities(nodes: tuple[ast.AST, ...]) -> list[str]:
    """Return the capabilities that it sets TORCH_CUDA_ARCH_LIST to."""
    for node in nodes:
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=of, slice=ast.Constant(value="TORCH_CUDA_ARCH_LIST"))],
                value=ast.Constant(value=str(text)),
            ) if _is_environ(of):
                return [match[1] for match in _LISTED.finditer(text)]
    return []


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def _sources(nodes: tuple[ast.AST, ...]) -> Iterator[str]:
    """Yield the names of source files in lists, and in arguments of extensions."""
    for node in nodes:
        is_extension = isinstance(node, ast.Call) and str(
            getattr(node.func, "attr", getattr(node.func, "id", ""))
        ).endswith("Extension")
        if is_extension or isinstance(node, ast.List | ast.Tuple):
            for inner in ast.walk(node):
                match inner:
                    case ast.Constant(value=str(text)) if _SOURCE.fullmatch(text):
                        yield text
