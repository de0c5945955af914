#!/bin/bash
# SPDX-License-Identifier: MIT
# demo.sh BUILD: a training loop; for two of its nine seconds somebody else runs on its CPU, and is then moved away.
# slotscope records all of it, names who ran instead, and says what that cost. Leaves ./slotscope-demo with the recording
# and report.html. Root; without a GPU the stand-in libraries of the tests take its place, and that is said.
set -euo pipefail
build=$(realpath "$1")
slotscope=$build/slotscope
folder=$PWD/slotscope-demo
[ "$(id -u)" = 0 ] || { echo "demo.sh: records the whole machine: run it as root" >&2; exit 4; }
if [ -e "$folder" ]; then
	[ -e "$folder/demo.rec/manifest.ndjson" ] || { echo "demo.sh: $folder is there, and is no demo's; move it away" >&2; exit 6; }
	rm -r "$folder"
fi
mkdir "$folder"
cd "$folder"
if ldconfig -p | grep -q 'libcuda\.so\.1' && [ -e /dev/nvidia0 ]; then
	echo "The trainer uses the GPU of this machine."
else
	echo "This machine has no GPU: the stand-in libraries of the tests take its place."
	export LD_LIBRARY_PATH=$build/standin
fi

pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true' EXIT
"$slotscope" record --gpu on --duration 10 -o demo.rec >record.txt 2>&1 &
recorder=$!
pids+=("$recorder")
for _ in $(seq 100); do
	grep -q recording record.txt && break
	kill -0 $recorder 2>/dev/null || { cat record.txt >&2; exit 1; }
	sleep 0.1
done
taskset 1 "$build/demo/trainer" 30 &
pids+=($!)
sleep 5 # longer than what follows: what is usual is without it
echo "A process of higher priority comes to the trainer's CPU ..."
nice -n -5 taskset 1 "$build/demo/trainer" --hog 30 &
hog=$!
pids+=("$hog")
sleep 2
echo "... and is moved to another one, where it takes what others leave."
renice -n 19 -p $hog >/dev/null
taskset -p -c "$(($(nproc --all) - 1))" $hog >/dev/null
wait $recorder || { cat record.txt >&2; exit 1; }

echo
"$slotscope" explain demo.rec --comm trainer -n 1
echo
echo "The trainer, second by second: launches, and why its GPU had no work, in ms"
"$slotscope" explain demo.rec --comm trainer --rows seconds | awk -F, '
	!n++ { for (i = 1; i <= NF; i++) at[$i] = i
		printf "%8s %10s %10s %10s %10s %10s\n", "launches", "no work", "waited", "ran", "asleep", "unknown"; next }
	$at["gpu_launches"] > 0 { printf "%8d %10.0f %10.0f %10.0f %10.0f %10.0f\n", $at["gpu_launches"], $at["gpu_no_work_ns"] / 1e6,
		$at["gpu_no_work_waited_ns"] / 1e6, $at["gpu_no_work_ran_ns"] / 1e6, $at["gpu_no_work_asleep_ns"] / 1e6,
		$at["gpu_no_work_unknown_ns"] / 1e6 }'
"$slotscope" report demo.rec -o report.html
echo "All of it is in ./slotscope-demo: cd there for the commands above, and to look at the page."
