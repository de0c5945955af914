#!/bin/bash
# SPDX-License-Identifier: MIT
# prometheus.sh: prints the folder that has Debian's prometheus and promtool, for tests. If they are not installed they
# are fetched once into the cache: to install the package would start a service that listens on all addresses.
#
# Layout: ${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slotscope}/prometheus/ is the package, unpacked.
set -euo pipefail

die() { echo "prometheus.sh: $*" >&2; exit 1; }

if installed=$(command -v prometheus) && command -v promtool >/dev/null; then
	dirname "$installed"
	exit
fi
cache=${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/slotscope}
if [ ! -d "$cache/prometheus" ]; then
	command -v dpkg-deb >/dev/null || die "this is no Debian system; install Prometheus"
	mkdir -p "$cache"
	new=$(mktemp -d "$cache/prometheus.XXXXXX")
	trap 'rm -rf "$new"' EXIT
	cd "$new"
	apt=(apt-get -qq -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
	if ! "${apt[@]}" download prometheus >&2; then
		[ "$(id -u)" = 0 ] || die "the apt package lists are missing or old; run: sudo apt-get update"
		if ! { "${apt[@]}" update && "${apt[@]}" download prometheus; } >&2; then
			die "apt-get could not fetch prometheus"
		fi
	fi
	dpkg-deb -x prometheus_*.deb unpacked
	chmod 755 unpacked
	# It appears by one rename, so where it exists it is whole; another one may have been faster.
	mv -T unpacked "$cache/prometheus" 2>/dev/null || [ -d "$cache/prometheus" ] || die "cannot write to $cache"
fi
echo "$cache/prometheus/usr/bin"
