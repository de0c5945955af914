#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A cache of Debian kernels, outside the tree and outside the system: nothing is installed.
#
#   kernels.sh fetch NAME...     make sure these kernels are in the cache
#   kernels.sh release NAME      print the release, e.g. 6.1.0-56-amd64
#   kernels.sh kdir NAME         print a KDIR: make -C KDIR M=... modules
#   kernels.sh root NAME         print the root in which that make runs; nothing: this system
#   kernels.sh image NAME        print the path of vmlinuz
#   kernels.sh modules NAME      print the path of lib/modules/RELEASE
#   kernels.sh matrix            print the names on which the project is tested, one per line
#   kernels.sh qemu              print the path of an emulator for them, Debian 13's
#
# NAME is a series such as 6.1 or 7.3, with -rt for PREEMPT_RT: its newest release at the time of the
# first fetch (delete the file "KERNELS/NAME.release" to look again). It is taken from this machine's
# Debian 12 or, if that does not have it, from Debian 13 and its backports; 6.12-deb13 is Debian 13's
# where both have it. "newest" is the newest of all. 6.1-debug, 6.12-debug and 6.12-unsafe are built by
# source-kernel.sh beside this (20 minutes once); a full release such as 6.1.0-56-amd64 works, too. All but
# matrix fetch first where needed (for qemu: root). Once a name is in the cache, neither apt nor a network is needed for it.
#
# Exit codes: 1 failed, 2 usage, 66 Debian does not serve this kernel, or no headers of it.
#
# Layout of KERNELS = ${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slotscope}/kernels:
#   NAME.release       the release that NAME stands for
#   RELEASE/           image, headers and kbuild packages unpacked over each other. It appears by
#                      one rename, so where it exists it is whole.
#   debian13-DIGEST/   a root of Debian 13, with the compiler that headers of its kernels require; another with QEMU
#   debian13.apt/      what apt knows of Debian 13
#   .lock              held (flock) while somebody resolves a name or unpacks

set -euo pipefail

die() { echo "kernels.sh: $*" >&2; exit 1; }

usage() {
	echo "usage: kernels.sh fetch NAME... | {release|kdir|root|image|modules} NAME | matrix | qemu"
	echo "NAME: a series (6.1, 6.12-rt, 6.12-deb13, 7.3, newest), 6.1-debug, 6.12-debug, 6.12-unsafe, or a full release such as 6.1.0-56-amd64"
}

bad_usage() { usage >&2; exit 2; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache_home=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}
kernels=${SLOTSCOPE_CACHE:-$cache_home/slotscope}/kernels

readonly EXIT_NOT_SERVED=66
# The series that users run, in the order of their age.
readonly series=(6.1 6.12 6.12-deb13 6.16 6.17 6.18 6.19 7.0 7.1 7.2 7.3)
readonly series_with_rt=(6.1 6.12 6.12-deb13 7.2 7.3) # of those that have headers

apt_options=(-qq -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)

not_served() { echo "kernels.sh: $*" >&2; exit $EXIT_NOT_SERVED; }

is_release() { [[ $1 =~ ^[0-9]+\.[0-9]+\.[0-9]+.*-amd64$ ]]; }

# NAME -> version, debian (12 or 13; empty: where it is found) and flavour ("" or "-rt"). "newest" has no version.
parse_name() {
	[[ $1 =~ ^([0-9]+\.[0-9]+|newest)(-deb13)?(-rt)?$ ]] || return 1
	version=${BASH_REMATCH[1]} debian=${BASH_REMATCH[2]:+13} flavour=${BASH_REMATCH[3]:-}
	[ "$version" != newest ] || { version='' debian=13; }
}

# ---- What apt knows: of this machine's Debian 12, or of Debian 13 in lists of our own.

# use_debian 12|13: whom the functions below ask.
use_debian() {
	local state=$kernels/debian13.apt
	debian=$1 apt=("${apt_options[@]}")
	[ "$debian" = 13 ] || return 0
	apt+=(-o "Dir::State::Lists=$state/lists" -o "Dir::Cache=$state/cache"
		-o "Dir::Etc::sourcelist=$state/sources.list" -o "Dir::Etc::sourceparts=$state/parts")
	[ ! -s "$state/sources.list" ] || return 0
	mkdir -p "$state"/{lists,cache,parts}
	write_sources >"$state/sources.list.new"
	mv "$state/sources.list.new" "$state/sources.list"
}

# Debian 13 at the mirrors that this machine has for Debian 12.
write_sources() {
	# shellcheck disable=SC2016 # the $() are apt's
	apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE)' 'Created-By: Packages' | sort -u |
		sed -n -e 's#^Debian \([^ ]*\) bookworm$#\1 trixie\n\1 trixie-updates\n\1 trixie-backports#p' \
			-e 's#^Debian \([^ ]*\) bookworm-security$#\1 trixie-security#p' |
		sed 's#.*#deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] & main#'
}

have_package() { [ -n "$(apt-cache "${apt[@]}" show --no-all-versions "$1" 2>/dev/null)" ]; }

update_lists() {
	[ "$(id -u)" = 0 ] || [ "$debian" = 13 ] ||
		die "the apt package lists are missing or old; run: sudo apt-get update"
	apt-get "${apt[@]}" update >&2 ||
		die "apt-get update failed (see above); the kernel cache needs a Debian mirror once"
}

# Prints the newest release of a flavour: what the meta package depends on, or, where there is no
# such meta package (or it has moved on to another version), the highest name that fits.
newest_release() {
	local pattern=${version//./\\.} meta release
	[ -n "$pattern" ] || pattern='[0-9]\+\.[0-9]\+'
	if [ "$debian" = 12 ]; then
		for meta in "linux-image-$version$flavour-amd64" "linux-image$flavour-amd64"; do
			release=$(apt-cache "${apt[@]}" depends --important "$meta" 2>/dev/null |
				sed -n "s/^ *Depends: linux-image-\($pattern\.[0-9].*-amd64\)\$/\1/p" | sort -V | tail -n 1)
			[ -z "$release" ] || { echo "$release"; return; }
		done
	fi
	apt-cache "${apt[@]}" pkgnames "linux-image-$version" |
		sed -n "s/^linux-image-\($pattern\.[0-9.]*[^-]*\(-[0-9]\+\)\?$flavour-amd64\)\$/\1/p" |
		sort -V | tail -n 1
}

# Sets release to the newest of `version`, and debian to whose it is; fails if nobody has it.
find_release() {
	local wanted
	for wanted in ${debian:-12 13}; do
		use_debian "$wanted"
		release=$(newest_release)
		if [ -z "$release" ]; then
			update_lists
			release=$(newest_release)
		fi
		[ -z "$release" ] || return 0
	done
	return 1
}

# Prints the packages that together make a kernel one can boot and, where there are headers, build modules for.
packages_of() {
	local release=$1
	echo "linux-image-$release"
	apt-cache "${apt[@]}" depends "linux-image-$release" |
		sed -n "s/^ *Depends: \(linux-\(modules\|binary\|base\)-$release\)\$/\1/p"
	have_package "linux-headers-$release" || return 0
	echo "linux-headers-$release"
	apt-cache "${apt[@]}" depends "linux-headers-$release" |
		sed -n 's/^ *Depends: \(linux-\(headers\|kbuild\)-.*\)$/\1/p'
}

# download PACKAGE... into the current directory; old lists (a 404) are refreshed once.
download() {
	local log=apt.log
	apt-get "${apt[@]}" download "$@" >"$log" 2>&1 && return
	if [ "$(id -u)" = 0 ]; then
		update_lists
		apt-get "${apt[@]}" download "$@" >"$log" 2>&1 && return
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

# unpack RELEASE: download and unpack it into $kernels/RELEASE. The lock is held; apt is whose it is.
unpack() {
	local release=$1 package packages work
	have_package "linux-image-$release" || update_lists
	have_package "linux-image-$release" ||
		not_served "Debian $debian has no package linux-image-$release any more; delete $kernels/*.release to take a newer one"
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
	mkdir -p "$work/root/boot" "$work/root/lib/modules/$release"
	[ -f "$work/root/boot/vmlinuz-$release" ] ||
		ln -s "../lib/modules/$release/vmlinuz" "$work/root/boot/vmlinuz-$release"
	[ -f "$work/root/boot/vmlinuz-$release" ] || die "the packages ${packages[*]} hold no vmlinuz"
	if [ -d "$work/root/usr/src/linux-headers-$release" ]; then
		fix_headers "$work/root/usr/src/linux-headers-$release"
		ln -sfn "../../../usr/src/linux-headers-$release" "$work/root/lib/modules/$release/build"
	fi
	if [ -e "$work/root/lib/modules/$release/modules.order" ] && command -v depmod >/dev/null; then
		depmod -b "$work/root" "$release" || die "depmod failed for $release"
	fi
	mv -T "$work/root" "$kernels/$release"
	rm -rf "$work"
	trap - EXIT
}

# Debian 13 as far as its kernels' headers require it: they are built with gcc 14 and have programs for its libc.
readonly root_packages=base-files,bash,coreutils,dash,diffutils,findutils,gcc-14,grep,kmod,libc-bin,libelf1t64,make,mawk,pahole,perl,sed
# QEMU before 8.1 may execute an instruction that another CPU has replaced meanwhile.
readonly qemu_packages=qemu-system-x86

# make_root PACKAGES: sets root to one with these of Debian 13.
make_root() {
	local work
	root=$kernels/debian13-$(cksum <<<"$1" | cut -d ' ' -f 1)
	[ ! -d "$root" ] || return 0
	mkdir -p "$kernels"
	exec 9>"$kernels/.lock"
	flock 9
	[ ! -d "$root" ] || return 0 # another process was faster
	[ "$(id -u)" = 0 ] || die "a root of Debian 13 is to be made once, by root"
	"$here/deps.sh" debian13 >&2
	use_debian 13
	work=$(mktemp -d "$kernels/.root.XXXXXX")
	# shellcheck disable=SC2064 # expand now
	trap "rm -rf '$work'" EXIT
	mmdebstrap --quiet --mode=root --variant=extract --include="$1" \
		trixie "$work/root" "$kernels/debian13.apt/sources.list" >"$work/log" 2>&1 ||
		{ cat "$work/log" >&2; die "mmdebstrap could not make a root of Debian 13 (see above)"; }
	finish_root "$work/root"
	mv -T "$work/root" "$root"
	rm -rf "$work"
	trap - EXIT
	exec 9>&-
}

# finish_root ROOT: what else it needs.
finish_root() {
	if [ ! -e "$1/usr/bin/qemu-system-x86_64" ]; then
		ln -s mawk "$1/usr/bin/awk" # left to a script, which did not run
		mkdir "$1/module"           # where build-kmod.sh puts what it builds
		return
	fi
	# It brings its libraries, and runs where these are not.
	cat >"$1/qemu-system-x86_64" <<-'END'
		#!/bin/sh
		root=$(dirname "$0")
		export QEMU_MODULE_DIR="$root/usr/lib/x86_64-linux-gnu/qemu"
		exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" \
			"$root/usr/bin/qemu-system-x86_64" -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" -L "$root/usr/lib/ipxe/qemu" "$@"
	END
	chmod +x "$1/qemu-system-x86_64"
}

# resolve NAME sets $release, and fetches it unless it is in the cache.
resolve() {
	local name=$1 record=$kernels/$1.release
	if [[ $name =~ ^([0-9]+\.[0-9]+)-(debug|unsafe)$ ]]; then
		release=$("$here/source-kernel.sh" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "$kernels")
		return
	fi
	if is_release "$name"; then
		release=$name
	else
		parse_name "$name" || { echo "kernels.sh: '$name' is not a kernel name" >&2; bad_usage; }
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
		find_release || not_served "neither Debian 12 nor Debian 13 serves a kernel '$name'"
	elif [[ $release == *+deb13* ]]; then
		use_debian 13
	else
		use_debian 12
	fi
	[ -d "$kernels/$release" ] || unpack "$release"
	if ! is_release "$name"; then
		echo "$release" >"$record.new"
		mv "$record.new" "$record"
	fi
	exec 9>&-
}

has_headers() { [ -d "$kernels/$release/usr/src/linux-headers-$release" ]; }

[ $# -ge 1 ] || bad_usage
command=$1
shift
case $command in
fetch) [ $# -ge 1 ] || bad_usage ;;
release | kdir | root | image | modules) [ $# = 1 ] || bad_usage ;;
matrix)
	for name in "${series[@]}"; do
		echo "$name"
		[[ " ${series_with_rt[*]} " != *" $name "* ]] || echo "$name-rt"
	done
	exit
	;;
qemu)
	make_root $qemu_packages
	echo "$root/qemu-system-x86_64"
	exit
	;;
-h | --help) usage; exit 0 ;;
*) bad_usage ;;
esac

for name in "$@"; do
	resolve "$name"
	case $command in
	release) echo "$release" ;;
	kdir)
		has_headers || not_served "Debian serves no headers of $release: no module can be built for it"
		echo "$kernels/$release/usr/src/linux-headers-$release"
		;;
	root)
		[[ $release == *+deb13* ]] || continue
		make_root $root_packages
		echo "$root"
		;;
	image) echo "$kernels/$release/boot/vmlinuz-$release" ;;
	modules) echo "$kernels/$release/lib/modules/$release" ;;
	esac
done
