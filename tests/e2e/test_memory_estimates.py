"""What needs more memory than was guessed is compiled again with more, and what is like it is then guessed right."""

import pytest
from factory import Factory
from kernels import BUILD_TOML, matrix, tiny_kernel

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.release("five compilations of some seconds each"),
]
# Hundreds of megabytes for g++, of a source of 400 bytes.
HEAVY = """\
struct table {{ int values[1000][1000]; }};
template <int number> constexpr table made() {{
  table t{{}};
  for (int n = 0; n < 1000; n++) for (int m = 0; m < 1000; m++) t.values[n][m] = (n + m) % number;
  return t;
}}
constexpr table kept[] = {{made<2>(), made<3>(), made<4>(), made<{number}>()}};
int answer_{number}(int n) {{ return kept[n % 4].values[n][n]; }}
"""


def test_only_the_first_of_a_kernels_sources_is_guessed_wrong(tmp_path):
    factory = Factory.at(tmp_path)
    sources = {f"heavy_{number}.cpp": HEAVY.format(number=number) for number in range(5, 9)}
    listed = ", ".join(f'"{name}"' for name in ("tiny.cpp", *sources))
    toml = BUILD_TOML.replace('["tiny.cpp"]', f"[{listed}]").replace('"cpu", "cuda"', '"cpu"')
    tiny_kernel(tmp_path / "k", **sources, **{"build.toml": toml})
    matrix(tmp_path, "k")
    answer = factory.run("build-matrix", "--engine", "bwrap", "--jobs", "1")
    assert answer.returncode == 0, answer.stderr
    (log,) = (tmp_path / "dist" / "logs").glob("*.log")
    begun = [line for line in log.read_text().splitlines() if line.startswith("── heavy_") and line.endswith(": g++")]
    assert len(begun) == len(sources) + 1
