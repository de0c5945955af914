#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh KERNEL SECONDS: boots a guest, loads the module there and records the guest for SECONDS with it.
# Leaves vm-slots.csv. What make vm-run does.
set -euo pipefail

kernel=$1
seconds=$2
top=$(cd "$(dirname "$0")/../.." && pwd)

"$top/tests/vm/guest.sh" --quiet --in "$top/build/slotscope" --in "$top/build/kmod/$kernel/slotscope.ko" \
	--out "/slotscope/slots.csv:$PWD/vm-slots.csv" --timeout $((seconds + 120)) "$kernel" -- sh -c "
	insmod slotscope.ko || exit 1
	dmesg | tail -n 1
	# Something to see: one that computes, and one that starts a process every 20 ms.
	(while :; do :; done) &
	(while :; do /bin/true; usleep 20000; done) &
	./slotscope record --source kmod --max-overhead 100 --output slots.csv --duration $seconds
	code=\$?
	cat /proc/slotscope/info
	./slotscope rmids | tail -n 5
	kill %1 %2 2>/dev/null
	rmmod slotscope || exit 1
	exit \$code"
echo "the rows are in vm-slots.csv"
