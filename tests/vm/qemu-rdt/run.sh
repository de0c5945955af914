#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh KERNEL NAME...: the module in a guest whose CPUs have RDT, against the emulator's truth. NAME is one of the
# machines below, or all. What make test-rdt does; exit code 69 if the emulator is not in the cache.
# run.sh --qemu-arguments: prints what any such guest needs of QEMU.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../../.." && pwd)
build=${SLOTSCOPE_BUILD:-$top/build}
readonly names=(plain counted sockets clusters unit3 wrap24 wrap44 wrap62 unavailable3 unavailable7 reuse exhausted sleepers occupancy partition coexist poor forbidden reboot)

# What the machine NAME has: CPUs, CPU properties, the load in it (see in-guest.sh), parameters of the module.
describe() {
	smp=2 clock=() topology='' properties='' parameters=rdt_budget_us=200 load=few
	case $1 in
	plain) parameters='' ;;
	counted) clock=(--count-instructions) properties=,rdt-max-rmid=12 ;; # one CPU, and nobody takes it away
	sockets) smp=4 topology='-smp 4,sockets=2' ;; # four CPUs, and the host may have two
	clusters)
		smp=4 properties=,rdt-clusters=2,rdt-max-rmid=127
		topology='-smp 4,sockets=1 -object memory-backend-ram,id=m0,size=768M -object memory-backend-ram,id=m1,size=768M'
		topology+=' -numa node,cpus=0-1,memdev=m0 -numa node,cpus=2-3,memdev=m1'
		;;
	unit3) properties=,rdt-scale=3,rdt-cntr-width=32 ;;
	wrap24) properties=,rdt-cntr-init=16777000 ;;
	wrap44) properties=,rdt-scale=256,rdt-cntr-width=44,rdt-cntr-init=17592186000000 ;;
	wrap62) properties=,rdt-scale=100003,rdt-cntr-width=62,rdt-cntr-init=4611686018427387800 ;;
	unavailable3) properties=,rdt-unavail-every=3 ;;
	unavailable7) properties=,rdt-unavail-every=7 ;;
	reuse) properties=,rdt-max-rmid=12 load=many ;;
	exhausted) properties=,rdt-max-rmid=7 load=many ;;
	sleepers) load=sleepers ;;
	occupancy) properties=,rdt-events=1 ;;
	partition) properties=,rdt-max-rmid=12,rdt-llc-halflife-ns=2000000000 load=many ;; # lines that survive all traffic
	coexist | poor | forbidden | reboot) ;;
	*)
		echo "run.sh: there is no machine $1; there are: ${names[*]}" >&2
		exit 2
		;;
	esac
}

# What reads and writes a CPU's registers, and a module whose steps can fail.
prepare() { # prepare KERNEL WORK
	local msr
	: >"$2/msr.ko" # empty where the kernel has it built in
	msr=$(find "$("$top/scripts/kernels.sh" modules "$1")" -name 'msr.ko*')
	case $msr in
	*.xz) xzcat "$msr" >"$2/msr.ko" ;;
	*.zst) zstdcat "$msr" >"$2/msr.ko" ;;
	*.ko) cp "$msr" "$2" ;;
	esac
	"$top/scripts/build-kmod.sh" "$("$top/scripts/kernels.sh" kdir "$1")" "$2/fault" "$("$top/scripts/kernels.sh" root "$1")" SS_FAULT=y
}

# The module and others that use RDT, one after another: see coexist.sh.
coexist() { # coexist KERNEL WORK
	prepare "$1" "$2" || return
	QEMU=$qemu "$top/tests/vm/guest.sh" --quiet --mem "$mem" --timeout "$timeout" --qemu "$firmware $cpu,rdt-max-closid=7" --in "$build/kmod/$1/slotscope.ko" \
		--in "$2/fault/slotscope.ko:/slotscope/slotscope-fault.ko" --in "$build/slotscope" --in "$here/coexist.sh" --in "$(command -v chrt)" --in "$2/msr.ko" "$1" -- sh coexist.sh
}

# A CPU comes online, and there is no memory for its L3 cache: see poor.sh.
poor() { # poor KERNEL WORK
	prepare "$1" "$2" || return
	QEMU=$qemu "$top/tests/vm/guest.sh" --quiet --mem "$mem" --timeout "$timeout" --qemu "$firmware $cpu -smp 2,sockets=2" \
		--in "$2/fault/slotscope.ko" --in "$build/slotscope" --in "$here/poor.sh" --in "$2/msr.ko" "$1" -- sh poor.sh
}

# With that on the kernel's command line the module says so.
forbids() { # forbids KERNEL OPTION LINE-OF-INFO
	QEMU=$qemu "$top/tests/vm/guest.sh" --quiet --append "$2" --qemu "$firmware $cpu" --in "$build/kmod/$1/slotscope.ko" "$1" -- \
		sh -c "insmod slotscope.ko; grep -E '^$3\$|^$3 ' /proc/slotscope/info || { cat /proc/slotscope/info; exit 1; }" || return
	echo "ok    $2"
}
forbidden() { # forbidden KERNEL WORK
	forbids "$1" 'rdt=!mbmlocal,cmt' 'rdt_events: llc_occupancy mbm_total' &&
		forbids "$1" 'rdt=!mbmlocal,!mbmtotal rdt=!l3cat,mbmtotal,!cmt rdt=' 'rdt_events: mbm_total' &&
		forbids "$1" 'rdt=!cmt,!mbmtotal,!mbmlocal' 'backend_reason: .*command line forbids' &&
		forbids "$1" 'clearcpuid=cqm' 'backend_reason: the kernel sees no RDT monitoring'
}

# Before the next kernel begins (by kexec without a reset) no CPU is left with an RMID.
reboot() { # reboot KERNEL WORK
	QEMU=$qemu QEMU_RDT_TRACE=$2/trace "$top/tests/vm/guest.sh" --quiet --qemu "$firmware $cpu" --in "$build/kmod/$1/slotscope.ko" "$1" -- \
		sh -c 'insmod slotscope.ko; for _ in 1 2 3; do (while :; do :; done) & done; usleep 500000; reboot -f' >"$2/log" 2>&1 && return 1
	# The last write of each CPU, and how many wrote an RMID at all.
	awk '/^W/ { split($3, cpu, "="); split($6, new, "="); last[cpu[2]] = new[2]; if (new[2] > 0) used[cpu[2]] = 1 }
		END { for (c in last) { cpus += used[c]; left += last[c] != 0 }; print "      " cpus + 0, "CPUs had RMIDs,", left + 0, "are left with one"; exit cpus != 2 || left }' \
		"$2/trace" || { tail -n 20 "$2/log"; return 1; }
	echo "ok    after a reboot no CPU has an RMID"
}

# Some load, recorded, and compared with what the emulator did.
compare() { # compare KERNEL WORK NAME
	QEMU=$qemu QEMU_RDT_LOG=$2/truth.json QEMU_RDT_TRACE=$2/trace "$top/tests/vm/guest.sh" --quiet --smp "$smp" "${clock[@]}" \
		--mem "$mem" --qemu "$firmware $cpu$properties $topology" --timeout "$timeout" --in "$build/slotscope" --in "$build/live_tests" \
		--in "$build/kmod/$1/slotscope.ko" --in "$here/in-guest.sh" --in "$here/../common.sh" \
		--out "/slotscope/slots.csv:$2/slots.csv" --out "/slotscope/events:$2/events" --out "/slotscope/tgids:$2/tgids" \
		--out "/slotscope/busy:$2/busy" --out "/slotscope/info:$2/info" --out "/slotscope/refused:$2/refused" \
		"$1" -- sh in-guest.sh "$load" "${SLOTSCOPE_RDT_SECONDS:-4}" ${parameters:+"$parameters"} || return
	if [ "$3" = clusters ] && [ -s "$2/refused" ]; then
		echo "refused, as it has to be on a kernel that does not know sub-NUMA clusters"
		return
	fi
	local code=0
	"$here/check.py" "$2" "$3" "$slower" || code=$?
	grep '^rdt_' "$2/info" | tr '\n' ' '
	echo
	return "$code"
}

run() { # run KERNEL NAME
	local work code=0
	describe "$2"
	work=$(mktemp -d)
	echo "== $2 on $1"
	case $2 in
	coexist | poor | forbidden | reboot) "$2" "$1" "$work" || code=$? ;;
	*) compare "$1" "$work" "$2" || code=$? ;;
	esac
	if [ -z "${KEEP:-}" ] && { [ $code = 0 ] || [ $code = 72 ]; }; then
		rm -rf "$work"
	else
		echo "run.sh: what was compared is in $work" >&2
	fi
	return "$code"
}

firmware="-L /usr/share/seabios -L /usr/share/qemu -L /usr/lib/ipxe/qemu"
cpu='-cpu max,-erms,vendor=GenuineIntel,family=6,model=106,stepping=6,cqm=on'
if [ "$1" = --qemu-arguments ]; then
	echo "$firmware $cpu"
	exit
fi
qemu=$("$here/build.sh" --cached) || exit $?
kernel=$1
shift
timeout=300 mem=1536M slower=1
case $kernel in
*-debug) # what i440fx has the kernel interpret, to find the interrupt of a card, takes it longer than it allows itself
	firmware+=" -machine q35"
	timeout=1200 mem=3G slower=4
	;;
esac
[ "$1" != all ] || set -- "${names[@]}"
for name; do
	run "$kernel" "$name" || exit $? # 72: tests/run.sh tries again
done
