"""An extension whose libraries torch brings."""

import torch  # noqa: F401  # it loads them

from every_library import _C  # noqa: F401
