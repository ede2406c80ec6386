"""Files that a build could have written are opened through ``base.beneath`` only.

Rooms that work beside a build's folders name each module that opens files by path, with the reason why no build could
have written any part of that path.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent / "wheelsmith"
METHODS = """
    chmod exists glob hardlink_to is_dir is_file is_symlink iterdir lchmod lstat mkdir open read_bytes read_text
    readlink rename resolve rglob rmdir samefile stat symlink_to touch unlink walk write_bytes write_text
"""
FUNCTIONS = {
    "os": """
        access chdir chmod chown fwalk lchown link listdir listxattr lstat makedirs mkdir mkfifo mknod open readlink
        remove removedirs rename renames replace rmdir scandir setxattr stat statvfs symlink truncate unlink utime walk
    """,
    "shutil": "copy copy2 copyfile copymode copystat copytree move rmtree unpack_archive",
    "tempfile": "NamedTemporaryFile TemporaryDirectory TemporaryFile mkdtemp mkstemp",
    "zipfile": "ZipFile",
    "ast": "",  # its walk is another
}
# wheelsmith's own functions that take paths.
OWN = "atomic_copy atomic_write_chunks atomic_write mark_used open_wheel publish_tree sha256_file FileLock open"

NEAR = ("pipeline/", "engine/", "run/build.py", "cli/shell.py")
INSIDE = "engine/backend/"  # runs inside the sandbox
MACHINE = "files of the operating system"
REASONS = {
    "pipeline/cell.py": "the output folder and the cache, which no sandbox sees",
    "pipeline/cell_log.py": "logs in the output folder",
    "pipeline/command.py": "wheels in the cache, which no sandbox sees",
    "pipeline/outputs.py": "copies beside the work folder, which no sandbox sees",
    "pipeline/repair_job.py": "a new file in the output folder, and wheelsmith's own package",
    "pipeline/smoke.py": "wheelsmith's own package",
    "engine/bwrap.py": MACHINE,
    "engine/cgroup.py": MACHINE,
    "engine/containers.py": "the cache, wheelsmith's own package and the sources of mounts",
    "engine/images.py": "recipes of images, before any build",
    "engine/installed_python.py": MACHINE,
    "engine/local.py": "the sources of mounts: nothing is opened",
    "engine/podman.py": MACHINE,
    "engine/seccomp.py": "the cache",
    "engine/sandbox_selftest.py": "a folder that only wheelsmith's own probe writes to",
    "engine/process_tree.py": MACHINE,
    "run/build.py": "the output folder",
}


def calls_in(tree: ast.AST) -> Iterator[str]:
    """Yield the calls that touch a path, as far as a reader of the source can tell."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := touching(node)):
            yield name
        elif isinstance(node, ast.ImportFrom) and node.module in {"os", "shutil", "glob"}:
            yield f"from {node.module}"


def touching(call: ast.Call) -> str | None:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id if function.id in OWN.split() else None
    if not isinstance(function, ast.Attribute):
        return None
    module = function.value.id if isinstance(function.value, ast.Name) else ""
    names = FUNCTIONS.get(module, METHODS).split()
    # Path.replace takes one argument; str.replace takes two, and date.replace takes names.
    if module not in FUNCTIONS and function.attr == "replace" and len(call.args) == 1 and not call.keywords:
        return "replace"
    return function.attr if function.attr in names else None


def test_modules_near_a_build_that_open_paths_say_why_they_may():
    modules = {str(path.relative_to(ROOT)): path for path in ROOT.rglob("*.py")}
    near = {name: path for name, path in modules.items() if name.startswith(NEAR) and not name.startswith(INSIDE)}
    touch = {name for name, path in near.items() if any(calls_in(ast.parse(path.read_text())))}
    assert touch - REASONS.keys() == set(), "open it through wheelsmith.base.beneath, or give the reason here"
    assert REASONS.keys() - touch == set(), "these open no path any more"
