"""The worker: a process with limits that reads archives, wheels and other bytes from others.

It may crash, hang or run out of memory: the process that asked gets one clear error, and the next request a new worker.
"""

from wheelsmith.worker.client import Worker
from wheelsmith.worker.process import import_path, package_folders
from wheelsmith.worker.protocol import WorkerLimits, read_response, write_request
