# SPDX-License-Identifier: MIT
# In a guest with two L3 caches, of one CPU each: the second CPU comes online when there is no memory for the counters of
# its cache. It comes online, and runs under RMID 0; the other one is not touched by that. Once there is memory, it has
# counters. busybox sh; exits 1 at the first thing that is not as it should be.
set -eu

fail() { echo "FAIL $*"; cat /proc/slotscope/info 2>/dev/null; dmesg | tail -n 20; exit 1; }
# PQR_ASSOC of CPU $1, as 16 hexadecimal digits: CLOSID, RMID.
pqr() { dd if="/dev/cpu/$1/msr" bs=8 count=1 iflag=skip_bytes skip=3215 2>/dev/null | od -An -tx8 | tr -d ' '; }
# expect_rmids CPU SOME: of 40 looks at somebody who computes there, some find an RMID, or none does.
expect_rmids() {
	taskset $((1 << $1)) sh -c 'while :; do :; done' &
	local busy=$! found=0 looks=40
	while [ $looks -gt 0 ]; do
		usleep 10000
		[ "$(pqr "$1")" = 0000000000000000 ] || found=$((found + 1))
		looks=$((looks - 1))
	done
	kill $busy
	[ $((found > 0)) = "$2" ] || fail "$found of 40 looks find an RMID on CPU $1"
}
cpu1=/sys/devices/system/cpu/cpu1/online
# Who computes on CPU $1 is recorded, from its birth: prints how many of the rows have each rdt_status.
statuses() {
	: >out
	./slotscope record --source kmod --max-overhead 100 --events none --output poor.csv >out 2>&1 &
	local recorder=$! tries=300
	while ! grep -q recording out && [ $tries -gt 0 ]; do
		tries=$((tries - 1))
		usleep 100000
	done
	usleep 500000 # what an RMID's owners before have left is looked at meanwhile
	taskset $((1 << $1)) sh -c 'while :; do :; done' &
	local busy=$!
	usleep 900000 && usleep 900000
	kill $busy
	kill $recorder
	wait $recorder || fail "the recording failed: $(cat out)"
	grep -q '^# identity: holds' poor.csv || fail "$(grep '^# identity' poor.csv)"
	awk -F, -v tgid=$busy '/^#/ { next } !column { for (i = 1; i <= NF; i++) if ($i == "rdt_status") column = i } $3 == tgid { nr[$column]++ }
		END { for (status in nr) print status, nr[status] }' poor.csv
}
domains() { sed -n 's/^l3_domain_//p' /proc/slotscope/info | tr '\n' ' '; }

[ ! -s msr.ko ] || insmod msr.ko
echo 0 >$cpu1
insmod slotscope.ko rdt_budget_us=200 # an emulated read takes longer
grep -q '^backend: hardware$' /proc/slotscope/info || fail "it does not use the hardware"
[ "$(domains)" = "0: 0 " ] || fail "its domains are $(domains)"

echo 1 >/sys/module/slotscope/parameters/fail_step
echo 1 >$cpu1 || fail "without memory for its counters CPU 1 does not come online"
[ "$(cat $cpu1)" = 1 ] || fail "CPU 1 is not online"
dmesg | grep -q "slotscope: no memory for the RDT counters of CPU 1's L3 cache: it runs under RMID 0" || fail "dmesg does not say so"
[ "$(domains)" = "0: 0 " ] || fail "its domains are $(domains)"
expect_rmids 0 1
expect_rmids 1 0
all=$(statuses 1)
echo "$all" | grep -q . || fail "who computes on CPU 1 has no rows"
echo "$all" | grep -q '^ok ' && fail "rows of who computes on CPU 1 are said to be measured: $all"
all=$(statuses 0)
echo "$all" | grep -q '^ok ' || fail "no row of who computes on CPU 0 is measured: $all"
echo "ok    no memory for a CPU's counters: it comes online, and runs under RMID 0"

echo 0 >$cpu1
echo 1 >$cpu1
[ "$(domains)" = "0: 0 1: 1 " ] || fail "its domains are $(domains)"
expect_rmids 0 1
expect_rmids 1 1
all=$(statuses 1)
echo "$all" | grep -q '^ok ' || fail "no row of who computes on CPU 1 is measured: $all"
rmmod slotscope
[ "$(pqr 0) $(pqr 1)" = "0000000000000000 0000000000000000" ] || fail "after unload: $(pqr 0) $(pqr 1)"
echo "ok    there is memory the next time: it has counters"
