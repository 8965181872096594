#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# P1 and P2 counted: while workers are killed, each acknowledged push is in the
# model once, and each other at most once.

load lib/helper

setup() {
	setup_dir
	SOAK=$BATS_TEST_DIRNAME/fault/soak
	export PS_BIN=$BIN TMPDIR=$T LEASE=1 QUOTA=300
}

teardown() {
	teardown_dir
}

ledger() {
	"$BIN/fault/ledger" "$@"
}

# A cluster of one server, and one ledger worker that has taken 50 steps.
fifty_steps() {
	write_csv data.csv 3
	cat >c.json <<-END
	{ "sync": "$1", "job": { "model": "linear", "data": "data.csv?label=y&scale=none", "steps": 1000000000, "optimizer": "sgd", "lr": 1 } }
	END
	background ps-serve c.json
	wait_for 10 test -S c.run/ctl.sock
	ledger work -C c.run --book books --steps 50 --cells 64 2>work.err
}

# soak NAME DURATION [VARIABLE=...]...: in the background, as most of it is waiting.
soak() {
	env "${@:3}" "$SOAK" "$2" >"$1.out" 2>&1 3>&- &
	soaks[$1]=$!
	pids+=($!)
}

# is_well NAME: it ends, and nothing was wrong.
is_well() {
	local code=0
	wait "${soaks[$1]}" || code=$?
	cat "$1.out"
	echo "# $(tail -n 1 "$1.out")" >&3
	[ "$code" -eq 0 ]
}

check() {
	run ledger check -C c.run --book books --cells 64
	echo "$output"
}

@test "the ledger sees what is lost and what counts twice" {
	fifty_steps bsp
	check
	[ "$status" -eq 0 ]
	[ "$output" = "begun 50 acknowledged 50 lost 0 doubled 0 torn 0" ]
	cp -r books true
	# One more is said to be acknowledged than was pushed: lost in both tables.
	printf 'begin 60\nack 60 1 1\n' >>books/0-*
	check
	[ "$status" -eq 1 ]
	[[ "$output" == *"begun 51 acknowledged 51 lost 2 doubled 0 torn 0" ]]
	# Begun and not acknowledged may be there or not, also when the line was cut.
	cp true/* books
	sed -i 's/^ack 49 .*/doubt 49/' books/0-*
	printf 'begin 50\nack 5' >>books/0-*
	check
	[ "$status" -eq 0 ]
	[[ "$output" == *"begun 51 acknowledged 49 lost 0 doubled 0 torn 0" ]]
	# What is in the model without a push.
	grep -vE '^[a-z]+ 7( |$)' true/0-* >books/"$(ls true)"
	check
	[ "$status" -eq 1 ]
	[[ "$output" == *"begun 49 acknowledged 49 lost 0 doubled 2 torn 0" ]]
	# What a job may go back to has the steps before one, and no others. Pushes count from there.
	run ledger base -C c.run --book again --low true --high true --cells 64
	[ "$status" -eq 0 ]
	[[ "$output" == *"acknowledged 50 lost 0 doubled 0 torn 0" ]]
	run ledger check -C c.run --book again --cells 64
	[ "$status" -eq 0 ]
	[[ "$output" == *"begun 0 acknowledged 0 lost 0 doubled 0 torn 0" ]]
	run ledger base -C c.run --book other --low true --high books --cells 64
	[ "$status" -eq 1 ]
	[[ "$output" == *"acknowledged 50 lost 0 doubled 2 torn 0" ]]
	run ledger base -C c.run --book other --low true --high true --steps 49 --cells 64
	[ "$status" -eq 1 ]
}

@test "a push from elsewhere is seen by the ledger" {
	fifty_steps asp
	ps-work pull -C c.run ledger >g.npy
	ps-work push -C c.run ledger <g.npy
	check
	[ "$status" -eq 1 ]
	# Each cell has been taken back.
	[[ "$output" == *"lost 50 doubled 0 torn 0" ]]
}

# bats test_tags=fault
@test "workers are killed: nothing is lost, nothing counts twice" {
	declare -A soaks
	soak bsp 5m SYNC=bsp KILLS=$(kills 6) EVERY=0.3 VICTIMS=workers
	soak asp 5m SYNC=asp KILLS=$(kills 5) EVERY=0.3 VICTIMS=workers
	soak mixed 5m SYNC=bsp KILLS=$(kills 5) EVERY=0.3 VICTIMS=workers SET=rules=ledger-rows:sync=asp
	is_well bsp
	is_well asp
	is_well mixed
}

# bats test_tags=fault
@test "processes of all kinds are killed, two copies: nothing is lost, nothing counts twice" {
	declare -A soaks
	all="workers servers coordinator"
	soak bsp 5m REPLICAS=2 SERVERS=3 SYNC=bsp KILLS=$(kills 6) EVERY=0.3 VICTIMS="$all" SET=pull_delta=true
	soak asp 5m REPLICAS=2 SERVERS=3 SYNC=asp KILLS=$(kills 5) EVERY=0.3 VICTIMS="$all" SET=pull_delta=true
	soak shm 5m REPLICAS=2 SERVERS=3 SYNC=bsp KILLS=$(kills 5) EVERY=0.3 VICTIMS="$all" NET=0 SET=transport=shm
	soak mixed 5m REPLICAS=2 SERVERS=3 SYNC=bsp KILLS=$(kills 5) EVERY=0.3 VICTIMS="$all relays" ZONES="a b" SET=rules=ledger-rows:sync=asp
	is_well bsp
	is_well asp
	is_well shm
	is_well mixed
}
