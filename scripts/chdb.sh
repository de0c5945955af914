#!/bin/bash
# SPDX-License-Identifier: MIT
# chdb.sh: prints the path of chDB's library, for tests: today's ClickHouse as a library, as Debian's is of 2018. A fixed version, by npm
# (178 MB).
# shellcheck source=scripts/cache.sh
. "$(dirname "$0")/cache.sh"

version=26.7.3-stable.1
cached chdb-$version npm_files @chdb/lib-linux-x64-gnu@$version libchdb.so
echo "$cache/chdb-$version/libchdb.so"
