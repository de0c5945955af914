#!/bin/bash
# SPDX-License-Identifier: MIT
# prometheus.sh: prints the folder that has Debian's prometheus and promtool, for tests. If they are not installed they
# are unpacked.
# shellcheck source=scripts/cache.sh
. "$(dirname "$0")/cache.sh"

if installed=$(command -v prometheus) && command -v promtool >/dev/null; then
	dirname "$installed"
	exit
fi
packages() { echo prometheus; }
cached prometheus debian_packages packages
echo "$cache/prometheus/usr/bin"
