#!/bin/sh
# SPDX-License-Identifier: MIT
# What the scripts in guests share. Sourced; busybox sh. The sourcing script sets failures=0.

fail() {
	echo "FAIL $*"
	failures=$((failures + 1))
}

# until_true N COMMAND: polls for at most N tenths of a second.
until_true() {
	tries=$1
	shift
	while ! "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || return 1
		usleep 100000
	done
}

# Keeps tracepoints switched on, twice each, by the kernel's own tracer (which records nothing): attaching
# and detaching ours then patches no code, which the emulator does not always bear (see guest.sh).
keep_on() { # keep_on EVENT...: as under tracing/events
	tracing=/sys/kernel/tracing
	mkdir -p $tracing/instances/second 2>/dev/null
	for instance in $tracing $tracing/instances/second; do
		echo 0 >"$instance/tracing_on"
		for event in "$@"; do
			echo 1 >"$instance/events/$event/enable"
		done
	done
}

keep_scheduler_on() {
	keep_on sched/sched_switch sched/sched_wakeup sched/sched_wakeup_new sched/sched_migrate_task sched/sched_process_exec \
		task/task_rename timer/hrtimer_expire_exit
}

is_loaded() { grep -q '^slotscope ' /proc/modules; }
is_unloadable() { rmmod slotscope; }

# Where the kernel looks for memory that nobody points to: a report in its log fails the run (see guest.sh).
# A scan takes only what it finds for the second time.
no_memory_leaks() {
	[ -e /sys/kernel/debug/kmemleak ] || return 0
	usleep 6000000 # it does not look at what is younger
	for _ in 1 2; do
		echo scan >/sys/kernel/debug/kmemleak || fail "kmemleak has switched itself off"
	done
	cat /sys/kernel/debug/kmemleak
}

# lockdep stops at its first report, and when it runs out of room.
lockdep_is_on() {
	[ ! -e /proc/lockdep_stats ] || grep -q 'debug_locks: *1' /proc/lockdep_stats || fail "lockdep has switched itself off"
}

