#!/bin/bash
# SPDX-License-Identifier: MIT
# dkms.sh: from the source tree that `make dkms-install` lays out, dkms adds, builds and installs the
# module for an installed kernel; the module that it installed is loaded in a guest of that kernel; dkms
# removes it without a trace. Exit code 77: cannot run here.
set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top"
version=$(sed -n 's/^#define SS_VERSION "\(.*\)"/\1/p' kmod/slotscope.h)

if [ "$(id -u)" != 0 ] || ! command -v dkms >/dev/null; then
	echo "SKIP: dkms is not installed, or this is not root"
	exit 77
fi
kver=""
for build in /lib/modules/6.*-amd64/build; do # the newest comes last
	[ -e "$build/Makefile" ] && kver=$(basename "$(dirname "$build")")
done
if [ -z "$kver" ]; then
	echo "SKIP: no headers of a Debian kernel are installed (linux-headers-amd64)"
	exit 77
fi
# Somebody's real installation is not ours to remove.
if dkms status -m slotscope 2>/dev/null | grep -q .; then
	echo "SKIP: slotscope is installed with dkms here"
	exit 77
fi

cleanup() {
	dkms remove -m slotscope -v "$version" --all >/dev/null 2>&1 || true
	rm -rf "/usr/src/slotscope-$version"
}
trap cleanup EXIT

make dkms-install KVER="$kver"
dkms status -m slotscope -v "$version" -k "$kver" | grep -q installed
module=$(find "/lib/modules/$kver/updates/dkms" -name 'slotscope.ko*')
[ -n "$module" ]
modinfo -F version "$module" | grep -qx "$version"
work=$(mktemp -d)
case $module in
*.xz) xz -dc "$module" >"$work/slotscope.ko" ;;
*) cp "$module" "$work/slotscope.ko" ;;
esac
tests/vm/guest.sh --quiet --in "$work/slotscope.ko" --in build/slotscope "$kver" -- sh -c '
	insmod slotscope.ko && ./slotscope record --source kmod --duration 1 --strict && rmmod slotscope'
rm -rf "$work"
dkms remove -m slotscope -v "$version" --all
[ ! -e "$module" ]
