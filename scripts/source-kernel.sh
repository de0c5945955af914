#!/bin/bash
# SPDX-License-Identifier: MIT
#
# source-kernel.sh VERSION FLAVOUR KERNELS: a kernel built from Debian's package linux-source-VERSION into KERNELS, in the layout
# of kernels.sh, which calls this. FLAVOUR is one of
#   debug   with KASAN, lockdep and kmemleak (debug-kernel.config)
#   unsafe  without the exception that seccomp makes for uretprobes: as kernels from 6.11 to 6.12.13 were
# Prints its release, such as 6.12.117-debug-1a2b3c4d; the last part is a digest of the configuration, of this script and of
# the package's version. About 20 minutes (debug) or 10 and 3 GB on two CPUs, the first time; 500 MB stay.
set -euo pipefail

die() { echo "source-kernel.sh: $*" >&2; exit 1; }

[ $# = 3 ] || die "usage: source-kernel.sh VERSION FLAVOUR KERNELS"
version=$1 flavour=$2 kernels=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
configs=("$here/source-kernel.config")
case $flavour in
debug) configs+=("$here/debug-kernel.config") ;;
unsafe) ;;
*) die "there is no flavour $flavour" ;;
esac
package=linux-source-$version

package_version=$(apt-cache show --no-all-versions "$package" 2>/dev/null | sed -n 's/^Version: //p')
[ -n "$package_version" ] || die "apt knows no package $package; run apt-get update, or choose another version"
digest=$(cat "${configs[@]}" "$here/source-kernel.sh" <(echo "$package_version") | sha256sum | cut -c 1-8)
release=${package_version%%[-+]*}-$flavour-$digest
if [ -d "$kernels/$release" ]; then
	echo "$release"
	exit
fi
"$here/deps.sh" source-kernel >&2

mkdir -p "$kernels"
exec 9>"$kernels/.source.lock"
flock 9
if [ -d "$kernels/$release" ]; then # another process was faster
	echo "$release"
	exit
fi
work=$(mktemp -d "$kernels/.source.XXXXXX")
trap 'rm -rf "$work"' EXIT

check_config() {
	local line name
	while read -r line; do
		name=${line%%=*}
		[[ $line == CONFIG_* ]] || continue
		grep -qx "$line" .config || die "$(grep -w "$name" .config || echo "no $name") came out of $line: mend the .config files"
	done < <(cat "${configs[@]}")
}

change_source() {
	[ "$flavour" = unsafe ] || return 0
	grep -q '^#ifdef __NR_uretprobe$' kernel/seccomp.c || die "seccomp makes no exception for uretprobes in $package"
	sed -i 's/^#ifdef __NR_uretprobe$/#if 0/' kernel/seccomp.c
}

build() {
	change_source
	make -s allnoconfig
	scripts/kconfig/merge_config.sh -m .config "${configs[@]}"
	./scripts/config --set-str LOCALVERSION "-$flavour-$digest" --disable LOCALVERSION_AUTO
	make -s olddefconfig
	check_config
	nice make -s -j"$(nproc)" LOCALVERSION= bzImage modules
}

# keep ROOT: what booting it and building a module for it take.
keep() {
	local kdir=$1/usr/src/linux-headers-$release
	mkdir -p "$1/boot" "$1/lib/modules/$release" "$kdir"
	cp arch/x86/boot/bzImage "$1/boot/vmlinuz-$release"
	find arch/x86 tools include scripts \( -name '*.o' -o -name '*.a' -o -name '.*.cmd' \) ! -path 'scripts/module*' -delete
	cp -a Makefile Kbuild Kconfig .config Module.symvers System.map vmlinux include scripts "$kdir"
	cp -a --parents arch/x86/Makefile* arch/x86/Kbuild arch/x86/include arch/x86/tools tools/objtool/objtool "$kdir"
	if [ -e tools/bpf/resolve_btfids/resolve_btfids ]; then
		cp -a --parents tools/bpf/resolve_btfids/resolve_btfids "$kdir"
	fi
	ln -s "../../../usr/src/linux-headers-$release" "$1/lib/modules/$release/build"
}

cd "$work"
apt-get -qq -o APT::Sandbox::User=root download "$package=$package_version" >&2 ||
	die "cannot download $package (see above)"
dpkg-deb --fsys-tarfile "$package"_*.deb | tar -xO "./usr/src/$package.tar.xz" | tar -xJ
rm -f "$package"_*.deb
cd "$package"
echo "source-kernel.sh: building $release, 10 to 20 minutes" >&2
build >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; die "the build failed (see above)"; }
keep "$work/root"
find "$kernels" -mindepth 1 -maxdepth 1 -type d -name "${version}.*-$flavour-*" -exec rm -rf {} +
mv -T "$work/root" "$kernels/$release"
echo "$release"
