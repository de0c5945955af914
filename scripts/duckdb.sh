#!/bin/bash
# SPDX-License-Identifier: MIT
# duckdb.sh: prints the path of DuckDB's library, for tests: a fixed version, fetched once by npm, as Debian has none.
#
# Layout: ${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slotscope}/duckdb-VERSION/ is the package, unpacked.
set -euo pipefail

version=1.5.6-r.1
package=@duckdb/node-bindings-linux-x64

die() { echo "duckdb.sh: $*" >&2; exit 1; }

cache=${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/slotscope}
folder=$cache/duckdb-$version
if [ ! -d "$folder" ]; then
	command -v npm >/dev/null || die "npm is not installed: install it, or put the library into $folder/libduckdb.so"
	mkdir -p "$cache"
	new=$(mktemp -d "$cache/duckdb.XXXXXX")
	trap 'rm -rf "$new"' EXIT
	cd "$new"
	npm pack --silent "$package@$version" >/dev/null || die "npm could not fetch $package@$version"
	tar xzf ./*.tgz package/libduckdb.so package/LICENSE
	chmod 755 package
	# It appears by one rename, so where it exists it is whole; another one may have been faster.
	mv -T package "$folder" 2>/dev/null || [ -d "$folder" ] || die "cannot write to $cache"
fi
echo "$folder/libduckdb.so"
