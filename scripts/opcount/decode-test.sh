#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Assembles each instruction of decode-<arch>.tsv and checks its class (TAP).
# Usage: decode-test.sh OUTDIR    (OUTDIR as given to build.sh)

set -euo pipefail

src=$(dirname "$0")

die() {
	echo "decode-test.sh: $*" >&2
	exit 2
}

# assemble ARCH SOURCE BINARY
assemble() {
	local prefix=powerpc64le-linux-gnu- as=(-mpower10)

	if [[ $1 == arm64 ]]; then
		prefix=aarch64-linux-gnu-
		as=(-march=armv8.7-a+memtag+ls64)
	fi
	"${prefix}as" "${as[@]}" -o "$3.o" "$2" &&
		"${prefix}objcopy" -O binary -j .text "$3.o" "$3"
}

# decode_all ARCH: one TAP line per instruction; numbers them in $n
decode_all() {
	local arch=$1 i
	local -a want=() insn=() got=()

	while IFS=$'\t' read -r class text; do
		[[ $class == '#'* ]] && continue
		want+=("$class")
		insn+=("$text")
	done <"$src/decode-$arch.tsv"

	# decode-test reads slots of eight bytes
	printf '%s\n.balign 8\n' "${insn[@]}" >"$tmp/$arch.s"
	assemble "$arch" "$tmp/$arch.s" "$tmp/$arch.bin" ||
		die "cannot assemble decode-$arch.tsv"
	"$out/decode-test" "$arch" <"$tmp/$arch.bin" >"$tmp/$arch.got" ||
		die "decode-test $arch failed"
	mapfile -t got <"$tmp/$arch.got"

	for i in "${!want[@]}"; do
		n=$((n + 1))
		if [[ ${got[i]-missing} == "${want[i]}" ]]; then
			echo "ok $n $arch ${insn[i]//#/\\#}"
		else
			echo "not ok $n $arch ${insn[i]//#/\\#}"
			echo "# want ${want[i]}, got ${got[i]-nothing}"
			failed=1
		fi
	done
	# Both lists out of step would compare unrelated lines.
	if [[ ${#got[@]} -ne ${#want[@]} || ${#want[@]} -eq 0 ]]; then
		echo "Bail out! $arch: ${#want[@]} instructions, ${#got[@]} decoded"
		exit 1
	fi
}

[[ $# -eq 1 && -x $1/decode-test ]] || die "usage: decode-test.sh OUTDIR"
out=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
n=0
failed=0
decode_all arm64
decode_all powerpc
echo "1..$n"
exit "$failed"
