#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Descriptors: a server takes all that it may have, refuses to start with too few, and strangers cannot use them up.

load lib/helper

setup() {
	setup_dir
	printf '{ "name": "few", "servers": 1 }' >few.json
}

teardown() {
	teardown_dir
}

limits() {
	awk '/^Max open files/ { print $4, $5 }' "/proc/$1/limits"
}

# serve COMMAND: ps-serve few.json after this shell command.
serve() {
	background bash -c "$1 && exec ps-serve few.json"
	wait_for 10 test -S few.run/ctl.sock
}

@test "the soft limit of descriptors is raised to the hard one" {
	serve "ulimit -Sn 400 && ulimit -Hn 900"
	[ "$(limits "$pid")" = "900 900" ]
}

@test "too few descriptors for the workers: one sentence, and nothing is started" {
	cat >many.json <<-END
	{ "name": "many", "workers": 500, "job": { "model": "linear", "data": "data.csv?label=y&scale=none", "steps": 10, "optimizer": "sgd", "lr": 1 } }
	END
	printf 'a,b,y\n1,2,3\n2,3,4\n' >data.csv
	run bash -c "ulimit -n 600 && exec ps-serve many.json"
	echo "$output"
	[ "$status" -eq 78 ]
	[ "${#lines[@]}" -eq 1 ]
	[[ $output == *"500 workers and 1 server "*"may open 600: set ulimit -n "* ]]
	# With as many as it says it does start.
	need=$(sed 's/.*set ulimit -n \([0-9]*\).*/\1/' <<<"$output")
	rm -rf many.run
	background bash -c "ulimit -n $need && exec ps-serve many.json"
	wait_for 10 test -S many.run/ctl.sock
}

@test "strangers cannot use up the descriptors, nor keep others out" {
	serve "ulimit -n 512"
	python3 "$BATS_TEST_DIRNAME/lib/strangers.py" few.run
	kill -0 "$pid"
	# What checkpoints and logs need has been left all the time.
	run grep "too many" err
	[ "$status" -eq 1 ]
	run ps-stat -C few.run servers -Hp -k sessions
	[ "$status" -eq 0 ]
}
