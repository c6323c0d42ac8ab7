#!/bin/sh
# Make sure that there is a Chromium, by the system's packages where that needs no question. Its headless shell, which
# `chromium.sh chromium-headless-shell` insists on, takes a quarter less of the processor.
set -eu

names=${*:-chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable}

found() {
  for name in $names; do
    command -v "$name" >/dev/null && return 0
  done
  return 1
}

found && exit 0

if ! command -v apt-get >/dev/null; then
  echo 'make e2e needs Chromium or Google Chrome on the PATH, and there is no apt-get to fetch it with: install one.' >&2
  exit 1
fi
if [ "$(id -u)" = 0 ]; then
  as_root=
elif sudo -n true 2>/dev/null; then
  as_root='sudo -n'
else
  echo 'make e2e needs Chromium, and this user may not install it: ask for «apt-get install chromium».' >&2
  exit 1
fi
echo 'Installing Chromium'
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$1"
}
if ! { $as_root apt-get update && { install chromium-headless-shell || install chromium; }; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo 'apt-get could not install Chromium, see above: install it, or Google Chrome, by hand.' >&2
  exit 1
fi
found || { echo 'apt-get installed no Chromium that can be started: install Google Chrome by hand.' >&2; exit 1; }
