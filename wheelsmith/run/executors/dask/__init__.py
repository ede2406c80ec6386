"""Build on the workers of a Dask cluster. Each worker builds as many cells at once as its machine allows."""

from wheelsmith.run.executors.dask.cluster import DaskExecutor
