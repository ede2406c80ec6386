"""The cells of the benchmark: every torch release for CUDA 13 with every toolkit, in a balanced order."""

from __future__ import annotations

from dataclasses import dataclass

TORCH = ("2.13", "2.15", "2.11", "2.14", "2.12")
CUDA = ("13.0", "13.2", "13.3", "13.1", "13.5")
CAPABILITIES = ("8.0", "9.0+PTX")
# Number of torch releases and of toolkits; each grid contains the previous one.
_GRIDS = ((2, 1), (3, 2), (4, 3), (5, 5))
SIZES = (2, 6, 12, 24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A torch release and a CUDA toolkit, both as ``major.minor``."""

    torch: str
    cuda: str

    @property
    def id(self) -> str:
        """Return an id such as ``torch213-cu130``."""
        return f"torch{self.torch}-cu{self.cuda}".replace(".", "")


def first_cells(count: int) -> tuple[Cell, ...]:
    """Return the first cells. The first 2, 6 and 12 cells are complete grids.

    :param count: 1 to 25.
    """
    grids = (
        Cell(torch=torch, cuda=cuda) for rows, columns in _GRIDS for torch in TORCH[:rows] for cuda in CUDA[:columns]
    )
    return tuple(dict.fromkeys(grids))[:count]


def by_torch(cells: tuple[Cell, ...]) -> dict[str, tuple[Cell, ...]]:
    """Group cells by torch release, in the order of the first cell of each group."""
    return {
        torch: tuple(cell for cell in cells if cell.torch == torch) for torch in dict.fromkeys(c.torch for c in cells)
    }


def matrix_yaml(cells: tuple[Cell, ...]) -> str:
    """Return a matrix.yaml with exactly these cells for the kernel in the folder ``kernel``."""
    torches, cudas = dict.fromkeys(cell.torch for cell in cells), dict.fromkeys(cell.cuda for cell in cells)
    lines = [
        "kernel: {path: kernel}",
        f"axes: {{torch: [{', '.join(torches)}], cuda: [{', '.join(cudas)}]}}",
        "cuda-compatibility: minor",
        f"gpu-archs: [{', '.join(CAPABILITIES)}]",
    ]
    others = [(torch, cuda) for torch in torches for cuda in cudas if Cell(torch=torch, cuda=cuda) not in cells]
    lines += ["rules:"] if others else []
    lines += [
        f'  - {{exclude: {{torch: "{torch}", cuda: "{cuda}"}}, reason: not of this benchmark}}'
        for torch, cuda in others
    ]
    return "\n".join(lines) + "\n"
