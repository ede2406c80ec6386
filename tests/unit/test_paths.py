"""Who touches files by a path: nobody where a build could have written any part of it."""

import ast
from collections import defaultdict
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
    "sqlite3": "connect",
    "ast": "",  # its walk is another
}
# wheelsmith's own, which take paths.
OWN = "atomic_copy atomic_pour atomic_write mark_used open_wheel publish_tree sha256_file FileLock open"
PROGRAMS = "chmod chown cp find ln mkdir mv rm rmdir tar touch"

CACHE = "in the cache, which no sandbox sees; written by wheelsmith alone"
BESIDE = "beside the work folder, which no sandbox sees"
OUT = "in the output folder, which no sandbox sees"
SOURCE = "the user's own folder; what is read of it is compared with what was planned"
TREE = "of a source tree, which compares it with its hash"
USER = "a file that the user names, or has"
GROUPS = "control groups, which no sandbox sees"
MACHINE = "the operating system's"
PACKAGE = "of wheelsmith's own package"
WHEEL = "a wheel where no build can reach it: named by the user, in the store, or copied out of a work folder"
VENDORED = "the vendored folder, which no sandbox sees; what is read of it is compared with what was pinned or planned"
INDEX = "an index, which no sandbox sees"

# Where a build's folders are near, each function that touches a path says whose it is.
NEAR = {
    "pipeline/cell.py": {
        "CellBuild.result": OUT,
        "_chunks": CACHE,
    },
    "pipeline/repair_job.py": {"RepairJob.collect": BESIDE, "_packages": PACKAGE},
    "pipeline/cell_log.py": {"CellLog.command": "a file without a name", "CellLog._write": OUT, "CellLog._begin": OUT},
    "pipeline/outputs.py": {
        "StepOutputs.copy": BESIDE,
        "StepOutputs._keep": BESIDE,
        "StepOutputs.drop": BESIDE,
    },
    "engine/bwrap.py": {"_permission": MACHINE},
    "engine/container_tree.py": {"namespace_of": MACHINE},
    "engine/containers.py": {
        "ContainerEngine.build_host": CACHE,
        "ContainerEngine._leash": "an empty folder of its own",
        "_survey_digest": PACKAGE,
        "_mount": "of what is mounted, of which no build can write any part",
    },
    "engine/first_process.py": {"first_process": PACKAGE},
    "engine/local.py": dict.fromkeys(("_environment", "_on_host"), "of what is mounted: nothing is opened"),
    "engine/owner.py": {"_here": MACHINE, "_start": MACHINE},
    "engine/bwrap_mounts.py": dict.fromkeys(("host_mounts", "_show", "_targets", "_hide"), MACHINE),
    "engine/installed_python.py": {"_digest": MACHINE, "_options": MACHINE},
    "engine/podman.py": {"Podman.client": MACHINE},
    "engine/seccomp.py": {"profile_file": CACHE},
    "engine/cgroup.py": {
        "ControlGroup.peak_memory": GROUPS,
        "ControlGroup.cpu_seconds": GROUPS,
        "ControlGroup.remove": GROUPS,
        "remove_dead_groups": GROUPS,
        "_make_v1": GROUPS,
        "_make_v2": GROUPS,
        "_beside": GROUPS,
        "_is_limited": GROUPS,
        "_oom_kills": GROUPS,
        "members": GROUPS,
    },
    "engine/sandbox_selftest.py": {
        "try_promises": "a folder of its own, in which nobody's code but ours writes",
        "_Bench._work": "the same",
        "_Bench.inside": "the same",
        "_Bench.not_along": "the same",
        "_with_words": MACHINE,
    },
    "engine/available_resources.py": {
        "_available": MACHINE,
        "_left": GROUPS,
        "_quotas": GROUPS,
        "_reclaimable": GROUPS,
    },
    "engine/hierarchy.py": {"_upwards": GROUPS, "group_path": MACHINE},
    "engine/process_tree.py": {"all_processes": MACHINE, "_sum_of": MACHINE, "most_processes_beside_others": MACHINE},
    "run/build.py": {"make_output_folder": OUT},
    "run/scratch.py": {
        "scratch": "the folder that work folders are made in",
        "_remove": "a run's own folder, in that one: no build could have written either name",
        "_remove_if_dead": "of the lock beside the work folders",
    },
    "run/init_matrix.py": {"first_matrix": USER, "_likely_name": USER, "_backends": TREE},
    "run/prepare.py": {"_fetch": USER, "prepare_matrix": USER},
    "run/shard_results.py": dict.fromkeys(("_below", "copy_log", "take_wheel"), "of jobs that ended"),
    "run/shards.py": {"write_shards": USER},
    "run/sign.py": dict.fromkeys(("sign", "_signable", "_wheels_of", "_write_beside"), OUT),
    "run/verify.py": {"verify": "a new folder, of its own", **dict.fromkeys(("_at", "_lying"), USER)},
    "run/project_metadata.py": {"own_words": TREE, "describe": TREE, "kernel_source.read": TREE, "_named": TREE},
    "run/rebuild/rebuild.py": {
        **dict.fromkeys(("_answer", "_not_rebuilt", "_whole_record"), WHEEL),
        "_own_cache": "in the scratch folder of a run, which no sandbox sees",
        "_order": "in the scratch folder of a run, which no sandbox sees",
    },
    "run/rebuild/request.py": {"_at": USER},
    "run/rebuild/published.py": {"fetch_wheel": "in the scratch folder of a run, which no sandbox sees"},
    "run/install_check.py": {
        "fresh_environment": "a new folder, of its own",
        "WheelTester._require_there": "a new environment: pip put files there, and nothing of a wheel has run",
    },
    "run/release.py": {"live_wheels": "a new folder, of its own"},
    "wheel/diff.py": {"wheel_differences": WHEEL},
    "run/vendor.py": dict.fromkeys(
        (
            *("vendor", "_write", "_finish_replacing", "_check_own", "_is_own"),
            *("_check_untouched", "_files", "_vendor_prefix", "_vendor_wheels", "_replace"),
        ),
        VENDORED,
    ),
    "source/vendored.py": dict.fromkeys(("read_vendored", "_files"), VENDORED),
    "run/torch_header_notice.py": {"_includes_all": TREE},
    "run/repack/folders.py": {"read_folder_of.read": TREE, "_readme": TREE},
    "run/source_argument.py": {"kernel_of": USER},
    "cli/join.py": {"command": USER},
    "cli/ci.py": {"_write": USER},
    "cli/test.py": {"command": USER},
    "report/pipelines/pipeline.py": {"filled": PACKAGE},
    "cli/verify.py": {"command": USER},
    "wheel/attestation/keys.py": {"_read": USER},
    "wheel/attestation/trust.py": {"_root": "a file of its own"},
    "cli/init.py": {"command": USER},
    "cli/verify_rebuild.py": {"command": USER},
    "pipeline/smoke.py": {"_unpack": WHEEL},
    "source/folder.py": {"read_folder": SOURCE, "_files": SOURCE, "real_file": SOURCE},
    "source/builds.py": dict.fromkeys(("read_build_folder", "_local", "_along"), SOURCE),
    "source/git/program.py": {"git_output": "a file without a name"},
    "source/git/repository.py": dict.fromkeys(
        (f"Repository.{name}" for name in ("held", "stored", "_find", "_all_of_it", "_remove_unfinished", "_write")),
        CACHE,
    ),
    "source/git/source.py": {"_absolute": USER, "_text": CACHE},
    "source/hub.py": {"snapshot_file": "in the Hub client's cache, which no sandbox sees"},
    "source/archive.py": {
        "read_archive": USER,
        "check_packed_size": "named by the user, or just fetched into the cache",
        "find_unpacked": CACHE,
        "keep_unpacked": CACHE,
        "scratch_folder": CACHE,
        "changed_sources": CACHE,
        "_files": CACHE,
    },
    "source/sdist.py": {"read_sdist": CACHE, "_read_pin": CACHE, "_fetch": "fetched into the cache", "_places": USER},
    "source/unpack.py": {
        "unpack": CACHE,
        "_Files.write": CACHE,
        "_Files.copy": CACHE,
    },
    "source/__init__.py": {"is_cached": USER},
    "source/run_outputs.py": {"Outputs.are": USER, "Outputs.include": USER, "_same": USER},
    "source/tree.py": {"SourceTree.read_text": "a tree's own, not a path's", "walk": USER, "mode_of": SOURCE},
    "store/inventory.py": {
        "take_inventory": CACHE,
        "_Inventory.add": CACHE,
        "_is_live": CACHE,
        "_read": CACHE,
        "_entries": CACHE,
        "_bytes": CACHE,
    },
    "store/pruning.py": {"_Removal.take_away": CACHE, "_Removal.finish": CACHE},
    "wheel/orders.py": {"run_repair": "in the folder that it is given, within the cell's limits"},
    "wheel/repair.py": {"repair": "in the folder that the wheel was copied to", "pack": "in the same, names checked"},
    "wheel/auditwheel.py": {"repair": "in the same"},
    "wheel/rpath.py": {"_rewritten": "in the same"},
}
FAR = {
    "base/tar_archive.py": "whatever its callers name, in the cache or of the user",
    "base/zip_archive/reader.py": WHEEL,
    "base/files.py": "whatever its callers name, who are in these tables",
    "engine/backend/hooks.py": "runs inside of the sandbox",
    "engine/backend/launcher.py": "runs inside of the sandbox",
    "engine/backend/phases.py": "runs inside of the sandbox",
    "engine/backend/project.py": "runs inside of the sandbox",
    "engine/backend/survey.py": "runs inside of an image, or asks this machine",
    "engine/backend/selftest_probe.py": "runs inside of the sandbox",
    "cli/run_with_reports.py": OUT,
    "cli/release.py": OUT,
    "cli/doctor.py": MACHINE,
    "cli/serve.py": USER,
    "base/facts.py": PACKAGE,
    "base/templates.py": PACKAGE,
    "engine/images.py": "of wheelsmith's own package, or temporary files that an image's build is told of",
    "index/storage/bucket.py": WHEEL,
    "index/storage/hub.py": WHEEL,
    "index/publish/hub_release.py": WHEEL,
    "index/site/human.py": PACKAGE,
    "index/storage/folder.py": INDEX,
    "index/entries/metadata.py": WHEEL,
    "index/doctor/hosts.py": PACKAGE,
    "index/doctor/wheels.py": WHEEL,
    "index/storage/serve.py": INDEX,
    "index/storage/protocol.py": WHEEL,
    "matrix/load.py": USER,
    "plan/lock/file.py": USER,
    "index/pick/look_python.py": MACHINE,
    "index/pick/machine.py": MACHINE,
    "platforms/cuda_driver.py": PACKAGE,
    "index/pick/source.py": INDEX,
    "index/publish/run_index.py": OUT,
    "index/publish/promote.py": WHEEL,
    "index/publish/publishing.py": WHEEL,
    "index/publish/release.py": WHEEL,
    "index/publish/repair.py": INDEX,
    "index/publish/input_folders.py": USER,
    "report/results_file.py": OUT,
    "report/page.py": OUT,
    "store/costs.py": CACHE,
    "store/lock.py": CACHE,
    "store/objects.py": CACHE,
    "store/verify.py": CACHE,
    "store/wheels.py": CACHE,
    "toolchain/prefix_builder.py": "of a prefix that is being made",
    "toolchain/downloads.py": VENDORED,
    "toolchain/vendored_wheels.py": VENDORED,
    "toolchain/apt_sources.py": MACHINE,
    "toolchain/archives.py": "where the user says that archives are, and a prefix that is being made",
    "toolchain/build_tools.py": "of installed packages, and of a prefix that is being made",
    "toolchain/project_toolkit.py": CACHE,
    "toolchain/cuda_compilers.py": "of a prefix that is being made",
    "toolchain/cxx/install.py": "a package whose hash was compared, and a prefix that is being made",
    "toolchain/cxx/symbol_versions.py": "of a prefix that is being made",
    "toolchain/cxx/programs.py": CACHE,
    "toolchain/cxx/libstdcxx_nonshared.py": "of a prefix that is being made, and a temporary folder",
    "toolchain/cxx/wrappers.py": "as install.py: of a prefix that is being made",
    "toolchain/debian_package.py": "a package whose hash was compared",
    "toolchain/environment.py": CACHE,
    "toolchain/wheel_lookup.py": "a temporary folder",
    "toolchain/package_index.py": USER,
    "toolchain/prefixes.py": CACHE,
    "toolchain/integrity.py": CACHE,
    "toolchain/programs.py": CACHE,
    "toolchain/remote.py": CACHE,
    "toolchain/unpack.py": CACHE,
    "toolchain/cpu_environment.py": CACHE,
    "wheel/checker_version.py": PACKAGE,
    "wheel/facts.py": WHEEL,
    "wheel/inspection.py": WHEEL,
    "wheel/operators/code.py": "of Python code that is walked, not of a path",
    "wheel/operators/values.py": "of texts, not of a path",
    "wheel/packed_gpu_code.py": "in a temporary folder of the check",
    "wheel/content_scan.py": WHEEL,
    "wheel/symbols/libraries.py": PACKAGE,
    "wheel/symbols/torch.py": PACKAGE,
    "wheel/variant.py": WHEEL,
}


def calls_in(node: ast.AST, inside: str = "") -> Iterator[tuple[str, str]]:
    """Yield what touches a path, as far as it can be seen, and the function that it is in."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        inside = f"{inside}.{node.name}".removeprefix(".")
    elif isinstance(node, ast.Call) and (name := touching(node)):
        yield inside, name
    elif isinstance(node, ast.ImportFrom) and node.module in {"os", "shutil", "glob"}:
        yield inside, f"from {node.module}"
    elif isinstance(node, ast.List | ast.Tuple) and (program := first_word(node)) in PROGRAMS.split():
        yield inside, program
    for child in ast.iter_child_nodes(node):
        yield from calls_in(child, inside)


def first_word(words: ast.List | ast.Tuple) -> str:
    first = words.elts[0] if words.elts else None
    return str(first.value) if isinstance(first, ast.Constant) else ""


def touching(call: ast.Call) -> str | None:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id if function.id in OWN.split() else None
    if not isinstance(function, ast.Attribute):
        return None
    module = function.value.id if isinstance(function.value, ast.Name) else ""
    names = FUNCTIONS.get(module, METHODS).split()
    # Of a path, replace has one argument; of a text it has two, and of a date they have names.
    if module not in FUNCTIONS and function.attr == "replace" and len(call.args) == 1 and not call.keywords:
        return "replace"
    return function.attr if function.attr in names else None


def paths_in(text: str) -> dict[str, list[str]]:
    found = defaultdict(list)
    for function, name in calls_in(ast.parse(text)):
        found[function].append(name)
    return dict(found)


def test_everything_that_touches_a_path_says_whose_it_is():
    found = {str(path.relative_to(ROOT)): paths_in(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
    found = {module: calls for module, calls in found.items() if calls and not module.startswith("base/beneath/")}
    near = {module: {name: calls[name] for name in calls} for module, calls in found.items() if module not in FAR}
    unsaid = {
        f"{module}: {function}": calls
        for module, functions in near.items()
        for function, calls in functions.items()
        if function not in NEAR.get(module, {})
    }
    assert unsaid == {}, "use wheelsmith.base.beneath where a build could have written; else say here whose path it is"
    said = {(module, function) for module, functions in NEAR.items() for function in functions}
    assert said - {(module, function) for module in near for function in near[module]} == set()
    assert set(FAR) - set(found) == set()


def test_what_builds_and_what_confines_is_told_function_by_function():
    """A module there cannot be excused as a whole, but for what runs inside, and what makes images before any build."""
    rooms = ("pipeline/", "engine/", "source/", "run/build.py", "run/scratch.py", "cli/shell.py")
    apart = ("engine/backend/", "engine/images.py")
    assert [module for module in FAR if module.startswith(rooms) and not module.startswith(apart)] == []


def test_the_finder_finds():
    """Each line is one way to touch a path."""
    for line in (
        "open('x')",
        "Path('x').read_bytes()",
        "work.joinpath('x').rename(y)",
        "temporary.replace(y)",
        "os.rename(a, b)",
        "os.scandir(a)",
        "shutil.rmtree(a)",
        "from os import rename",
        "run(['chmod', '-R', 'u+rwx', x])",
        "for c in (('rm', '-rf'),): run(c)",
        "sha256_file(work / 'x')",
        "zipfile.ZipFile(x)",
    ):
        assert paths_in(line) != {}, line
    for line in ("text.replace('a', 'b')", "os.close(3)", "shutil.which('x')", "re.open", "replace(plan, x=1)"):
        assert paths_in(line) == {}, line
