"""GPU code is whole, and is what its label says."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.wheel.gpu.code import impossible_targets
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

_SUFFIXES = (".cubin", ".fatbin", ".ptx")


def _examine(wheel: Inspection) -> Iterator[Finding]:
    codes = {name: code for name, code in wheel.gpu_code.items() if code.present}
    empty = [name for name in wheel.files if name.lower().endswith(_SUFFIXES) and name not in codes]
    if codes or empty:
        wrong = [f"{name}, {mistake}" for name, code in codes.items() for mistake in code.mistakes]
        wrong += [f"{name}: {reason}" for name, code in codes.items() for reason in impossible_targets(code)]
        wrong += [f"{name} holds no GPU code that can be read" for name in empty]
        right = f"the GPU code is whole, and what it is labelled as, in {len(codes)} of the files"
        yield finding("machine-code", wrong, right)


RULE = Rule(
    name="machine-code",
    proves="GPU code is found at any place in any file and read: a cubin's own architecture, `a` and `f` included, and "
    "PTX's own `.version` and `.target` are what the fatbin's entry says; it unpacks to the size that is said; a "
    "cubin's tables, symbols, notes and attributes lie within it and are well-formed, its kernels exit where they say; "
    "the toolkit that assembled it makes code for that GPU; its code is made of whole instructions; PTX is a module of "
    "text from its first directives to its end; what a library registers with CUDA's runtime is not all yet to be "
    "linked",
    leaves_open="that the instructions are the right ones; an `f` where no tool's command line is recorded; LTO IR and "
    "tile IR, which are not documented (nvcc scrambles the former), are taken by their label; PTX in a string of a "
    "program or of data counts for its target, and is not read to its end",
    in_the_wild="nvidia-cutlass-dsl-libs-base 4.8.1: a cubin for sm_107 that names CUDA 13.3, whose ptxas does not "
    "know sm_107 (an assembler of NVIDIA's own made it)",
    examine=_examine,
)
