#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Install the Debian packages that are missing, or say exactly which.
#
# Usage: deps.sh [--check|--report] [ARCH...]
#   --check  also what `make check` needs; --report: what `make report` does
# Exit: 0 all there, 2 something is missing and cannot be installed here.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")

# The packages wanted for the given architectures, one a line.
wanted() {
	sed 's/#.*//' "$here/packages.txt" | awk 'NF { print $1 }'
	if [[ $also ]]; then
		sed 's/#.*//' "$here/packages-$also.txt" | awk 'NF { print $1 }'
	fi
	local arch
	for arch in "$@"; do
		sed -n 's/^PACKAGES=//p' "$here/arch/$arch.conf" | tr ' ' '\n'
	done
}

is_there() {
	dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null | grep -q '^.i'
}

main() {
	local also="" arch pkg
	local -a archs=() missing=()
	if [[ ${1:-} == --check || ${1:-} == --report ]]; then
		also=${1#--}
		shift
	fi
	for arch in "$@"; do
		[[ ! -e $here/arch/$arch.conf ]] || archs+=("$arch")
	done
	if ! command -v dpkg-query >/dev/null; then
		echo "deps.sh: no dpkg here; these Debian packages' tools are" \
			"needed: $(wanted "${archs[@]}" | sort -u | xargs)" >&2
		return 0
	fi
	while read -r pkg; do
		is_there "$pkg" || missing+=("$pkg")
	done < <(wanted "${archs[@]}" | sort -u)
	((${#missing[@]})) || return 0

	if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
		{
			echo "deps.sh: missing Debian packages, and only root can install them"
			echo "  sudo apt-get install --no-install-recommends ${missing[*]}"
		} >&2
		exit 2
	fi
	echo "deps.sh: installing Debian packages: ${missing[*]}" >&2
	mkdir -p "${O:-$here/../build}"
	local log="${O:-$here/../build}/deps.log"
	export DEBIAN_FRONTEND=noninteractive
	if ! { apt-get -q update &&
		apt-get -q install -y --no-install-recommends "${missing[@]}"; } \
		>"$log" 2>&1; then
		tail -n 5 "$log" >&2
		{
			echo "deps.sh: apt-get failed (log: $log)"
			echo "  apt-get install --no-install-recommends ${missing[*]}"
		} >&2
		exit 2
	fi
}

main "$@"
