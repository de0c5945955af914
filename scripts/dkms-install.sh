#!/bin/bash
# SPDX-License-Identifier: MIT
# dkms-install.sh SRC VERSION [KVER]: copies what the module needs to SRC (/usr/src/slotscope-VERSION) and
# has dkms add, build and install it for kernel KVER (default: the running one).
set -euo pipefail

src=$1
version=$2
kver=${3:-$(uname -r)}
top=$(cd "$(dirname "$0")/.." && pwd)

if [ "$(id -u)" != 0 ]; then
	echo "dkms-install: needs root: run it with sudo" >&2
	exit 3
fi
if ! command -v dkms >/dev/null; then
	echo "dkms-install: dkms is not installed: apt-get install dkms" >&2
	exit 1
fi
if [ ! -e "/lib/modules/$kver/build" ]; then
	echo "dkms-install: there are no headers of kernel $kver: install linux-headers-$kver, or give KVER=... (have:$(printf ' %s' /lib/modules/*/build))" >&2
	exit 1
fi
if ! grep -qx "PACKAGE_VERSION=\"$version\"" "$top/dkms.conf"; then
	echo "dkms-install: dkms.conf is not of version $version" >&2
	exit 1
fi
if dkms status -m slotscope -v "$version" 2>/dev/null | grep -q .; then
	dkms remove -m slotscope -v "$version" --all >/dev/null
fi
rm -rf "$src"
mkdir -p "$src/include"
cp "$top/dkms.conf" "$src/"
cp -r "$top/kmod" "$src/"
cp -r "$top/include/slotscope" "$src/include/"
dkms add -m slotscope -v "$version"
dkms build -m slotscope -v "$version" -k "$kver"
dkms install -m slotscope -v "$version" -k "$kver"
