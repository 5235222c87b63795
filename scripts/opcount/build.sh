#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Builds the op counter: OUTDIR/libopcount.so and OUTDIR/decode-test.
# Usage: build.sh OUTDIR

set -euo pipefail

if [[ $# -ne 1 ]]; then
	echo "usage: build.sh OUTDIR" >&2
	exit 2
fi
src=$(dirname "$0")
out=$1
cc=(gcc -O2 -Wall -Wextra -Werror)

mkdir -p "$out"
"${cc[@]}" -shared -fPIC -fvisibility=hidden -pthread \
	-o "$out/libopcount.so" "$src/opcount.c" "$src/decode.c"
"${cc[@]}" -o "$out/decode-test" "$src/decode-test.c" "$src/decode.c"
