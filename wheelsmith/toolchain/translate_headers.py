"""Translate torch's CUDA headers to HIP with torch's hipify: ``translate_headers.py HIPIFY INCLUDE``.

HIPIFY is the folder with torch's hipify, and INCLUDE the folder with the headers, where the translated ones are added.
The patterns are those of torch's own build, in tools/amd_build/build_amd.py of pytorch/pytorch.
"""

from __future__ import annotations

import sys
from pathlib import Path

_ATEN = "aten/src/ATen"  # in torch's source, by which hipify knows what to translate
_OF_ATEN = (
    *("cuda", "native/cuda", "native/cudnn", "native/nested/cuda", "native/sparse/cuda"),
    *("native/quantized/cuda", "native/transformers/cuda"),
)
_FOLDERS = (*(f"{_ATEN}/{folder}" for folder in _OF_ATEN), "c10/cuda", "torch")


def main(hipify: str, include: str) -> None:
    """Translate the headers in place."""
    sys.path.insert(0, hipify)
    from torch.utils.hipify import hipify_python

    installed, source = Path(include, "ATen"), Path(include, _ATEN)
    source.parent.mkdir(parents=True)
    installed.rename(source)
    hipify_python.hipify(
        project_directory=include,
        output_directory=include,
        includes=[f"{include}/{folder}/*" for folder in _FOLDERS],
        ignores=["*/hip/*"],
        is_pytorch_extension=False,
        hip_clang_launch=True,
        show_detailed=False,
    )
    source.rename(installed)
    source.parent.rmdir()
    source.parent.parent.rmdir()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
