# Functions for the other scripts, which run in the root of a checkout: the virtual environment .venv and Debian packages.

# Install wheelsmith with these extras of pyproject.toml, if needed: environment EXTRA,...
environment() {
  wanted="$(cat pyproject.toml scripts/constraints.txt | cksum) $1"
  # More extras are fine: scripts/build after scripts/test installs nothing.
  case "$(cat .venv/.wheelsmith 2>/dev/null)" in "$wanted"*) return ;; esac
  [ -x .venv/bin/python ] || python3 -m venv .venv
  project=".${1:+[$1]}"
  # uv fetches packages in parallel, which saves most of the time of a first run. If it fails, pip installs them without
  # constraints, since an index may lack the constrained versions.
  _pip install uv 2>/dev/null &&
    _uv install --quiet --python .venv/bin/python --constraints scripts/constraints.txt --editable "$project" ||
    _pip install --editable "$project"
  printf '%s' "$wanted" >.venv/.wheelsmith
}

_pip() { .venv/bin/python -m pip --quiet --disable-pip-version-check "$@"; }

# Run uv's pip with pip's settings, which uv does not read: _uv VERB ARGUMENT...
_uv() {
  verb="$1" && shift
  _setting() { .venv/bin/python -m pip config get "global.$1" 2>/dev/null | tr ' ' '\n' || :; }
  index="${PIP_INDEX_URL:-$(_setting index-url)}"
  indexes="${PIP_EXTRA_INDEX_URL:-$(_setting extra-index-url)}"
  find_links="${PIP_FIND_LINKS:-$(_setting find-links)}"
  SSL_CERT_FILE="${SSL_CERT_FILE:-${PIP_CERT:-$(_setting cert)}}"
  [ -z "$SSL_CERT_FILE" ] || export SSL_CERT_FILE
  # shellcheck disable=SC2046 # several words
  .venv/bin/uv pip "$verb" --no-config --index-strategy unsafe-best-match \
    ${index:+--default-index "$index"} $(printf ' --index %s' $indexes | sed 's/ --index $//') \
    $(printf ' --find-links %s' $find_links | sed 's/ --find-links $//') "$@"
}

# Install the packages in packages.txt for the named scripts: debian_packages build
debian_packages() {
  missing=""
  for package in $(for script; do sed -n "s/^$script  *\([^ ]*\).*/\1/p" scripts/packages.txt; done); do
    # Some packages of nodejs contain npm and conflict with Debian's package npm.
    [ "$package" = npm ] && command -v npm >/dev/null 2>&1 && continue
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
  done
  [ -n "$missing" ] && command -v apt-get >/dev/null 2>&1 || return 0
  if [ "$(id -u)" = 0 ]; then as_root=""; else as_root="sudo -n"; fi
  if [ -z "$as_root" ] || $as_root true 2>/dev/null; then
    echo "installing$missing" >&2
    # shellcheck disable=SC2086 # several packages
    { $as_root apt-get update -qq &&
      $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } \
      >/dev/null </dev/null || true
  fi
}
