#!/bin/bash
# SPDX-License-Identifier: MIT
# make-deb.sh BUILD: the Debian packages slotscope (the collector) and slotscope-dkms (the module's source, built by
# dkms on the machine that installs it) in BUILD/deb, by debian/rules in a copy of the tree; what BUILD has is
# not built again.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
version=$(sed -n 's/^#define SS_VERSION "\(.*\)"/\1/p' "$top/kmod/slotscope.h")

rm -rf "$build/deb"
mkdir -p "$build/deb/slotscope-$version/build"
cd "$top"
{
	git ls-files -z --cached --others --exclude-standard 2>/dev/null || find . -path ./build -prune -o -type f -print0
} | xargs -0 cp -a --parents -t "$build/deb/slotscope-$version"
cp -a "$build"/{bpf,obj,pch,report,ship,unity,libslotscope.a,slotscope} "$build/deb/slotscope-$version/build/"
cd "$build/deb/slotscope-$version"
if ! dpkg-buildpackage --no-sign --build=binary >../build.log 2>&1; then
	tail -n 30 ../build.log >&2
	echo "make-deb: dpkg-buildpackage failed; its whole output is in $build/deb/build.log" >&2
	exit 1
fi
cd ..
rm -rf "slotscope-$version"
printf '  DEB    %s\n' "${build#"$top"/}"/deb/*.deb
