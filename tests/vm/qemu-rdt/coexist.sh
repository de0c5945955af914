# SPDX-License-Identifier: MIT
# In a guest whose CPUs have RDT: the module beside resctrl and beside somebody who writes RMIDs himself.
# busybox sh; exits 1 at the first thing that is not as it should be.
set -eu

fail() { echo "FAIL $*"; cat /proc/slotscope/info 2>/dev/null; dmesg | tail -n 20; exit 1; }
info() { sed -n "s/^$1: //p" /proc/slotscope/info; }
expect() { # expect BACKEND REASON
	[ "$(info backend)" = "$1" ] || fail "the backend is $(info backend), not $1"
	info backend_reason | grep -q "$2" || fail "the reason is '$(info backend_reason)', not '$2'"
}
# PQR_ASSOC of CPU $1, as 16 hexadecimal digits: CLOSID, RMID.
pqr() { dd if="/dev/cpu/$1/msr" bs=8 count=1 iflag=skip_bytes skip=3215 2>/dev/null | od -An -tx8 | tr -d ' '; }
expect_quiet() { # expect_quiet [RMID]: of CPU 1, as hexadecimal digit
	usleep 50000
	[ "$(pqr 0)" = 0000000000000000 ] || fail "CPU 0 has $(pqr 0) in PQR_ASSOC"
	[ "$(pqr 1)" = "000000000000000${1:-0}" ] || fail "CPU 1 has $(pqr 1) in PQR_ASSOC"
}

# What needs ticks needs a listener.
tracing=/sys/kernel/tracing
load() { # load PARAMETER...
	insmod slotscope.ko "$@"
	echo 1 >$tracing/events/slotscope/ss_tick/enable
}

[ ! -s msr.ko ] || insmod msr.ko

mount -t resctrl none /sys/fs/resctrl
insmod slotscope.ko
expect emulated 'resctrl is mounted'
rmmod slotscope
umount /sys/fs/resctrl
echo "ok    resctrl mounted before load: emulated"

# Once resctrl is mounted, a CPU writes PQR_ASSOC for at most a tick more.
trace() { # trace 0|1
	echo "$1" >$tracing/events/msr/write_msr/enable
	echo "$1" >$tracing/events/slotscope/ss_tick/enable
}
insmod slotscope.ko
expect hardware 'RDT monitoring'
trace 1
usleep 50000
mount -t resctrl none /sys/fs/resctrl
echo mounted >$tracing/trace_marker
usleep 20000
trace 0
expect emulated 'resctrl was mounted'
awk '{ match($0, /\[[0-9]+\]/); cpu = substr($0, RSTART, RLENGTH) }
	/tracing_mark_write: mounted/ { mounted = 1 }
	/ ss_tick: / && mounted { ticks[cpu]++; all++ }
	/ write_msr: c8f,/ { if (!mounted) before++; else if (ticks[cpu] > 1) late++ }
	END { print "      " before + 0, "writes before the mount,", late + 0, "later than a tick after it,", all + 0, "ticks"; exit !(before && !late && all > 5) }' \
	$tracing/trace || fail "writes of PQR_ASSOC after resctrl was mounted"
expect_quiet
umount /sys/fs/resctrl
expect emulated 'resctrl was mounted'
rmmod slotscope
dmesg | grep -q 'slotscope: RDT hardware is not used any more: resctrl was mounted' || fail "dmesg does not say why"
[ "$(dmesg | grep -c 'not used any more')" = 1 ] || fail "dmesg says it twice"
echo "ok    resctrl mounted after load: stepped aside, for good, and said so once"

# Nobody listens, so nothing ticks, and the only one on CPU 1 never switches: it is left all the same.
insmod slotscope.ko
expect hardware 'RDT monitoring'
taskset -p 1 $$ >/dev/null
taskset 2 sh -c 'while :; do :; done' &
spinner=$!
tries=50
while [ "$(pqr 1)" = 0000000000000000 ] && [ $tries -gt 0 ]; do
	tries=$((tries - 1))
	usleep 20000
done
[ $tries -gt 0 ] || fail "CPU 1 runs under RMID 0"
mount -t resctrl none /sys/fs/resctrl
tries=50 # a second, and what an emulated machine adds to it
while [ "$(pqr 1)" != 0000000000000000 ] && [ $tries -gt 0 ]; do
	tries=$((tries - 1))
	usleep 40000
done
grep -q ss_tick /proc/timer_list && fail "it ticks, and nobody listens"
[ $tries -gt 0 ] || fail "CPU 1 still has $(pqr 1) in PQR_ASSOC: without a tick nobody left it"
expect emulated 'resctrl was mounted'
kill $spinner
taskset -p 3 $$ >/dev/null
umount /sys/fs/resctrl
rmmod slotscope
echo "ok    resctrl mounted while nothing ticks: a CPU that never switches is left, too"

load
expect hardware 'RDT monitoring'
printf '\005\000\000\000\000\000\000\000' | dd of=/dev/cpu/1/msr bs=8 count=1 oflag=seek_bytes seek=3215 2>/dev/null
usleep 20000
expect emulated 'somebody else writes RMIDs'
expect_quiet 5
rmmod slotscope
expect_quiet 5
echo "ok    a foreign writer: stepped aside, and left what it wrote"

# It wrote before we came, and not again since.
load
expect emulated 'somebody else writes RMIDs'
expect_quiet 5
rmmod slotscope
expect_quiet 5
printf '\000\000\000\000\000\000\000\000' | dd of=/dev/cpu/1/msr bs=8 count=1 oflag=seek_bytes seek=3215 2>/dev/null
echo "ok    a foreign RMID that is there at load stays there"

# While somebody records: no value is shown from then on, and the file says why.
insmod slotscope.ko rdt_budget_us=200
./slotscope record --source kmod --max-overhead 100 --events none --output aside.csv >out 2>err &
recorder=$!
while ! grep -q recording err; do usleep 50000; done
sleep 2
mount -t resctrl none /sys/fs/resctrl
sleep 3
umount /sys/fs/resctrl
kill $recorder
wait $recorder || fail "the recording failed: $(cat out err)"
grep -q '^# backend: hardware' aside.csv || fail "the file does not say that it began with hardware"
awk -F, 'NR == FNR { if (/^# note: the module does not use RDT hardware any more: resctrl was mounted/) line = FNR; next }
	/^#/ { next } FNR < line && $16 > 0 { before++ } FNR > line && $16 > 0 { after++ }
	END { exit !(line && before > 100 && !after) }' aside.csv aside.csv ||
	fail "values before and after resctrl was mounted: $(grep '^# note' aside.csv; awk -F, '{ print $19 }' aside.csv | sort | uniq -c)"
grep -q '^# identity: holds' aside.csv || fail "$(grep '^# identity' aside.csv)"
rmmod slotscope
echo "ok    resctrl mounted during a recording: a note in the file, and no value after it"

# CLOSIDs are somebody else's: those that are there at load, and one that changes under us.
write_pqr() { # write_pqr CPU CLOSID RMID
	printf "\\x$(printf %02x $(($3 & 255)))\\x$(printf %02x $(($3 >> 8)))\\0\\0\\x$(printf %02x "$2")\\0\\0\\0" |
		dd of="/dev/cpu/$1/msr" bs=8 count=1 oflag=seek_bytes seek=3215 2>/dev/null
}
closid() { pqr "$1" | cut -c 1-8; }
write_pqr 0 3 0
write_pqr 1 3 0
load
taskset -p 1 $$ >/dev/null # and whoever it starts: on CPU 1 there is nobody else
taskset 2 sh -c 'while :; do :; done' &
busy=$!
usleep 200000
[ "$(closid 0)" = 00000003 ] && [ "$(closid 1)" = 00000003 ] || fail "a CLOSID is lost: $(pqr 0) $(pqr 1)"
rmid=$(awk -v tgid=$busy '$2 == "live" && $3 == tgid { print $1 }' /proc/slotscope/rmids)
tries=20 # a kernel thread may run for a moment
while [ "$(pqr 1)" != "00000003$(printf %08x "$rmid")" ] && [ $tries -gt 0 ]; do
	tries=$((tries - 1))
	usleep 10000
done
[ $tries -gt 0 ] || fail "CPU 1 has $(pqr 1) in PQR_ASSOC, not the RMID $rmid of who runs there"
write_pqr 1 5 "$rmid"
usleep 100000
expect hardware 'RDT monitoring'
[ "$(info rdt_adopted_closids)" -gt 0 ] || fail "no CLOSID was adopted"
[ "$(closid 1)" = 00000005 ] && [ "$(closid 0)" = 00000003 ] || fail "a changed CLOSID is lost: $(pqr 0) $(pqr 1)"
kill $busy
taskset -p 3 $$ >/dev/null
rmmod slotscope
[ "$(pqr 0) $(pqr 1)" = "0000000300000000 0000000500000000" ] || fail "after unload: $(pqr 0) $(pqr 1)"
write_pqr 0 0 0
write_pqr 1 0 0
echo "ok    CLOSIDs survive load, switches, a change from outside, and unload"

# Suspend, as far as the kernel's own test of it goes: the notifiers run, tasks are frozen and thawed.
if [ -e /sys/power/pm_test ]; then
	insmod slotscope.ko
	echo 1 >/sys/module/suspend/parameters/pm_test_delay
	echo freezer >/sys/power/pm_test
	echo freeze >/sys/power/state
	before=$(info rdt_programmed)
	usleep 200000
	expect hardware 'RDT monitoring'
	[ "$(info rdt_programmed)" -gt "$before" ] || fail "after a suspend no RMID is programmed"
	# Who is thawed before the CPUs begin anew, and is not switched after that, has its RMID at once.
	echo -1 >/proc/sys/kernel/sched_rt_runtime_us
	taskset -p 1 $$ >/dev/null
	taskset 2 ./chrt -f 50 sh -c 'while :; do :; done' &
	busy=$!
	usleep 200000
	rmid=$(awk -v tgid=$busy '$2 == "live" && $3 == tgid { print $1 }' /proc/slotscope/rmids)
	echo freeze >/sys/power/state
	[ "$(pqr 1)" = "$(printf %016x "$rmid")" ] || fail "after a suspend CPU 1 has $(pqr 1) in PQR_ASSOC, not the RMID $rmid of who runs there"
	kill $busy
	taskset -p 3 $$ >/dev/null
	echo none >/sys/power/pm_test
	rmmod slotscope
	expect_quiet
	echo "ok    suspend and resume"
fi

insmod slotscope.ko hardware=0
expect emulated 'hardware=0'
expect_quiet
rmmod slotscope
echo "ok    hardware=0: emulated, and nothing is written"

# One of them does not fail the load: the first CPU finds no memory for its L3 cache's counters, the second one does.
step=1 nr_poorer=0
while :; do
	dmesg -c >/dev/null
	if insmod slotscope-fault.ko fail_step=$step 2>/dev/null; then
		dmesg | grep -q 'no memory for the RDT counters' || break
		nr_poorer=$((nr_poorer + 1))
		expect hardware 'RDT monitoring'
		grep -q '^l3_domain_0: 1$' /proc/slotscope/info || fail "CPU 1 is not alone in its domain"
		rmmod slotscope
	fi
	expect_quiet
	step=$((step + 1))
done
[ $step -gt 10 ] || fail "only $((step - 1)) steps of loading can fail"
[ $nr_poorer = 1 ] || fail "$nr_poorer steps, not one, load a module that does without a CPU's RDT counters"
rmmod slotscope
expect_quiet
echo "ok    $((step - 1)) loads with a step that failed: after each every CPU has RMID 0"

insmod slotscope.ko
(while :; do :; done) &
usleep 100000
echo 0 >/sys/devices/system/cpu/cpu1/online
usleep 100000
echo 1 >/sys/devices/system/cpu/cpu1/online
usleep 100000
expect hardware 'RDT monitoring'
grep -q '^l3_domain_0: 0-1$' /proc/slotscope/info || fail "CPU 1 is not in its domain again"
kill $!
rmmod slotscope
expect_quiet
echo "ok    a CPU goes and comes back; after unload every CPU has RMID 0"
