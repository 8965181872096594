#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# P6: a server's memory stays below the bound that it prints, whatever a peer sends and does not read.

load lib/helper

setup() {
	setup_dir
	printf 'a,b,y\n1,2,3\n2,3,4\n' >data.csv
	transport=tcp
	[[ $BATS_TEST_DESCRIPTION != *"shared memory"* ]] || transport=auto
	# One I/O thread: an honest peer's answer then comes after the greedy peer had its turn.
	cat >g.json <<-END
	{ "name": "g", "sync": "bsp", "workers": 2, "transport": "$transport", "row_ids": "raw", "lease": "10m", "deadline": "20m",
	  "job": { "model": "linear", "data": "data.csv?label=y&scale=none", "steps": 1000000000, "optimizer": "sgd", "lr": 1 } }
	END
	background ps-serve --threads 1 g.json
	server=$pid
	wait_for 10 test -S g.run/ctl.sock
}

teardown() {
	# The job has no worker that could finish a step for a checkpoint.
	kill -9 "$server" 2>/dev/null || true
	wait "$server" 2>/dev/null || true
	rm -f g.run/lock
	teardown_dir
}

# The server's own figure, which comes with a heartbeat.
knows_bound() {
	bound=$(curl -sf --unix-socket g.run/ctl.sock http://ps/v1/servers | jq '.servers[0].memory_bound_bytes // 0')
	[ "$bound" -gt 0 ]
}

# greedy CASE: the peer of that name; the server's peak is below its bound.
greedy() {
	SERVER_PID=$server python3 "$BATS_TEST_DIRNAME/lib/greedy.py" g.run "$1" >peak
	kill -0 "$server"
	wait_for 10 knows_bound
	echo "# $1: $(($(cat peak) >> 20)) MiB at most, bound $((bound >> 20)) MiB" >&3
	[ -n "$PS_SANITIZED" ] || [ "$(cat peak)" -le "$bound" ]
}

@test "a peer that reads none of its refusals" {
	greedy refusals
}

@test "a peer that reads none of its pulls" {
	greedy pulls
}

@test "a peer that reads no rows" {
	greedy rows
}

@test "a peer that reads no scans" {
	greedy scans
}

@test "a peer that reads no answers of the coordinator" {
	greedy messages
}

@test "a peer that reads no answers from shared memory" {
	greedy shared
}

@test "a peer that reads no probes" {
	greedy probes
}

@test "a worker that repeats its clock and reads nothing" {
	greedy clocks
}

@test "a worker that announces each partition thousands of times" {
	greedy announcements
}

@test "a worker that repeats a push of the open step" {
	greedy repeats
}

@test "a worker that pushes ahead" {
	greedy ahead
}

@test "pulls at a step that never comes" {
	greedy later
}

@test "pushes from outside of the job whose receipts nobody reads" {
	greedy guests
}

@test "pushes of many pieces that never end" {
	greedy pieces
}

@test "connections that never finish their handshake" {
	greedy strangers
}
