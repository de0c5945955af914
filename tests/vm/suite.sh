#!/bin/bash
# SPDX-License-Identifier: MIT
# suite.sh KERNEL kmod|bpf: one guest, one source, all that in-guest.sh does.
# suite.sh KERNEL unsafe: one guest, whose kernel lets a seccomp filter refuse uretprobes: what is done there.
# suite.sh KERNEL stress SECONDS: one guest, all that stress.sh does.
# Exit code of guest.sh.
set -euo pipefail

kernel=$1
what=$2
seconds=${3:-}
top=$(cd "$(dirname "$0")/../.." && pwd)
mem=1536M timeout=600 scale=8 # no test takes a minute where nobody is in the way
case $kernel in # KASAN takes an eighth of the memory, and it and lockdep most of the time
*-debug) mem=3G timeout=2400 scale=24 ;;
esac
if [ "$what" = stress ]; then
	timeout=$((timeout + seconds))
	script="SCALE=$scale sh stress.sh $seconds"
elif [ "$what" = unsafe ]; then
	script="SLOTSCOPE_TEST_UNSAFE=1 SLOTSCOPE_TEST_STRICT=1 SLOTSCOPE_TEST_SOURCE=bpf SLOTSCOPE_TEST_SCALE=$scale"
	script+=" SLOTSCOPE_BINARY=/slotscope/slotscope ./live_tests --gtest_filter='Uretprobes.*'"
else
	script="QUICK=${QUICK:-} ELSEWHERE=${ELSEWHERE:-} SCALE=$scale sh in-guest.sh $what"
fi

# make_shorter: a module whose ss_tick ends before `missed`, and at its end has something that is not sent.
make_shorter() {
	local short=$work/short-source
	mkdir -p "$short/scripts"
	cp -r "$top/kmod" "$top/include" "$short/"
	cp "$top/scripts/build-kmod.sh" "$short/scripts/"
	sed -i -e '/^struct ss_tick {/,/^};/s/__u32 missed;.*/__u32 not_sent[2];/' -e '/^struct ss_tick {/,/^};/{/__u32 zero;/d}' \
		"$short/include/slotscope/events.h"
	sed -i -e 's/msg\.missed = .*/msg.not_sent[1] = 4711;/' "$short/kmod/cpu.c"
	sed -i -e '/^void ss_cpu_tick/,/^}/s/msg\.hdr\.size = sizeof(msg);/msg.hdr.size = sizeof(msg) - sizeof(msg.not_sent); msg.not_sent[0] = 4711;/' \
		"$short/kmod/cpu.c"
	sed -i 's/msg->missed/0/' "$short/kmod/trace.h"
	"$short/scripts/build-kmod.sh" "$("$top/scripts/kernels.sh" kdir "$kernel")" "$work/short" \
		"$("$top/scripts/kernels.sh" root "$kernel")"
	cp "$work/short/slotscope.ko" "$work/slotscope-short.ko"
}

# add_modules NAME...: of the kernel, where it has them, unpacked for the guest's insmod.
add_modules() {
	local folder name file
	folder=$("$top/scripts/kernels.sh" modules "$kernel" 2>/dev/null) || return 0
	[ -d "$folder/kernel" ] || return 0 # one that we built
	for name; do
		file=$(find "$folder/kernel" -name "$name.ko*" | head -n 1)
		[ -n "$file" ] || continue
		case $file in
		*.xz) xz -dc "$file" ;;
		*.zst) zstd -dcq "$file" ;;
		*) cat "$file" ;;
		esac >"$work/$name.ko"
		files+=("$work/$name.ko")
	done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
files=(slotscope live_tests standin)
files=("${files[@]/#/$top/build/}" "$top"/tests/vm/{common,in-guest,stress}.sh)
add_modules configfs null_blk # a disk that answers when we like
if [ "$what" != bpf ] && [ "$what" != unsafe ]; then
	module=$top/build/kmod/$kernel/slotscope.ko
	# As it would be on a kernel without one of its tracepoints: it looks for another name.
	sed 's/\x00sched_wakeup_new\x00/\x00sched_wakeup_nix\x00/g' "$module" >"$work/slotscope-no-probe.ko"
	files+=("$module" "$work/slotscope-no-probe.ko")
	if [[ ${QUICK:-} != [123] ]]; then
		"$top/scripts/build-kmod.sh" "$("$top/scripts/kernels.sh" kdir "$kernel")" "$work/fault" \
			"$("$top/scripts/kernels.sh" root "$kernel")" SS_FAULT=y
		cp "$work/fault/slotscope.ko" "$work/slotscope-fault.ko"
		files+=("$work/slotscope-fault.ko")
		make_shorter
		files+=("$work/slotscope-short.ko")
	fi
fi

"$top/tests/vm/guest.sh" --quiet --mem $mem --timeout $timeout "${files[@]/#/--in=}" "$kernel" -- sh -c "$script"
