#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# make check: style and static checks of the series and of the project.
#
# Usage: check.sh    (BASE=, ARCH= and O= as for make)
# Exit: 0 all clean, 1 something was found; the last line counts.
set -euo pipefail
export LC_ALL=C
# Debian has the modules that checkpatch's helpers import, other pythons may not.
export PATH=/usr/bin:/bin:$PATH
here=$(dirname "$(readlink -f "$0")")
root=${here%/*}
base=${BASE:-6.12}
out=${O:-$root/build}
stock=$out/$base/stock
patched=$out/$base/patched
log=$out/check.log
passed=0 failed=0 skipped=0

# verdict NAME COMMAND...: run it, keep its words, show them if it fails.
verdict() {
	local name=$1
	shift
	if "$@" >"$log" 2>&1; then
		echo "ok       $name"
		passed=$((passed + 1))
	else
		echo "FAILED   $name"
		sed 's/^/    /' "$log" | head -n 40
		failed=$((failed + 1))
	fi
}

skip() {
	echo "skip     $1: $2"
	skipped=$((skipped + 1))
}

# checkpatch exits 1 on warnings only if told so; count its last line instead.
# FILE_PATH_CHANGES asks for MAINTAINERS, which only a maintainer decides.
checkpatch() {
	local text
	text=$(perl "$stock/scripts/checkpatch.pl" --root="$stock" --strict \
		--no-signoff --codespell --show-types \
		--ignore FILE_PATH_CHANGES "$@" 2>&1) || true
	echo "$text"
	grep -q 'has no obvious style problems' <<<"$text" &&
		! grep -qE '^(ERROR|WARNING|CHECK):' <<<"$text"
}

# What checkpatch wants of kernel code but user programs do not have.
no_kernel_here=ARRAY_SIZE,EMBEDDED_FUNCTION_NAME,STATIC_CONST_CHAR_ARRAY
no_kernel_here+=,PREFER_DEFINED_ATTRIBUTE_MACRO,REPEATED_WORD,SSCANF_TO_KSTRTO
no_kernel_here+=,VOLATILE,NEW_TYPEDEFS,COMPLEX_MACRO

# Errors and warnings in files that are not in a kernel tree.
checkpatch_file() {
	# Loops over all combinations stand below each other; a list of cases is
	# no expression that parentheses could go around.
	local text ignore=LINUX_VERSION_CODE,SUSPECT_CODE_INDENT,COMPLEX_MACRO
	[[ $1 != "$here"/* ]] || ignore=$no_kernel_here
	text=$(perl "$stock/scripts/checkpatch.pl" --no-tree -f \
		--show-types --terse --ignore "$ignore" "$1" 2>&1) || true
	echo "$text"
	! grep -qE ': (ERROR|WARNING):' <<<"$text"
}

# The .c files that the series touches and that this architecture builds.
touched() {
	git -C "$patched" diff --name-only base..HEAD -- '*.c'
}

# sparse on touched files: no warning that the stock file does not have too.
sparse_file() {
	local tree=$1 object=$2 arch=$3 cross=$4 config=$5
	{ env -u MAKEFLAGS -u O -u V -u W make -s C=2 ARCH="$arch" \
		CROSS_COMPILE="$cross" CC="ccache ${cross}gcc" \
		HOSTCC="ccache gcc" -C "$tree/o-$config-bench" "$object" \
		2>&1 || true; } |
		sed -E "s/^[^ ]*${object##*/}//; s/:[0-9]+(:[0-9]+)?:/:/g" |
		sort -u
}

sparse_touched() {
	local arch=$1 cross=$2 config=$3 file object new bad=0
	while read -r file; do
		object=${file%.c}.o
		[[ -e $patched/o-$config-bench/$object ]] || continue
		new=$(comm -13 \
			<(sparse_file "$stock" "$object" "$arch" "$cross" "$config") \
			<(sparse_file "$patched" "$object" "$arch" "$cross" "$config"))
		if [[ -n $new ]]; then
			echo "$file:"
			echo "$new"
			bad=1
		fi
	done < <(touched)
	return $bad
}

# kernel-doc of touched files: none of its complaints may be new.
kernel_doc() {
	local file bad=0 new
	while read -r file; do
		[[ -e $patched/$file ]] || continue
		new=$(comm -13 \
			<(doc_words "$stock/$file") <(doc_words "$patched/$file"))
		[[ -z $new ]] || { echo "$file: $new"; bad=1; }
	done < <(git -C "$patched" diff --name-only base..HEAD -- '*.c' '*.h')
	for file in "$root"/kunit/*.[ch] "$root"/module/*.[ch]; do
		[[ -e $file ]] || continue
		perl "$stock/scripts/kernel-doc" -none -Werror "$file" || bad=1
	done
	return $bad
}

doc_words() {
	[[ -e $1 ]] || return 0
	perl "$stock/scripts/kernel-doc" -none "$1" 2>&1 |
		sed -E 's/^[^:]*:[0-9]+: //' | sort -u
}

# A registry's host or a path of one machine must not stand in the project.
no_places() {
	! git -C "$root" grep -nE \
		'(deb|security|registry)\.(debian|npmjs)\.org|(^|[^A-Za-z0-9_.])/(work|home/[a-z]+)/' \
		-- . ':!scripts/check.sh'
}

main() {
	local patch file conf arch cross config
	[[ -d $patched/.git || -f $patched/.git ]] || {
		echo "check.sh: $patched is not there: run \`make kernels\`" >&2
		exit 2
	}
	for patch in "$root/patches/$base"/0*.patch; do
		[[ $patch == */0000-* ]] ||
			verdict "checkpatch ${patch##*/}" checkpatch "$patch"
	done
	verdict "refresh makes no difference" \
		python3 "$here/series.py" refresh --check
	for file in "$root"/kunit/*.[ch] "$root"/module/*.[ch] \
		"$root"/module/arch/*.c "$here"/*/*.[ch]; do
		[[ ! -e $file || $file == */templates/* ]] ||
			verdict "style ${file#"$root"/}" checkpatch_file "$file"
	done
	verdict "shellcheck" shellcheck -x "$here"/*.sh "$here"/*/*.sh \
		"$root/.ci/run"
	verdict "python compiles" python3 -W error -m compileall -q -f "$here"
	verdict "codespell" codespell -q 3 -L "fo,inout,mis,vas" \
		"$root/README.md" "$root/Documentation" "$root/kunit" \
		"$root/patches" "$root/scripts" "$root/Makefile"
	verdict "kernel-doc" kernel_doc
	verdict "no host names, no paths of one machine" no_places
	for conf in "$here"/arch/*-*.conf; do
		arch=${conf##*/}
		arch=${arch%%-*}
		config=$(sed -n 's/^CONFIG=//p' "$conf")
		cross=$(sed -n 's/^CROSS=//p' "$here/arch/$arch.conf")
		[[ " ${ARCH:-arm64 powerpc} " == *" $arch "* ]] || continue
		[[ $(sed -n 's/^ORDER=//p' "$conf") == 1 ]] || continue
		if [[ -e $patched/o-$config-bench/vmlinux &&
			-e $stock/o-$config-bench/vmlinux ]]; then
			verdict "sparse $config" \
				sparse_touched "$arch" "$cross" "$config"
		else
			skip "sparse $config" "needs both kernels: make kernels"
		fi
	done
	verdict "op counter's decoder, arm64 and powerpc" \
		"$here/opcount/decode-test.sh" "$out/opcount"
	echo "$passed passed, $failed failed, $skipped skipped"
	((failed == 0))
}

main "$@"
