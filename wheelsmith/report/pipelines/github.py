"""A workflow for GitHub Actions."""

from __future__ import annotations

from wheelsmith.base.files import read_facts
from wheelsmith.report.pipelines.pipeline import Pipeline, common_words, whole

_RUNNER = "ubuntu-latest"
_ASKING = "      id-token: write # says to Sigstore which workflow this is"


def github_workflow(pipeline: Pipeline) -> str:
    """Return the text of the workflow.

    :raises SettingError: a word cannot stand in it.
    """
    secrets = [f"          {name}: ${{{{ secrets.{name} }}}}" for name in pipeline.secrets]
    words = {
        **common_words(pipeline, "github"),
        **_actions(),
        "runner": _RUNNER,
        "rights": f"\n{_ASKING}" if pipeline.keyless else " {}",
        "tests": "".join(f", test-{number}" for number, _ in pipeline.runners),
        "secrets": "\n".join(["        env:", *secrets]) if secrets else "        # A folder that the runner keeps.",
    }
    runners = [{"number": str(number), "test-runner": runner or _RUNNER} for number, runner in pipeline.runners]
    return whole(pipeline, "github", words, runners)


def _actions() -> dict[str, str]:
    """Return each action by the commit that its version names."""
    known = read_facts(__package__, "actions.json")["actions"]
    return {name: f"{each['uses']}@{each['commit']} # {each['version']}" for name, each in known.items()}
