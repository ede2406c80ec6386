# Sourced by the scripts beside it: one virtual environment with wheelsmith in it, made once.
# extra=NAME, set before, installs one of pyproject.toml's extras too: dash gives a sourced script no arguments.

set -eu
cd "$(dirname "$0")/.."

# bubblewrap isolates builds. It is one small package; without it, builds of your own kernels still run,
# unconfined and labelled so.
if ! command -v bwrap >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1; then
  if [ "$(id -u)" = 0 ]; then as_root=""; else as_root="sudo -n"; fi
  if [ -z "$as_root" ] || $as_root true 2>/dev/null; then
    echo "installing bubblewrap" >&2
    { $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends bubblewrap; } \
      >/dev/null </dev/null || true
  fi
  command -v bwrap >/dev/null 2>&1 || echo "warning: no bubblewrap: builds will not be isolated" >&2
fi

extra="${extra:-}"
wanted="$(cksum <pyproject.toml) $extra"
if [ "$(cat .venv/.wheelsmith 2>/dev/null)" != "$wanted" ]; then
  [ -x .venv/bin/python ] || python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".${extra:+[$extra]}"
  printf '%s' "$wanted" >.venv/.wheelsmith
fi
