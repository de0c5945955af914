#!/bin/bash
# SPDX-License-Identifier: MIT
# clickhouse.sh: prints a program that runs Debian's clickhouse-server with the options that it gets, for tests. If that is not installed
# it and the libraries that are missing for it are fetched once into the cache: to install the package would start a service.
#
# Layout: ${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slotscope}/clickhouse/ has the packages, unpacked, and clickhouse-server.
set -euo pipefail

die() { echo "clickhouse.sh: $*" >&2; exit 1; }

if command -v clickhouse-server; then exit; fi
cache=${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/slotscope}
if [ ! -d "$cache/clickhouse" ]; then
	command -v dpkg-deb >/dev/null || die "this is no Debian system; install ClickHouse"
	mkdir -p "$cache"
	new=$(mktemp -d "$cache/clickhouse.XXXXXX")
	trap 'rm -rf "$new"' EXIT
	cd "$new"
	apt=(apt-get -qq -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
	# What an installation would bring.
	fetch() {
		mapfile -t packages < <("${apt[@]}" -s install --no-install-recommends clickhouse-server | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
		[ ${#packages[@]} -gt 0 ] && "${apt[@]}" download "${packages[@]}" >&2
	}
	if ! fetch; then
		[ "$(id -u)" = 0 ] || die "the apt package lists are missing or old; run: sudo apt-get update"
		{ "${apt[@]}" update && fetch; } >&2 || die "apt-get could not fetch clickhouse-server"
	fi
	for package in *.deb; do dpkg-deb -x "$package" unpacked; done
	cat >unpacked/clickhouse-server <<-'END'
		#!/bin/sh
		root=$(dirname "$(readlink -f "$0")")
		LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu exec "$root/usr/sbin/clickhouse-server" "$@"
	END
	chmod 755 unpacked unpacked/clickhouse-server
	# It appears by one rename, so where it exists it is whole; another one may have been faster.
	mv -T unpacked "$cache/clickhouse" 2>/dev/null || [ -d "$cache/clickhouse" ] || die "cannot write to $cache"
fi
echo "$cache/clickhouse/clickhouse-server"
