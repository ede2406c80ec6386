"""A workflow for GitHub Actions."""

from __future__ import annotations

from wheelsmith.base.facts import read_facts
from wheelsmith.report.pipelines.pipeline import Pipeline, filled

GITHUB_FILE = ".github/workflows/wheels.yml"
_RUNNER = "ubuntu-latest"
# What each storage reads, as its own tools do.
_SECRETS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"),
    "gs": ("GOOGLE_SERVICE_ACCOUNT_KEY",),
    "az": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"),
    "hf": ("HF_TOKEN",),
}
_BUCKETS = {"s3", "gs", "az"}


def github_workflow(pipeline: Pipeline) -> str:
    """Return the text of the workflow.

    :raises SettingError: a word cannot stand in it.
    """
    pipeline.check()
    words = _words(pipeline)
    parts = ["github.yml"]
    if pipeline.sign or pipeline.publish:
        parts.append("github-publish.yml")
    parts += ["github-sign.yml"] if pipeline.sign else []
    parts += ["github-target.yml"] if pipeline.publish else []
    text = "".join(filled(part, words) for part in parts)
    if pipeline.sign and not pipeline.publish:
        text += filled("github-signed.yml", words)
    return text


def _words(pipeline: Pipeline) -> dict[str, str]:
    scheme = (pipeline.publish or "").partition("://")[0]
    extras = [name for name, used in (("buckets", scheme in _BUCKETS), ("sign", pipeline.sign)) if used]
    named = {"buckets": "'obstore>=0.11'", "sign": "'securesystemslib>=1.6' 'cryptography>=44'"}
    done = [word for word, used in (("Sign", pipeline.sign), ("Publish", pipeline.publish)) if used]
    secrets = [f"          {name}: ${{{{ secrets.{name} }}}}" for name in _SECRETS.get(scheme, ())]
    return {
        **_actions(),
        "command": pipeline.command("github"),
        "wheelsmith": pipeline.wheelsmith,
        "runner": _RUNNER,
        "python": pipeline.python,
        "matrix": pipeline.matrix,
        "locked": " --locked" if pipeline.locked else "",
        "shards": pipeline.shards,
        "publishes": " and ".join(done).capitalize(),
        "extras": " ".join(named[name] for name in extras),
        "target": pipeline.publish or "",
        "secrets": "\n".join(["        env:", *secrets]) if secrets else "        # A folder that the runner keeps.",
    }


def _actions() -> dict[str, str]:
    """Return each action by the commit that its version names."""
    known = read_facts(__package__, "actions.json")["actions"]
    return {name: f"{each['uses']}@{each['commit']} # {each['version']}" for name, each in known.items()}
