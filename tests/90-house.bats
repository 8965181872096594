#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The source tree: folders include only lower folders, and programs link only what they need.

setup() {
	cd "$BATS_TEST_DIRNAME/.."
}

@test "every folder has a place, and includes only folders before it" {
	for room in $(find lib -name '*.c' -printf '%h\n' | sort -u); do
		grep -qx "$(cut -d/ -f2,3 <<< "$room")" tests/floors
	done
	run tests/lib/check-layers
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "the values of json_pack fit its formats" {
	run tests/lib/check-json-formats -std=c11 -D_GNU_SOURCE -Ilib/base -Ilib/net -Ilib/learn -Ilib/cluster -Ilib/role -Ilib -I. \
		'-DPSKIT_VERSION="0"'
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "files that comments name exist" {
	run tests/lib/check-file-names
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "each short file has a reason to be one" {
	run tests/lib/check-short-files
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "no header is included by a third of all files" {
	total=$(find lib cmd -name "*.c" | wc -l)
	[ "$total" -gt 100 ]
	while read -r n _ name; do
		case $name in '"core/'*) continue ;; esac
		[ $((n * 3)) -lt "$total" ] || { echo "$name: $n of $total"; false; }
	done < <(grep -rh '#include "' lib cmd | sort | uniq -c)
}

@test "text enters JSON through lib/base/core/json.c alone" {
	run grep -rnE --exclude-dir=base 'include <jansson.h>|JSON_OWN_NAMES|json_string_nocheck|json_stringn_nocheck' lib cmd
	echo "$output"
	[ "$status" -eq 1 ]
}

@test "curl and Kafka stay out of the worker, and with BLAS load late elsewhere" {
	bin=${PS_BIN:-build}
	# The programs have their names in them, because they load them at the first call (core/lazy_load.h). A server
	# needs BLAS only for predictions, and curl only for a state outside of its run directory.
	run bash -c "ldd $bin/ps-serve | grep -E 'openblas|rdkafka|libcurl'"
	[ "$status" -ne 0 ]
	run grep -qaE '(libcurl|libmicrohttpd|librdkafka)\.so' "$bin/ps-work"
	[ "$status" -eq 1 ]
	run grep -qaE 'libcurl\.so' "$bin/ps-ctl"
	[ "$status" -eq 0 ]
	# No call of ps-ctl pays for libraries that it does not need.
	run bash -c "ldd $bin/ps-ctl | grep -E 'openblas|libcurl|libcrypto|rdkafka'"
	[ "$status" -ne 0 ]
}

@test "no left-over work stands in the code" {
	run grep -nwE 'TODO|FIXME|XXX|#if 0' -r lib cmd
	echo "$output"
	[ "$status" -ne 0 ]
}

@test "the programs tell their version" {
	version=$(sed -nE 's/^#define PSKIT_VERSION "(.*)"/\1/p' "$BATS_TEST_DIRNAME/../lib/base/core/version.h")
	for p in ps-serve ps-work ps-ctl ps-stat; do
		run "${PS_BIN:-build}/$p" --version
		[ "$status" -eq 0 ]
		[[ "$output" == "$p $version (protocol 1, libsodium "* ]]
	done
}

@test "install puts programs, manual pages and completion, uninstall takes them away" {
	dir=$(mktemp -d)
	make -s install DESTDIR="$dir" PREFIX=/usr >/dev/null
	[ -x "$dir/usr/bin/ps-ctl" ]
	[ -e "$dir/usr/share/man/man7/ps-protocol.7" ]
	for p in ps-serve ps-work ps-ctl ps-stat; do
		[ -s "$dir/usr/share/bash-completion/completions/$p" ]
		[ -s "$dir/usr/share/fish/vendor_completions.d/$p.fish" ]
	done
	head -n 1 "$dir/usr/share/zsh/vendor-completions/_ps-ctl" | grep -qx '#compdef ps-ctl ps-serve ps-stat ps-work'
	make -s uninstall DESTDIR="$dir" PREFIX=/usr >/dev/null
	run find "$dir" -type f
	[ -z "$output" ]
	rm -rf "$dir"
}
