#!/bin/bash
# SPDX-License-Identifier: MIT
# make-deb.sh OUT: two Debian packages in OUT, from what is built already: slotscope (the collector) and
# slotscope-dkms (the module's source, built by dkms for each kernel on the machine that installs it).
set -euo pipefail

out=$1
top=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^#define SS_VERSION "\(.*\)"/\1/p' "$top/kmod/slotscope.h")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# control NAME ARCHITECTURE DEPENDS DESCRIPTION
control() {
	mkdir -p "$work/$1/DEBIAN" "$work/$1/usr/share/doc/$1"
	cp "$top/LICENSE" "$work/$1/usr/share/doc/$1/copyright"
	cat >"$work/$1/DEBIAN/control" <<CONTROL
Package: $1
Version: $version
Architecture: $2
Maintainer: The slotscope authors <slotscope@localhost>
Section: admin
Priority: optional
Depends: $3
Description: $4
CONTROL
}

build() {
	chmod -R u=rwX,go=rX "$work/$1"
	dpkg-deb --root-owner-group --build "$work/$1" "$out/${1}_${version}_$2.deb" >/dev/null
	echo "  DEB    $out/${1}_${version}_$2.deb"
}

mkdir -p "$out"
architecture=$(dpkg --print-architecture)
depends=$(cd "$work" && mkdir debian && touch debian/control &&
	dpkg-shlibdeps -O "$top/build/slotscope" 2>/dev/null | sed -n 's/^shlibs:Depends=//p') || depends=""
[ -n "$depends" ] || depends="libbpf1, libfmt9, libboost-program-options1.74.0, libstdc++6, libc6"
control slotscope "$architecture" "$depends" "a row per process per millisecond: CPU, counters, who got in the way"
install -D -m 755 "$top/build/slotscope" "$work/slotscope/usr/bin/slotscope"
install -D -m 644 "$top/README.md" "$work/slotscope/usr/share/doc/slotscope/README.md"
strip "$work/slotscope/usr/bin/slotscope"
build slotscope "$architecture"

control slotscope-dkms all "dkms" "kernel module of slotscope, as source for dkms"
source=$work/slotscope-dkms/usr/src/slotscope-$version
mkdir -p "$source/include"
cp "$top/dkms.conf" "$source/"
cp -r "$top/kmod" "$source/"
cp -r "$top/include/slotscope" "$source/include/"
# What dh_dkms writes: dkms does the rest, also for kernels that are installed later.
cat >"$work/slotscope-dkms/DEBIAN/postinst" <<POSTINST
#!/bin/sh
set -e
if [ "\$1" = configure ]; then
	/usr/lib/dkms/common.postinst slotscope "$version" /usr/share/slotscope-dkms "" "\$2"
fi
POSTINST
cat >"$work/slotscope-dkms/DEBIAN/prerm" <<PRERM
#!/bin/sh
set -e
if [ "\$1" = remove ] || [ "\$1" = upgrade ]; then
	dkms remove -m slotscope -v "$version" --all || true
fi
PRERM
chmod 755 "$work/slotscope-dkms/DEBIAN/postinst" "$work/slotscope-dkms/DEBIAN/prerm"
build slotscope-dkms all
