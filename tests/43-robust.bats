#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Gradients that would spoil a model: robust sums.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	need_data digits8x8/digits.csv.gz
	RUN=$T/digits.run
}
teardown() { teardown_dir; }

is_there() { [ "$(worker "$1" .pid)" -gt 0 ] 2>/dev/null; }

# clean FILE; poison FILE: the same digits with other labels, and values SCALE times as large.
clean() { zcat "$DATA/digits8x8/digits.csv.gz" | head -n 1500 >"$1"; }
poison() {
	zcat "$DATA/digits8x8/digits.csv.gz" | head -n 1500 | awk -F, -v OFS=, -v scale="$2" '{
		for (i = 1; i < NF; i++) $i *= scale
		$NF = (9 - $NF)
		print
	}' >"$1"
}

# digits STEPS [members of the file]
digits() {
	zcat "$DATA/digits8x8/digits.csv.gz" | tail -n 297 >test.csv
	cat >digits.json <<-END
	{ $(paced "$1") "servers": 2, "workers": 4, "heartbeat": "100ms" ${2:-},
	  "job": { "model": "softmax", "data": "train.csv?label=last&scale=none", "eval": "test.csv?label=last&scale=none",
	  "steps": $1, "batch": 16, "optimizer": "sgd", "lr": 0.002 } }
	END
}

# One after the other: the last worker reads what poison() has written in the meantime.
cluster() {
	rm -rf "$RUN"
	clean train.csv
	background ps-serve digits.json --no-store
	server=$pid
	wait_for 10 test -S "$RUN/ctl.sock"
	for i in 0 1; do
		ps-serve -C "$RUN" --name server-$i >>servers.out 2>&1 3>&- &
		pids+=($!)
	done
	for i in 0 1 2; do
		ps-work train -C "$RUN" --rank $i >worker-$i.out 2>&1 3>&- &
		pids+=($!)
	done
	for i in 0 1 2; do wait_for 20 is_there $i; done
	[ "$1" = 0 ] || poison train.csv "$1"
	ps-work train -C "$RUN" --rank 3 >worker-3.out 2>&1 3>&- &
	pids+=($!)
}

# accuracy SCALE: of the whole job.
accuracy() {
	cluster "$1"
	wait_for 60 over
	http GET /v1/result | jq -r '.eval.accuracy'
	ps-ctl -C "$RUN" stop >/dev/null
	wait "$server" || true
}

@test "one worker of four sends garbage: with robust the model is as good as without it" {
	digits 400
	good=$(accuracy 0)
	bad=$(accuracy 40)
	figure "accuracy with 4 good workers $good, with 3 good ones and a bad one $bad"
	jq -ne "$good > 0.85 and $bad < $good - 0.05" >/dev/null
	for robust in median trimmed:1 clip:1; do
		digits 400 ", \"robust\": \"$robust\""
		with=$(accuracy 40)
		figure "$robust: $with"
		jq -ne "$with > $good - 0.03" >/dev/null
	done
}

@test "what cannot be compared is refused, each with one sentence" {
	digits 10
	refused() {
		run -78 ps-ctl run digits.json --set robust="$1" "${@:3}"
		[[ $output == *"$2"* ]] || { echo "$output"; false; }
	}
	clean train.csv
	refused median "sync: must be bsp with robust median" --set sync=asp
	refused median "backup: must be 0" --set backup=1
	refused median "via: must be servers" --set via=allreduce
	refused trimmed:2 "with workers 4 removes all gradients"
	refused mean "robust: must be none, median, trimmed:K"
	printf '%s\n' '1 1:1 7:2' '0 2:1 9:1' '1 1:1 9:3' '0 3:1' >train.svm
	run ps-ctl run digits.json --set data=train.svm --set eval=train.svm --set model=logistic --set robust=median
	[ "$status" -ne 0 ]
	[[ $output == *'robust: table "w" is sparse'* ]]
}

@test "nothing is pushed past a robust sum" {
	need_numpy
	digits $ENDLESS ', "robust": "median"'
	clean train.csv
	begin digits.json
	wait_for 20 step_is_past 5
	ps-work pull w -C "$RUN" >w.npy
	run -1 --separate-stderr ps-work push w -C "$RUN" <w.npy
	[[ $stderr == *"refused"*"robust"* ]]
	# A table beside the model's is no part of it.
	ps-ctl table add emb --rows 5 -C "$RUN"
	/usr/bin/python3 -c 'import numpy as np; np.save("g.npy", np.ones((5, 1), np.float32))'
	ps-work push emb -C "$RUN" <g.npy
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "equal bits with robust, whatever the order and the number of servers; a copy that takes over has them" {
	digits 60 ', "deterministic": true, "robust": "trimmed:1"'
	clean train.csv
	train digits.json --set name=one
	first=$(res .model_digest)
	train digits.json --set name=two --set servers=3 --set replicas=2
	has .model_digest "$first"
	digits 60 ', "robust": "median"'
	train digits.json --set name=three
	first=$(res .model_digest)
	train digits.json --set name=four --set servers=3 --set replicas=2
	has .model_digest "$first"
}

@test "a gradient that servers refuse fails the job, unless it is to be skipped; a damaged model is refused" {
	printf '1 1:1 3:2\n0 2:1e29 3:1\n' >a.svm
	cat >c.json <<-END
	{ "job": { "model": "logistic", "data": "a.svm", "scale": "none", "optimizer": "sgd", "lr": 1, "batch": 2, "epochs": 1 } }
	END
	run -1 ps-ctl run c.json
	[[ $output == *'worker-0: its push to table "w" at step 0 was refused, because a gradient is '*'e+28, and servers sum values below 1.93e+25'* ]]
	[[ $output == *'the data has values as large as 1e+29'* || $output == *'has values as large as 1e+29'* ]]
	run -1 ps-ctl -C c.run doctor
	[[ $output == *'fail gradients: '* ]]
	run -0 ps-ctl run c.json --set bad_gradients=skip
	[[ $output == *'; 1 push was refused and not in the model'* ]]
	[ "$(jq .pushes_refused c.run/result.json)" -eq 1 ]
	run -0 ps-ctl -C c.run doctor
	[[ $output == *'warn gradients: the last run has refused 1 push, which is not in the model'* ]]
	# One value of a layer before a relu, which makes 0 of NaN.
	seq 40 | awk 'BEGIN { print "a,b,y" } { print $1 / 40 "," ($1 * 7 % 40) / 40 "," $1 % 2 }' >t.csv
	ps-ctl run c.json --set model=mlp --set hidden=8 --set data=t.csv --set optimizer=adam --set name=m
	n=$(od -An -t u8 -N 8 m.run/model.safetensors | tr -d ' ')
	printf '\0\0\300\177' | dd of=m.run/model.safetensors bs=1 seek=$((8 + n)) conv=notrunc status=none
	cp m.run/model.safetensors m.safetensors
	run -1 ps-work eval m.safetensors t.csv
	[[ $output == *'m.safetensors is damaged: table "w0" has the value NaN in row 0, column 0'* ]]
	run -1 ps-ctl run c.json --set model=mlp --set hidden=8 --set data=t.csv --init-from m.safetensors
	[[ $output == *'m.safetensors is damaged: table "w0"'* ]]
	run -1 ps-ctl run c.json --set model=mlp --set hidden=8 --set data=t.csv --set init=m.safetensors
	[[ $output == *'table "w0" has the value NaN in row 0, column 0 at step 0, although the training loss is finite'* ]]
}

@test "a job that has learned nothing says so" {
	seq 200 | awk 'BEGIN { print "a,y" } { print $1 / 200 "," ($1 * 37 % 200) / 100 + $1 / 50 }' >t.csv
	echo '{ "job": { "model": "linear", "data": "t.csv", "eval": "t.csv", "epochs": 5 } }' >c.json
	run -0 ps-ctl run c.json
	[[ $output != *'constant'* && $output != *'update rule'* ]]
	run -0 ps-ctl run c.json --set lr=1e9
	[[ ${lines[0]} == 'ps-ctl: job.lr is given and job.optimizer is not: the update rule is adam'* ]]
	[[ $output == *'; diverged: the train loss is '*'; no better than the constant prediction (r2 '*'; ps-ctl doctor has advice'* ]]
	run -0 ps-ctl -C c.run doctor
	[[ $output == *'warn learning: the model is no better than the constant prediction (r2 '*'try another learning rate'* ]]
	[[ $output == *'warn learning: the job diverged: its train loss is '*'lower the learning rate'* ]]
}
