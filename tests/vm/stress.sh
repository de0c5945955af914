#!/bin/sh
# SPDX-License-Identifier: MIT
# stress.sh SECONDS: in a guest, all at once: processes are born and die in crowds and storms, a CPU goes and comes
# back, procfs is read and written, a collector records and is killed, and the module comes and goes with other
# parameters each time. Ends with a line PASS, or says what failed. What the kernel has to say about it is for guest.sh.
set -u
seconds=$1
failures=0
# shellcheck source=tests/vm/common.sh
. ./common.sh

again_and_again() { # again_and_again COMMAND...: while /tmp/busy exists
	while [ -e /tmp/busy ]; do
		"$@" >/dev/null 2>&1
	done
}

# The kernel's own threads come first: kmemleak's is nice, and starved in the middle of an RCU section it stalls RCU.
workload() {
	# shellcheck disable=SC2016 # for that shell
	sh -c 'renice -n 19 -p $$ >/dev/null && exec ./live_tests --workload "$@"' sh "$@" || echo "$*" >>/tmp/failed
}

hotplug_once() {
	echo 0 >/sys/devices/system/cpu/cpu1/online
	usleep 300000
	echo 1 >/sys/devices/system/cpu/cpu1/online
	usleep 700000
}

read_once() {
	cat /proc/slotscope/rmids /proc/slotscope/info
	usleep 20000
}

dump_once() {
	echo dump >/proc/slotscope/rmids
	usleep 50000
}

births=2000 crowd=300
case $(uname -r) in *-debug-*) births=100 crowd=60 ;; esac # a fork takes it a second
keep_scheduler_on
touch /tmp/busy
for command in "workload storm $births" "workload crowd $crowd" "workload kill-threads 1" "workload exec-by-thread" \
	"workload traced" hotplug_once read_once dump_once; do
	# shellcheck disable=SC2086 # a command and its arguments
	again_and_again $command &
done

end=$(($(date +%s) + seconds))
rounds=0
while [ "$(date +%s)" -lt $end ]; do
	module=slotscope.ko
	case $((rounds % 5)) in
	0) set -- ;;
	1) set -- rmids=16 ;;
	2) set -- cpus=0 ;;
	3) set -- max_processes=64 ;;
	4)
		set -- fail_step=$((1 + rounds / 5 % 15)) # there are 15 steps
		module=slotscope-fault.ko
		;;
	esac
	if insmod $module "$@" 2>/dev/null; then
		case ${1:-} in
		fail_step=*) fail "a load with $1 did not fail" ;;
		esac
		keep_on slotscope
		rm -f /tmp/out # an earlier one's
		./slotscope record --source kmod --max-overhead 100 --output stress.csv >/tmp/out 2>&1 &
		collector=$!
		if [ $((rounds % 2)) = 0 ]; then
			usleep 4000000 # at whatever it is then
			kill -9 $collector
			wait $collector
		else
			until_true 600 grep -q recording /tmp/out || fail "the collector does not record"
			usleep 4000000
			kill $collector
			wait $collector
			status=$?
			[ $status = 0 ] || { cat /tmp/out; fail "the recording ended with $status"; }
			grep -q '^# identity: holds' stress.csv || fail "$(grep '^# identity' stress.csv)"
		fi
		rm -f stress.csv*
		until_true 100 is_unloadable || fail "rmmod"
	else
		case ${1:-} in
		fail_step=*) ;;
		*) fail "insmod $*" ;;
		esac
	fi
	rounds=$((rounds + 1))
	[ $failures = 0 ] || break
done
rm /tmp/busy
wait
echo 1 >/sys/devices/system/cpu/cpu1/online 2>/dev/null
[ ! -e /tmp/failed ] || fail "workloads failed: $(sort /tmp/failed | uniq -c)"
no_memory_leaks
lockdep_is_on
echo "stress: $rounds rounds in $seconds s"
if [ $failures = 0 ]; then echo PASS; else exit 1; fi
