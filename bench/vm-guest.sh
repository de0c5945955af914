#!/bin/sh
# SPDX-License-Identifier: MIT
# vm-guest.sh: what vm.py runs in a guest whose clock counts instructions. Prints lines for vm.py:
#   measure CASE PROCESSES RMIDS SWITCH_NS SWITCHES COMPUTE_NS LIFE_NS LIVES
#   longest FUNCTION MOST_NS LEAST_NS COUNT
#   value KEY VALUE
#   program NAME RUNS NS
# CASE is alone, kmod, empty-raw_tracepoint, empty-tracepoint, recorded-SOURCE, or kmod-full: its table has no room left.
# NAME is room or full (tables), or waits, waits--no-waits, waits-without-states; with -kmod behind it, of a whole switch. vm-guest.sh [rdt|full|walk|waits]. busybox sh.
set -eu
tracing=/sys/kernel/tracing

start() { # start WORD...: instructions WORD... in the background, until stop
	mkfifo /tmp/input
	./instructions "$@" </tmp/input >/tmp/ready &
	exec 4>/tmp/input
	while ! grep -q ready /tmp/ready; do usleep 10000; done
}

stop() {
	exec 4>&-
	wait
	rm /tmp/input
}

# A kernel that has just started is not idle yet.
settle() {
	last=1
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
		./instructions compute 60000000 >/tmp/compute
		read -r now _ </tmp/compute
		change=$((100 * now / last))
		last=$now
		[ $change -ge 99 ] && [ $change -le 100 ] && return
	done
	echo "vm-guest.sh: the guest does not come to rest" >&2
	exit 1
}

measure() { # measure CASE PROCESSES RMIDS, three times
	for _ in 1 2 3; do
		./instructions switch 10000 >/tmp/switch
		./instructions compute 60000000 >/tmp/compute
		./instructions life 200 >/tmp/life
		read -r switch_ns switches </tmp/switch
		read -r compute_ns _ </tmp/compute
		read -r life_ns lives </tmp/life
		echo "measure $1 $2 $3 $switch_ns $switches $compute_ns $life_ns $lives"
	done
}

table_bytes() { awk '/ss_process_/ { sum += $2 } END { print sum + 0 }' /proc/vmallocinfo; }
info() { sed -n "s/^$1: //p" /proc/slotscope/info; }

compare() { # compare PROCESSES RMIDS...
	processes=$1
	shift
	start hold "$processes" 1
	measure alone "$processes" 0
	for rmids; do
		insmod slotscope.ko rmids="$rmids"
		measure kmod "$processes" "$rmids"
		rmmod slotscope
	done
	stop
}

empty() { # empty TYPE
	start empty "$1"
	measure "empty-$1" 10 0
	stop
}

begin_recording() { # begin_recording SOURCE [OPTION]; $recorder_program if it is another one
	rm -f /tmp/err # an earlier one's
	"${recorder_program:-./slotscope}" record --source "$1" --max-overhead 100 --output /tmp/slots.csv ${2:+"$2"} >/tmp/summary 2>/tmp/err &
	recorder=$!
	while ! grep -qs recording /tmp/err; do usleep 10000; done
}

end_recording() {
	kill $recorder
	wait $recorder
	rm /tmp/slots.csv
}

recorded() { # recorded SOURCE RMIDS
	begin_recording "$1"
	measure "recorded-$1" 10 "$2"
	end_recording
}

# The recorder's eBPF program that has run most, which is that of switches: runs and ns.
switch_program() {
	for file in /proc/"$recorder"/fdinfo/*; do
		awk '/^run_time_ns:/ { ns = $2 } /^run_cnt:/ { runs = $2 } END { if (runs) print runs, ns }' "$file"
	done | sort -n | tail -n 1
}

# bpf_switch NAME, three times: without what the recorder itself does.
bpf_switch() {
	for _ in 1 2 3; do
		read -r runs_before ns_before <<-END
			$(switch_program)
		END
		./instructions switch 10000 >/dev/null
		read -r runs ns <<-END
			$(switch_program)
		END
		echo "program $1 $((runs - runs_before)) $((ns - ns_before))"
	done
}

# held_switch NAME, three times: while the recorder is held, which has the same CPU. The rings have room for as many.
held_switch() {
	for _ in 1 2 3; do
		usleep 500000 # for what is in them
		kill -STOP $recorder
		./instructions switch 1000 >/tmp/switch
		kill -CONT $recorder
		read -r switch_ns switches </tmp/switch
		echo "program $1-kmod $switches $switch_ns"
	done
}

# The longest run of each function that runs with interrupts off, the tracer's own instructions included.
longest() {
	start hold 2000 1
	insmod slotscope.ko
	echo 0 >$tracing/tracing_on
	for name in ss_on_sched_switch ss_on_sched_wakeup_new ss_on_sched_process_exec ss_on_task_rename ss_tick \
		ss_rmid_copy_piece ss_rmid_count; do
		echo $name >>$tracing/set_ftrace_filter
	done
	echo 1 >$tracing/max_graph_depth
	echo 4096 >$tracing/buffer_size_kb
	echo function_graph >$tracing/current_tracer
	echo 1 >$tracing/tracing_on
	./instructions life 300 >/dev/null
	./instructions switch 4000 >/dev/null
	for _ in 1 2 3; do cat /proc/slotscope/rmids >/dev/null; done
	echo 0 >$tracing/tracing_on
	sed -n 's/^.*) *[^0-9]* *\([0-9.]*\) us *| *\(ss_[a-z_]*\).*$/\1 \2/p' $tracing/trace |
		awk '{ count[$2]++; if ($1 > most[$2]) most[$2] = $1 }
			{ if (!($2 in least) || $1 < least[$2]) least[$2] = $1 }
			END { for (name in most) printf "longest %s %d %d %d\n", name, most[name] * 1000, least[name] * 1000, count[name] }'
	echo nop >$tracing/current_tracer
	echo >$tracing/set_ftrace_filter
	echo "value process_slots $(info process_slots)"
	echo "value table_bytes $(table_bytes)"
	echo "value module_bytes $(cat /sys/module/slotscope/coresize)"
	rmmod slotscope
	stop
}

walk() { # walk PROCESSES THREADS
	start hold "$1" "$2"
	insmod slotscope.ko
	for key in walk_threads walk_uncounted walk_ns walk_pieces walk_longest_piece_ns; do
		echo "value $key $(info $key)"
	done
	rmmod slotscope
	stop
}

# More processes than the table has room for.
full() {
	start hold 300 1
	measure alone 300 0
	insmod slotscope.ko max_processes=64
	[ "$(info untracked)" -gt 200 ] || exit 1
	measure kmod-full 300 512
	rmmod slotscope
	stop
	echo 1 >/proc/sys/kernel/bpf_stats_enabled
	recorder_program=./slotscope-small
	begin_recording bpf
	bpf_switch room
	start hold 1200 1
	bpf_switch full
	end_recording
	grep -q 'untracked_processes [1-9]' /tmp/summary || { cat /tmp/summary; exit 1; }
	stop
}

# A switch with waits and without: the eBPF source's program, without its look at how a process leaves as well; and a
# switch with the module and its relay.
waits() {
	echo 1 >/proc/sys/kernel/bpf_stats_enabled
	for option in '' --no-waits; do
		begin_recording bpf "$option"
		bpf_switch "waits$option"
		end_recording
	done
	recorder_program=./slotscope-without-states
	begin_recording bpf
	bpf_switch waits-without-states
	end_recording
	recorder_program=
	echo 0 >/proc/sys/kernel/bpf_stats_enabled
	insmod slotscope.ko
	for option in '' --no-waits; do
		begin_recording kmod "$option"
		held_switch "waits$option"
		end_recording
	done
	rmmod slotscope
}

settle
case ${1:-} in
waits)
	waits
	exit
	;;
rdt)
	compare 10 512
	exit
	;;
full)
	full
	exit
	;;
walk) # more threads than there are on most machines
	echo 4194304 >/proc/sys/kernel/pid_max
	echo 1000000 >/proc/sys/kernel/threads-max
	echo 1000000 >/proc/sys/vm/max_map_count
	walk "$2" "$3"
	exit
	;;
esac
measure alone 10 0
empty raw_tracepoint
empty tracepoint
recorded bpf 0
insmod slotscope.ko
recorded kmod 512
rmmod slotscope
compare 10 16 512
compare 100 512
compare 500 512
compare 2000 16 512
longest
walk 20 1000
