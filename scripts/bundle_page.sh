#!/bin/bash
# SPDX-License-Identifier: MIT
# bundle_page.sh SOURCE OUT: the report's page as one file: its script with the parts of d3 that it uses, and its style, in one
# page that has room for a title and the data. From Debian's packages (esbuild, node-d3-*): nothing is fetched.
set -euo pipefail

source=$1 out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
NODE_PATH=/usr/share/nodejs esbuild "$source/main.js" --bundle --minify --format=iife --target=es2020 --charset=utf8 \
	--log-level=warning --outfile="$work/page.js"
grep -q '</script' "$work/page.js" && { echo "bundle_page.sh: the script would end within itself" >&2; exit 1; }
while IFS= read -r line; do
	case $line in
	*@STYLE@*) printf '%s' "${line%%@STYLE@*}"; cat "$work/page.css"; printf '%s\n' "${line#*@STYLE@}" ;;
	*@SCRIPT@*) printf '%s' "${line%%@SCRIPT@*}"; cat "$work/page.js"; printf '%s\n' "${line#*@SCRIPT@}" ;;
	*) printf '%s\n' "$line" ;;
	esac
done <"$source/index.html" >"$work/page.html"
mkdir -p "$(dirname "$out")"
mv "$work/page.html" "$out"
