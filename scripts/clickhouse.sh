#!/bin/bash
# SPDX-License-Identifier: MIT
# clickhouse.sh: prints a program that runs Debian's clickhouse-server with the options that it gets, for tests. If that is not installed
# it and the libraries that are missing for it are unpacked.
# shellcheck source=scripts/cache.sh
. "$(dirname "$0")/cache.sh"

if command -v clickhouse-server; then exit; fi

# What an installation would bring.
packages() { apt-get -qq -s install --no-install-recommends clickhouse-server | sed -n 's/^Inst \([^ ]*\) .*/\1/p'; }

make_clickhouse() {
	debian_packages packages
	cat >made/clickhouse-server <<-'END'
		#!/bin/sh
		root=$(dirname "$(readlink -f "$0")")
		LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu exec "$root/usr/sbin/clickhouse-server" "$@"
	END
	chmod 755 made/clickhouse-server
}

cached clickhouse make_clickhouse
echo "$cache/clickhouse/clickhouse-server"
