"""The worker: a process with limits that reads untrusted archives, wheels and other files.

If it crashes, hangs or runs out of memory, the caller gets one clear error, and the next request starts a new process.
"""

from wheelsmith.worker.client import Worker
from wheelsmith.worker.process import import_path, package_folders
from wheelsmith.worker.protocol import WorkerLimits, read_response, write_request
