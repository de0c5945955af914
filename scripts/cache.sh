# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# To be sourced: what tests compare with and this machine does not have is fetched once, into
# $cache = ${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slotscope}.
set -euo pipefail

cache=${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/slotscope}

die() { echo "${0##*/}: $*" >&2; exit 1; }

# cached NAME MAKE [ARG...]: the folder $cache/NAME. If there is none, MAKE is called in an empty folder, where it makes the
# folder `made`. That gets its name by one rename, so where it exists it is whole; another one may have been faster.
cached() {
	local name=$1
	shift
	[ ! -d "$cache/$name" ] || return 0
	mkdir -p "$cache"
	new=$(mktemp -d "$cache/$name.XXXXXX")
	trap 'rm -rf "$new"' EXIT
	cd "$new"
	"$@"
	chmod 755 made
	mv -T made "$cache/$name" 2>/dev/null || [ -d "$cache/$name" ] || die "cannot write to $cache"
}

# For cached: files of a package of npm.
npm_files() { # npm_files PACKAGE@VERSION FILE...
	local package=$1
	shift
	command -v npm >/dev/null || die "npm is not installed: install it, or make the folder $cache/$name with ${*##*/}"
	npm pack --silent "$package" >/dev/null || die "npm could not fetch $package"
	tar xzf ./*.tgz "${@/#/package/}"
	mv package made
}

# For cached: packages of Debian, unpacked, as to install one with a server would start it.
debian_packages() { # debian_packages LIST: a function that lists their names
	local list=$1 packages
	local apt=(apt-get -qq -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
	command -v dpkg-deb >/dev/null || die "this is no Debian system; install $name"
	download() { mapfile -t packages < <("$list") && [ ${#packages[@]} -gt 0 ] && "${apt[@]}" download "${packages[@]}" >&2; }
	if ! download; then
		[ "$(id -u)" = 0 ] || die "the apt package lists are missing or old; run: sudo apt-get update"
		{ "${apt[@]}" update && download; } >&2 || die "apt-get could not fetch $name"
	fi
	for package in *.deb; do dpkg-deb -x "$package" made; done
}
