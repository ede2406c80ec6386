"""build.toml is accepted and refused as by the parser of the ``kernels`` library."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from build_toml_corpus import corpus, dump

from wheelsmith.base.errors import WheelsmithError
from wheelsmith.plan.recipe.build_toml import parse_build_toml

pytestmark = [pytest.mark.e2e, pytest.mark.network]
VERSION = "0.17.2"
JUDGE = """
import json, pathlib, sys
from kernels._rust import Build

refused = []
for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    try:
        Build.open(str(folder))
    except ValueError:
        refused.append(folder.name)
print(json.dumps(refused))
"""
# Pattern of a file's name → why it is accepted or refused by one of the two only.
ACCEPTED_HERE = {
    r".*, edition 3": "their parser asks people to migrate files of edition 3; the Hub has such kernels",
    r'.*kernel\.one\.depends = \["x"\]|.* depends \[\'(cutlass_9_9|nothing)\'\]': "a combination has the reason: only "
    "the sections that apply to it need the library",
}
REFUSED_HERE = {
    r".*kernel\.one\.src = \[\]": "nothing would be compiled",
    r'.*cuda-capabilities = \["x"\]|cuda-capabilities (90|9|x)': "nvcc would fail later",
    r'.*rocm-archs = \["x"\]|rocm-archs (gfx9|sm_90|90a|)': "clang would fail later",
}


def explained(name, reasons):
    return any(re.fullmatch(pattern, name) for pattern in reasons)


def test_the_judge_agrees_or_there_is_a_reason(tmp_path):
    files = dict(corpus())
    subprocess.run(["uv", "venv", "-q", "--python", sys.executable, tmp_path / "env"], check=True)
    install = ["uv", "pip", "install", "-q", "--python", tmp_path / "env", f"kernels=={VERSION}"]
    subprocess.run(install, check=True)
    numbered = dict(enumerate(files))
    for number, name in numbered.items():
        folder = tmp_path / "files" / f"{number:04}"
        folder.mkdir(parents=True)
        (folder / "build.toml").write_text(dump(files[name]))
    judged = subprocess.run(
        [tmp_path / "env/bin/python", "-c", JUDGE, tmp_path / "files"], capture_output=True, text=True, check=True
    )
    refused = {numbered[int(number)] for number in json.loads(judged.stdout.splitlines()[-1])}
    refused_here = {name for name, tables in files.items() if is_refused(dump(tables))}
    assert 100 < len(refused) < len(files) - 100
    assert [name for name in refused - refused_here if not explained(name, ACCEPTED_HERE)] == []
    assert [name for name in refused_here - refused if not explained(name, REFUSED_HERE)] == []


def is_refused(text):
    try:
        parse_build_toml(text)
    except WheelsmithError:
        return True
    return False
