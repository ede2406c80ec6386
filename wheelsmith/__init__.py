"""A multi-variant wheel factory for Hub kernels.

The names in ``__all__`` are public. All other names may change with any version.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wheelsmith.base.errors import WheelsmithError
    from wheelsmith.index.publish.publishing import Published, publish_folders
    from wheelsmith.model import BuildResult, Event
    from wheelsmith.model.run_record import RunRecord
    from wheelsmith.run.build import build
    from wheelsmith.run.prepare import Prepared, Request, prepare
    from wheelsmith.wheel import CheckReport, Finding
    from wheelsmith.wheel.reader import check_wheel
else:
    # Imported on first use, because the command line starts without most of them.
    _PUBLIC = {
        "BuildResult": "wheelsmith.model",
        "CheckReport": "wheelsmith.wheel",
        "Event": "wheelsmith.model",
        "Finding": "wheelsmith.wheel",
        "Prepared": "wheelsmith.run.prepare",
        "Published": "wheelsmith.index.publish.publishing",
        "Request": "wheelsmith.run.prepare",
        "RunRecord": "wheelsmith.model.run_record",
        "WheelsmithError": "wheelsmith.base.errors",
        "build": "wheelsmith.run.build",
        "check_wheel": "wheelsmith.wheel.reader",
        "prepare": "wheelsmith.run.prepare",
        "publish_folders": "wheelsmith.index.publish.publishing",
    }

    def __getattr__(name: str) -> object:
        """Import and return a public name."""
        from importlib import import_module

        if name not in _PUBLIC:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_PUBLIC[name]), name)

    def __dir__() -> list[str]:
        """Return the public names."""
        return sorted({*globals(), *_PUBLIC})


__version__ = "0.1.0.dev0"

__all__ = [
    "BuildResult",
    "CheckReport",
    "Event",
    "Finding",
    "Prepared",
    "Published",
    "Request",
    "RunRecord",
    "WheelsmithError",
    "__version__",
    "build",
    "check_wheel",
    "prepare",
    "publish_folders",
]
