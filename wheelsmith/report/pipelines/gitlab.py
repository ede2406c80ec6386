"""A pipeline for GitLab."""

from __future__ import annotations

from wheelsmith.base.errors import SettingError
from wheelsmith.report.pipelines.pipeline import Pipeline, common_words, whole

# Under the name by which sigstore finds it.
_ASKING = "\n  id_tokens:\n    SIGSTORE_ID_TOKEN:\n      aud: sigstore"
_MOST = 200  # jobs, which is what GitLab allows ``parallel``


def gitlab_pipeline(pipeline: Pipeline) -> str:
    """Return the text of the pipeline.

    The number of jobs stands in it. GitLab can learn one from a job only where that job writes the pipeline, with the
    release in it: then what signs would be what a job wrote, and not what stands in the repository.

    :raises SettingError: a word cannot stand in it, or the number of jobs is left open.
    """
    words = common_words(pipeline, "gitlab")
    if pipeline.shards == "auto":
        raise SettingError(
            "GitLab has to know the number of jobs: a job that finds it would have to write the release, too",
            remedy="wheelsmith plan --shards auto says how many there would be: --shards NUMBER",
        )
    if int(pipeline.shards) > _MOST:
        raise SettingError(f"GitLab runs no more than {_MOST} jobs of a kind", remedy=f"--shards {_MOST}")
    words["id-tokens"] = _ASKING if pipeline.keyless else ""
    words["tests"] = "".join(f', "wheels:test-{number}"' for number, _ in pipeline.runners)
    runners = [
        {"number": str(number), "tags": f'\n  tags: ["{runner}"]' if runner else ""}
        for number, runner in pipeline.runners
    ]
    return whole(pipeline, "gitlab", words, runners)
