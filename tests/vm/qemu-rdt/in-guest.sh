# SPDX-License-Identifier: MIT
# In a guest whose CPUs have RDT: in-guest.sh SECONDS [PARAMETER...]. Records some known load with the module, and leaves what
# check.py compares with the truth: slots.csv, events (the module's own tracepoints) and info. busybox sh.
set -eu
seconds=$1
shift
tracing=/sys/kernel/tracing
[ -d $tracing/events ] || mount -t tracefs none $tracing

set_cpus() { # set_cpus 0|1 CPU...
	state=$1
	shift
	for cpu; do echo "$state" >/sys/devices/system/cpu/cpu"$cpu"/online; done
}

# Sub-NUMA clusters: only what the kernel has set up, and only if all of them can be seen.
if [ -e /sys/devices/system/node/node1 ]; then
	set_cpus 0 2 3
	insmod slotscope.ko
	grep 'reason: a NUMA node has no CPU online' /proc/slotscope/info || { cat /proc/slotscope/info; exit 1; }
	rmmod slotscope
	set_cpus 1 2 3
	if ! dmesg | grep -q 'Sub-NUMA Cluster mode detected'; then
		insmod slotscope.ko
		grep 'reason: sub-NUMA clusters, and the kernel has not set them up' /proc/slotscope/info |
			tee refused
		[ -s refused ] || { cat /proc/slotscope/info; exit 1; }
		exit 0
	fi
fi

insmod slotscope.ko "$@"
dmesg | grep slotscope: | tail -n 1
grep -q '^backend: hardware$' /proc/slotscope/info || { cat /proc/slotscope/info; exit 1; }

echo 32768 >$tracing/buffer_size_kb
for event in ss_rdt_sample ss_rmid_alloc ss_rmid_free ss_measure; do
	echo 1 >$tracing/events/slotscope/$event/enable
done

# One that always computes, one that computes and sleeps, one that starts a process every 20 ms.
(while :; do :; done) &
(while :; do i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done; usleep 30000; done) &
(while :; do /bin/true; usleep 20000; done) &
trap 'kill %1 %2 %3 2>/dev/null || true' EXIT

./slotscope record --source kmod --max-overhead 100 --events none --duration "$seconds" >summary 2>&1 || {
	cat summary
	exit 1
}
echo 0 >$tracing/tracing_on
cat $tracing/trace >events
cat /proc/slotscope/info >info
for event in ss_rdt_sample ss_rmid_alloc ss_rmid_free ss_measure; do
	echo 0 >$tracing/events/slotscope/$event/enable
done
kill %1 %2 %3 2>/dev/null || true
rmmod slotscope
