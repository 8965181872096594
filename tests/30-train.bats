#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Real data, two servers, two or three workers, all three modes: the quality
# that a single process reaches.

load lib/helper
load lib/training

setup() {
	setup_training
}

teardown() {
	teardown_dir
}

# in_all_modes NAME FILTER LEAST [FILTER LEAST]...
in_all_modes() {
	local name=$1 mode
	shift
	for mode in bsp ssp:3 asp; do
		train "$name.json" --set sync=$mode
		figure "$name $mode: $(res '.eval | del(.examples) | tojson'), $(res .steps) steps, $(res '.seconds * 100 | round / 100') s"
		local checks=("$@")
		while [ ${#checks[@]} -gt 0 ]; do
			at_least "${checks[0]}" "${checks[1]}"
			checks=("${checks[@]:2}")
		done
	done
}

# bats test_tags=slow
@test "a9a, logistic: accuracy 0.848, AUC 0.899" {
	need_data a9a/a9a.gz a9a/a9a.t.gz
	cat >a9a.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "logistic", "data": "$DATA/a9a/a9a.gz",
	  "eval": "$DATA/a9a/a9a.t.gz", "epochs": 5, "batch": 100, "optimizer": "adagrad", "lr": 0.1 } }
	END
	in_all_modes a9a .eval.accuracy 0.848 .eval.auc 0.899
	has .examples 162805
}

# bats test_tags=slow
@test "dna, softmax: accuracy 0.92" {
	need_data angel/dna.scale.gz angel/dna.scale.t.gz
	cat >dna.json <<-END
	{ "servers": 2, "workers": 3, "job": { "model": "softmax", "data": "$DATA/angel/dna.scale.gz",
	  "eval": "$DATA/angel/dna.scale.t.gz", "epochs": 20, "batch": 20, "optimizer": "adagrad", "lr": 0.05 } }
	END
	in_all_modes dna .eval.accuracy 0.92
}

# bats test_tags=slow
@test "abalone, linear: R2 0.47" {
	need_data angel/abalone_8d_train.libsvm.gz
	cat >abalone.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "linear",
	  "data": "$DATA/angel/abalone_8d_train.libsvm.gz", "eval": "$DATA/angel/abalone_8d_train.libsvm.gz",
	  "epochs": 60, "batch": 50, "optimizer": "adagrad", "lr": 1 } }
	END
	in_all_modes abalone .eval.r2 0.47
}

# bats test_tags=slow
@test "census, fm: AUC 0.910" {
	need_data angel/census_148d_train.libsvm.gz angel/census_148d_test.libsvm.gz
	cat >census.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "fm", "data": "$DATA/angel/census_148d_train.libsvm.gz",
	  "eval": "$DATA/angel/census_148d_test.libsvm.gz", "epochs": 5, "batch": 100, "optimizer": "adagrad", "lr": 0.05 } }
	END
	in_all_modes census .eval.auc 0.910
}

# bats test_tags=slow
@test "MNIST, 128 hidden: accuracy 0.97" {
	need_data mnist/train-images-idx3-ubyte.gz mnist/t10k-images-idx3-ubyte.gz
	cat >mnist.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "mlp", "hidden": [128],
	  "data": "$DATA/mnist/train-images-idx3-ubyte.gz", "eval": "$DATA/mnist/t10k-images-idx3-ubyte.gz",
	  "epochs": 6, "batch": 50, "optimizer": "adam", "lr": 0.001 } }
	END
	in_all_modes mnist .eval.accuracy 0.97
}

@test "digits by CSV, 64 hidden: accuracy 0.90" {
	need_data digits8x8/digits.csv.gz
	zcat "$DATA/digits8x8/digits.csv.gz" | head -n 1500 >train.csv
	zcat "$DATA/digits8x8/digits.csv.gz" | tail -n 297 >test.csv
	cat >digits.json <<-END
	{ "servers": 2, "workers": 3, "job": { "model": "mlp", "hidden": [64], "data": "train.csv?label=last&scale=none",
	  "eval": "test.csv?label=last&scale=none", "epochs": 40, "batch": 16, "optimizer": "adam", "lr": 0.002 } }
	END
	in_all_modes digits .eval.accuracy 0.90
}

# N lines in the form of `printf FORMAT, class, x, y`: three corners of a square.
corners() {
	awk -v n="$1" -v form="$2" -v names="$3" 'BEGIN {
		srand(5); split(names, name)
		for (i = 0; i < n; i++) {
			k = i % 3
			printf form "\n", name[k + 1], (k == 1) * 4 + rand(), (k == 2) * 4 + rand()
		}
	}'
}

@test "libsvm with indices from 0, and from 1, is the same data" {
	corners 300 '%s 0:%.3f 1:%.3f' '1 2 3' >zero.svm
	corners 300 '%s 1:%.3f 2:%.3f' '1 2 3' >one.svm
	for base in zero one; do
		cat >$base.json <<-END
		{ "servers": 2, "workers": 2, "deterministic": true, "job": { "model": "softmax", "optimizer": "sgd", "data": "$base.svm",
		  "eval": "$base.svm", "epochs": 20, "batch": 10, "lr": 0.1 } }
		END
		train $base.json
		at_least .eval.accuracy 0.99
		res .eval.loss >$base.loss
	done
	cmp zero.loss one.loss
}

@test "classes by name" {
	{ echo kind,x,y; corners 300 '%s,%.3f,%.3f' 'cat dog eel'; } >pets.csv
	cat >pets.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "softmax", "optimizer": "sgd", "data": "pets.csv?label=kind&scale=none",
	  "eval": "pets.csv?label=kind&scale=none", "epochs": 20, "batch": 10, "lr": 0.1 } }
	END
	train pets.json
	at_least .eval.accuracy 0.99
	grep -q '3 classes' pets.run/worker-0.log
}

@test "a pass that no batch divides: every example once an epoch, in every mode" {
	corners 103 '%s 1:%.3f 2:%.3f' '1 2 3' >odd.svm
	cat >odd.json <<-END
	{ "servers": 2, "workers": 3, "job": { "model": "softmax", "optimizer": "sgd", "lr": 0.1, "data": "odd.svm", "epochs": 2, "batch": 10 } }
	END
	# The last step of an epoch has 13 left: 10, 3 and 0.
	train odd.json
	has .examples 206
	has .steps 8
	for mode in ssp:2 asp; do
		train odd.json --set sync=$mode
		has .examples 206
	done
}

@test "fewer examples than one step takes" {
	corners 5 '%s 1:%.3f 2:%.3f' '1 2 3' >few.svm
	cat >few.json <<-END
	{ "servers": 3, "workers": 3, "job": { "model": "softmax", "optimizer": "sgd", "lr": 0.1, "data": "few.svm", "eval": "few.svm", "epochs": 7,
	  "batch": 4 } }
	END
	for mode in bsp ssp:0 asp; do
		train few.json --set sync=$mode
		has .examples 35
		has .eval.examples 5
	done
}

@test "job.steps ends a job within an epoch, and within a worker's range" {
	corners 300 '%s 1:%.3f 2:%.3f' '1 2 3' >some.svm
	cat >some.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "softmax", "optimizer": "sgd", "lr": 0.1, "data": "some.svm", "steps": 7, "batch": 10 } }
	END
	train some.json
	has .steps 7
	has .examples 140
	# With an end by epochs too, what one leaves the other takes, or both have had their steps.
	for mode in ssp:1 asp; do
		train some.json --set sync=$mode
		has .steps 7
		train some.json --set sync=$mode --set epochs=1 --set steps=17
		[ "$(res .examples)" -le 300 ]
	done
}

@test "eval_every: evaluations while it trains, the last one at the end" {
	corners 300 '%s 1:%.3f 2:%.3f' '1 2 3' >some.svm
	cat >evals.json <<-END
	{ "servers": 2, "workers": 3, "job": { "model": "softmax", "optimizer": "sgd", "lr": 0.1, "data": "some.svm", "eval": "some.svm", "steps": 35,
	  "batch": 10, "eval_every": 10 } }
	END
	for mode in bsp ssp:3 asp; do
		train evals.json --set sync=$mode
		for step in 10 20 30; do
			grep -q "step $step: eval loss " evals.run/server-0.log
		done
		[ "$(grep -c 'step [0-9]*: eval loss' evals.run/server-0.log)" -eq 3 ]
		has .eval.examples 300
	done
}

@test "nothing is left when a run has ended" {
	corners 30 '%s 1:%.3f 2:%.3f' '1 2 3' >some.svm
	cat >tidy.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "softmax", "optimizer": "sgd", "lr": 0.1, "data": "some.svm", "epochs": 2, "batch": 10 } }
	END
	train tidy.json
	[ -z "$(find tidy.run -name '*.sock' -o -name '*.pid')" ]
	[ -s tidy.run/model.safetensors ]
	[ "$(jq -r .model_digest tidy.run/result.json)" = "$(res .model_digest)" ]
	none_left "$T"
}
