"""The executor, and its connection to a cluster."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Event
from typing import Any

from wheelsmith.base.distribution import DISTRIBUTION
from wheelsmith.base.errors import MachineError, SettingError
from wheelsmith.engine import available_cores
from wheelsmith.model import BuildResult, Listener
from wheelsmith.run.executors.local import LocalExecutor
from wheelsmith.run.executors.protocol import BuildRequest

_CONNECT = 10  # seconds
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):\d{1,5}")


class DaskExecutor:
    """Runs builds on the workers of a Dask cluster.

    :param address: ``HOST:PORT`` of its scheduler; empty for one worker on this machine.
    :raises SettingError: the address has another form.
    """

    def __init__(self, address: str = "") -> None:
        if address and not _ADDRESS.fullmatch(address):
            raise SettingError(f"{address!r} is not HOST:PORT", remedy="pass --executor dask://HOST:PORT")
        self._address = address

    def build(
        self,
        work: BuildRequest,
        *,
        listen: Listener,
        on_result: Callable[[BuildResult], None],
        cancel: Event,
    ) -> None:
        """Build or test every plan. This machine checks stored wheels again, and repacks builds of upstream."""
        here = replace(work, to_build=tuple(plan for plan in work.to_build if plan.repacked))
        plans = [plan for plan in work.to_build if not plan.repacked]
        if here.to_build or here.to_recheck:
            LocalExecutor().build(here, listen=listen, on_result=on_result, cancel=cancel)
        if not plans or cancel.is_set():
            return
        with _connected(self._address) as client:
            from wheelsmith.run.executors.dask.run import ClusterRun

            ClusterRun(client, replace(work, to_build=tuple(plans)), listen, on_result).run(cancel)


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Yield a client of the cluster.

    :raises MachineError: Dask is not installed, or there is no scheduler at the address.
    """
    try:
        import dask.config

        # The run itself reports lost workers. This has an effect if nothing has imported distributed yet.
        dask.config.set(logging={"distributed": "critical", "distributed.client": "critical"})
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MachineError(
            "--executor dask needs the package distributed", remedy=f"pip install '{DISTRIBUTION}[dask]'"
        ) from error
    if not address:
        own = {"n_workers": 1, "threads_per_worker": available_cores(), "memory_limit": None}
        with (
            LocalCluster(**own, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    scheme = "tls" if dask.config.get("distributed.comm.require-encryption") else "tcp"
    try:
        client = Client(f"{scheme}://{address}", timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise MachineError(
            f"there is no Dask scheduler at {address}: {error}",
            remedy="start `dask scheduler` and pass its address: --executor dask://HOST:PORT",
        ) from error
    try:
        yield client
    finally:
        with suppress(TimeoutError, OSError):
            client.close(timeout=_CONNECT)
