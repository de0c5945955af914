#!/bin/bash
# SPDX-License-Identifier: MIT
# deps.sh run|test|peers|deb|package|qemu-rdt|source-kernel|debian13|image: installs the Debian packages that are missing, and nothing else. Says what and why.
# Without root it prints the one command to run instead.
set -euo pipefail

declare -A why=(
	[g++]="compiles the collector"
	[make]="builds"
	[clang]="compiles the BPF programs"
	[llvm]="strips the BPF programs"
	[bpftool]="reads the kernel's types, makes BPF skeletons"
	[libbpf-dev]="loads BPF programs"
	[libcap-ng-dev]="gives up root's capabilities; builds the test QEMU"
	[libelf-dev]="used by libbpf"
	[zlib1g-dev]="the numbers of a report; used by libbpf"
	[esbuild]="bundles the report's page"
	[node-d3-axis]="the report's page"
	[node-d3-scale]="the report's page"
	[node-d3-selection]="the report's page"
	[libboost-dev]="lock-free queues"
	[libboost-program-options-dev]="command line"
	[libfmt-dev]="formats text and CSV"
	[libncurses-dev]="slotscope top"
	[libxxhash-dev]="checksums of raw files"
	[libzstd-dev]="recordings"
	[libhowardhinnant-date-dev]="time zones"
	[libprotozero-dev]="traces for Perfetto"
	[prometheus-cpp-dev]="metrics"
	[libcurl4-openssl-dev]="asks Prometheus for the fleet's threshold; ships to ClickHouse"
	[liblz4-dev]="compresses what is shipped to ClickHouse"
	[nlohmann-json3-dev]="JSON in raw files"
	[libgtest-dev]="unit and live tests"
	[libgmock-dev]="unit tests"
	[libbenchmark-dev]="benchmarks"
	[libclang-rt-14-dev]="make fuzz: libFuzzer and sanitizers"
	[linux-perf]="make bench-live: a peer to compare with"
	[bpftrace]="make bench-live: a peer to compare with"
	[chromium]="looks at reports' pages"
	[chromium-driver]="looks at reports' pages"
	[clang-format]="make check"
	[cppcheck]="make check"
	[sparse]="make check"
	[python3]="makes man pages; make check"
	[python3-pandas]="runs a recipe of doc/query.md"
	[npm]="fetches DuckDB for make test-query"
	[python3-jsonschema]="validates verdicts"
	[qemu-system-x86]="boots the test guests"
	[busybox-static]="user space of the test guests"
	[cpio]="makes the guests' initramfs"
	[kmod]="handles kernel modules"
	[dkms]="tests the dkms package of the module"
	[linux-headers-amd64]="a kernel for dkms to build for"
	[dwarves]="type information of the module"
	[xz-utils]="unpacks guest kernels' modules"
	[zstd]="reads recordings; unpacks guest kernels' modules"
	[strace]="makes system calls fail for a test"
	[bc]="builds kernels from source"
	[bison]="builds kernels from source"
	[flex]="builds kernels from source"
	[libssl-dev]="builds kernels from source"
	[debhelper]="make deb"
	[mmdebstrap]="unpacks the compiler of Debian 13, for modules of its kernels"
	[lintian]="make test-package"
	[umoci]="make image"
	[man-db]="make test-package: reads the man pages"
	[systemd]="make test-package: checks the unit"
	[dh-dkms]="make deb"
	[dpkg-dev]="make deb; unpacks the test QEMU's source"
	[ipxe-qemu]="the test QEMU's firmware"
	[libattr1-dev]="builds the test QEMU"
	[libfdt-dev]="builds the test QEMU"
	[libglib2.0-dev]="builds the test QEMU"
	[libpixman-1-dev]="builds the test QEMU"
	[meson]="builds the test QEMU"
	[ninja-build]="builds the test QEMU"
	[pkg-config]="builds the test QEMU"
	[qemu-system-data]="the test QEMU's firmware"
	[seabios]="the test QEMU's firmware"
)
run=(g++ make clang llvm bpftool libbpf-dev libelf-dev zlib1g-dev libboost-dev libboost-program-options-dev libfmt-dev
	libxxhash-dev libcap-ng-dev libzstd-dev liblz4-dev libncurses-dev zstd libhowardhinnant-date-dev libprotozero-dev nlohmann-json3-dev prometheus-cpp-dev libcurl4-openssl-dev esbuild node-d3-axis node-d3-scale node-d3-selection python3)
testing=(libgtest-dev libgmock-dev libbenchmark-dev libclang-rt-14-dev clang-format cppcheck sparse python3-jsonschema python3-pandas qemu-system-x86 chromium chromium-driver
	busybox-static cpio kmod dkms linux-headers-amd64 dwarves xz-utils mmdebstrap strace)
peers=(linux-perf bpftrace)
qemu_rdt=(dpkg-dev libglib2.0-dev libpixman-1-dev libcap-ng-dev libattr1-dev libfdt-dev zlib1g-dev meson ninja-build
	pkg-config qemu-system-data seabios ipxe-qemu)
deb=("${run[@]}" debhelper dh-dkms dpkg-dev)
# All of test, and more.
package=("${deb[@]}" "${testing[@]}" lintian man-db systemd)
debian13=(mmdebstrap)
image=("${deb[@]}" mmdebstrap umoci)
source_kernel=(g++ make bc bison flex libelf-dev libssl-dev dwarves python3 cpio xz-utils)

case ${1:-} in
run) wanted=("${run[@]}") ;;
test) wanted=("${run[@]}" "${testing[@]}") ;;
peers) wanted=("${peers[@]}") ;;
qemu-rdt) wanted=("${qemu_rdt[@]}") ;;
deb) wanted=("${deb[@]}") ;;
package) wanted=("${package[@]}") ;;
source-kernel) wanted=("${source_kernel[@]}") ;;
debian13) wanted=("${debian13[@]}") ;;
image) wanted=("${image[@]}") ;;
*)
	echo "usage: deps.sh run|test|peers|deb|package|qemu-rdt|source-kernel|debian13|image" >&2
	exit 2
	;;
esac

# npm comes from elsewhere on many machines, and Debian's would not go beside that.
case $1 in test | package) command -v npm >/dev/null || wanted+=(npm) ;; esac

if ! command -v dpkg-query >/dev/null; then
	echo "deps: this is no Debian system; install the equivalents of: ${wanted[*]}" >&2
	exit 0
fi

missing=()
for package in "${wanted[@]}"; do
	status=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
	[[ $status == ii* ]] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "deps: missing packages:"
for package in "${missing[@]}"; do
	printf '  %-30s %s\n' "$package" "${why[$package]}"
done
if [ "$(id -u)" != 0 ]; then
	echo "deps: run this once, then try again:  sudo apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 3
fi

export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -q -o DPkg::Lock::Timeout=600)
install() {
	"${apt[@]}" install -y --no-install-recommends "${missing[@]}"
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Lists that are missing or out of date are fetched once.
if ! install >"$log" 2>&1; then
	if ! { "${apt[@]}" update && install; } >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		echo "deps: apt-get could not install them; its last words are above" >&2
		exit 1
	fi
fi
echo "deps: installed"
