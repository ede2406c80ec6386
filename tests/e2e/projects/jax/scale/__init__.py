import ctypes
from pathlib import Path

import jax
import numpy as np

_library = ctypes.CDLL(str(Path(__file__).with_name("_scale.so")))
jax.ffi.register_ffi_target("scale", jax.ffi.pycapsule(_library.Scale), platform="cpu")


def scale(x, factor):
    return jax.ffi.ffi_call("scale", jax.ShapeDtypeStruct(x.shape, x.dtype))(x, factor=np.float32(factor))
