#!/bin/bash
# SPDX-License-Identifier: MIT
#
# build.sh: prints the path of a QEMU whose CPU has RDT monitoring (see README.md). Builds it from Debian's
# source package if it is not in the cache: 2 to 4 minutes, 400 MB of disk meanwhile, 12 MB afterwards.
# build.sh --cached: only if it is in the cache; else exit 69.
#
# Cache: ${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slotscope}/qemu-rdt/DIGEST, outside the tree; the
# digest is that of the patch, of this script and of the package's version.
set -euo pipefail

readonly EXIT_MISSING=69
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache_home=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}
cache=${SLOTSCOPE_CACHE:-$cache_home/slotscope}/qemu-rdt

die() { echo "build.sh: $*" >&2; exit 1; }

# What apt is to be asked about sources: the machine's own Debian mirrors, in lists of our own.
make_apt() {
	local list=$work/apt/sources.list
	mkdir -p "$work/apt/lists/partial" "$work/apt/parts"
	# shellcheck disable=SC2016 # the $() are apt's
	apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		sed -n 's/^Debian /deb-src /p' | sort -u >"$list"
	[ -s "$list" ] || die "apt knows no Debian mirror; add one to /etc/apt/sources.list"
	apt=(-qq -o "Dir::Etc::sourcelist=$list" -o "Dir::Etc::sourceparts=$work/apt/parts"
		-o "Dir::State::lists=$work/apt/lists" -o APT::Sandbox::User=root)
}

fetch_source() {
	make_apt
	apt-get "${apt[@]}" update >&2 || die "apt-get update failed (see above); the source of QEMU is needed once"
	(cd "$work" && apt-get "${apt[@]}" source --only-source "qemu=$version") >&2 ||
		die "cannot fetch the source of qemu $version (see above)"
	source=$(find "$work" -mindepth 1 -maxdepth 1 -type d -name 'qemu-*')
	patch -d "$source" -p1 --quiet <"$here/monitoring.patch" ||
		die "monitoring.patch does not fit the source of qemu $version"
}

build() {
	local jobs
	jobs=$(nproc)
	mkdir "$source/b"
	cd "$source/b"
	# Debian's own python3 and meson: another python3 may come first in PATH and lack the modules.
	PATH=/usr/sbin:/usr/bin:/sbin:/bin ../configure --meson=/usr/bin/meson --ninja=/usr/bin/ninja \
		--target-list=x86_64-softmmu --without-default-features --without-default-devices \
		--with-devices-x86_64=rdt --with-git-submodules=ignore \
		--enable-tcg --disable-kvm --enable-virtfs --enable-attr --enable-cap-ng --enable-fdt=system \
		--disable-docs --disable-tools --disable-guest-agent --disable-werror --disable-debug-info \
		--prefix=/usr/local --firmwarepath=/usr/share/qemu:/usr/share/seabios:/usr/lib/ipxe/qemu
	PATH=/usr/sbin:/usr/bin:/sbin:/bin nice ninja -j"$jobs" qemu-system-x86_64
}

# The version that this release of Debian has, whatever is installed.
version=$(apt-cache madison qemu-system-x86 | sed -n '1s/^[^|]*| *\([^ ]*\) *|.*/\1/p')
version=${version%+b[0-9]*}	# a rebuild has the same source
[ -n "$version" ] || die "apt knows no package qemu-system-x86; run apt-get update"
digest=$(cat "$here/monitoring.patch" "$here/build.sh" <(echo "$version") | sha256sum | cut -c1-16)
binary=$cache/$digest/qemu-system-x86_64
if [ ! -x "$binary" ]; then
	[ "${1:-}" != --cached ] || exit $EXIT_MISSING
	"$here/../../../scripts/deps.sh" qemu-rdt >&2
	mkdir -p "$cache"
	exec 9>"$cache/.lock"
	flock 9
	if [ ! -x "$binary" ]; then
		work=$(mktemp -d "$cache/.build.XXXXXX")
		trap 'rm -rf "$work"' EXIT
		fetch_source
		echo "build.sh: building QEMU $version with RDT monitoring" >&2
		build >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; die "the build failed (see above)"; }
		mkdir -p "$cache/$digest"
		cp "$source/b/qemu-system-x86_64" "$cache/$digest/.new"
		mv "$cache/$digest/.new" "$binary"
		find "$cache" -mindepth 1 -maxdepth 1 -type d -name '[0-9a-f]*' ! -name "$digest" -exec rm -rf {} +
	fi
fi
echo "$binary"
