#!/bin/bash
# SPDX-License-Identifier: MIT
# suite.sh KERNEL kmod|bpf: one guest, one source, all that in-guest.sh does. Exit code of guest.sh.
set -euo pipefail

kernel=$1
source=$2
top=$(cd "$(dirname "$0")/../.." && pwd)

exec "$top/tests/vm/guest.sh" --quiet --timeout 420 --in "$top/build/slotscope" --in "$top/build/live_tests" \
	--in "$top/build/kmod/$kernel/slotscope.ko" --in "$top/tests/vm/in-guest.sh" "$kernel" -- \
	sh -c "QUICK=${QUICK:-} sh in-guest.sh $source"
