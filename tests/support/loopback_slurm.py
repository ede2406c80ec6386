"""A Slurm cluster of one node on this machine: Debian's slurmctld, slurmd and munged."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import wants

_CONFIGURATION = """\
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=1
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
MailProg=/bin/true
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory={memory} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def loopback_slurm(root: Path) -> Iterator[dict[str, str]]:
    """Yield the environment in which sbatch finds the cluster.

    :param root: an empty folder.
    """
    for program in ("munged", "slurmctld", "slurmd", "sbatch"):
        wants.program(program)
    for name in ("state", "spool"):
        (root / name).mkdir()
    (root / "munge.key").write_bytes(os.urandom(64))
    (root / "munge.key").chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    (root / "slurm.conf").write_text(
        _CONFIGURATION.format(
            host=host,
            controller=_free_port(),
            node=_free_port(),
            user=getpass.getuser(),
            root=root,
            cores=os.cpu_count(),
            memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20 - 512,
        )
    )
    environment = {**os.environ, "SLURM_CONF": str(root / "slurm.conf")}
    munge = ("munged", "--foreground", "--force", f"--socket={root}/munge.socket", f"--key-file={root}/munge.key")
    munge += (f"--pid-file={root}/munge.pid", f"--log-file={root}/munge.log", f"--seed-file={root}/munge.seed")
    daemons = (munge, ("slurmctld", "-D", "-c"), ("slurmd", "-D", "-N", host))
    with ExitStack() as stack:
        for argv in daemons:
            log = stack.enter_context((root / f"{argv[0]}.out").open("wb"))
            daemon = subprocess.Popen(argv, env=environment, stdout=log, stderr=log)
            stack.callback(_end, daemon)
        _await_node(environment, root)
        yield environment


def _end(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    daemon.wait(timeout=60)


def _await_node(environment: dict[str, str], root: Path) -> None:
    for _ in range(300):
        answer = subprocess.run(["sinfo", "-h", "-o", "%t"], env=environment, capture_output=True, text=True)
        if answer.stdout.strip() == "idle":
            return
        time.sleep(0.1)
    logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in root.glob("*.out"))
    raise RuntimeError(f"the node does not become idle: {answer.stdout}{answer.stderr}\n{logs}")
