"""An extension whose libraries torch brings."""

import torch  # noqa: F401  # it loads them

from cmake_by_hand import _C  # noqa: F401
