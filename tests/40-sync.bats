#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# One model however many take part: equal bits where that is promised, and the
# same numbers as one process that follows the formulas.

load lib/helper
load lib/training

setup() {
	setup_training
}

teardown() {
	teardown_dir
}

# ---- deterministic -----------------------------------------------------------

# 500 examples of 40 features, 4 classes; a sparse row has 5 of them.
sparse_data() {
	awk 'BEGIN {
		srand(9)
		for (i = 0; i < 500; i++) {
			k = int(rand() * 4)
			printf "%d", k
			for (f = 1 + int(rand() * 6); f <= 40; f += 6 + int(rand() * 6))
				printf " %d:%.4f", f, rand() + (f % 4 == k)
			print ""
		}
	}'
}

dense_data() {
	awk 'BEGIN {
		srand(11)
		for (i = 0; i < 500; i++) {
			k = int(rand() * 4)
			for (f = 0; f < 40; f++)
				printf "%.4f,", rand() + (f % 4 == k)
			print k
		}
	}'
}

digest_of() {
	train "$@" && DIGEST=$(res .model_digest)
}

# same_bits FILE: two runs, 1 and 3 servers, TCP and Unix sockets.
same_bits() {
	local first
	digest_of "$1" --set servers=1
	first=$DIGEST
	[ ${#first} -eq 64 ]
	for set in servers=1 servers=3 "servers=3 transport=tcp" "servers=2 transport=unix" "servers=2 transport=shm" "servers=3 spin=50us" "servers=2 transport=shm spin=1ms" "servers=3 suite=chacha20poly1305"; do
		digest_of "$1" $(printf -- '--set %s ' $set)
		[ "$DIGEST" = "$first" ] || { echo "$set: $DIGEST, not $first"; return 1; }
	done
	# It can differ: another seed is another model.
	digest_of "$1" --set seed=2
	[ "$DIGEST" != "$first" ]
}

@test "deterministic: sparse softmax has the same bits whatever serves it" {
	sparse_data >s.svm
	cat >sparse.json <<-END
	{ "workers": 3, "deterministic": true, "job": { "model": "softmax", "data": "s.svm", "epochs": 4, "batch": 7,
	  "optimizer": "adagrad", "lr": 0.1 } }
	END
	same_bits sparse.json
}

# bats test_tags=slow
@test "deterministic: an mlp over several partitions has the same bits whatever serves it" {
	dense_data >d.csv
	# w1 has 200 x 700 elements: three partitions.
	cat >mlp.json <<-END
	{ "workers": 3, "deterministic": true, "job": { "model": "mlp", "hidden": [200, 700], "data": "d.csv?label=last&scale=none",
	  "epochs": 1, "batch": 7, "optimizer": "adam", "lr": 0.002 } }
	END
	same_bits mlp.json
}

# bats test_tags=slow
@test "deterministic: linear has the same bits by its own rule" {
	write_csv train.csv
	cat >own.json <<-END
	{ "workers": 3, "deterministic": true, "job": { "model": "linear", "data": "train.csv?label=y", "epochs": 3, "batch": 7 } }
	END
	same_bits own.json
}

@test "deterministic: on real data, twice" {
	need_data a9a/a9a.gz
	cat >a9a.json <<-END
	{ "servers": 2, "workers": 4, "deterministic": true, "job": { "model": "logistic", "data": "$DATA/a9a/a9a.gz",
	  "epochs": 1, "batch": 50, "optimizer": "adagrad", "lr": 0.1 } }
	END
	digest_of a9a.json
	first=$DIGEST
	digest_of a9a.json --set servers=3
	[ "$DIGEST" = "$first" ]
}

@test "deterministic refuses what cannot be" {
	dense_data >d.csv
	cat >no.json <<-END
	{ "workers": 2, "deterministic": true, "job": { "model": "softmax", "optimizer": "sgd", "lr": 0.1, "data": "d.csv?label=last&scale=none", "epochs": 1 } }
	END
	for set in sync=asp sync=ssp:1 on_worker_loss=shrink backup=1 workers=1:3; do
		run ps-ctl run no.json --set $set
		[ "$status" -eq 78 ]
		[[ "$output" == *deterministic* ]]
	done
}

# ---- against the reference ------------------------------------------------------

# check MODEL RULE LR [reference options]: 200 steps of three workers and two
# servers from the same parameters, against one process in double precision.
# Every parameter within 1e-5 of its own size, or within 1e-6 where it is below 0.1:
# `compare` looks, at all since `inputs` at once.
check() {
	local model=$1 rule=$2 lr=$3 set=()
	shift 3
	for ((i = 1; i <= $#; i += 2)); do
		local key=${!i} value=$((i + 1))
		key=${key#--}
		set+=(--set "${key//-/_}=${!value}")
	done
	cat >case.json <<-END
	{ "servers": 2, "workers": 3, "job": { "model": "$model", "data": "$INPUT", "hidden": [$HIDDEN],
	  "init": "$INIT", "steps": 200, "batch": 6, "l2": 0, "seed": $SEED } }
	END
	train case.json --set optimizer=$rule --set lr=$lr "${set[@]}"
	cases=$((cases + 1))
	mv case.run/model.safetensors "$cases.safetensors"
	echo "$cases.safetensors --model $model --rule $rule --lr $lr $* --batches $SEED.batches --steps 200 --ranks 3" >>cases
}

compare() {
	[ "$(wc -l <cases)" -eq "$1" ]
	/usr/bin/python3 "$LIB/trial.py" compare cases >compared || {
		cat cases compared
		return 1
	}
	[ "$(wc -l <compared)" -eq "$1" ]
	sed 's/ --batches.*:/:/; s/^/# /' compared >&3
	rm cases
}

# inputs MODEL [options of trial.py make]
inputs() {
	need_numpy
	export PYTHONDONTWRITEBYTECODE=1
	/usr/bin/python3 "$LIB/trial.py" make --model "$@"
	[ -e 1.batches ] || /usr/bin/python3 "$LIB/trial.py" batches >1.batches
	cases=0 INPUT='data.csv?label=last&scale=none' INIT=./init.safetensors HIDDEN= SEED=1
}

# Constants for single examples: where examples share no feature, and batches are powers of two, a batch gives the bits of
# its examples one by one.
@test "adagrad and ftrl: the same bits by single examples and by batches, of one worker and of two" {
	awk 'BEGIN { srand(2); for (i = 1; i <= 256; i++) printf "%d %d:%.4f\n", rand() < 0.4, i, 0.5 + rand() }' >own.svm
	cat >own.json <<-END
	{ "servers": 2, "workers": 1, "job": { "model": "logistic", "data": "own.svm", "epochs": 1, "frozen": "b",
	  "optimizer": "ftrl", "lr": 0.1, "l1": 0.05, "l2": 0.5, "initial_accumulator": 0.1 } }
	END
	digest_of own.json --set batch=1 --set optimizer=ftrl
	first=$DIGEST
	for set in "batch=64 workers=2 replicas=2" "batch=16 workers=2 sync=asp replicas=2"; do
		digest_of own.json $(printf -- '--set %s ' $set)
		[ "$DIGEST" = "$first" ] || { echo "$set: $DIGEST, not $first"; return 1; }
	done
	# In the second epoch l2 acts on what the first one has left, once for each example.
	both="optimizer=adagrad l1=0 epochs=2"
	digest_of own.json $(printf -- '--set %s ' $both batch=1)
	[ "$DIGEST" != "$first" ]
	first=$DIGEST
	for set in "batch=16 accumulate=4 replicas=2" "batch=64 sync=asp replicas=2"; do
		digest_of own.json $(printf -- '--set %s ' $both $set)
		[ "$DIGEST" = "$first" ] || { echo "$set: $DIGEST, not $first"; return 1; }
	done
}

@test "compensated staleness: of one worker, whose pushes are never stale, the bits are those without" {
	sparse_data >s.svm
	echo '{ "workers": 1, "servers": 2, "replicas": 2, "job": { "model": "softmax", "optimizer": "adam", "data": "s.svm", "epochs": 2, "batch": 9 } }' >one.json
	digest_of one.json --set sync=asp
	first=$DIGEST
	for mode in asp:scaled ssp:0:scaled asp:dc:9 asp:dca ssp:0:dca:5; do
		digest_of one.json --set sync=$mode
		[ "$DIGEST" = "$first" ]
	done
	for mode in asp:scaled asp:dc:0.5 ssp:2:dca; do
		train one.json --set workers=3 --set sync=$mode
	done
	for bad in asp:slow ssp:scaled asp:dc:0 asp:dc:x ssp:1:dca:-1 asp:scaled:2 bsp:dc; do
		run ps-ctl run one.json --set sync=$bad
		[ "$status" -eq 78 ]
		[[ $output == *"sync: must be "*"got \"$bad\""* ]]
	done
	run ps-ctl run one.json --set sync=asp:dc --set local_steps=2
	[ "$status" -eq 78 ]
	[[ $output == *"sync: dc compensates gradients, and with local_steps workers push differences"* ]]
}

@test "the same numbers as one process: every update rule" {
	inputs mlp --hidden 7,5
	HIDDEN=7,5
	check mlp sgd 0.05 --activation tanh
	check mlp momentum 0.01 --activation tanh
	check mlp nesterov 0.01 --activation tanh
	check mlp adagrad 0.05 --activation tanh
	check mlp rmsprop 0.003 --activation tanh
	check mlp adam 0.003 --activation tanh
	check mlp adamw 0.003 --activation tanh --l2 0.02
	check mlp ftrl 0.05 --activation tanh --l1 0.001 --l2 0.001
	check mlp amsgrad 0.003 --activation tanh --l2 0.01
	check mlp rowwise_adagrad 0.05 --activation tanh
	check mlp rowwise_adam 0.003 --activation tanh --l2 0.01
	check mlp lamb 0.002 --activation tanh --l2 0.01
	compare 12
}

@test "ps-work train --compute: as slow as it says" {
	cat >s.json <<-END
	{ "servers": 1, "workers": 2, "job": { "model": "linear", "optimizer": "sgd", "data": "s.csv?scale=none", "steps": 20, "batch": 4, "lr": 0.01 } }
	END
	seq 200 | awk '{ print $1 / 200 "," $1 / 100 }' >s.csv
	for bad in 5ms,x7 5ms,5%7 fast -1s; do
		run ps-work train -C nowhere.run --compute $bad
		[ "$status" -eq 78 ]
		[[ $output == *"--compute: must be a time"* ]]
	done
	RUN=$T/s.run
	background ps-serve s.json
	wait_for 10 test -S "$RUN/ctl.sock"
	background ps-work train -C "$RUN" --rank 0 --compute 20ms,50%x2
	background ps-work train -C "$RUN" --rank 1
	wait_for 20 eval '[ "$(status .state)" = done ]'
	# Half of the 20 steps twice as long, more or less; the other waits.
	http GET /v1/workers | jq -e '.workers[0].compute_seconds >= 0.45' >/dev/null
	http GET /v1/workers | jq -e '.workers[1].wait_seconds > 0.3' >/dev/null
	# The result of a cluster without a supervisor is that of its coordinator.
	told='[.kind, .state, .steps, .examples, .train_loss]'
	RESULT=$(http GET /v1/result)
	[ "$(res '.steps')" -eq 20 ]
	[ "$(ps-ctl stop -C "$RUN" --json | jq -c "$told")" = "$(res "$told | tojson")" ]
}

# bats test_tags=slow
@test "the same numbers as one process: every model" {
	inputs linear --classes 0
	check linear sgd 0.05
	check linear momentum 0.01 --l2 0.01
	compare 2
	inputs logistic --classes 0
	check logistic sgd 0.2 --l2 0.01
	check logistic ftrl 0.2 --l1 0.01
	compare 2
	inputs softmax --classes 4
	check softmax sgd 0.2
	check softmax adagrad 0.1 --l2 0.01
	compare 2
	inputs mlp --hidden 9
	HIDDEN=9
	check mlp sgd 0.2 --activation relu
	compare 1
	inputs dcn --classes 0 --hidden 7,5
	HIDDEN=7,5
	check dcn sgd 0.1 --activation tanh
	check dcn adagrad 0.02 --activation tanh
	compare 2
}

@test "the same numbers as one process: sparse rows" {
	inputs logistic --classes 0 --features 30 --sparse
	INPUT=data.svm INIT=zeros
	check logistic sgd 0.5
	check logistic adagrad 0.2
	check logistic ftrl 0.2 --l1 0.01
	compare 3
	inputs softmax --classes 4 --features 30 --sparse
	INPUT=data.svm INIT=zeros
	check softmax sgd 0.5
	check softmax adagrad 0.2
	compare 2
}

@test "the same numbers as one process: schedules, and another seed" {
	inputs softmax
	check softmax sgd 0.3 --schedule warmup:20+cosine:150:0.1
	check softmax momentum 0.05 --schedule step:50:0.5
	check softmax adam 0.02 --schedule wsd:20:100:60
	SEED=77
	/usr/bin/python3 "$LIB/trial.py" batches --seed 77 >77.batches
	check softmax sgd 0.3
	compare 4
}
