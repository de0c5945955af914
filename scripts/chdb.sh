#!/bin/bash
# SPDX-License-Identifier: MIT
# chdb.sh: prints the path of chDB's library, for tests: today's ClickHouse as a library, a fixed version, fetched once by npm (178 MB),
# as Debian's ClickHouse is of 2018.
#
# Layout: ${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slotscope}/chdb-VERSION/ is the package, unpacked.
set -euo pipefail

version=26.7.3-stable.1
package=@chdb/lib-linux-x64-gnu

die() { echo "chdb.sh: $*" >&2; exit 1; }

cache=${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/slotscope}
folder=$cache/chdb-$version
if [ ! -d "$folder" ]; then
	command -v npm >/dev/null || die "npm is not installed: install it, or put the library into $folder/libchdb.so"
	mkdir -p "$cache"
	new=$(mktemp -d "$cache/chdb.XXXXXX")
	trap 'rm -rf "$new"' EXIT
	cd "$new"
	npm pack --silent "$package@$version" >/dev/null || die "npm could not fetch $package@$version"
	tar xzf ./*.tgz package/libchdb.so
	chmod 755 package
	# It appears by one rename, so where it exists it is whole; another one may have been faster.
	mv -T package "$folder" 2>/dev/null || [ -d "$folder" ] || die "cannot write to $cache"
fi
echo "$folder/libchdb.so"
