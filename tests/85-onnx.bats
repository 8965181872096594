#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# ps-ctl export -o onnx: the checker of python3-onnx, and scores as those of ps-work predict (lib/onnx_eval.py).

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	need_numpy
	has_module onnx || skip "python3-onnx is not installed (make deps-check)"
	export PYTHONDONTWRITEBYTECODE=1
	# One run directory for all models: a run that has ended is replaced.
	echo '{"name": "m", "servers": 1, "workers": 1, "keep_runs": 0, "checkpoint_every": 0,
	       "job": {"model": "logistic", "batch": 16, "steps": 60, "data": ["train.csv?label=y"]}}' >m.json
}

teardown() {
	teardown_dir
}

# tables [CITIES]: train.csv and new.csv, with numbers of all kinds, categories, and what the training data lack.
tables() {
	python3 - "${1:-0}" <<-'END'
		import random
		import sys
		random.seed(5)
		cities = ["Oslo", "Lima", "Rome"] + ["town %d" % i for i in range(int(sys.argv[1]))]
		def write(name, n, new):
		    with open(name, "w") as f:
		        print("y,three,amount,age,visits,when,city,tags", file=f)
		        for _ in range(n):
		            age = random.choice(["", "?", "30", "41", "55.5", "23"])
		            city = random.choice(cities + ["Paris"] * new + ["NA"])
		            tags = random.sample(["a", "b", "c"] + ["z"] * new, random.randint(1, 3))
		            y = random.random() < (0.8 if city == "Oslo" else 0.3)
		            three = random.choice(["low", "mid"]) if y else "high"
		            print("yes" if y else "no", three, round(abs(random.gauss(250, 80)), 2), age, random.choice([0, 1, 2, "few"]),
		                  1600000000 + random.randint(0, 1000), city, "|".join(tags), sep=",", file=f)
		write("train.csv", 400 + 8 * len(cities), 0)
		write("new.csv", 60, 1)
	END
}

# same NAME [DATA [WAY [ps-ctl export options]]]: the model of m.run as ONNX scores DATA as ps-work predict does.
same() {
	local data=${2:-new.csv}
	ps-ctl -C m.run export all -o "$1.onnx" "${@:4}" 2>note || { cat note; return 1; }
	ps-work predict --json m.run/model.safetensors "$data" >want
	python3 "$LIB/onnx_eval.py" "$1.onnx" "$data" want "${3-|}" >difference || { echo "$1"; cat difference; return 1; }
	figure "$1: $(cat difference)"
}

@test "tables of text: all models, sparse and dense, with new and missing values, lists and words" {
	tables
	local data='["train.csv?label=y&ignore=three&lists=tags"]' model
	for model in logistic mlp fm wide_deep deepfm ffm dcn dlrm; do
		train m.json --set job.model=$model --set job.data="$data" --set job.factors=4
		same $model
	done
	run -0 python3 "$LIB/onnx_eval.py" --inputs dlrm.onnx
	[[ $output == *"amount FLOAT N 1"*"visits FLOAT N 1"*"visits.word STRING N 1"*"when DOUBLE N 1"*"city STRING N 1"*"tags STRING N tags_count"*"prediction STRING N"*"probability FLOAT N 2"* ]]
	# Many categories make sparse rows.
	tables 1100
	for model in logistic mlp fm wide_deep deepfm dcn; do
		train m.json --set job.model=$model --set job.data="$data" --set job.factors=4
		same sparse-$model
	done
	# Missing cells that are categories.
	train m.json --set job.model=ffm --set job.data='["train.csv?label=y&ignore=three&lists=tags&missing=category"]'
	same missing
}

# bats test_tags=slow
@test "three classes, real targets in their units, losses with scores of their own" {
	tables
	local classes='["train.csv?label=three&ignore=y,tags"]' real='["train.csv?label=amount&ignore=y,three,tags"]'
	train m.json --set job.model=softmax --set job.data="$classes"
	same softmax
	train m.json --set job.model=mlp --set job.data="$classes" --set job.hidden='[8]' --set job.activation=tanh
	same tanh
	train m.json --set job.model=linear --set job.data="$real"
	same linear
	train m.json --set job.model=mlp --set job.data="$real" --set job.loss=squared
	same mlp
	train m.json --set job.model=linear --set job.loss=poisson --set job.data="$real" --set job.optimizer=sgd --set job.lr=0.001
	same poisson
	train m.json --set job.model=fm --set job.loss=hinge --set job.data='["train.csv?label=y&ignore=three,tags"]'
	same hinge
	# Several targets, and one that is far from 0.
	train m.json --set job.model=linear --set job.data='["train.csv?label=amount,when&ignore=y,three,tags"]'
	same two
}

# entries: arrays, libsvm and fields; a third of the ids of new data are unknown, and some examples are empty.
entries() {
	python3 - <<-'END'
		import random
		import numpy as np
		random.seed(6)
		r = np.random.default_rng(6)
		x = r.normal(size=(300, 6)).astype("<f4")
		np.save("x.npy", x)
		np.save("y.npy", (x @ np.arange(6) > 0).astype("<f4"))
		known = [random.randrange(1, 10**17) for _ in range(300)] + list(range(1, 100))
		def entry(known, fields):
		    f, i = random.randrange(5), random.choice(known)
		    return ("%d:" % f if fields else "") + "%d:%.4g" % (i, random.choice([1, 0.5, 2]))
		def write(name, n, known, fields=False):
		    with open(name, "w") as f:
		        for _ in range(n):
		            some = sorted({entry(known, fields) for _ in range(random.randrange(1, 9))}, key=lambda t: int(t.split(":")[-2]))
		            print(random.choice([0, 1]), *some, file=f)
		write("train.svm", 400, known)
		write("new.svm", 60, known + [random.randrange(1, 10**17) for _ in range(150)])
		small = list(range(1, 500))
		write("train.ffm", 400, small, True)
		write("new.ffm", 60, list(range(1, 700)), True)
	END
}

@test "arrays, libsvm with large ids, fields, and l2" {
	entries
	train m.json --set job.data='["x.npy?labels=y.npy"]'
	same array x.npy
	train m.json --set job.data='["x.npy?labels=y.npy&norm=l2"]' --set job.model=fm
	same normal x.npy
	local model
	for model in logistic fm deepfm wide_deep dcn mlp; do
		train m.json --set job.data='["train.svm"]' --set job.model=$model
		same svm-$model new.svm
	done
	run -0 python3 "$LIB/onnx_eval.py" --inputs svm-fm.onnx
	[[ $output == *"ids INT64 N K"*"values FLOAT N K"* ]]
	for model in ffm deepfm dcn dlrm; do
		train m.json --set job.data='["train.ffm"]' --set job.model=$model
		same ffm-$model new.ffm
	done
}

@test "large models have their values in a second file; a pipe has none" {
	tables
	train m.json --set job.model=deepfm --set job.data='["train.csv?label=y&ignore=three&lists=tags"]'
	same whole
	cp m.run/model.safetensors .
	same parts new.csv '|' --external-above 1K
	[ "$(stat -c %s parts.onnx)" -lt "$(stat -c %s whole.onnx)" ]
	[ -s parts.onnx.data ]
	run ! ls -d ./*.tmp* .*.tmp*
	# The file of values is found beside the model, wherever that is.
	mkdir moved && mv parts.onnx parts.onnx.data moved/
	ps-work predict --json model.safetensors new.csv >want
	python3 "$LIB/onnx_eval.py" moved/parts.onnx new.csv want '|'
	# A model file, and a pipe.
	ps-ctl -C model.safetensors export all -o onnx | cmp - whole.onnx
	run -1 --separate-stderr bash -c 'ps-ctl -C model.safetensors export all -o onnx --external-above 1K >none'
	[[ $stderr == *"a second file: name the output with -o MODEL.onnx"* ]]
}

has_checkpoint() {
	compgen -G 'm.run/checkpoints/step-*[1-9]*/MANIFEST.json' >/dev/null
}

@test "a running cluster, a checkpoint, and what is refused" {
	tables
	local data='["train.csv?label=y&ignore=three,tags"]'
	begin m.json --set job.model=fm --set job.data="$data" --set job.steps=100000000 --set checkpoint_every=20 --set job.batch=4000
	wait_for 20 has_checkpoint
	ps-ctl -C m.run export all -o living.onnx
	python3 "$LIB/onnx_eval.py" --inputs living.onnx
	ps-ctl -C m.run stop --timeout 5s >/dev/null
	local step
	step=$(ls -d m.run/checkpoints/step-* | tail -n 1)
	ps-ctl -C "$step" export all -o saved.onnx
	ps-work predict --json "$step" new.csv >want
	python3 "$LIB/onnx_eval.py" saved.onnx new.csv want

	run -2 --separate-stderr ps-ctl -C m.run export v -o v.onnx
	[[ $stderr == *'onnx has the whole model: write "all"'* ]]
	run -2 --separate-stderr ps-ctl -C m.run export all -o m.npy --external-above 1K
	printf '1\t2\t3\n2\t3\t4\n1\t3\t5\n' >r.tsv
	train m.json --set job.model=mf --set job.data='["r.tsv"]' --resume none
	run -1 --separate-stderr ps-ctl -C m.run export all -o mf.onnx
	[[ $stderr == *"model mf cannot be written as ONNX; these can: linear, logistic, softmax, mlp, fm, ffm, wide_deep, deepfm, dcn, dlrm"* ]]
	[ ! -e mf.onnx ]
	# What ONNX cannot compute is said, and the inputs are features.
	train m.json --set job.data='["train.csv?label=y&ignore=three&text=tags"]' --resume none
	run -0 --separate-stderr ps-ctl -C m.run export all -o text.onnx
	[[ $stderr == *'because column "tags" is a text of words: its inputs are'* ]]
}

@test "a model file that is cut off while it is exported ends the export with a sentence" {
	python3 -c 'import numpy; numpy.save("x.npy", numpy.ones((20, 40000), "<f4")); numpy.save("y.npy", numpy.arange(20.0) % 2)'
	train m.json --set job.model=mlp --set job.hidden='[64]' --set job.steps=2 --set job.data='["x.npy?labels=y.npy"]'
	cp m.run/model.safetensors .
	mkfifo pipe
	background bash -c 'exec ps-ctl -C model.safetensors export all -o onnx >pipe'
	exec 7<pipe
	# The export waits for the reader of a few megabytes.
	head -c 1 <&7 >/dev/null
	: >model.safetensors
	cat <&7 >/dev/null
	exec 7<&-
	finish
	[ "$status" -eq 1 ]
	grep -q "^ps-ctl: a file of the saved model was cut off while it was in use" err
}

# bats test_tags=slow
@test "onnxruntime gives the same scores" {
	tables
	local modules=${ONNX_MODULES:-$T/npm} model
	[ -d "$modules/node_modules/onnxruntime-node" ] ||
		npm install --ignore-scripts --prefix "$modules" --no-audit --no-fund --loglevel=error onnxruntime-node@1.20.1 >npm.log 2>&1 ||
		skip "npm's onnxruntime-node cannot be had"
	export NODE_PATH=$modules/node_modules
	for model in logistic mlp fm wide_deep deepfm ffm dcn dlrm; do
		train m.json --set job.model=$model --set job.data='["train.csv?label=y&ignore=three,tags"]' --set job.factors=4
		same $model new.csv js
	done
	same parts new.csv js --external-above 1K
	train m.json --set job.model=softmax --set job.data='["train.csv?label=three&ignore=y,tags"]'
	same softmax new.csv js
	train m.json --set job.model=linear --set job.data='["train.csv?label=amount,when&ignore=y,three,tags"]'
	same two new.csv js
	entries
	for model in fm wide_deep; do
		train m.json --set job.data='["train.svm"]' --set job.model=$model
		same svm-$model new.svm js
	done
}
