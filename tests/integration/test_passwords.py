"""An address with a password, however it was mistyped, is told without it by every command that is given one."""

from types import SimpleNamespace

import pytest

from wheelsmith.base.errors import WheelsmithError
from wheelsmith.run.published_wheels import published_wheels
from wheelsmith.run.signatures import verify

PICK = ("--torch", "2.11", "--cuda", "cpu")
PROMOTE = ("k", "1", "--from", "a", "--to", "b")
CI = ("--wheelsmith", "wheelsmith-factory==1")


@pytest.mark.parametrize(
    "argv",
    [
        ("promote", "https:/me:hunter2@127.0.0.1:9/x", *PROMOTE),
        ("promote", "https://me:hunter2\uff20127.0.0.1/x", *PROMOTE),
        ("promote", "index", *PROMOTE, "--address", "https://me:hunter2@h/x"),
        ("publish", "https:/me:hunter2@h/x", "--dry-run"),
        ("index", "verify", "me:hunter2@h/x"),
        ("index", "doctor", "https:/me:hunter2@127.0.0.1:9/x"),
        ("index", "doctor", "https://me:8080/hunter2@127.0.0.1:9/x"),
        ("index", "doctor", "https://me:hunter2\uff20127.0.0.1/x"),
        ("index", "doctor", "https://me:hunter2/x"),
        ("pick", "k", "--index", "ftp://127.0.0.1/x?token=hunter2", *PICK),
        ("pick", "k", "--index", "https://me:hunter2%40127.0.0.1/x", *PICK),
        (
            "ci",
            "github",
            "--project",
            "k",
            "--test",
            "true",
            "--publish",
            "s3://b",
            "--url",
            "https://me:hunter2@h/w",
            *CI,
        ),
        ("ci", "gitlab", "--publish", "hf://me:hunter2@o/n", *CI),
        ("ci", "buildkite", "--wheelsmith", "wheelsmith-factory @ https://me:hunter2@h/w.whl"),
        ("repack", "https:///me:hunter2%40h"),
        ("plan", "--matrix", "https:\\\\me:hunter2%40h"),
        ("publish", "--from", "https:///me:hunter2%40h", "index"),
        ("index", "verify", "//me:hunter2%40h"),
        ("index", "repair", "//me:hunter2@h"),
        ("init", "https:\\\\me:hunter2%40h"),
    ],
    ids=lambda argv: " ".join(argv[:3]).replace("\uff20", "@"),
)
def test_no_command_tells_a_password(argv, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = run(*argv)
    assert (answer.code != 0, "hunter2" in answer.out + answer.err, "error: " in answer.err) == (True, False, True)
    assert [path.name for path in tmp_path.iterdir()] in ([], ["cache"])


@pytest.mark.parametrize("address", ["https:///me:hunter2%40h", "https:///me:a/hunter2%40h", "https:\\\\me:hunter2@h"])
@pytest.mark.parametrize("command", ["check", "plan", "verify-rebuild"])
def test_nor_one_that_takes_no_address(command, address, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = run(command, address)
    assert (answer.code != 0, "hunter2" in answer.out + answer.err) == (True, False)


@pytest.mark.parametrize(
    "kernel",
    [
        'git: "https://me:80/hunter2@127.0.0.1/x", revision: v1',
        'git: "https:/me:hunter2@h.invalid/x", revision: v1',
        'hub: "me:hunter2@h/x"',
        'path: "https://me:hunter2@h/x"',
        "path: 'https:\\\\me:hunter2%40h'",
        'git: "//me:hunter2%40h/x", revision: v1',
        'sdist: "https://me:hunter2@h/x"',
    ],
)
def test_no_plan_tells_a_password(kernel, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "matrix.yaml").write_text(f"kernel: {{{kernel}}}\naxes: {{torch: [2.11], cuda: [cpu]}}\n")
    answer = run("plan")
    assert (answer.code != 0, "hunter2" in answer.out + answer.err, "error: " in answer.err) == (True, False, True)


def test_what_is_verified_is_told_without_a_password(tmp_path):
    (judged,) = verify(["hub:me:hunter2@h"], SimpleNamespace(), [].append)
    assert (judged.wheel, judged.verified) == ("…@h", None)
    with pytest.raises(WheelsmithError) as wrong:
        list(published_wheels("https://[me:hunter2@h/x", tmp_path, [].append))
    assert "hunter2" not in str(wrong.value)
