#!/bin/bash
# SPDX-License-Identifier: MIT
# image.sh OUT: an image for containers in OUT, an OCI archive (podman load, docker load, ctr images import, skopeo copy): Debian 12, slotscope's
# package from build/deb (make deb), and what it needs; nothing runs as another user than root, and nothing starts by itself.
# Made by mmdebstrap and umoci, without a daemon. As root, or by user namespaces.
set -euo pipefail

out=$(realpath -m "${1:?usage: image.sh OUT}")
top=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^#define SS_VERSION "\(.*\)"/\1/p' "$top/kmod/slotscope.h")
package=$(realpath "$top"/build/deb/slotscope_"$version"*.deb)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# On Debian 12 what apt uses here, else what mmdebstrap knows.
sources=()
if grep -qs '^VERSION_CODENAME=bookworm' /etc/os-release; then
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
		[ ! -s "$file" ] || sources+=("$file")
	done
fi
cp "$package" "$work/slotscope.deb"
# shellcheck disable=SC2016 # the hooks' own shell has that
if ! mmdebstrap --quiet --variant=minbase --include=ca-certificates \
	--aptopt='APT::Install-Recommends "false"' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--dpkgopt='path-include=/usr/share/doc/*/copyright' \
	--customize-hook="cp '$work/slotscope.deb' \"\$1/slotscope.deb\"" \
	--customize-hook='chroot "$1" apt-get -qq install -y --no-install-recommends /slotscope.deb >/dev/null' \
	--customize-hook='rm -rf "$1/slotscope.deb" "$1"/var/cache/apt "$1"/var/lib/apt/lists "$1"/var/cache/debconf/*-old "$1"/var/log/*' \
	bookworm "$work/root.tar" "${sources[@]}" >"$work/log" 2>&1; then
	tail -n 20 "$work/log" >&2
	echo "image.sh: mmdebstrap could not make a root of Debian 12 (see above)" >&2
	exit 1
fi

image=$work/image:$version
umoci init --layout "$work/image"
umoci new --image "$image"
umoci raw add-layer --image "$image" "$work/root.tar"
umoci config --image "$image" --config.entrypoint /usr/bin/slotscope --config.cmd check --config.label org.opencontainers.image.title=slotscope \
	--config.label org.opencontainers.image.version="$version" --architecture amd64 --os linux
umoci gc --layout "$work/image"
# What docker and containerd call it.
python3 - "$work/image/index.json" "docker.io/library/slotscope:$version" <<'END'
import json
import sys
path, name = sys.argv[1:]
index = json.load(open(path))
for manifest in index["manifests"]:
    manifest["annotations"]["io.containerd.image.name"] = name
json.dump(index, open(path, "w"))
END
tar -C "$work/image" -cf "$out.part" .
mv "$out.part" "$out"
printf '  IMAGE  %s (%s)\n' "${out#"$top"/}" "$(du -h "$out" | cut -f1)"
