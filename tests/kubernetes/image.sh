#!/bin/bash
# SPDX-License-Identifier: MIT
# image.sh IMAGE: unpacks what scripts/image.sh made, and runs in it what the manifest runs, with the rights that it has there and no others.
# Without a container engine: as far as the host's namespaces go (its processes are the machine's, as with hostPID). As root.
set -euo pipefail

image=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
manifest=$top/deploy/kubernetes/slotscope.yaml
work=$(mktemp -d)
root=$work/bundle/rootfs
finish() {
	mountpoint -q "$root/proc" && umount "$root/proc"
	mountpoint -q "$root/sys" && umount -R "$root/sys"
	rm -rf "$work"
}
trap finish EXIT
fail() { echo "FAILED: $*" && exit 1; }

mkdir "$work/layout"
tar -C "$work/layout" -xf "$image"
version=$(sed -n 's/^#define SS_VERSION "\(.*\)"/\1/p' "$top/kmod/slotscope.h")
grep -q "docker.io/library/slotscope:$version" "$work/layout/index.json" || fail "it has no name"
umoci unpack --image "$work/layout:$version" "$work/bundle" >/dev/null
grep -q '"/usr/bin/slotscope"' "$work/bundle/config.json" || fail "its entry point is not slotscope"
[ "$(find "$root/usr/bin" -name 'g++*' -o -name gcc -o -name make | wc -l)" = 0 ] || fail "there is a compiler in it"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --make-rslave "$root/sys"

# in_image RIGHTS COMMAND...: as root with these capabilities and no others.
in_image() {
	local rights=-all right
	for right in $1; do rights+=,+${right,,}; done
	shift
	chroot "$root" setpriv --no-new-privs --inh-caps=-all --bounding-set="$rights" "$@"
}
[ "$(in_image "" slotscope --version)" = "slotscope $version" ] || fail "it is not version $version"
rights=$(sed -n '/name: recorder/,/name: shipper/s/^ *- \([A-Z_]\+\) #.*/\1/p' "$manifest")
[ "$(wc -w <<<"$rights")" -ge 5 ] || fail "the manifest's rights are not understood: $rights"
if [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 2 ]; then
	case $(uname -r) in 5.* | 6.[0-1].*) ;; *) rights=${rights/SYS_ADMIN/} ;; esac
fi
echo "the recorder has: $(tr '\n' ' ' <<<"$rights")"
mkdir -p "$root/var/lib/slotscope"
in_image "$rights" slotscope record --source bpf --duration 3 --keep 1G --segment 1 --output /var/lib/slotscope/slotscope.rec >"$work/out" 2>&1 ||
	{ cat "$work/out" && fail "it does not record with the manifest's rights"; }
grep -q 'accounting: complete' "$work/out" || { cat "$work/out" && fail "its accounting is not complete"; }
# The recording is read without any right; its processes are the machine's.
in_image "" slotscope explain --rows processes /var/lib/slotscope/slotscope.rec >"$work/processes" || fail "it does not read without rights"
grep -q ",$$," "$work/processes" || fail "process $$ of the machine is not in the recording"
in_image "" slotscope ship --clickhouse http://127.0.0.1:1 /var/lib/slotscope/slotscope.rec >"$work/out" 2>&1 && fail "it ships to nobody"
grep -q 'does not answer' "$work/out" || { cat "$work/out" && fail "the shipper without rights does not get as far as its server"; }
# Without these rights it says which are missing.
in_image "" slotscope record --source bpf --duration 1 --output /tmp/x.rec >"$work/out" 2>&1 && fail "it records without rights"
grep -qi 'cap_bpf\|root\|permitted\|privilege' "$work/out" || { cat "$work/out" && fail "it does not say what it lacks"; }
echo "the image works: $(wc -l <"$work/processes") lines of processes"
