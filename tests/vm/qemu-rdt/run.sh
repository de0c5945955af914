#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh KERNEL NAME...: the module in a guest whose CPUs have RDT, against the emulator's truth. NAME is one of the
# machines below, or all. What make test-rdt does; exit code 69 if the emulator is not in the cache.
# run.sh --qemu-arguments: prints what any such guest needs of QEMU.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../../.." && pwd)
build=${SLOTSCOPE_BUILD:-$top/build}
readonly names=(plain fine wrap sockets clusters few exhausted unavailable occupancy coexist)

# What the machine NAME has: CPUs, CPU properties, and the share of user rows whose status has to be ok.
describe() {
	smp=2 topology='' properties='' parameters=rdt_budget_us=200 expected=0.5
	case $1 in
	plain) parameters='' expected=0.2 ;;
	fine) properties=,rdt-scale=256 ;;
	wrap) properties=,rdt-scale=256,rdt-cntr-init=16770000 ;;
	sockets) smp=4 topology='-smp 4,sockets=2' expected=0.3 ;; # four CPUs, and the host may have two
	clusters)
		smp=4 properties=,rdt-clusters=2,rdt-max-rmid=127 expected=0.3
		topology='-smp 4,sockets=1 -object memory-backend-ram,id=m0,size=512M -object memory-backend-ram,id=m1,size=512M'
		topology+=' -numa node,cpus=0-1,memdev=m0 -numa node,cpus=2-3,memdev=m1'
		;;
	few) properties=,rdt-max-rmid=19 expected=0.3 ;;
	exhausted) properties=,rdt-max-rmid=7 expected=0 ;;
	unavailable) properties=,rdt-unavail-every=50 expected=0.1 ;;
	occupancy) properties=,rdt-events=1 ;;
	coexist) ;;
	*)
		echo "run.sh: there is no machine $1; there are: ${names[*]}" >&2
		exit 2
		;;
	esac
}

run() { # run KERNEL NAME
	local work msr code=0
	describe "$2"
	case $1 in # reads take longer there, and more are left for later
	*-debug) expected=0.1 ;;
	esac
	work=$(mktemp -d)
	echo "== $2 on $1"
	if [ "$2" = coexist ]; then
		: >"$work/msr.ko" # empty where the kernel has it built in
		msr=$(find "$("$top/scripts/kernels.sh" modules "$1")" -name 'msr.ko*')
		case $msr in
		*.xz) xzcat "$msr" >"$work/msr.ko" ;;
		*.zst) zstdcat "$msr" >"$work/msr.ko" ;;
		*.ko) cp "$msr" "$work" ;;
		esac
		QEMU=$qemu "$top/tests/vm/guest.sh" --quiet --qemu "$firmware $cpu,rdt-max-closid=7" --in "$build/kmod/$1/slotscope.ko" \
			--in "$build/slotscope" --in "$here/coexist.sh" --in "$work/msr.ko" "$1" -- sh coexist.sh || code=$?
		rm -rf "$work"
		return "$code"
	fi
	QEMU=$qemu QEMU_RDT_LOG=$work/truth.json QEMU_RDT_TRACE=$work/trace "$top/tests/vm/guest.sh" --quiet --smp "$smp" \
		--qemu "$firmware $cpu$properties $topology" \
		--timeout 240 --append tsc=reliable --in "$build/slotscope" --in "$build/kmod/$1/slotscope.ko" \
		--in "$here/in-guest.sh" --out "/slotscope/slots.csv:$work/slots.csv" --out "/slotscope/events:$work/events" \
		--out "/slotscope/info:$work/info" --out "/slotscope/refused:$work/refused" "$1" -- sh in-guest.sh "${SLOTSCOPE_RDT_SECONDS:-4}" \
		${parameters:+"$parameters"} || code=$?
	if [ $code = 0 ] && [ "$2" = clusters ] && [ -s "$work/refused" ]; then
		echo "refused, as it has to be on a kernel that does not know sub-NUMA clusters"
	elif [ $code = 0 ]; then
		"$here/check.py" "$work" "$expected" "$2" || code=$?
		grep '^rdt_' "$work/info" | tr '\n' ' '
		echo
	fi
	if [ $code = 0 ] || [ $code = 72 ]; then
		rm -rf "$work"
	else
		echo "run.sh: what was compared is in $work" >&2
	fi
	return "$code"
}

firmware="-L /usr/share/seabios -L /usr/share/qemu -L /usr/lib/ipxe/qemu"
cpu='-cpu max,vendor=GenuineIntel,family=6,model=106,stepping=6,cqm=on'
if [ "$1" = --qemu-arguments ]; then
	echo "$firmware $cpu"
	exit
fi
qemu=$("$here/build.sh" --cached) || exit $?
kernel=$1
shift
[ "$1" != all ] || set -- "${names[@]}"
for name; do
	run "$kernel" "$name" || exit $? # 72: tests/run.sh tries again
done
