#!/bin/bash
# SPDX-License-Identifier: MIT
# duckdb.sh: prints the path of DuckDB's library, for tests: a fixed version, by npm, as Debian has none.
# shellcheck source=scripts/cache.sh
. "$(dirname "$0")/cache.sh"

version=1.5.6-r.1
cached duckdb-$version npm_files @duckdb/node-bindings-linux-x64@$version libduckdb.so LICENSE
echo "$cache/duckdb-$version/libduckdb.so"
