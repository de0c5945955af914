#!/bin/bash
# SPDX-License-Identifier: MIT
# build-kmod.sh KDIR OUT [ROOT [VARIABLE=VALUE...]]: builds the module against the kernel build tree KDIR in a copy under OUT, so
# that nothing is left beside the sources; the result is OUT/slotscope.ko. A warning is an error. With ROOT,
# a root that scripts/kernels.sh has made, its compiler and libraries are used. The variables are make's.
set -euo pipefail

kdir=$1
out=$2
root=${3:-}
shift $(($# < 3 ? $# : 3))
top=$(cd "$(dirname "$0")/.." && pwd)

if [ ! -e "$kdir/Makefile" ]; then
	echo "build-kmod: no kernel build tree at $kdir: install the headers of that kernel (Debian: linux-headers-\$(uname -r)), or give KDIR=..." >&2
	exit 1
fi
mkdir -p "$out/src"
rm -rf "$out/src/kmod" "$out/src/include"
cp -a "$top/kmod" "$top/include" "$out/src/"
log=$out/build.log
src=$(cd "$out/src" && pwd)

build() {
	if [ -z "$root" ]; then
		make -C "$kdir" M="$src/kmod" W=1 KCFLAGS=-Werror "$@" modules
		return
	fi
	# Mounts that end with this process, seen by nobody else.
	# shellcheck disable=SC2016 # for the inner shell
	unshare --mount --propagation private sh -euc '
		mount -t proc proc "$1/proc"
		mount --bind "$3" "$1/module"
		mount --bind "$2/usr/src" "$1/usr/src"
		for kbuild in "$2"/usr/lib/linux-kbuild-*; do
			mkdir -p "$1/usr/lib/${kbuild##*/}"
			mount --bind "$kbuild" "$1/usr/lib/${kbuild##*/}"
		done
		root=$1 kdir=/usr/src/$4
		shift 4
		exec chroot "$root" make -C "$kdir" M=/module/kmod W=1 KCFLAGS=-Werror "$@" modules
	' sh "$root" "${kdir%/usr/src/*}" "$src" "${kdir##*/}" "$@"
}

if ! build "$@" >"$log" 2>&1; then
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
