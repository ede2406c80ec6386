"""An extension whose libraries torch brings."""

import torch  # noqa: F401  # it loads them

from found_by_cmake import _C  # noqa: F401
