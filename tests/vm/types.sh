#!/bin/bash
# SPDX-License-Identifier: MIT
# types.sh KERNEL: the BPF programs build with the types of that kernel, as `make` does where it runs: a field
# that it lacks must not be named but in a struct of ours. Exit code of guest.sh if that failed, or of clang.
set -euo pipefail

kernel=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$top"
tests/vm/guest.sh --quiet --out "/tmp/types:$work/types" "$kernel" -- cp /sys/kernel/btf/vmlinux /tmp/types
PATH=$PATH:/usr/sbin bpftool btf dump file "$work/types" format c >"$work/vmlinux.h"
make -s bpf-syntax BPFTYPES="$work"
