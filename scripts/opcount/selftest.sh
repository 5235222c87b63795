#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Runs the op counter on bare-metal images with known counts (TAP).
# Usage: selftest.sh OUTDIR    (OUTDIR as given to build.sh)

set -euo pipefail

src=$(dirname "$0")/selftest

die() {
	echo "selftest.sh: $*" >&2
	exit 2
}

# check NAME COMMAND...: one TAP line, ok if the command succeeds
check() {
	local name=$1
	shift

	n=$((n + 1))
	if "$@"; then
		echo "ok $n $name"
	else
		echo "not ok $n $name"
		failed=1
	fi
}

# build ARCH NAME [FLAG...]: $tmp/NAME.img and $tmp/NAME.map
build() {
	local arch=$1 image=$tmp/$2
	shift 2

	local prefix=aarch64-linux-gnu-
	local flags=("-march=armv8.4-a+memtag" "-Wl,-Ttext=0xffffff8040080000")
	if [[ $arch == powerpc ]]; then
		prefix=powerpc64le-linux-gnu-
		flags=("-mcpu=power10" "-Wl,-Ttext=0xc000000000400000"
		       "-Wl,-N" "-Wl,--no-warn-rwx-segments")
	fi
	"${prefix}gcc" "${flags[@]}" "$@" -nostdlib -static \
		-Wl,--build-id=none -Wl,-e,_text -o "$image.img" "$src/$arch.S"
	"${prefix}nm" -n "$image.img" >"$image.map"
	# QEMU loads a flat arm64 image where its link address is mapped to
	if [[ $arch == arm64 ]]; then
		"${prefix}objcopy" -O binary -j .text "$image.img"
	fi
}

# run ARCH IMAGE ARGUMENTS: the image with the plugin; QEMU's exit status
run() {
	local qemu=(qemu-system-aarch64 -M virt -cpu max)

	if [[ $1 == powerpc ]]; then
		qemu=(qemu-system-ppc64 -M "pseries,x-vof=on,kernel-addr=0"
		      -cpu power10)
	fi
	timeout 300 "${qemu[@]}" -smp 1 -nodefaults -display none -kernel "$2" \
		-plugin "$out/libopcount.so,$3" 2>"$tmp/qemu.log"
}

# compare NAME EXPECTED GOT: the lines of two files, comments of EXPECTED apart
compare() {
	grep -v '^#' "$src/$2" >"$tmp/want"
	check "$1" diff -u "$tmp/want" "$3"
}

# sums COUNTS: counts summed over pc, in order of appearance
sums() {
	awk -F'\t' '
		NR == 1 { next }
		NF != 5 { line[++n] = $0; next }
		{ key = $1 "\t" $2 "\t" $3 }
		!(key in sum) { line[++n] = key }
		{ sum[key] += $5 }
		END { for (i = 1; i <= n; i++)
			print line[i] (line[i] in sum ? "\t" sum[line[i]] : "")
		}' "$1"
}

# check_counts NAME ARCH IMAGE EXPECTED [ARGUMENTS]
check_counts() {
	local counts=$tmp/counts

	run "$2" "$tmp/$3.img" "out=$counts,map=$tmp/$3.map${5-}" ||
		die "$1: QEMU failed: $(tail -n 1 "$tmp/qemu.log")"
	sums "$counts" >"$tmp/got"
	compare "$1" "$4" "$tmp/got"
}

# check_order ARCH: log of one function, with the addresses named; the counts
# must be what they are without the log
check_order() {
	local log=$tmp/order

	check_counts "$1: counts beside the order log" "$1" "$1" "$1.counts" \
		",order=$log,stores=sync_and_set"
	awk -F'\t' '
		NR == FNR { split($0, f, " "); name["0x" f[1]] = f[3]; next }
		$5 == "sync_and_set" {
			print $3 "\t" $7 "\t" ($8 in name ? name[$8] : $8)
		}' "$tmp/$1.map" "$log" >"$tmp/got"
	compare "$1: order log" "$1.order" "$tmp/got"
}

# check_order_all: with order_all the log has more than with marks, all of it
# numbered without a gap
check_order_all() {
	local log=$tmp/order marked all

	run arm64 "$tmp/arm64.img" "out=$tmp/counts,order=$log"
	marked=$(wc -l <"$log")
	run arm64 "$tmp/arm64.img" "out=$tmp/counts,order=$log,order_all=on"
	all=$(wc -l <"$log")
	check "order_all logs outside the marks" test "$all" -gt "$marked"
	check "order log has no gap" cmp <(seq 0 $((all - 2))) \
		<(tail -n +2 "$log" | cut -f 1)
}

# check_relocated: a map that does not fit the kernel is an error
check_relocated() {
	sed 's/^ffffff80/ffffff90/' "$tmp/arm64.map" >"$tmp/wrong.map"
	run arm64 "$tmp/arm64.img" "out=$tmp/counts,map=$tmp/wrong.map"
	check "wrong map is an error" grep -q \
		'^error.no instruction in any function of the map' "$tmp/counts"
}

# check_lost: a killed QEMU leaves the finished intervals, but no end
check_lost() {
	local counts=$tmp/lost pid i

	rm -f "$counts"
	qemu-system-aarch64 -M virt -cpu max -nodefaults -display none \
		-kernel "$tmp/misuse.img" -no-shutdown \
		-plugin "$out/libopcount.so,out=$counts" &
	pid=$!
	for ((i = 0; i < 1200; i++)); do
		grep -q '^0.insn' "$counts" 2>/dev/null && break
		sleep 0.1
	done
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null || true
	check "killed QEMU: its interval is there" grep -q '^0.insn' "$counts"
	check "killed QEMU: the end line is not" \
		awk '/^end/ { exit 1 }' "$counts"
}

# refused ARGUMENTS: the plugin itself makes QEMU give up
# shellcheck disable=SC2317 # called through check
refused() {
	! run arm64 "$tmp/arm64.img" "$1" && grep -q "install returned error" "$tmp/qemu.log"
}

check_arguments() {
	local args

	for args in "map=$tmp/arm64.map" "out=$tmp/counts,what=1" \
		"out=$tmp/counts,map=$tmp/none" "out=$tmp/none/counts" \
		"out=$tmp/counts,map=$tmp/misuse.img" \
		"out=$tmp/counts,all_el=maybe" \
		"out=$tmp/counts,order_all=on" \
		"out=$tmp/counts,map=$tmp/arm64.map,stores=main" \
		"out=$tmp/counts,order=$tmp/order,map=$tmp/arm64.map,stores=mein"; do
		check "refused: ${args//"$tmp/"/}" refused "$args"
	done
}

[[ $# -eq 1 && -f $1/libopcount.so ]] || die "usage: selftest.sh OUTDIR"
out=$(realpath "$1")
src=$(realpath "$src")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
n=0
failed=0

build arm64 arm64
build arm64 misuse -DMISUSE
build powerpc powerpc
build powerpc misuse-powerpc -DMISUSE

check_counts "arm64: counts" arm64 arm64 arm64.counts
check_counts "arm64: all_el" arm64 arm64 arm64.all_el ,all_el=on
check_counts "arm64: misused marks" arm64 misuse arm64.misuse
check_counts "powerpc: counts" powerpc powerpc powerpc.counts
check_counts "powerpc: misused marks" powerpc misuse-powerpc powerpc.misuse
check_order arm64
check_order powerpc
check_order_all
check_relocated
check_lost
check_arguments
echo "1..$n"
exit "$failed"
