# SPDX-License-Identifier: MIT
# In a guest whose CPUs have RDT: in-guest.sh LOAD SECONDS [PARAMETER...]. Records some known load with the module, and
# leaves what check.py compares with the truth: slots.csv, events (the module's own tracepoints, and the scheduler's), tgids
# and info. LOAD is few (processes), many (that live for milliseconds) or sleepers (600, before one computes). busybox sh.
set -eu
load=$1
seconds=$2
shift 2
tracing=/sys/kernel/tracing
[ -d $tracing/events ] || mount -t tracefs none $tracing
# shellcheck source=tests/vm/common.sh
. ./common.sh
failures=0

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

# In the background, each its own process: one that always computes, one that computes and sleeps, one that starts a
# process every PERIOD us, and one of whose processes computes until it ends, and then the next.
computes() { while :; do :; done; }
computes_and_sleeps() { while :; do i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done; usleep 30000; done; }
starts() { while :; do /bin/true; usleep "$1"; done; }
ends() { while :; do (i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done); done; }
begin() {
	"$@" &
	begun="${begun:-} $!"
}
trap 'kill -9 ${begun:-} 2>/dev/null || true' EXIT

echo mono >$tracing/trace_clock
echo 1 >$tracing/options/record-tgid
echo 0 >$tracing/options/irq-info
echo 65536 >$tracing/buffer_size_kb
# The scheduler's record is of all the time; the module is loaded, and recorded, while there is load.
echo 1 >$tracing/events/sched/sched_switch/enable
begin computes
begin computes_and_sleeps
if [ "$(nproc)" -gt 2 ]; then # a load that is too even is the same a slot later
	begin computes_and_sleeps
	begin computes_and_sleeps
fi
if [ "$load" = sleepers ]; then
	./live_tests --workload sleepers 600 >/tmp/sleepers &
	begun="$begun $!"
	until_true 600 test -s /tmp/sleepers || fail "the sleepers do not start"
fi

insmod slotscope.ko "$@"
dmesg | grep slotscope: | tail -n 1
grep -q '^backend: hardware$' /proc/slotscope/info || { cat /proc/slotscope/info; exit 1; }
for event in ss_rdt_sample ss_rmid_alloc ss_rmid_free ss_measure; do
	echo 1 >$tracing/events/slotscope/$event/enable
done

begin starts 20000
if [ "$load" = many ]; then
	begin ends
	for _ in 1 2 3 4; do
		begin starts 5000
	done
fi
if [ "$load" = sleepers ]; then # it has no RMID, and needs one
	until_true 100 grep -q '^rmid_taken_back: [1-9]' /proc/slotscope/info || fail "nobody who sleeps loses an RMID"
fi
./slotscope record --source kmod --max-overhead 100 --events none --output slots.csv --duration "$seconds" >summary 2>&1 &
recorder=$!
until_true 300 grep -q recording summary || fail "the collector does not record"
begin ./live_tests --workload busy $((seconds * 1000 - 500)) >busy
wait $recorder || {
	cat summary
	exit 1
}
echo 0 >$tracing/tracing_on
cat /proc/slotscope/info >info
cat $tracing/trace >events
cat $tracing/saved_tgids >tgids
[ "$(cat $tracing/per_cpu/cpu*/stats | awk '/overrun/ { sum += $NF } END { print sum }')" = 0 ] || fail "the kernel's tracer lost events"
for event in sched/sched_switch slotscope/ss_rdt_sample slotscope/ss_rmid_alloc slotscope/ss_rmid_free slotscope/ss_measure; do
	echo 0 >$tracing/events/$event/enable
done
# shellcheck disable=SC2086 # one word each
kill -9 $begun 2>/dev/null || true
rmmod slotscope
[ $failures = 0 ]
