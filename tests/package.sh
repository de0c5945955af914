#!/bin/bash
# SPDX-License-Identifier: MIT
# package.sh KERNEL...: what make deb built is clean (lintian), installs, works, replaces 0.1.0, is removed and purged without a trace,
# and so does what make dkms-install lays out; for those kernels (6.1 ...). All of it in an overlay over this
# system's files, which is thrown away. Each module that dkms built is loaded in a guest, and that of 0.1.0 beside the
# new recorder. Exit code 77: cannot run here. SLOTSCOPE_OLD_DEBS: a folder with packages of 0.1.0 (make deb at 47078f0);
# without it, ours are made to look like those.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
version=$(sed -n 's/^#define SS_VERSION "\(.*\)"/\1/p' "$top/kmod/slotscope.h")

skip() { echo "SKIP: $*"; exit 77; }
fail() { echo "FAIL: $*" >&2; exit 1; }
quietly() { "$@" >/tmp/log 2>&1 || { tail -n 40 /tmp/log >&2; fail "$*"; }; }

# ---- Inside the overlay, as its root: inside OUT RELEASE...

is_installed() { dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | grep -q '^ii'; }
# Where packages put files; other checkouts, in which somebody works meanwhile, are elsewhere.
traces() { find /boot /etc /lib /opt /run /srv /usr /var -xdev \( -path "$top" -o -path /var/cache/man \) -prune -o -name '*slotscope*' -print; }

# module RELEASE prints the path of the module that dkms installed.
module() { find "/lib/modules/$1/updates/dkms" -name 'slotscope.ko*' 2>/dev/null; }

is_in_dkms() { dkms status -m slotscope -v "${2:-$version}" -k "$1" 2>/dev/null | grep -q installed; }

# Of what it finds under /lib/modules, the package builds for the running kernel only.
install_for() { # install_for RELEASE...
	local release
	for release; do
		is_in_dkms "$release" || quietly dkms install -m slotscope -v "$version" -k "$release"
		is_in_dkms "$release" || fail "dkms did not install the module for $release"
	done
}

use_module() {
	modinfo "$(module "$1")" | grep -q '^parm: *rdt_budget_us' || fail "modinfo does not know the module's parameters"
	echo 'options slotscope rmids=64' >>/etc/modprobe.d/slotscope-dkms.conf
	modprobe --set-version "$1" --show-depends slotscope | grep -q 'rmids=64' || fail "modprobe does not read our options"
}

# Headers of kernels come that the module was not built for: they are configured, without it.
pass_over() { # pass_over RELEASE, whose headers are taken for theirs
	local unknown
	for unknown in 6.8.0-amd64 8.0.0-amd64; do
		mkdir "/lib/modules/$unknown"
		ln -s "$(readlink -f "/lib/modules/$1/build")" "/lib/modules/$unknown/build"
		quietly /etc/kernel/header_postinst.d/dkms $unknown
		[ -z "$(module $unknown)" ] || fail "dkms built the module for $unknown, for which nobody has tried it"
		rm -r "/lib/modules/$unknown"
	done
	quietly dkms remove -m slotscope -v "$version" -k "$1" # with the last one dkms forgets the sources, too
	dkms status -m slotscope -v "$version" | grep -q . || quietly dkms add -m slotscope -v "$version"
	quietly /etc/kernel/header_postinst.d/dkms "$1"
	is_in_dkms "$1" || fail "dkms did not build the module by itself when headers of $1 were configured"
}

# The command of the unit, as systemd runs it.
unit=/lib/systemd/system/slotscope.service
unit_keep() { sed -n 's/^Environment="SLOTSCOPE_KEEP=\(.*\)"$/\1/p' $unit | sed 's/%%/%/g'; }
unit_command() { sed -n "s/^ExecStart=\/bin\/sh -c '\(.*\)'$/\1/p" $unit | sed 's/%%/%/g'; }

# As setpriv wants them: +bpf,+perfmon...
unit_capabilities() { sed -n 's/^CapabilityBoundingSet=//p' $unit | tr 'A-Z ' 'a-z,' | sed 's/cap_/+/g'; }

# Well-formed, confined, not enabled, and its command records with what it may.
use_unit() {
	quietly systemd-analyze verify $unit
	quietly systemd-analyze security --offline=true --threshold=30 $unit
	[ ! -e /etc/systemd/system/multi-user.target.wants/slotscope.service ] || fail "the unit is enabled"
	grep -qx 'Restart=always' $unit || fail "a recorder that ends is not started again"
	mkdir /var/lib/slotscope
	# shellcheck source=debian/slotscope.default
	. /etc/default/slotscope
	SLOTSCOPE_OPTIONS="$SLOTSCOPE_OPTIONS --duration 1" SLOTSCOPE_KEEP=$(unit_keep) STATE_DIRECTORY=/var/lib/slotscope \
		quietly setpriv --bounding-set="-all,$(unit_capabilities)" --no-new-privs sh -c "$(unit_command)"
	zstd -dcq /var/lib/slotscope/slotscope.rec/slots-*.csv.zst | grep -q '^# identity: holds' ||
		fail "the unit's command recorded nothing that holds"
	rm -r /var/lib/slotscope
}

# make_old FOLDER: packages of these, as those of 0.1.0 were: that version, and messages of ABI 1.
make_old() {
	local deb tree source
	mkdir "$1"
	for deb in /tmp/debs/*.deb; do
		tree=$1/$(basename "$deb" .deb)
		dpkg-deb -R "$deb" "$tree"
		sed -i "s/${version//./\\.}/0.1.0/g" "$tree"/DEBIAN/*
		source=$tree/usr/src/slotscope-0.1.0
		if [ -d "$tree/usr/src/slotscope-$version" ]; then
			mv "$tree/usr/src/slotscope-$version" "$source"
			sed -i "s/${version//./\\.}/0.1.0/" "$source/dkms.conf" "$source/kmod/slotscope.h"
			sed -i 's/^#define SS_ABI_VERSION .*/#define SS_ABI_VERSION 1/' "$source/include/slotscope/events.h"
		fi
		if [ -f "$tree/etc/default/slotscope" ]; then # as it was then: one that was edited is asked about
			cat >"$tree/etc/default/slotscope" <<-'END'
				# Options of slotscope.service: those of "slotscope record".
				# To serve the remediation protocol, too: --remediate=/run/slotscope/remediate.sock
				SLOTSCOPE_OPTIONS="--max-size 4G"
			END
			(cd "$tree" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | xargs -0 md5sum >DEBIAN/md5sums)
		fi
		dpkg-deb --root-owner-group -b "$tree" "$1" >/dev/null
		rm -r "$tree"
	done
}

# From 0.1.0, configured and recording: its configuration and its recording go on, and of its module only what is
# loaded is left.
upgrade() { # upgrade OUT RELEASE
	local recorder options='--max-size 4G --source auto --top 50 --gpu off --slot 1 --window 64'
	if [ -n "${SLOTSCOPE_OLD_DEBS:-}" ]; then
		mkdir /tmp/old
		cp "$SLOTSCOPE_OLD_DEBS"/*.deb /tmp/old/
	else
		make_old /tmp/old
	fi
	quietly apt-get install -y --no-install-recommends /tmp/old/*.deb
	is_in_dkms "$2" 0.1.0 || quietly dkms install -m slotscope -v 0.1.0 -k "$2"
	mkdir -p "$1/old"
	cp "$(module "$2")" "$1/old/"
	echo "SLOTSCOPE_OPTIONS=\"$options\"" >/etc/default/slotscope
	mkdir /var/lib/slotscope
	SLOTSCOPE_OPTIONS=$options SLOTSCOPE_KEEP=$(unit_keep) STATE_DIRECTORY=/var/lib/slotscope sh -c "$(unit_command)" >/tmp/log 2>&1 &
	recorder=$!
	until grep -q recording /tmp/log; do
		kill -0 $recorder 2>/dev/null || fail "the recorder ended: $(cat /tmp/log)"
		sleep 0.1
	done
	apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confold /tmp/debs/*.deb >/tmp/apt-log 2>&1 ||
		fail "the upgrade failed: $(tail -n 40 /tmp/apt-log)"
	kill $recorder || fail "the upgrade ended the recording"
	wait $recorder || fail "a recording from before the upgrade failed: $(cat /tmp/log)"
	[ -f /etc/default/slotscope.dpkg-dist ] || fail "the new /etc/default/slotscope is nowhere"
	[ "$(cat /etc/default/slotscope)" = "SLOTSCOPE_OPTIONS=\"$options\"" ] || fail "the upgrade changed /etc/default/slotscope"
	! dkms status -m slotscope -v 0.1.0 2>/dev/null | grep -q . || fail "after the upgrade dkms still has 0.1.0"
	rm -r /var/lib/slotscope
	use_unit
	unit_command >"$1/old/command"
	echo "$options" >"$1/old/options"
	quietly apt-get purge -y slotscope slotscope-dkms
	echo "ok    packages: 0.1.0 is replaced while it records; its options stay, and are good"
}

inside() {
	local out=$1 before release
	shift
	export DEBIAN_FRONTEND=noninteractive LC_ALL=C HOME=/root
	before=$(traces)
	upgrade "$out" "$1"
	[ "$(traces)" = "$before" ] || fail "a purge after an upgrade left: $(diff <(echo "$before") <(traces))"

	quietly apt-get install -y --no-install-recommends /tmp/debs/*.deb
	for package in slotscope slotscope-dkms; do
		is_installed $package || fail "$package is not installed"
	done
	install_for "$@"
	for release; do
		mkdir -p "$out/$release"
		cp "$(module "$release")" "$out/$release/"
	done
	use_module "$1"
	pass_over "$1"
	use_unit
	[ "$(/usr/bin/slotscope --version)" = "slotscope $version" ] || fail "slotscope --version is $(/usr/bin/slotscope --version)"
	zgrep -q 'row per process' /usr/share/man/man1/slotscope.1.gz || fail "there is no manual page"
	for page in man1/slotscope-explain.1 man5/slots.csv.5; do
		warned=$(man --warnings -l /usr/share/man/$page.gz 2>&1 >/dev/null) || warned="man fails: $warned"
		[ -z "$warned" ] || fail "$page: $warned"
	done
	complete=$(bash -c '. /usr/share/bash-completion/completions/slotscope; COMP_WORDS=(slotscope explain --gr) COMP_CWORD=2; _slotscope; echo "${COMPREPLY[@]}"')
	[ "$complete" = --group-by ] || fail "bash completes --gr to '$complete'"
	grep -q "^#compdef slotscope" /usr/share/zsh/vendor-completions/_slotscope || fail "there is no completion for zsh"

	quietly apt-get install -y --reinstall /tmp/debs/*.deb
	install_for "$1"
	quietly apt-get remove -y slotscope slotscope-dkms
	[ -z "$(dkms status -m slotscope 2>/dev/null)" ] || fail "after a removal dkms still knows the module"
	for release; do
		[ -z "$(module "$release")" ] || fail "after a removal the module for $release is still there"
	done
	grep -q 'rmids=64' /etc/modprobe.d/slotscope-dkms.conf || fail "a removal took a changed configuration file"
	quietly apt-get purge -y slotscope slotscope-dkms
	[ "$(traces)" = "$before" ] || fail "a purge left: $(diff <(echo "$before") <(traces))"
	echo "ok    packages: installed, used, upgraded, removed, purged"

	for release; do
		quietly make -C "$top" dkms-install KVER="$release"
		is_in_dkms "$release" || fail "make dkms-install did not install the module for $release"
		quietly dkms remove -m slotscope -v "$version" --all
		[ -z "$(module "$release")" ] || fail "dkms remove left the module for $release"
	done
	echo "ok    dkms: add, build, install, remove"
}

if [ "${1:-}" = --inside ]; then
	shift
	inside "$@"
	exit
fi

# ---- Outside.

[ "$(id -u)" = 0 ] || skip "it installs packages in an overlay, and needs root for that"
grep -qw overlay /proc/filesystems || skip "this kernel has no overlayfs"
command -v systemd-analyze >/dev/null || skip "systemd is not installed"
for package in slotscope slotscope-dkms; do
	! is_installed $package || skip "$package is installed here"
done
releases=()
for kernel; do
	releases+=("$("$top/scripts/kernels.sh" release "$kernel")")
done

findings=$(lintian --fail-on none "$top"/build/deb/*.changes 2>/dev/null)
[ -z "$findings" ] || fail "lintian: $findings"
echo "ok    lintian"

out=$(mktemp -d)
work=$(mktemp -d)
trap 'rm -rf "$out" "$work"' EXIT
# shellcheck disable=SC2016 # for the inner shell
unshare --mount --propagation private bash -euc '
	work=$1 top=$2 out=$3 cache=$4
	shift 4
	mount -t tmpfs none "$work"
	mkdir "$work"/{upper,work,root}
	mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
	cd "$work/root"
	for dir in /proc /sys /dev; do mount --rbind $dir .$dir; done
	mount -t tmpfs none tmp
	mkdir -p tmp/debs tmp/out
	mount --bind "$out" tmp/out
	# The overlay has no other file systems, and its /tmp is empty.
	for dir in "$top" "$cache"; do
		mkdir -p ".$dir"
		mount --bind "$dir" ".$dir"
	done
	cp "$top"/build/deb/slotscope_*.deb "$top"/build/deb/slotscope-dkms_*.deb tmp/debs/
	for release; do
		mkdir -p "lib/modules/$release"
		[ -e "lib/modules/$release/build" ] || ln -s "$("$top/scripts/kernels.sh" kdir "$release")" "lib/modules/$release/build"
	done
	chroot . "$top/tests/package.sh" --inside /tmp/out "$@"
' sh "$work" "$top" "$out" "${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slotscope}" "${releases[@]}"

for release in "${releases[@]}"; do
	module=$(echo "$out/$release"/slotscope.ko*)
	case $module in
	*.xz) unxz "$module" ;;
	*.zst) unzstd -q --rm "$module" ;;
	esac
	"$top/tests/vm/guest.sh" --quiet --in "$out/$release/slotscope.ko" --in "$top/build/slotscope" "$release" -- sh -c '
		insmod slotscope.ko && ./slotscope record --source kmod --duration 1 >/tmp/log || { cat /tmp/log; exit 1; }
		rmmod slotscope'
	echo "ok    $release: the module that dkms built loads, and is recorded from"
done

# 0.1.0's module is loaded, and the package is the new one: its service records by eBPF alone, and says why.
case $(echo "$out"/old/slotscope.ko*) in
*.xz) unxz "$out/old/slotscope.ko.xz" ;;
esac
options="$(<"$out/old/options") --duration 1"
{
	echo "insmod slotscope.ko || exit 1"
	echo "export SLOTSCOPE_OPTIONS='$options' SLOTSCOPE_KEEP=1G STATE_DIRECTORY=/tmp"
	echo "($(<"$out/old/command")) >log 2>&1 || { cat log; exit 1; }"
	echo "zstd -dcq /tmp/slotscope.rec/slots-*.zst >slots.csv"
	echo "grep 'ABI 1' log && grep '^# source: bpf (.*ABI 1' slots.csv && grep '^# identity: holds' slots.csv && rmmod slotscope"
} >"$out/old/in-guest.sh"
"$top/tests/vm/guest.sh" --quiet --in "$out/old/slotscope.ko" --in "$out/old/in-guest.sh" --in "$top/build/slotscope:/usr/bin/slotscope" --in "$(command -v zstd):/usr/bin/zstd" \
	"${releases[0]}" -- sh in-guest.sh
echo "ok    with the module of 0.1.0 loaded the new recorder takes eBPF alone, and says so"
