#!/bin/bash
# SPDX-License-Identifier: MIT
#
# guest.sh [options] KERNEL -- COMMAND [ARG...]
#
# Runs COMMAND under another kernel, in a QEMU guest without KVM, and exits with its status.
# README.md beside this file is the manual; "guest.sh --help" prints the options.
#
# How it fits together:
#   initramfs = base (busybox, virtio modules, the init below; cached per kernel)
#             + overlay (this run's files and command), both plain cpio, one after the other.
#   ttyS0     = the kernel log and nothing else               -> $work/serial, or --log
#   port out  = stdout and stderr of COMMAND, live            -> $work/output
#   port result = one tar: kmsg, taint, files for --out, and last the status -> $work/result
# A status that arrived therefore proves that everything before it arrived. The ports are virtio
# serial with ioeventfd=off: QEMU has written the bytes to the file on the host before the guest's
# write is over, so nothing is in flight when the guest ends QEMU.

set -euo pipefail

readonly EXIT_USAGE=2 EXIT_MISSING=69 EXIT_PANIC=70 EXIT_SPLAT=71 EXIT_EMULATOR=72 EXIT_TIMEOUT=124

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kernels_sh=$here/../../scripts/kernels.sh
cache_home=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}
cache=${SLOTSCOPE_CACHE:-$cache_home/slotscope}/guests
qemu=${QEMU:-}

# What the kernel prints when it found a fault in itself, at the start of a message (prefix) or
# anywhere where the word is not used for anything else. "WARNING:" counts only at the start:
# Debian kernels boot with lines such as "Spectre V2 : WARNING: Unprivileged eBPF is enabled".
readonly prefix='^(\[[ 0-9.]+\](\[[ TC0-9]+\])? )?'
readonly splat="$prefix(WARNING: |Oops|general protection|rcu: INFO: rcu.*stall|INFO: rcu.*stall)"\
'|(^|[^[:alnum:]_])BUG: |kernel BUG at |BUG [[:alnum:]_-]+ \(|\[ cut here \]|KASAN: |UBSAN: '\
'|INFO: task .* blocked for more than|INFO: trying to register non-static key|hard LOCKUP'\
'|possible (circular|recursive) locking|possible irq lock inversion|suspicious RCU usage'\
'|unreferenced object|new suspected memory leaks|Kernel panic - not syncing'\
'|slotscope: .*please report this'
readonly taint_mask=$((1 << 7 | 1 << 9 | 1 << 14))	# died, warned, soft lockup

fail() { local status=$1; shift; echo "guest.sh: $*" >&2; exit "$status"; }
note() { [ -n "$quiet" ] || echo "guest.sh: $*" >&2; }

usage() {
	cat <<-'END'
	usage: guest.sh [options] KERNEL -- COMMAND [ARG...]
	KERNEL: 6.1, 6.12-rt, 7.3, newest, a full release (see scripts/kernels.sh), or a path of a bzImage
	  --smp N                CPUs (2)
	  --mem M                memory (1G)
	  --timeout S            seconds in which COMMAND says nothing, its start included; then exit 124 (180)
	  --in HOST[:GUEST]      copy a file or directory in; default /slotscope/NAME; repeatable
	  --out GUEST:HOST       copy a file or directory out, also when COMMAND failed; repeatable
	  --count-instructions   the clock counts instructions, 16 ns each, and stands still for none; one CPU
	  --append "ARGS"        more kernel arguments
	  --qemu "ARGS"          more QEMU arguments, split at blanks
	  --log FILE             the serial log (default: a temporary file, kept when the run fails)
	  --modules DIR          lib/modules/RELEASE of a KERNEL given as a path
	  --quiet                no remarks, only COMMAND's output and the reason of a failure
	  --shell                a shell on this terminal instead of COMMAND; nothing is copied out
	exit: COMMAND's status; 2 usage, 69 something is missing here, 70 the guest died,
	      71 the kernel log has a splat, 72 a known defect of the emulator or of that kernel, 124 timeout
	END
}

bad_usage() { echo "guest.sh: $* (guest.sh --help lists the options)" >&2; exit $EXIT_USAGE; }

# --- options ---------------------------------------------------------------------------------

smp=2 mem=1G accelerator=tcg,thread=multi timeout=180 append='' log='' modules='' quiet='' shell=''
ins=() outs=() qemu_extra=() kernel='' command=()

while [ $# -gt 0 ]; do
	case $1 in
	--smp | --mem | --timeout | --in | --out | --append | --qemu | --log | --modules)
		[ $# -ge 2 ] || bad_usage "$1 needs a value" ;;
	esac
	case $1 in
	--in=*) ins+=("${1#--in=}"); shift ;;
	--smp) smp=$2; shift 2 ;;
	--mem) mem=$2; shift 2 ;;
	--timeout) timeout=$2; shift 2 ;;
	--in) ins+=("$2"); shift 2 ;;
	--out) outs+=("$2"); shift 2 ;;
	--count-instructions) accelerator=tcg,thread=single smp=1; qemu_extra+=(-icount 'shift=4,sleep=off'); shift ;;
	--append) append+=" $2"; shift 2 ;;
	--qemu) read -r -d '' -a words <<<"$2" || true; qemu_extra+=("${words[@]}"); shift 2 ;;
	--log) log=$2; shift 2 ;;
	--modules) modules=$2; shift 2 ;;
	--quiet) quiet=1; shift ;;
	--shell) shell=1; shift ;;
	-h | --help) usage; exit 0 ;;
	--) shift; command=("$@"); break ;;
	-*) bad_usage "unknown option $1" ;;
	*) [ -z "$kernel" ] || bad_usage "two kernels, '$kernel' and '$1'; COMMAND goes after --"
	   kernel=$1; shift ;;
	esac
done
[ -n "$kernel" ] || bad_usage "no KERNEL"
[ ${#command[@]} -gt 0 ] || [ -n "$shell" ] || bad_usage "no COMMAND after --"
[[ $smp =~ ^[1-9][0-9]*$ ]] || bad_usage "--smp $smp is not a number"
[[ $timeout =~ ^[1-9][0-9]*$ ]] || bad_usage "--timeout $timeout is not a number of seconds"

# --- what must be here -----------------------------------------------------------------------

require() {
	local missing=() busybox_info
	if [ -z "$qemu" ] && ! qemu=$("$kernels_sh" qemu); then
		qemu='qemu-system-x86_64'
		note "Debian 13's QEMU cannot be had (reason above); this machine's own may trip over a defect of it (exit code $EXIT_EMULATOR)"
	fi
	command -v "$qemu" >/dev/null || missing+=(qemu-system-x86)
	command -v cpio >/dev/null || missing+=(cpio)
	busybox=$(command -v busybox) || busybox=
	busybox_info=$([ -z "$busybox" ] || LC_ALL=C ldd "$busybox" 2>&1) || true
	[[ $busybox_info == *"not a dynamic executable"* ]] || missing+=(busybox-static)
	[ ${#missing[@]} = 0 ] ||
		fail $EXIT_MISSING "guests need the packages ${missing[*]}; run: apt-get install ${missing[*]}"
}
require

if [[ $kernel == */* ]]; then
	image=$kernel
	[ -f "$image" ] || bad_usage "there is no kernel image $image"
else
	image=$("$kernels_sh" image "$kernel") ||
		fail $EXIT_MISSING "there is no kernel '$kernel' to boot (reason above)"
	modules=$("$kernels_sh" modules "$kernel")
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/guest.XXXXXX")
qemu_pid=
# end_qemu: QEMU leaves on SIGTERM; SIGKILL is for one that does not within 2 s. Bash's remarks on
# killed jobs are no use to anybody.
end_qemu() {
	[ -n "$qemu_pid" ] || return 0
	{
		kill -TERM "$qemu_pid" || true
		for _ in {1..20}; do
			kill -0 "$qemu_pid" || break
			sleep 0.1
		done
		kill -KILL "$qemu_pid" || true
		wait "$qemu_pid" || true
	} 2>/dev/null
	qemu_pid=
}
# shellcheck disable=SC2317 # called by the trap
cleanup() {
	end_qemu
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# --- the base initramfs ----------------------------------------------------------------------

# /init of the guest. /.guest holds this run's part: command, and out (the paths to copy out).
write_init() {
	cat <<'INIT'
#!/bin/busybox sh
export PATH=/sbin:/bin:/usr/sbin:/usr/bin:/slotscope HOME=/root TERM=dumb SLOTSCOPE_GUEST=1

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
ln -sfn /proc/self/fd /dev/fd
for i in 0:stdin 1:stdout 2:stderr; do ln -sfn "/proc/self/fd/${i%%:*}" "/dev/${i#*:}"; done
mount -t devpts devpts /dev/pts 2>/dev/null
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
# Its own scans run for minutes, at a low priority: one that is preempted in the midst of RCU looks like a stall.
# Whoever wants one asks for it.
[ ! -e /sys/kernel/debug/kmemleak ] || echo scan=off >/sys/kernel/debug/kmemleak
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t bpf bpf /sys/fs/bpf 2>/dev/null
hostname slotscope-guest
ip link set lo up
for i in /.guest/modules/*.ko; do
	[ ! -e "$i" ] || insmod "$i"
done

leave() {	# isa-debug-exit; the other two are for kernels without /dev/port
	printf '\0' | dd of=/dev/port bs=1 seek=244 2>/dev/null
	poweroff -f
	reboot -f
}

# port NAME prints the device of a virtio serial port; ports appear a moment after the driver.
port() {
	local try dir name
	for try in $(seq 200); do
		for dir in /sys/class/virtio-ports/*; do
			read -r name 2>/dev/null <"$dir/name" || continue
			[ "$name" != "$1" ] || [ ! -c "/dev/${dir##*/}" ] || { echo "/dev/${dir##*/}"; return; }
		done
		usleep 50000
	done
	echo "slotscope-guest: no virtio serial port $1; the kernel lacks virtio_pci or virtio_console" >/dev/kmsg
	return 1
}

# The processes that COMMAND left behind: not init, not the copier of the output, not the
# kernel's own (which have no command line).
leftovers() {
	local dir pid line
	for dir in /proc/[0-9]*; do
		pid=${dir#/proc/} line=
		case $pid in 1 | "$copier") continue ;; esac
		IFS= read -r line 2>/dev/null <"$dir/cmdline"
		[ -z "$line" ] || echo "$pid"
	done
}

end_leftovers() {
	local try left
	left=$(leftovers)
	[ -n "$left" ] || return
	kill -TERM $left 2>/dev/null
	for try in 1 2 3 4 5 6 7 8 9 10; do
		usleep 100000
		left=$(leftovers)
		[ -n "$left" ] || return
	done
	kill -KILL $left 2>/dev/null
	usleep 100000
}

# The whole kernel log, whatever COMMAND did with "dmesg -c": up to a line that is written now.
kernel_log() {
	echo "slotscope-guest: end of command" >/dev/kmsg
	timeout 20 awk '{ print } /slotscope-guest: end of command/ { exit }' /dev/kmsg
}

cd /slotscope
dmesg -n 8

if grep -qw slotscope.shell /proc/cmdline; then
	dmesg -n 4
	echo "slotscope guest $(uname -r). The command of this run: sh /.guest/command. Leave with: exit"
	TERM=linux setsid cttyhack sh
	leave
fi

output=$(port slotscope.output) || leave
result=$(port slotscope.result) || leave
mkfifo /run/output
cat </run/output >"$output" &
copier=$!
sh /.guest/command </dev/null >/run/output 2>&1
status=$?
end_leftovers
wait "$copier"

cd /
mkdir -p /run/result/out
kernel_log >/run/result/kmsg
cat /proc/sys/kernel/tainted >/run/result/taint
number=0
while IFS= read -r path; do
	case $path in
	/proc/* | /sys/*) cat "$path" >"/run/result/out/$number" || rm -f "/run/result/out/$number" ;;
	*) if [ -f "$path" ] || [ -d "$path" ]; then ln -s "$path" "/run/result/out/$number"; fi ;;
	esac
	number=$((number + 1))
done </.guest/out
echo "$status" >/run/result/status
cd /run/result
tar -chf - kmsg taint out status | cat >"$result"
leave
INIT
}

# archive DIR prints DIR as a cpio, owned by root.
archive() { (cd "$1" && find . -mindepth 1 | LC_ALL=C sort | cpio -o -H newc -R 0:0 --quiet); }

# The modules that make /dev/vport* appear, in the order of their dependencies. What the kernel
# has built in (6.12) is not found, and not needed.
readonly guest_modules=(virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci
	virtio_console)

# copy_modules DIR: unpacked, since busybox's insmod reads no .ko.xz.
copy_modules() {
	local name file number=10 found
	[ -n "$modules" ] || return 0
	found=$(find "$modules/kernel/drivers/virtio" "$modules/kernel/drivers/char" -name 'virtio*.ko*' 2>/dev/null) || true
	for name in "${guest_modules[@]}"; do
		file=$(grep "/$name\.ko" <<<"$found" | head -n 1) || continue
		case $file in
		*.xz) xz -dc "$file" ;;
		*.zst) zstd -dcq "$file" ;;
		*.gz) gzip -dc "$file" ;;
		*) cat "$file" ;;
		esac >"$1/$number-$name.ko"
		number=$((number + 1))
	done
}

# Sets $base, the path of the cached archive. Its name contains a digest of all that is in it
# but the modules, and those belong to the release.
make_base() {
	local root=$work/base release applet digest
	if [ -n "$modules" ]; then release=$(basename "$modules"); else release=none; fi
	write_init >"$work/init"
	digest=$({ cat "$work/init" "$busybox"; echo "$modules ${guest_modules[*]}"; } | sha256sum | cut -c 1-16)
	base=$cache/base-$release-$digest.cpio
	if [ -s "$base" ]; then
		touch -c "$base"
		return
	fi

	mkdir -p "$root"/{.guest/modules,bin,dev,proc,root,run,slotscope,sys,tmp,etc}
	while read -r applet; do
		mkdir -p "$root/${applet%/*}"
		ln -sf /bin/busybox "$root/$applet"
	done < <("$busybox" --list-full)
	rm -f "$root/bin/busybox"
	cp "$busybox" "$root/bin/busybox"
	echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
	echo 'root:x:0:' >"$root/etc/group"
	echo '127.0.0.1 localhost slotscope-guest' >"$root/etc/hosts"
	install -m 755 "$work/init" "$root/init"
	copy_modules "$root/.guest/modules"
	mkdir -p "$cache"
	archive "$root" >"$cache/.new.$$"
	mv "$cache/.new.$$" "$base"	# whoever is last wins, with the same content
	find "$cache" -type f -mtime +7 -delete	# those of older versions of this script
}

# --- the overlay -----------------------------------------------------------------------------

is_elf() {
	local magic=
	LC_ALL=C IFS= read -r -N 4 magic 2>/dev/null <"$1" || true
	[ "$magic" = $'\x7fELF' ]
}

# copy_libraries ROOT FILE...: the shared libraries that the FILEs load, at their own paths.
copy_libraries() {
	local root=$1 listing library
	shift
	listing=$(LC_ALL=C ldd "$@" 2>/dev/null) || true	# fails when one of them is static
	library=$(sed -n 's/^\t\(.*\) => not found$/\1/p' <<<"$listing" | sort -u | tr '\n' ' ')
	[ -z "$library" ] || fail $EXIT_USAGE "the libraries ${library}of an --in program are not on this machine"
	listing=$(sed -n 's/^\t\(.* => \)\?\(\/.*\) (0x.*/\2/p' <<<"$listing")
	[ -n "$listing" ] || return 0
	# glibc loads this one by itself, in pthread_cancel and pthread_exit.
	listing+=$'\n'$({ PATH=$PATH:/sbin ldconfig -p || true; } | sed -n 's/^\tlibgcc_s\.so\.1 (libc6,x86-64.*) => //p' | head -n 1)
	while IFS= read -r library; do
		[ -n "$library" ] || continue
		[ ! -e "$root$library" ] || continue
		mkdir -p "$root${library%/*}"
		cp -L "$library" "$root$library"
	done < <(sort -u <<<"$listing")
}

copy_in() {
	local root=$1 arg host guest file elfs=()
	for arg in "${ins[@]}"; do
		host=$arg guest=
		if [[ $arg =~ ^(.+):(/[^:]*)$ ]]; then
			host=${BASH_REMATCH[1]} guest=${BASH_REMATCH[2]}
		fi
		[ -e "$host" ] || bad_usage "--in: there is no $host"
		[ -n "$guest" ] || guest=/slotscope/
		[[ $guest != */ ]] || guest+=$(basename "$(realpath -s "$host")")
		mkdir -p "$root${guest%/*}"
		if [ -d "$host" ]; then
			mkdir -p "$root$guest"
			cp -a --reflink=auto "$host/." "$root$guest"
		else
			cp -L --preserve=mode,timestamps --reflink=auto "$host" "$root$guest"
		fi
		while IFS= read -r -d '' file; do
			case $file in *.ko | *.o | *.a) continue ;; esac
			if is_elf "$file"; then elfs+=("$file"); fi
		done < <(find -H "$host" -type f -print0)
	done
	[ ${#elfs[@]} = 0 ] || copy_libraries "$root" "${elfs[@]}"
}

quote() { printf "'%s' " "${1//\'/\'\\\'\'}"; }

make_overlay() {
	local root=$work/overlay arg path
	mkdir -p "$root/.guest" "$root/slotscope"
	copy_in "$root"
	for arg in "${command[@]}"; do quote "$arg"; done >"$root/.guest/command"
	for arg in "${outs[@]}"; do
		[[ $arg == ?*:?* ]] || bad_usage "--out $arg is not GUESTPATH:HOSTPATH"
		mkdir -p "$(dirname "${arg#*:}")"
		path=${arg%%:*}
		[[ $path == /* ]] || path=/slotscope/$path
		printf '%s\n' "$path"
	done >"$root/.guest/out"
	archive "$root" >"$work/overlay.cpio"
	rm -rf "$root"
}

# --- the kernel ------------------------------------------------------------------------------

# Sets $image to the kernel in it, uncompressed (cached), if QEMU can boot that: in the guest it would take seconds.
uncompress_image() {
	local start length release whole
	release=$(basename "$image")-$(stat -L -c %s-%Y "$image")
	whole=$cache/vmlinux-$release
	if [ ! -e "$whole" ]; then
		# By the header of a bzImage, see Documentation/arch/x86/boot.rst. The payload ends with its length.
		start=$((($(image_number 497 1) + 1) * 512 + $(image_number 584 4)))
		length=$(image_number 588 4)
		dd if="$image" iflag=skip_bytes,count_bytes skip="$start" count="$((length - 4))" status=none of="$work/payload"
		mkdir -p "$cache"
		case $(od -An -tx1 -N 4 "$work/payload" | tr -d ' ') in
		fd377a58) xz -dc "$work/payload" ;;
		28b52ffd) zstd -dcq "$work/payload" ;;
		1f8b*) gzip -dc "$work/payload" ;;
		esac >"$work/whole" 2>/dev/null || : >"$work/whole"
		readelf -n "$work/whole" 2>/dev/null | grep Xen >/dev/null || : >"$work/whole"	# CONFIG_PVH: how QEMU boots it
		rm "$work/payload"
		mv "$work/whole" "$cache/.new.$$"
		mv "$cache/.new.$$" "$whole"
	fi
	touch -c "$whole"
	[ ! -s "$whole" ] || image=$whole
}
image_number() { od -An --endian=little "-tu$2" -j "$1" -N "$2" "$image" | tr -d ' '; }

[ "$(od -An -tx1 -j 514 -N 4 "$image" | tr -d ' ')" != 48647253 ] || uncompress_image	# "HdrS"
make_base
make_overlay
cat "$base" "$work/overlay.cpio" >"$work/initrd"
rm -f "$work/overlay.cpio"

# --- the run ---------------------------------------------------------------------------------

# no_timer_check: on a starved host the check of the emulated timer can fail, and that is a panic.
# sysrq_always_enabled, nokaslr: for ask_guest and name_code below. no5lvl: while a booting kernel lists the
# features of its CPU, it takes itself for one of four levels for a moment; KASAN reports whatever an interrupt
# touches then. tsc: the CPUs of the emulator share one, but the kernel cannot know, and takes the emulated HPET, whose
# reading is an access to a device, under the emulator's one lock. -erms, init_on_alloc=0: the emulator moves and clears
# memory byte by byte where the CPU says that it is good at that, and pages are cleared before they are filled. The last
# two: a CPU may stand still because its host has other things to do.
cmdline="console=ttyS0 panic=-1 oops=panic no_timer_check tsc=reliable clocksource=tsc printk.devkmsg=on log_buf_len=4M sysrq_always_enabled no5lvl nokaslr init_on_alloc=0 rcupdate.rcu_cpu_stall_timeout=60 watchdog_thresh=30"
cmdline+="$append"

# shellcheck disable=SC2054 # QEMU separates with commas, too
arguments=(-accel "$accelerator" -cpu max,-erms,-fsrm -smp "$smp" -m "$mem" -nodefaults -no-user-config
	-display none -no-reboot -kernel "$image" -initrd "$work/initrd"
	-device "isa-debug-exit,iobase=0xf4,iosize=0x04")

if [ -n "$shell" ]; then
	"$qemu" "${arguments[@]}" -append "$cmdline slotscope.shell" -serial mon:stdio \
		"${qemu_extra[@]}" || true	# leaving by isa-debug-exit is status 1
	exit 0
fi

: >"$work/output"
: >"$work/serial"
: >"$work/result"
: >"$work/code"
mkfifo "$work/monitor.in" "$work/monitor.out"
arguments+=(-monitor "pipe:$work/monitor" -append "$cmdline" -serial "file:$work/serial"
	-device "virtio-serial-pci,ioeventfd=off"
	-chardev "file,id=output,path=$work/output"
	-device "virtserialport,chardev=output,name=slotscope.output"
	-chardev "file,id=result,path=$work/result"
	-device "virtserialport,chardev=result,name=slotscope.result"
	"${qemu_extra[@]}")

# The guest ends with this script even when the script is killed with SIGKILL.
leash=()
if command -v setpriv >/dev/null; then leash=(setpriv --pdeathsig KILL); fi
# A guest's ticks take the same from whatever it gets of the CPUs: with a third of them, it does next to nothing else.
if nice -n -10 true 2>/dev/null; then leash+=(nice -n -10); fi

# ask_guest: the guest says in the serial log who is blocked, and three times what its CPUs are doing.
ask_guest() {
	for key in w l l l; do
		timeout 2 bash -c "echo 'sendkey alt-sysrq-$key' >'$work/monitor.in'" || return 0
		sleep 1
	done
}

# ask_emulator: where the CPUs of a guest are that may be deaf to that key, three looks a second apart.
ask_emulator() {
	local cpu look
	exec 4<>"$work/monitor.out"
	for look in 1 2 3; do
		for ((cpu = 0; cpu < smp; cpu++)); do
			printf 'cpu %d\ninfo registers\nx/192gx %s\n' "$cpu" "\$sp"
		done >"$work/monitor.in"
		sleep 1
		echo "look $look"
		timeout 1 cat <&4 || true	# it does not end by itself
	done >"$work/cpus"
	exec 4>&-
}

# name_code prints for each look and CPU the function that it is in, and the words on its stack that are code. The
# names come from a second guest, where the kernel's (nokaslr) and no module's are at the same addresses.
name_code() {
	"$0" --quiet --timeout 120 "$kernel" -- cat /proc/kallsyms 2>/dev/null | grep -i ' t ' | LC_ALL=C sort >"$work/symbols" || true
	tr -d '\r' <"$work/cpus" | LC_ALL=C awk -v symbols="$work/symbols" '
		function code(word,  low, high, middle) { # a name, or nothing
			if (word >= "ffffffffc0000000" && word < "fffffffffe000000") return "(module)"
			if (word < first || word > last) return ""
			low = 1
			high = n
			while (low < high) {
				middle = int((low + high + 1) / 2)
				if (address[middle] <= word) low = middle; else high = middle - 1
			}
			return name[low]
		}
		function end_of_cpu() { if (line != "") print line; line = "" }
		BEGIN {
			while ((getline text <symbols) > 0) {
				split(text, part, " ")
				if (part[1] < "ffffffff80000000" || part[1] >= "ffffffffc0000000") continue
				address[++n] = part[1]
				name[n] = part[3]
			}
			first = address[1]
			last = address[n]
		}
		/look [0-9]$/ { end_of_cpu(); look = $NF }
		/^CPU#/ { end_of_cpu(); cpu = substr($1, 5) }
		/^RIP=/ {
			at = substr($1, 5)
			line = "CPU " cpu ", look " look ": " at " " code(at) " " $2 " " $NF "; stack:"
		}
		/^[0-9a-f]+: 0x/ {
			for (i = 2; i <= NF; i++) {
				called = code(substr($i, 3))
				if (called != "" && called != before) line = line " " called
				before = called
			}
		}
		END { end_of_cpu() }'
}

# How long the guest takes is the host's business: a guest that works on says so.
heard=$SECONDS said=0 looked=0 expired='' hung=''
"${leash[@]}" "$qemu" "${arguments[@]}" </dev/null >"$work/qemu" 2>&1 &
qemu_pid=$!
exec 3<"$work/output"
while kill -0 "$qemu_pid" 2>/dev/null; do
	cat <&3
	if ((SECONDS != looked)); then
		looked=$SECONDS
		now_said=$(stat -c %s "$work/output")
		((now_said == said)) || heard=$SECONDS
		said=$now_said
	fi
	if ((SECONDS - heard > timeout)); then	# whole seconds: at least, not at most
		ask_emulator
		ask_guest
		expired=1
		break
	fi
	# A guest that says so will not come back: why wait for the timeout?
	if grep -q -E 'watchdog: BUG: soft lockup|rcu: INFO: .*stall' "$work/serial" 2>/dev/null; then
		sleep 3	# for the rest of its report
		expired=1 hung=1
		break
	fi
	sleep 0.1
done
end_qemu
cat <&3

# --- the result ------------------------------------------------------------------------------

# keep_log prints where the serial log is; called when the run failed.
keep_log() {
	if [ -z "$log" ]; then
		log=$(mktemp "${TMPDIR:-/tmp}/guest-log.XXXXXX")
		cp "$work/serial" "$log"
	fi
	echo "guest.sh: the serial log is in $log" >&2
}

# kmsg_text prints the records of /dev/kmsg ("6,339,5140900,-;text") as dmesg would.
kmsg_text() {
	sed -n 's/\\x0a/\n/g; s/\\x09/\t/g; s/^[0-9]*,[0-9]*,\([0-9]*\),[^;]*;/\1 /p' "$1" |
		awk '{ us = $1; sub(/^[0-9]+ /, ""); printf "[%5d.%06d] %s\n", us / 1000000, us % 1000000, $0 }'
}

# print_splat FILE prints the first splat in a kernel log, fails when there is none.
print_splat() {
	local line
	line=$(grep -n -m 1 -E "$splat" "$1" | cut -d : -f 1) || return 1
	[ -n "$line" ] || return 1
	tail -n "+$line" "$1" | head -n 60 | sed '/---\[ end trace/q' >&2
}

tr -d '\r' <"$work/serial" >"$work/serial.text"
mv "$work/serial.text" "$work/serial"
[ -z "$log" ] || cp "$work/serial" "$log"

# A CPU runs into a breakpoint although the kernel has long put the old bytes back: the emulator executes a
# stale translation of code that another CPU has patched. It happens while a tracepoint is switched on or
# off. 6.1 tries the same instruction for ever, 6.12 takes it for a foreign breakpoint and dies ("Oops:
# int3"). Nobody's fault in the guest, and worth a second try.
# int3_backtraces LOG: those of CPUs that are in a breakpoint. Who has patched waits for them, and may be a module of ours.
int3_backtraces() {
	awk '/backtrace for cpu|CPU: [0-9]+ PID:/ { said = "" }
		{ said = said $0 "\n" }
		/<\/TASK>/ { if (said ~ /asm_exc_int3/) printf "%s", said; said = "" }' "$1"
}
# stands_at_patched_code LOG: or the interrupt that asks a CPU where it is came between two such breakpoints. Then it
# stands at a jump forwards, or at an instruction that does nothing, each of five bytes as a static branch has them.
stands_at_patched_code() {
	sed -n '/NMI backtrace for cpu/,/<\/TASK>/p' "$1" | grep -q -E '^.{0,20}Code: .*<(e9> .. .. .. 00|0f> 1f 44 00 00)'
}
is_emulator_defect() {
	# What the kernel found before has nothing to do with it. A CPU that hangs is what it looks like to the others.
	! sed '/int3/,$d' "$work/serial" | grep -v -E 'soft lockup|rcu.*stall|blocked for more' | grep -q -E "$splat" || return 1
	if [ -n "$expired" ]; then
		[ -z "$hung" ] || ! stands_at_patched_code "$work/serial" || return 0
		int3_backtraces "$work/serial" >"$work/int3"
		if [ ! -s "$work/int3" ]; then
			grep -qs 'asm_exc_int3' "$work/code" || return 1
			cp "$work/serial" "$work/int3"
		fi
		if grep -q -E '\bss_[a-z_]+\+0x' "$work/int3"; then return 1; fi
	else
		grep -q 'Oops: int3' "$work/serial"
	fi
}
# Kernels 6.12 up to 6.12.117 at least warn when they take a CPU down whose fair server has stopped already: they stop it
# again (sched_cpu_dying() calls dl_server_stop(), which does not ask whether it is active), with and without a module.
# If that is all they said, it is worth a second try.
is_known_warning() {
	[ "$(grep -c 'cut here' "$1")" = 1 ] && grep -q 'dl_rq->running_bw > old' "$1" &&
		! grep -q -E '\bss_[a-z_]+\+0x' "$1"
}
readonly known_warning="the kernel of the guest ($kernel) warned of its own fair server on a CPU that went offline (a known defect of it); try again"

readonly emulator_defect="the guest ($kernel) was caught by a defect of the emulator (a stale breakpoint); try again"

[ -z "$expired" ] || [ -n "$hung" ] || name_code >"$work/code"
if [ -n "$expired" ] && is_emulator_defect; then
	fail $EXIT_EMULATOR "$emulator_defect"
fi
if [ -n "$expired" ]; then
	# What tells most comes last.
	[ -n "$hung" ] || tail -n 100 "$work/serial" >&2
	print_splat "$work/serial" || true
	cut -c 1-1000 "$work/code" >&2
	{
		echo "the command had said last:"
		tail -n 5 "$work/output"
	} >&2
	keep_log
	[ -z "$hung" ] || fail $EXIT_TIMEOUT "the guest ($kernel) was ended: its kernel said that a CPU stands still (above)"
	fail $EXIT_TIMEOUT "the guest ($kernel) said nothing for $timeout s and was ended; see --timeout"
fi

mkdir "$work/unpacked"
tar -xf "$work/result" -C "$work/unpacked" --no-same-owner 2>"$work/tar" || true
if [ ! -s "$work/unpacked/status" ]; then
	{ tail -n 20 "$work/qemu"; tail -n 40 "$work/serial"; } >&2
	keep_log
	if is_emulator_defect; then
		fail $EXIT_EMULATOR "$emulator_defect"
	fi
	if grep -q 'Kernel panic' "$work/serial"; then
		fail $EXIT_PANIC "the kernel of the guest ($kernel) panicked; the end of its log is above"
	fi
	fail $EXIT_PANIC "the guest ($kernel) ended without a status; what QEMU and the kernel said last is above"
fi
status=$(<"$work/unpacked/status")

number=0
for arg in "${outs[@]}"; do
	if [ -e "$work/unpacked/out/$number" ]; then
		rm -rf "${arg#*:}"
		mv "$work/unpacked/out/$number" "${arg#*:}"
	else
		note "the guest has no file ${arg%%:*} to copy out"
	fi
	number=$((number + 1))
done

kmsg_text "$work/unpacked/kmsg" >"$work/kmsg"
if print_splat "$work/kmsg"; then
	! is_known_warning "$work/kmsg" || fail $EXIT_EMULATOR "$known_warning"
	keep_log
	fail $EXIT_SPLAT "the kernel of the guest ($kernel) reported a fault, printed above (the command's status was $status)"
fi
taint=$(<"$work/unpacked/taint")
if ((taint & taint_mask)); then
	tail -n 40 "$work/kmsg" >&2
	keep_log
	fail $EXIT_SPLAT "the kernel of the guest ($kernel) is tainted ($taint) by a warning; the end of its log is above"
fi
if [ "$status" != 0 ] && [ -z "$quiet" ]; then
	keep_log
	note "the command ended with status $status"
fi
exit "$status"
