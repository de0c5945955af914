#!/bin/bash
# SPDX-License-Identifier: MIT
# check.sh: what make check runs. A line per check; under it "file:line: what to do" per finding. Runs
# them all, whatever is found, and exits 1 at the end if anything was.
# shellcheck disable=SC2317 # functions are reached through check()
set -euo pipefail
cd "$(dirname "$0")/.."

clang_format_version=14 # Debian 12; another version formats differently
sparse_kernel=6.1
work=build/check
failed=0

# A check prints findings, or returns 77 after printing why it cannot run here.
check() { # NAME COMMAND...
	local name=$1 output rc=0
	shift
	output=$("$@" 2>&1) || rc=$?
	if [ "$rc" = 77 ]; then
		echo "  SKIP   $name: $output"
		return
	fi
	echo "  CHECK  $name"
	if [ "$rc" != 0 ] || [ -n "$output" ]; then
		echo "${output:-$name failed ($rc) and did not say why}"
		failed=1
	fi
}

need() { # COMMAND
	command -v "$1" >/dev/null || { echo "not installed"; return 77; }
}

# Not by git ls-files: a new file is checked before it is added.
files_of() {
	local folder
	for folder in collector tests bench scripts .ci; do
		[ ! -d "$folder" ] || find "$folder" -type f "$@"
	done | sort
}

cxx_files() {
	files_of '(' -name '*.cc' -o -name '*.h' ')'
}

shell_files() {
	files_of -exec awk 'FNR == 1 && /^#!.*sh/ { print FILENAME } { nextfile }' {} +
}

format() {
	local tool
	tool=$(command -v "clang-format-$clang_format_version" clang-format | head -n 1) || true
	[ -n "$tool" ] || { echo "not installed"; return 77; }
	$tool --version | grep -q "version $clang_format_version\." ||
		{ echo "needs version $clang_format_version, here is: $($tool --version)"; return 77; }
	cxx_files | xargs "$tool" --dry-run -Werror 2>&1 |
		sed -n 's/^\([^ ]*:[0-9]*\):[0-9]*: error: .*/\1: not formatted: run make fmt/p' | sort -u -t : -k 1,1 -k 2,2n
}

# Builds the module in a copy, as build-kmod.sh does; sparse reads each file on the way. What it says
# about the kernel's own headers is not ours.
run_sparse() {
	need sparse || return
	local kdir src
	kdir=$(scripts/kernels.sh kdir "$sparse_kernel" 2>&1) || { echo "$kdir"; return 77; }
	rm -rf "$work/sparse" && mkdir -p "$work/sparse" && cp -a kmod include "$work/sparse/" || return
	src=$(cd "$work/sparse" && pwd)
	if ! make -C "$kdir" M="$src/kmod" C=2 CF="-D__CHECK_ENDIAN__" modules >"$work/sparse.log" 2>&1; then
		grep -E ': error:|^ERROR' "$work/sparse.log" | sed "s#$src/##" || tail -n 5 "$work/sparse.log"
		return 1
	fi
	grep -q '^  CHECK ' "$work/sparse.log" || { echo "make C=2 did not run sparse, see $work/sparse.log"; return 1; }
	grep -E "^$src/.*: (warning|error):" "$work/sparse.log" | sed "s#$src/[a-z]*/\.\./##; s#$src/##" | sort -u || true
}

# LIBBPF_OPTS: libbpf's headers are not read, and without the macro the whole function is skipped.
# internalAstError in tests: cppcheck 2.10 does not parse EXPECT_EQ(x, Type({})).
# readdirCalled: glibc's readdir() is safe for two directories at once, and readdir_r() is deprecated.
# invalidContainer in sinks: std::back_inserter() is taken for an iterator, which += would invalidate.
run_cppcheck() {
	need cppcheck || return
	mkdir -p "$work/cppcheck"
	cxx_files | grep '\.cc$' | cppcheck --file-list=- -j2 -q --language=c++ --std=c++20 --enable=warning,performance,portability --error-exitcode=1 \
		--cppcheck-build-dir="$work/cppcheck" -Icollector -Iinclude --library=posix,gnu,googletest \
		'-DLIBBPF_OPTS(type,name,...)=struct type name = {}' \
		--suppress='internalAstError:tests/unit/*' \
		--suppress=readdirCalled \
		--suppress='invalidContainer:collector/sinks/*' \
		--template='{file}:{line}: {message} [{id}]' --template-location='' 2>&1 |
		sort -u
}

shell() {
	shell_files | xargs shellcheck -x -f gcc
}

shell_syntax() {
	local file
	for file in $(shell_files); do
		bash -n "$file"
	done
}

mkdir -p "$work"
check "self-test: includes" scripts/check_includes.py --self-test
check "self-test: kernel style" scripts/check_kernel_style.py --self-test
check "includes" scripts/check_includes.py
check "chapters for users" scripts/check_docs.py --self-test
check "kernel style" scripts/check_kernel_style.py
check "sources that vm.py changes" python3 bench/vm.py build
check "clang-format" format
if command -v shellcheck >/dev/null; then
	check "shellcheck" shell
else
	echo "  SKIP   shellcheck: not installed"
	check "bash -n" shell_syntax
fi
check "cppcheck" run_cppcheck
check "sparse" run_sparse
exit $failed
