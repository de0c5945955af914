#!/bin/bash
# SPDX-License-Identifier: MIT
# suite.sh KERNEL kmod|bpf: one guest, one source, all that in-guest.sh does.
# suite.sh KERNEL stress SECONDS: one guest, all that stress.sh does.
# Exit code of guest.sh.
set -euo pipefail

kernel=$1
what=$2
seconds=${3:-}
top=$(cd "$(dirname "$0")/../.." && pwd)
mem=1G timeout=900 scale=8 # some 300 s beside others; a starved host is no fault
case $kernel in # KASAN takes an eighth of the memory, and it and lockdep most of the time
*-debug) mem=3G timeout=2400 scale=24 ;;
esac
if [ "$what" = stress ]; then
	timeout=$((timeout + seconds))
	script="SCALE=$scale sh stress.sh $seconds"
else
	script="QUICK=${QUICK:-} SCALE=$scale sh in-guest.sh $what"
fi

# The module as it would be on a kernel without one of its tracepoints: it looks for another name.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed 's/\x00sched_wakeup_new\x00/\x00sched_wakeup_nix\x00/g' "$top/build/kmod/$kernel/slotscope.ko" >"$work/slotscope-no-probe.ko"

"$top/tests/vm/guest.sh" --quiet --mem $mem --timeout $timeout --in "$top/build/slotscope" \
	--in "$top/build/live_tests" --in "$top/build/standin" --in "$top/build/kmod/$kernel/slotscope.ko" --in "$work/slotscope-no-probe.ko" --in "$top/tests/vm/common.sh" \
	--in "$top/tests/vm/in-guest.sh" --in "$top/tests/vm/stress.sh" "$kernel" -- sh -c "$script"
