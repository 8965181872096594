#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# All-reduce among processes: the mean is checked by the bench itself, bit by bit
# alike in tests/unit/ring; here that it goes by each transport and suite, and ends.

bats_require_minimum_version 1.5.0
load lib/helper

setup() {
	setup_dir
}

teardown() {
	teardown_dir
}

# allreduce ARGS...: a short run, in JSON.
allreduce() {
	ps-work bench --op allreduce --iters 5 --json "$@"
}

@test "sizes from one value on, by one to five processes" {
	for procs in 1 2 3 4 5; do
		for bytes in 4 100 64K 1M 3000004; do
			run --separate-stderr allreduce --procs $procs --bytes $bytes
			[ "$status" -eq 0 ] || { echo "$procs processes, $bytes: $stderr"; false; }
			[ "$(jq "[.procs == $procs, .iters == 5, .bytes_per_second > 0, .p50_seconds > 0] | all" <<<"$output")" = true ]
		done
	done
}

@test "over Unix sockets and TCP, in each suite" {
	for transport in unix tcp; do
		for suite in poly1305 chacha20poly1305 aes256gcm; do
			run --separate-stderr allreduce --procs 3 --bytes 2M --transport $transport --suite $suite
			[ "$status" -eq 0 ] || { echo "$transport $suite: $stderr"; grep -q 'not available' <<<"$stderr"; continue; }
			[ "$(jq -r .transport+.suite <<<"$output")" = "$transport$suite" ]
		done
	done
}

@test "what it cannot do is refused" {
	run -2 allreduce --sparse 100
	[[ "$output" == *"float32 vectors"* ]]
	run -2 allreduce --codec f16
	run -2 allreduce --procs 0
	run -2 allreduce --procs 257
}

members() {
	pgrep -P "$pid" >children && [ "$(wc -l <children)" -eq "$1" ]
}

@test "a process that is killed ends the others, within a moment, with its name" {
	for transport in unix tcp; do
		background ps-work bench --op allreduce --procs 4 --bytes 4M --iters 10000000 --transport $transport
		wait_for 10 members 3
		victim=$(sed -n 2p children)
		# Into the reductions: each uses some time of the processor.
		wait_for 10 awk '{ exit !($14 + $15 > 20) }' "/proc/$victim/stat"
		kill -9 "$victim"
		within 10000 finish
		[ "$status" -ne 0 ]
		grep -qE 'worker-[0-3] \(.*(closed|reset|pipe)|has left the ring' err
		for child in $(cat children); do
			[ ! -e "/proc/$child" ]
		done
	done
}

@test "the bench that is killed takes its processes with it" {
	background ps-work bench --op allreduce --procs 3 --bytes 64K --iters 10000000
	wait_for 10 members 2
	# Nobody is left to remove its directory: where was it?
	socks=$(find "/proc/$pid/fd" -printf '%l\n' | sed -n 's/^socket:\[\(.*\)\]$/\1/p' |
		awk 'NR == FNR { mine[$1]; next } $7 in mine && $8 ~ /ps-bench-.*\/ring-/ { print $8; exit }' - /proc/net/unix)
	[ -n "$socks" ] && [ -d "${socks%/*}" ]
	kill -9 "$pid"
	rm -rf "${socks%/*}"
	for child in $(cat children); do
		wait_for 5 bash -c "! grep -qs '^State:.[^Z]' /proc/$child/status"
	done
}
