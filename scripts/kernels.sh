#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A cache of Debian kernels, outside the tree and outside the system: nothing is installed.
#
#   kernels.sh fetch NAME...     make sure these kernels are in the cache
#   kernels.sh release NAME      print the release, e.g. 6.1.0-56-amd64
#   kernels.sh kdir NAME         print a KDIR: make -C KDIR M=... modules
#   kernels.sh image NAME        print the path of vmlinuz
#   kernels.sh modules NAME      print the path of lib/modules/RELEASE
#
# NAME is 6.1, 6.1-rt, 6.12, 6.12-rt (the newest release of that flavour at the time of the first
# fetch; delete the file "KERNELS/NAME.release" to look again), 6.1-debug, 6.12-debug (built by
# debug-kernel.sh beside this, 20 minutes once) or a full release. The last four fetch first where
# needed. Once a name is in the cache, neither apt nor a network is needed for it.
#
# Layout of KERNELS = ${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slotscope}/kernels:
#   NAME.release       the release that NAME stands for
#   RELEASE/           image, headers and kbuild packages unpacked over each other. It appears by
#                      one rename, so where it exists it is whole.
#   .lock              held (flock) while somebody resolves a name or unpacks

set -euo pipefail

die() { echo "kernels.sh: $*" >&2; exit 1; }

usage() {
	echo "usage: kernels.sh fetch NAME... | {release|kdir|image|modules} NAME"
	echo "NAME: 6.1, 6.12, 6.1-rt, 6.12-rt, 6.1-debug, 6.12-debug, or a full release such as 6.1.0-56-amd64"
}

bad_usage() { usage >&2; exit 2; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache_home=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}
kernels=${SLOTSCOPE_CACHE:-$cache_home/slotscope}/kernels

apt_options=(-qq -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)

is_release() { [[ $1 =~ ^[0-9]+\.[0-9]+\.[0-9]+.*-amd64$ ]]; }

# NAME -> "VERSION FLAVOUR", FLAVOUR being "" or "-rt"; fails when NAME is neither.
parse_name() {
	[[ $1 =~ ^([0-9]+\.[0-9]+)(-rt)?$ ]] || return 1
	version=${BASH_REMATCH[1]} flavour=${BASH_REMATCH[2]:-}
}

have_package() { apt-cache show --no-all-versions "$1" >/dev/null 2>&1; }

update_lists() {
	[ "$(id -u)" = 0 ] ||
		die "the apt package lists are missing or old; run: sudo apt-get update"
	apt-get "${apt_options[@]}" update >&2 ||
		die "apt-get update failed (see above); the kernel cache needs a Debian mirror once"
}

# Prints the newest release of a flavour: what the meta package depends on, or, where there is no
# such meta package (or it has moved on to another version), the highest name that fits.
newest_release() {
	local version=$1 flavour=$2 meta release
	for meta in "linux-image-$version$flavour-amd64" "linux-image$flavour-amd64"; do
		release=$(apt-cache depends --important "$meta" 2>/dev/null |
			sed -n "s/^ *Depends: linux-image-\($version\.[0-9].*-amd64\)\$/\1/p" | sort -V | tail -n 1)
		[ -z "$release" ] || { echo "$release"; return; }
	done
	apt-cache pkgnames "linux-image-$version." |
		sed -n "s/^linux-image-\(${version//./\\.}\.[0-9.]*[^-]*\(-[0-9]\+\)\?$flavour-amd64\)\$/\1/p" |
		sort -V | tail -n 1
}

# Prints the packages that together make a kernel one can boot and build modules for.
packages_of() {
	local release=$1
	echo "linux-image-$release"
	apt-cache depends "linux-image-$release" |
		sed -n 's/^ *Depends: \(linux-\(modules\|binary\)-.*\)$/\1/p'
	echo "linux-headers-$release"
	apt-cache depends "linux-headers-$release" |
		sed -n 's/^ *Depends: \(linux-\(headers\|kbuild\)-.*\)$/\1/p'
}

# download PACKAGE... into the current directory; old lists (a 404) are refreshed once.
download() {
	local log=apt.log
	apt-get "${apt_options[@]}" download "$@" >"$log" 2>&1 && return
	if [ "$(id -u)" = 0 ]; then
		update_lists
		apt-get "${apt_options[@]}" download "$@" >"$log" 2>&1 && return
	fi
	cat "$log" >&2
	die "cannot download $*; check the network, or run apt-get update and try again"
}

# The headers' Makefile includes the common one by an absolute path below /usr/src. Name it
# relative to the including file instead: the cache may then be moved.
fix_headers() {
	local makefile=$1/Makefile
	# shellcheck disable=SC2016 # the $ are make's
	sed -i 's#^include /usr/src/#include $(abspath $(dir $(lastword $(MAKEFILE_LIST))))/../#' "$makefile"
	! grep -q '^include /usr/' "$makefile" ||
		die "$makefile includes an absolute path; fix_headers in kernels.sh must learn this kernel"
	[ -x "$1/scripts/basic/fixdep" ] || [ -x "$1/scripts/mod/modpost" ] ||
		die "$1/scripts does not lead to the kbuild programs; packages_of in kernels.sh missed one"
}

# unpack RELEASE: download and unpack it into $kernels/RELEASE. The lock is held.
unpack() {
	local release=$1 package packages work
	have_package "linux-image-$release" || update_lists
	have_package "linux-image-$release" ||
		die "apt knows no package linux-image-$release; choose another name (apt-cache pkgnames linux-image-)"
	have_package "linux-headers-$release" ||
		die "apt knows no package linux-headers-$release; choose another release"
	mapfile -t packages < <(packages_of "$release")

	rm -rf "$kernels"/.unpack.*
	work=$(mktemp -d "$kernels/.unpack.XXXXXX")
	# shellcheck disable=SC2064 # expand now
	trap "rm -rf '$work'" EXIT
	[ ! -t 2 ] || echo "kernels.sh: fetching $release" >&2
	mkdir "$work/debs" "$work/root"
	(cd "$work/debs" && download "${packages[@]}")
	for package in "$work"/debs/*.deb; do
		dpkg-deb -x "$package" "$work/root" || die "cannot unpack $package (disk full?)"
	done
	chmod 755 "$work/root"
	if [ ! -e "$work/root/lib/modules" ] && [ -d "$work/root/usr/lib/modules" ]; then
		mkdir -p "$work/root/lib"
		ln -s ../usr/lib/modules "$work/root/lib/modules"
	fi
	[ -f "$work/root/boot/vmlinuz-$release" ] || die "linux-image-$release holds no /boot/vmlinuz-$release"
	[ -d "$work/root/lib/modules/$release" ] || die "linux-image-$release holds no /lib/modules/$release"
	fix_headers "$work/root/usr/src/linux-headers-$release"
	ln -sfn "../../../usr/src/linux-headers-$release" "$work/root/lib/modules/$release/build"
	if command -v depmod >/dev/null; then
		depmod -b "$work/root" "$release" || die "depmod failed for $release"
	fi
	mv -T "$work/root" "$kernels/$release"
	rm -rf "$work"
	trap - EXIT
}

# resolve NAME sets $release, and fetches it unless it is in the cache.
resolve() {
	local name=$1 record=$kernels/$1.release
	if [[ $name =~ ^([0-9]+\.[0-9]+)-debug$ ]]; then
		release=$("$here/debug-kernel.sh" "${BASH_REMATCH[1]}" "$kernels")
		return
	fi
	if is_release "$name"; then
		release=$name
	else
		parse_name "$name" || die "'$name' is not a kernel name; there are 6.1, 6.12, 6.1-rt, 6.12-rt, 6.1-debug, 6.12-debug and full releases"
		release=
		[ ! -s "$record" ] || release=$(<"$record")
	fi
	if [ -n "$release" ] && [ -d "$kernels/$release" ]; then
		return
	fi

	if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
		die "kernel $name is not in $kernels, and without apt-get and dpkg-deb it cannot be fetched"
	fi
	mkdir -p "$kernels"
	exec 9>"$kernels/.lock"
	flock 9
	if [ -z "$release" ] && [ -s "$record" ]; then
		release=$(<"$record")	# another process was faster
	fi
	if [ -z "$release" ]; then
		release=$(newest_release "$version" "$flavour")
		if [ -z "$release" ]; then
			update_lists
			release=$(newest_release "$version" "$flavour")
		fi
		[ -n "$release" ] ||
			die "apt offers no kernel for '$name'; add the suite that has it (bookworm and its updates have 6.1 and 6.12)"
	fi
	[ -d "$kernels/$release" ] || unpack "$release"
	if ! is_release "$name"; then
		echo "$release" >"$record.new"
		mv "$record.new" "$record"
	fi
	exec 9>&-
}

[ $# -ge 1 ] || bad_usage
command=$1
shift
case $command in
fetch) [ $# -ge 1 ] || bad_usage ;;
release | kdir | image | modules) [ $# = 1 ] || bad_usage ;;
-h | --help) usage; exit 0 ;;
*) bad_usage ;;
esac

for name in "$@"; do
	resolve "$name"
	case $command in
	release) echo "$release" ;;
	kdir) echo "$kernels/$release/usr/src/linux-headers-$release" ;;
	image) echo "$kernels/$release/boot/vmlinuz-$release" ;;
	modules) echo "$kernels/$release/lib/modules/$release" ;;
	esac
done
