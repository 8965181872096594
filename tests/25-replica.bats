#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Read replicas of a cluster that lives.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	SERVER=
	awk 'BEGIN { srand(3); for (i = 0; i < 600; i++) print i % 2, int(rand() * 500) ":1", 500 + i % 2 + 2 * int(rand() * 20) ":1" }' >a.svm
}

teardown() {
	[ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null || :
	teardown_dir
}

# job MODEL SETTINGS: a.json, of a job without an end.
job() {
	echo "{ \"servers\": 2, \"workers\": 2, \"sync\": \"ssp:2\", \"quota_pushes\": 1600, $2 \"job\": { \"model\": \"$1\", \"data\": \"a.svm\",
	  \"epochs\": 1000000000, \"batch\": 10, \"optimizer\": \"adagrad\", \"lr\": 0.02 } }" >a.json
}

# replica FROM [options]: in rep.run.
replica() {
	ps-serve --read-only "$@" -C rep.run 2>rep.log &
	SERVER=$!
	wait_for 20 test -S rep.run/ctl.sock || { cat rep.log; return 1; }
}

# All values of the two, as text.
same() {
	ps-ctl export -C a.run all -o text >source.txt && ps-ctl export -C rep.run all -o text >replica.txt &&
		cmp -s source.txt replica.txt
}

is_over() {
	! ps-ctl status -C a.run >/dev/null 2>&1
}

# The training stands still: the replica has all of it, soon.
settles() {
	ps-ctl pause -C a.run
	wait_for 10 same || { diff source.txt replica.txt | head; cat rep.log; return 1; }
}

@test "what the source has, dense and sparse tables, the replica has within a second" {
	job fm '"sparse": "changes",'
	begin a.json
	ps-ctl wait -C a.run --for step=20
	replica a.run
	ps-ctl wait -C a.run --for step=200
	ps-ctl pause -C a.run
	local from
	from=$(date +%s%3N)
	wait_for 10 same
	figure "the same $(($(date +%s%3N) - from)) ms after the pause, with the exports"
	[ "$(wc -l <source.txt)" -gt 1000 ]
	ps-work predict -C a.run a.svm >a.txt
	ps-work predict -C rep.run a.svm >b.txt
	cmp a.txt b.txt
	# And goes on when it goes on; its clients hear of it.
	ps-ctl resume -C a.run
	wait_for 10 step_is_past 400
	settles
	ps-work predict -C rep.run a.svm >c.txt
	run cmp -s b.txt c.txt
	[ "$status" -eq 1 ]
}

@test "rows that go there go here; tables of which nothing is noted are fetched whole" {
	for policy in expire=4 values=bf16,changes,memory=1M none; do
		job fm "\"sparse\": \"$policy\","
		begin a.json
		ps-ctl wait -C a.run --for step=20
		replica a.run
		ps-ctl wait -C a.run --for step=200
		settles
		[ "$policy" != expire=4 ] || [ "$(ps-stat tables -C a.run --json | jq -s 'map(.expired // 0) | add')" -gt 100 ]
		ps-ctl stop -C rep.run
		wait "$SERVER"
		ps-ctl stop -C a.run
	done
}

@test "a few rows that go there go here, by a list of their ids" {
	job fm '"sparse": "expire=40",'
	sed -i "s/1600/100/" a.json
	# No id comes twice, so a row that has expired is not made again.
	awk 'BEGIN { for (i = 0; i < 6000; i++) print i % 2, 3 * i ":1" }' >a.svm
	begin a.json
	ps-ctl wait -C a.run --for step=20
	replica a.run
	ps-ctl wait -C a.run --for step=150
	[ "$(ps-stat tables -C a.run --json | jq -s 'map(.expired // 0) | add')" -gt 20 ]
	settles
}

# is_held 0|1: does the replica keep new values back?
is_held() {
	[ "$(curl -s --unix-socket rep.run/ctl.sock http://x/v1/servers | jq ".servers[0].source_held")" = "$1" ]
}

@test "values that are not good enough are not taken over" {
	job logistic ""
	sed -i "s/1600/20/; s/0\.02/0.5/" a.json
	begin a.json
	ps-ctl wait -C a.run --for step=2
	run -78 ps-serve --read-only a.run -C none.run --set "serve_if=acu > 1"
	[[ $output == *'serve_if: "acu" is not a measure'* ]]
	replica a.run --set "serve_if=train_loss < 0.3"
	wait_for 10 is_held 1
	grep -q 'train_loss is 0.* and serve_if is "train_loss < 0.3": serving the parameters of' rep.log
	ps-ctl export -C rep.run all -o text >held.txt
	ps-ctl wait -C a.run --for step=20
	ps-ctl export -C rep.run all -o text | cmp - held.txt
	ps-ctl set -C a.run quota_pushes=2000
	wait_for 20 is_held 0
	settles
	grep -q 'serve_if is met again' rep.log
	ps-ctl stop -C a.run
	run -78 ps-serve --read-only a.run -C saved.run --set "serve_if=train_loss < 1"
	[[ $output == *'a saved model has no training'* ]]
}

# have_rested SECONDS: every worker tells that it has rested for so long.
have_rested() {
	http GET /v1/workers | jq -e --argjson most "$1" '[.workers[] | select(.doing == "pause").doing_seconds] | length == 2 and min > $most' >/dev/null
}

# bats test_tags=slow
@test "after a pause nothing changes any more, although a quota holds pushes back" {
	for mode in asp ssp:2 bsp; do
		job logistic ""
		sed -i "s/ssp:2/$mode/; s/1600/20/" a.json
		begin a.json
		ps-ctl wait -C a.run --for step=20
		for _ in 1 2 3; do
			ps-ctl pause -C a.run
			ps-ctl export -C a.run all -o text >first.txt
			# All have rested longer than the quota holds a push.
			wait_for 10 have_rested 0.3
			ps-ctl export -C a.run all -o text | cmp first.txt -
			ps-ctl resume -C a.run
			at=$(status .step)
			wait_for 10 step_is_past "$at"
		done
		ps-ctl stop -C a.run
	done
}

@test "by a reader's join file, which may change nothing" {
	job logistic ''
	begin a.json
	ps-ctl invite -C a.run --role reader --name replica -o reader.join
	replica reader.join
	ps-ctl wait -C a.run --for step=100
	settles
	ps-work predict --join reader.join a.svm >a.txt
	ps-work predict -C rep.run a.svm >b.txt
	cmp a.txt b.txt
	need_numpy
	/usr/bin/python3 -c 'import numpy; numpy.save("g.npy", numpy.ones((1, 1), "f4"))'
	run ps-work push --join reader.join b g.npy
	[ "$status" -ne 0 ]
	[[ $output == *"a key with the role reader may not send PUSH"* ]]
	run ps-work train --join reader.join --data a.svm
	[ "$status" -ne 0 ]
	[[ $output == *"reader"* ]]
	# Whoever it was is no more: the replica serves what it has.
	ps-ctl key revoke -C a.run replica
	wait_for 20 grep "cannot read the source" rep.log
	ps-work predict -C rep.run a.svm | cmp - b.txt
}

@test "a source that is killed is looked for, and followed again from its checkpoint" {
	job fm '"sparse": "changes",'
	begin a.json
	ps-ctl wait -C a.run --for step=50
	ps-ctl checkpoint -C a.run
	replica a.run
	ps-ctl wait -C a.run --for step=300
	kill -9 $(sed -sn 1p a.run/*.pid)
	wait_for 30 grep "cannot read the source" rep.log
	ps-work predict -C rep.run a.svm >served
	[ "$(wc -l <served)" = 600 ]
	wait_for 20 is_over
	ps-ctl start a.json --resume auto
	wait_for 30 grep "the source can be read again" rep.log
	settles
	jq -e '.servers[0].source_age_seconds < 60' < <(curl -s --unix-socket rep.run/ctl.sock http://x/v1/servers)
}

@test "what cannot be followed is told" {
	job logistic ''
	run ps-serve --read-only nowhere
	[ "$status" -ne 0 ]
	[[ $output == *"--read-only: cannot read the model \"nowhere\": No such file"* ]]
	begin a.json
	run ps-serve --read-only a.run -C r.run --set servers=2
	[ "$status" -ne 0 ]
	[[ $output == *"one server"* ]]
	# A run that has ended is served when it has a model or a checkpoint (tests/22-keep).
	ps-ctl stop --discard -C a.run
	run ps-serve --read-only a.run -C r.run
	[ "$status" -ne 0 ]
	[[ $output == *"a.run has neither model.safetensors nor a whole checkpoint"* ]]
	run ps-serve a.json --fresh 1s
	[ "$status" -eq 2 ]
}
