#!/bin/bash
# SPDX-License-Identifier: MIT
# portable.sh BINARY FOLDER: makes FOLDER/slotscope, which runs on machines that have none of our libraries, or an older C
# library: BINARY, all that it links, and the loader that goes with them.
set -euo pipefail
binary=$1
folder=$2

mkdir -p "$folder/lib"
strip --strip-debug -o "$folder/lib/slotscope" "$binary"
loader=$(ldd "$binary" | awk '/ld-linux/ { print $1 }')
ldd "$binary" | awk '$3 ~ /^\// { print $3 }' | while read -r library; do cp -L "$library" "$folder/lib"; done
cp -L "$loader" "$folder/lib/loader"
cat >"$folder/slotscope" <<'END'
#!/bin/sh
# The libraries of the machine it was built on; NVML and the like are this machine's.
lib=$(dirname "$(readlink -f "$0")")/lib
exec "$lib/loader" --library-path "$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$lib/slotscope" "$@"
END
chmod +x "$folder/slotscope"
