#!/bin/bash
# SPDX-License-Identifier: MIT
# as-root.sh COMMAND...: runs it as root, by sudo if need be.
set -euo pipefail

if [ "$(id -u)" = 0 ]; then
	exec "$@"
elif command -v sudo >/dev/null; then
	echo "  (needs root: sudo $*)"
	exec sudo "$@"
fi
echo "recording needs root and there is no sudo: run this as root: $*" >&2
exit 3
