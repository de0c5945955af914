#!/bin/bash
# SPDX-License-Identifier: MIT
# kubernetes_models.sh: prints a folder of node modules that know the schemas of Kubernetes' API and of the Prometheus Operator's, for tests:
# fixed versions, fetched once by npm.
set -euo pipefail

packages=(kubernetes-models@3.1.0 @kubernetes-models/prometheus-operator@4.4.4 js-yaml@4.1.0)

die() { echo "kubernetes_models.sh: $*" >&2; exit 1; }

cache=${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/slotscope}
folder=$cache/kubernetes-models-3.1.0
if [ ! -d "$folder" ]; then
	command -v npm >/dev/null || die "npm is not installed"
	mkdir -p "$cache"
	new=$(mktemp -d "$cache/kubernetes-models.XXXXXX")
	trap 'rm -rf "$new"' EXIT
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$new/modules" "${packages[@]}" >/dev/null || die "npm could not fetch ${packages[*]}"
	chmod 755 "$new/modules"
	# It appears by one rename, so where it exists it is whole; another one may have been faster.
	mv -T "$new/modules" "$folder" 2>/dev/null || [ -d "$folder" ] || die "cannot write to $cache"
fi
echo "$folder/node_modules"
