"""The shell in which the commands of one page run."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def shell(folder: Path, env: Mapping[str, str], outputs: Path) -> Iterator[Callable[[str], tuple[int, str]]]:
    """Yield a function that runs a command in one bash and returns its exit code and output, stderr included.

    :param outputs: where the outputs are written.
    """
    pipe = subprocess.PIPE
    bash = subprocess.Popen(["bash"], cwd=folder, env=env, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    outputs.mkdir()

    def run(text: str) -> tuple[int, str]:
        output = outputs / str(len(list(outputs.iterdir())))
        bash.stdin.write(f"{{ {text}\n}} >'{output}' 2>&1 </dev/null\necho $?\n")
        bash.stdin.flush()
        code = int(bash.stdout.readline())
        if text.partition(" #")[0].rstrip().endswith("&"):
            _wait_for_words(output)
        return code, output.read_text()

    with bash:
        try:
            yield run
        finally:
            os.killpg(bash.pid, signal.SIGKILL)  # with the servers in the background


def _wait_for_words(output: Path) -> None:
    """Wait until a server says where it listens."""
    for _ in range(600):
        if output.stat().st_size:
            return
        time.sleep(0.1)
    raise TimeoutError("the command in the background prints nothing")
