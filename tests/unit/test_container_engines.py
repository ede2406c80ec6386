"""What container engines are told and what is understood of their answers; the engines here are scripts."""

import os
from pathlib import Path

import pytest

from wheelsmith.base.errors import EngineError
from wheelsmith.engine import Mount, Readiness, choose, engines
from wheelsmith.engine.containers import _mount, client_environment, image_reference, is_dead, this_process

CONNECT = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
DENIED = "permission denied while trying to connect to the Docker daemon socket"


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put a script onto an otherwise empty PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def make(name, script):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return make


@pytest.mark.parametrize(
    ("name", "script", "readiness", "remedy"),
    [
        ("docker", None, Readiness.MISSING, "apt-get install docker.io"),
        ("docker", f"echo '{CONNECT}' >&2; exit 1", Readiness.NOT_RUNNING, "systemctl start docker"),
        ("docker", f"echo '{DENIED}' >&2; exit 1", Readiness.NOT_PERMITTED, "usermod --append --groups docker"),
        ("docker", "echo '\"19.03.15\"'", Readiness.TOO_OLD, "apt-get install docker.io"),
        ("docker", "echo '\"20.10.24+dfsg1\"'", Readiness.READY, None),
        ("podman", None, Readiness.MISSING, "apt-get install podman"),
        ("podman", "echo 'Error: cannot find newuidmap' >&2; exit 125", Readiness.NOT_PERMITTED, "--add-subuids"),
        ("podman", """echo '{"Client": {"Version": "3.4.4"}}'""", Readiness.TOO_OLD, "apt-get install podman"),
    ],
)
def test_a_probe_tells_apart(program, tmp_path, name, script, readiness, remedy):
    if script:
        program(name, script)
    probe = engines(tmp_path)[name].probe()
    assert probe.readiness is readiness
    assert (remedy or "") in (probe.remedy or "")
    assert bool(probe.remedy) == (readiness is not Readiness.READY)


@pytest.mark.parametrize("made_by", ["podman", "docker", None])
def test_in_a_container_the_remedy_is_the_containers(program, tmp_path, monkeypatch, made_by):
    """No sysctl fixes what the container's own filter refuses."""
    monkeypatch.setattr(
        "wheelsmith.engine.bwrap._PERMISSION_IN", {tmp_path / "podman": "podman run", tmp_path / "docker": "docker run"}
    )
    (tmp_path / (made_by or "none")).touch()
    version = "case $1 in --version) echo bubblewrap 0.8.0;;"
    program("bwrap", f'{version} *) echo "bwrap: Can\'t set hostname: Operation not permitted" >&2; exit 1;; esac')
    probe = engines(tmp_path)["bwrap"].probe()
    assert probe.readiness is Readiness.NOT_PERMITTED
    assert probe.remedy.startswith(f"{made_by} run" if made_by else "sysctl")


def test_auto_takes_the_first_that_has_the_image_and_says_why_not_the_others(program, tmp_path):
    program("podman", """case "$*" in *inspect*) exit 1;; *) echo '{"Client": {"Version": "4.3.1"}}';; esac""")
    program("bwrap", "echo bubblewrap 0.8.0")
    choice = choose("auto", images=frozenset({"debian"}), trusted=False, cache=tmp_path)
    assert choice.engine.name == "bwrap"
    # docker is not installed, so nobody wonders about it.
    assert [refusal.message for refusal in choice.passed_over] == ["podman has no image debian"]
    assert choice.passed_over[0].remedy == "wheelsmith image build debian --engine podman"


def test_an_engine_by_name_needs_its_image(program, tmp_path):
    program("docker", """case "$*" in *inspect*) exit 1;; *) echo '"28.0.0"';; esac""")
    with pytest.raises(EngineError, match=r"docker has no image quay/x:1") as caught:
        choose("docker", images=frozenset({"quay/x:1"}), trusted=True, cache=tmp_path)
    assert caught.value.remedy == "docker pull quay/x:1"


def test_images_by_recipe_and_by_reference():
    assert image_reference("debian") == "localhost/wheelsmith/debian:latest"
    for reference in ("debian:12", "library/debian", "name@sha256:0"):
        assert image_reference(reference) == reference


def test_no_token_reaches_a_client(monkeypatch):
    for name in ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("DOCKER_HOST", "unix:///x")
    assert "secret" not in client_environment().values()
    assert client_environment()["DOCKER_HOST"] == "unix:///x"


def test_a_folder_with_any_name_can_be_mounted():
    mount = Mount(source=Path("/a,b: \"c\" 'd'"), target="/work", writable=True)
    assert _mount(mount) == 'type=bind,"source=/a,b: ""c"" \'d\'",target=/work'
    assert _mount(Mount(source=Path("/a"), target="/b")) == "type=bind,source=/a,target=/b,readonly"


def test_an_owner_is_known_by_machine_boot_namespace_number_and_start():
    own = this_process()
    assert not is_dead(own)
    machine, boot, namespace, pid, start = own.split(":")
    assert pid == str(os.getpid())
    gone = [[machine, boot, namespace, pid, str(int(start) + 1)], [machine, boot, namespace, "4194305", start]]
    if machine:
        gone.append([machine, "0" * 36, namespace, pid, start])
    for other in gone:
        assert is_dead(":".join(other))
    elsewhere = [["", "0" * 36, namespace, pid, start], ["other", "0" * 36, namespace, pid, start]]
    for other in (*elsewhere, [machine, boot, "1", "4194305", start], ["a", "b"], [""]):
        assert not is_dead(":".join(other))
