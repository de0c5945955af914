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

[ ! -s msr.ko ] || insmod msr.ko

mount -t resctrl none /sys/fs/resctrl
insmod slotscope.ko
expect emulated 'resctrl is mounted'
rmmod slotscope
umount /sys/fs/resctrl
echo "ok    resctrl mounted before load: emulated"

insmod slotscope.ko
expect hardware 'RDT monitoring'
mount -t resctrl none /sys/fs/resctrl
usleep 20000
expect emulated 'resctrl was mounted'
expect_quiet
umount /sys/fs/resctrl
expect emulated 'resctrl was mounted'
rmmod slotscope
dmesg | grep -q 'slotscope: RDT hardware is not used any more: resctrl was mounted' || fail "dmesg does not say why"
[ "$(dmesg | grep -c 'not used any more')" = 1 ] || fail "dmesg says it twice"
echo "ok    resctrl mounted after load: stepped aside, for good, and said so once"

insmod slotscope.ko
expect hardware 'RDT monitoring'
printf '\005\000\000\000\000\000\000\000' | dd of=/dev/cpu/1/msr bs=8 count=1 oflag=seek_bytes seek=3215 2>/dev/null
usleep 20000
expect emulated 'somebody else writes RMIDs'
expect_quiet 5
rmmod slotscope
expect_quiet 5
printf '\000\000\000\000\000\000\000\000' | dd of=/dev/cpu/1/msr bs=8 count=1 oflag=seek_bytes seek=3215 2>/dev/null
echo "ok    a foreign writer: stepped aside, and left what it wrote"

insmod slotscope.ko hardware=0
expect emulated 'hardware=0'
expect_quiet
rmmod slotscope
echo "ok    hardware=0: emulated, and nothing is written"

step=1
while ! insmod slotscope.ko fail_step=$step 2>/dev/null; do
	expect_quiet
	step=$((step + 1))
done
[ $step -gt 10 ] || fail "only $((step - 1)) steps of loading can fail"
rmmod slotscope
expect_quiet
echo "ok    $((step - 1)) loads that failed: after each every CPU has RMID 0"

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
