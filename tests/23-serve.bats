#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Serving: pulls from a checkpoint, and predictions of a stream.

load lib/helper
load lib/training

setup() {
	setup_training
	SERVER=
	awk 'BEGIN {
		srand(5); split("pear plum", name)
		for (i = 0; i < 400; i++) { k = i % 2; printf "%.3f,%.3f,%s\n", k * 2 + rand(), rand(), name[k + 1] }
	}' >fruit.csv
	cat >fruit.json <<-END
	{ "servers": 2, "workers": 2, "deterministic": true, "job": { "model": "softmax",
	  "data": "fruit.csv?scale=none", "eval": "fruit.csv", "epochs": 1000000000, "batch": 20, "optimizer": "adam", "lr": 0.1 } }
	END
}

teardown() {
	[ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null || :
	teardown_dir
}

checkpoint() {
	begin fruit.json
	ps-ctl wait -C fruit.run --for step=100
	ps-ctl checkpoint -C fruit.run
	ps-ctl stop -C fruit.run
	CHECKPOINT=$(printf '%s\n' fruit.run/checkpoints/step-* | tail -n 1)
}

# A read-only server of it in serve.run.
serve() {
	ps-serve --read-only "$CHECKPOINT" -C serve.run "$@" 2>serve.log &
	SERVER=$!
	wait_for 20 test -S serve.run/ctl.sock || { cat serve.log; return 1; }
}

@test "a checkpoint is served: the same scores, without the training data" {
	checkpoint
	mv fruit.csv new.csv
	serve
	RESULT=$(ps-work eval -C serve.run --json new.csv)
	at_least .accuracy 0.99
	ps-work predict -C serve.run new.csv >at_once
	ps-work predict -C serve.run --follow <new.csv >stream
	cmp at_once stream
	[ "$(wc -l <stream)" = 400 ]
	[ "$(head -n 2 stream | cut -f 1 | tr '\n' ' ')" = "pear plum " ]
	ps-ctl stop -C serve.run
	wait "$SERVER"
}

@test "what a job says of its own saving and hosts is nothing to who serves its checkpoint" {
	sed -i 's/"servers": 2,/"servers": 2, "hosts": "localhost slots=9", "checkpoint_every": 1000, "checkpoint_deltas": 3,/' fruit.json
	checkpoint
	serve
	RESULT=$(ps-work eval -C serve.run --json fruit.csv)
	at_least .accuracy 0.99
	for key in hosts checkpoint_every checkpoint_deltas; do
		jq -c ".$key" fruit.run/cluster.json serve.run/cluster.json >"$key"
		[ "$(sort -u "$key" | wc -l)" = 2 ]
	done
}

@test "a read-only server writes nothing when it ends, and says which settings change nothing" {
	checkpoint
	serve --set lr=3 --set sparse=values=bf16 --set lease=7s
	[ "$(grep -c 'changes nothing: a read-only server has the model as it was trained' serve.log)" = 2 ]
	grep -q -e '--set lr changes nothing' serve.log
	grep -q -e '--set sparse changes nothing' serve.log
	kill "$SERVER"
	wait "$SERVER"
	[ ! -e serve.run/checkpoints ] || [ -z "$(ls serve.run/checkpoints)" ]
}

@test "what a read-only server is asked beside: pushes are refused, nobody trains" {
	checkpoint
	serve
	/usr/bin/python3 -c 'import numpy; numpy.save("g.npy", numpy.ones((1, 2), "f4"))' || skip "python3-numpy is not installed"
	ps-work pull -C serve.run b >before.npy
	run ps-work push -C serve.run b g.npy
	[ "$status" -ne 0 ]
	[[ $output == *"this cluster is read-only: it only answers pulls"* ]]
	ps-work pull -C serve.run b >after.npy
	cmp before.npy after.npy
	ps-ctl invite -C serve.run --role worker -o w.join
	run ps-work train --join w.join --data fruit.csv
	[ "$status" -ne 0 ]
	[[ $output == *"this cluster does not train"* ]]
	kill -9 "$SERVER"
}

@test "a join file may list several coordinators, which are tried in turn" {
	checkpoint
	serve
	ps-work pull -C serve.run b >want.npy
	ps-ctl invite -C serve.run --role admin -o one.join 2>/dev/null
	jq -c '.data = "127.0.0.1:1," + .data | .http = "127.0.0.1:1," + .http' one.join >two.join
	chmod 600 two.join
	ps-work pull --join two.join b >got.npy
	cmp got.npy want.npy
	run ps-ctl doctor --join two.join
	[[ $output == *"accepts this key"* ]]
	[ "$(jq -r .http one.join)" = "" ] || [ "$(ps-stat --join two.join --json | wc -l)" = 1 ]
	kill -9 "$SERVER"
}

@test "a read-only cluster does not begin again without its model" {
	checkpoint
	serve
	kill -9 "$SERVER"
	wait "$SERVER" || true
	run ps-serve -C serve.run --coordinator --resume auto
	[ "$status" -ne 0 ]
	[[ $output == *"read_only: this cluster has no model to answer pulls with; begin it with ps-serve --read-only FROM"* ]]
	rm -f serve.run/ctl.sock
	serve
	ps-work pull -C serve.run b >/dev/null
	kill -9 "$SERVER"
}

@test "a checkpoint that is none, or damaged, is not served" {
	run ps-serve --read-only nowhere -C x.run
	[ "$status" -ne 0 ]
	[[ $output == *"--read-only: cannot read the model \"nowhere\": No such file"* ]]
	checkpoint
	cp -r "$CHECKPOINT" bad
	f=$(find bad -name '*.safetensors' | head -n 1)
	flip_byte "$f" $(($(stat -c %s "$f") - 2))
	run ps-serve --read-only bad -C x.run
	[ "$status" -ne 0 ]
	[[ $output == *"bad"* ]]
	run ps-serve --read-only "$CHECKPOINT" --resume auto
	[ "$status" -eq 2 ]
}

# predict RUN: its stream as a coprocess, whose ends stay when it ends.
predict() {
	coproc { ps-work predict -C "$1" --follow 2>errors && echo "code 0" || echo "code $?"; }
	exec {FROM}<&"${COPROC[0]}" {TO}>&"${COPROC[1]}"
}

# The next line of it, in $ANSWER; ask LINE: of this.
answer() {
	read -rt 20 -u "$FROM" ANSWER
}

ask() {
	echo "$1" >&"$TO"
	answer
}

@test "each line of a stream is answered when it comes; a bad one ends it with its number" {
	checkpoint
	serve
	predict serve.run
	ask '2.5,0.5,x'
	[[ $ANSWER == plum* ]]
	ask '0.5,0.5,x'
	[[ $ANSWER == pear* ]]
	printf '0.5,0.5,x\n\n2.5,0.1,x\nspam\n' >&"$TO"
	answer
	[[ $ANSWER == pear* ]]
	answer
	[[ $ANSWER == plum* ]]
	answer
	[[ $ANSWER == "code "[1-9]* ]]
	grep "stdin:6: " errors
}

@test "a heading holds for all lines of a stream" {
	sed -i '1i width,height,kind' fruit.csv
	checkpoint
	serve
	predict serve.run
	printf 'width,height,kind\n2.5,0.5,x\n' >&"$TO"
	answer
	[[ $ANSWER == plum* ]]
	ask '0.5,0.5,x'
	[[ $ANSWER == pear* ]]
	ask 'width,height,kind'
	[[ $ANSWER == "code "[1-9]* ]]
	grep "stdin:" errors
}

@test "predictions follow a job that goes on, within a second" {
	/usr/bin/python3 -c 'import numpy; numpy.save("g.npy", numpy.full((1, 1), 50, "f4"))' || skip "python3-numpy is not installed"
	awk 'BEGIN { for (i = 0; i < 400; i++) print i % 2, 1 + i % 7 ":1" }' >a.svm
	echo '{ "job": { "model": "logistic", "optimizer": "sgd", "data": "a.svm", "epochs": 1000000000, "batch": 10, "lr": 0.01 } }' >a.json
	begin a.json
	ps-ctl pause -C a.run
	predict a.run
	ask '0 1:1'
	local first=$ANSWER
	changes() {
		local end=$((SECONDS + 60))
		while ask '0 1:1' && [ "$ANSWER" = "$first" ] && [ $SECONDS -lt $end ]; do :; done
	}
	ps-work push -C a.run b g.npy
	within 1000 changes
	[ "$(jq -n "$ANSWER < $first")" = true ]
	ps-ctl stop -C a.run
}
