# Sourced by the scripts beside it: one virtual environment with wheelsmith in it, made once.
# extra=NAME and packages="...", set before, add one of pyproject.toml's extras and packages of Debian: dash gives a
# sourced script no arguments.

set -eu
cd "$(dirname "$0")/.."

# bubblewrap isolates builds. It is one small package; without any engine, builds of your own kernels still run,
# unconfined and labelled so.
missing=""
for package in bubblewrap ${packages:-}; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
if [ -n "$missing" ] && command -v apt-get >/dev/null 2>&1; then
  if [ "$(id -u)" = 0 ]; then as_root=""; else as_root="sudo -n"; fi
  if [ -z "$as_root" ] || $as_root true 2>/dev/null; then
    echo "installing$missing" >&2
    # shellcheck disable=SC2086 # several packages
    { $as_root apt-get update -qq &&
      $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } \
      >/dev/null </dev/null || true
  fi
fi

extra="${extra:-}"
wanted="$(cksum <pyproject.toml) $extra"
if [ "$(cat .venv/.wheelsmith 2>/dev/null)" != "$wanted" ]; then
  [ -x .venv/bin/python ] || python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".${extra:+[$extra]}"
  printf '%s' "$wanted" >.venv/.wheelsmith
fi
