#!/bin/bash
# SPDX-License-Identifier: MIT
# build-kmod.sh KDIR OUT: builds the module against the kernel build tree KDIR in a copy under OUT, so
# that nothing is left beside the sources; the result is OUT/slotscope.ko. A warning is an error.
set -euo pipefail

kdir=$1
out=$2
top=$(cd "$(dirname "$0")/.." && pwd)

if [ ! -e "$kdir/Makefile" ]; then
	echo "build-kmod: no kernel build tree at $kdir: install the headers of that kernel (Debian: linux-headers-\$(uname -r)), or give KDIR=..." >&2
	exit 1
fi
mkdir -p "$out/src"
rm -rf "$out/src/kmod" "$out/src/include"
cp -a "$top/kmod" "$top/include" "$out/src/"
log=$out/build.log
if ! make -C "$kdir" M="$(cd "$out/src/kmod" && pwd)" W=1 KCFLAGS=-Werror modules >"$log" 2>&1; then
	grep -E 'error|warning|Error' "$log" >&2 || tail -n 20 "$log" >&2
	echo "build-kmod: the module does not build against $kdir; the whole output is in $log" >&2
	exit 1
fi
if grep -q 'WARNING' "$log"; then
	grep 'WARNING' "$log" >&2
	echo "build-kmod: modpost warns; the whole output is in $log" >&2
	exit 1
fi
cp "$out/src/kmod/slotscope.ko" "$out/slotscope.ko"
