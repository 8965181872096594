#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Rows whose values have 16 bits: the same bits in every replica, on any number of servers and after a resume; 16
# bits in files, and float32 for those that read them.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	ln -s "$BATS_FILE_TMPDIR/pairs.svm" .
	cat >c.json <<-JSON
	{ "servers": 2, "workers": 2, "deterministic": true, "on_worker_loss": "wait:10m", "sparse": "values=bf16",
	  "job": { "model": "fm", "factors": 7, "data": "pairs.svm", "eval": "pairs.svm",
	  "epochs": 6, "batch": 20, "optimizer": "adagrad", "lr": 0.1 } }
	JSON
}

teardown() {
	teardown_dir
}

# Each example has 8 of 60 features, and its class is that of most of them.
setup_file() {
	awk 'BEGIN {
		srand(5)
		for (i = 0; i < 1500; i++) {
			split("", on)
			score = 0
			for (k = 0; k < 8; k++)
				on[int(rand() * 60) + 1] = 1
			line = ""
			for (k = 1; k <= 60; k++)
				if (k in on) {
					line = line " " k ":1"
					score += k % 2 ? 1 : -1
				}
			printf "%d%s\n", (score + rand() - 0.5 > 0), line
		}
	}' >"$BATS_FILE_TMPDIR/pairs.svm"
}

# The digest of the run that nothing happens to: the same file for all tests here.
undisturbed() {
	local kept=$BATS_FILE_TMPDIR/digest
	[ -s "$kept" ] || {
		ps-ctl run c.json --set name=undisturbed --json 2>/dev/null >result
		field model_digest <result >"$kept"
	}
	cat "$kept"
}

# ends_alike: what is HELD goes on, and ends as the run that nothing happens to.
ends_alike() {
	let_go
	wait_for 120 over
	RESULT=$(http GET /v1/result)
	has .state done
	has .model_digest "$(undisturbed)"
	ps-ctl stop -C "$RUN" >/dev/null
}

# types FILE: "name type" of the tensors of a safetensors file.
types() {
	/usr/bin/python3 -c 'import json, struct, sys
b = open(sys.argv[1], "rb")
head = json.loads(b.read(struct.unpack("<Q", b.read(8))[0]))
for name, t in head.items():
    if name != "__metadata__":
        size = {"BF16": 2, "F16": 2, "F32": 4, "U64": 8, "U8": 1, "I8": 1}[t["dtype"]]
        assert t["data_offsets"][0] % size == 0, (name, t)
        print(name, t["dtype"])' "$1"
}

@test "values=bf16: a good model, whose bits do not depend on the number of servers" {
	[ "$(undisturbed | wc -c)" -ge 64 ]
	train c.json --set sparse=none
	full=$(res .eval.auc)
	[ "$(res .model_digest)" != "$(undisturbed)" ]
	for set in servers=1 "servers=3 --set replicas=2" row_ids=cached; do
		train c.json --set $set
		has .model_digest "$(undisturbed)"
	done
	at_least .eval.auc "$full - 0.005"
	figure "AUC $full with float32, $(res .eval.auc) with bf16"
	# Another seed rounds in another way.
	train c.json --set sparse=values=f16
	at_least .eval.auc "$full - 0.005"
	[ "$(res .model_digest)" != "$(undisturbed)" ]
}

@test "values=bf16: a server is killed, others come and go, and the bits are the same" {
	begin c.json --set servers=3 --set replicas=2 --max-restarts 3 "${HELD_SPARSE[@]}"
	wait_for 20 step_is_past 10
	kill -9 "$(cat "$RUN/server-1.pid")"
	wait_for 20 step_is_past 20
	ends_alike
	begin c.json --set replicas=2 "${HELD_SPARSE[@]}"
	wait_for 20 step_is_past 10
	ps-ctl scale -C "$RUN" servers=4 >/dev/null 2>&1
	ps-ctl scale -C "$RUN" servers=2 >/dev/null 2>&1
	ends_alike
}

@test "values=bf16: checkpoints have 16 bits, and a resume on fewer servers goes on in the same bits" {
	begin c.json --set checkpoint_every=30 "${HELD_SPARSE[@]}"
	wait_for 20 step_is_past 40
	ps-ctl pause -C "$RUN" >/dev/null
	ps-ctl checkpoint -C "$RUN" >/dev/null
	http GET /v1/tables | jq -e '.tables[] | select(.id == "v") | .policy == "values=bf16"'
	ps-stat tables -C "$RUN" -k id,policy | grep -qE '^ *v +values=bf16'
	ps-ctl export all -C "$RUN" >live.safetensors
	ps-ctl stop -C "$RUN" >/dev/null
	newest=$(ls -d "$RUN"/checkpoints/step-* | tail -n 1)
	ps-ctl checkpoint verify "$newest"
	for file in "$newest"/server-?.params.safetensors; do
		types "$file" | tee /dev/stderr >types
		[ "$(sed -n 's/^v\.[0-9]* //p' types | sort -u)" = BF16 ]
		! grep '^b' types | grep -v F32
	done
	[ "$(types "$newest"/server-0.state.safetensors | sed 's/.* //' | sort -u)" = F32 ]
	# What the living cluster and the checkpoint export is the same, byte by byte.
	ps-ctl export all -C "$newest" >saved.safetensors
	[ "$(types live.safetensors | grep -v ids | sort | xargs)" = "b F32 v BF16" ]
	[ "$(types live.safetensors)" = "$(types saved.safetensors)" ]
	jq '.servers = 1' c.json >few.json
	begin few.json "${HELD_SPARSE[@]}" --resume "$newest"
	ends_alike
}

# bats test_tags=slow
@test "values=bf16: delta checkpoints, a row policy beside it, and optimizers of every kind of state" {
	local more="--set batch=4 --set epochs=0 --set steps=400 --set checkpoint_deltas=3"
	for rule in sgd adam rowwise_adagrad ftrl; do
		set=(--set job.optimizer=$rule --set lr=0.05 --set sparse=values=bf16,expire=200,admit=2)
		train c.json $more "${set[@]}"
		want=$(res .model_digest)
		begin c.json $more "${set[@]}" "${HELD_SPARSE[@]}"
		wait_for 20 step_is_past 40
		for i in 1 2; do
			ps-ctl checkpoint -C "$RUN" >/dev/null
		done
		ps-ctl stop -C "$RUN" >/dev/null
		ps-ctl checkpoint verify -C "$RUN"
		newest=$(ls -d "$RUN"/checkpoints/step-* | tail -n 1)
		jq '.servers = 1' c.json >few.json
		begin few.json $more "${set[@]}" "${HELD_SPARSE[@]}" --resume "$newest"
		let_go
		wait_for 120 over
		RESULT=$(http GET /v1/result)
		has .state done
		has .model_digest "$want"
		ps-ctl stop -C "$RUN" >/dev/null
	done
}

@test "values=bf16: a model file and a read-only cluster have what the cluster has" {
	begin c.json
	wait_for 60 over
	ps-work predict -C "$RUN" pairs.svm >living
	ps-ctl export all -C "$RUN" -o text | sort >living.txt
	ps-ctl stop -C "$RUN" >/dev/null
	model=$RUN/model.safetensors
	[ "$(types "$model" | grep -v ids | sort | xargs)" = "b F32 v BF16" ]
	ps-work predict "$model" pairs.svm | cmp - living
	ps-ctl export all -C "$RUN" -o text | sort | cmp - living.txt
	background ps-serve --read-only "$RUN"
	wait_for 10 test -S c-read.run/ctl.sock
	wait_for 10 bash -c 'ps-ctl -C c-read.run export all -o text | sort | cmp - living.txt'
	ps-work predict -C c-read.run pairs.svm | cmp - living
	ps-ctl -C c-read.run stop
	# A job of float32 begins with it, and one of bf16 with one of float32.
	train c.json --set name=wide --set sparse=none --set epochs=1 --init-from "$model"
	at_least .eval.auc 0.9
	types wide.run/model.safetensors | grep -qx 'v F32'
	train c.json --set name=narrow --set epochs=1 --init-from wide.run/model.safetensors
	at_least .eval.auc 0.9
	types narrow.run/model.safetensors | grep -qx 'v BF16'
}

@test "--values int8: a smaller file, which is read everywhere and scores the same" {
	begin c.json --set sparse=none
	wait_for 60 over
	ps-ctl export all -C "$RUN" -o living.safetensors --values int8
	ps-ctl stop -C "$RUN" >/dev/null
	model=$RUN/model.safetensors
	ps-ctl export all -C "$model" -o small.safetensors --values int8
	cmp small.safetensors living.safetensors
	[ "$(types small.safetensors | sort | xargs)" = "b F32 v I8 v.ids U64 v.scale F32" ]
	ps-work eval "$model" pairs.svm --json >full
	ps-work eval small.safetensors pairs.svm --json >few
	jq -se '(.[0].auc - .[1].auc | fabs) < .001 and (.[0].log_loss - .[1].log_loss | fabs) < .002' full few
	ps-ctl export all -C small.safetensors -o text | sort >small.txt
	[ "$(wc -l <small.txt)" -eq "$(ps-ctl export all -C "$model" -o text | wc -l)" ]
	ps-work predict small.safetensors pairs.svm >scores
	background ps-serve --read-only small.safetensors -C c-read.run
	wait_for 10 test -S c-read.run/ctl.sock
	wait_for 10 bash -c 'ps-ctl -C c-read.run export all -o text | sort | cmp - small.txt'
	ps-work predict -C c-read.run pairs.svm | cmp - scores
	# Once more gives the same bytes: a value that 8 bits can have stays as it is.
	ps-ctl -C c-read.run export all -o again.safetensors --values int8
	for file in small again; do
		ps-ctl export all -C $file.safetensors -o text | sort >$file.txt
	done
	cmp small.txt again.txt
	ps-ctl -C c-read.run stop
	train c.json --set name=next --set epochs=1 --init-from small.safetensors
	at_least .eval.auc 0.9
	# Narrow rows stay, and that is said.
	train c.json --set name=narrow --set factors=3 --set epochs=1
	run -0 --separate-stderr ps-ctl export all -C narrow.run -o narrow.safetensors --values int8
	[[ $stderr == *'table "v" keeps its values of type bf16: its rows have 4 values'* ]]
	[[ $stderr == *'nothing has become smaller'* ]]
	[ "$(types narrow.safetensors | grep -v ids | sort | xargs)" = "b F32 v BF16" ]
	for bad in "all --values int4" "v --values int8" "all -o text --values int8" "all --since 3 --values int8"; do
		run -2 --separate-stderr ps-ctl export -C narrow.run $bad
		[[ $stderr == *--values* ]]
	done
}

@test "values: a type that does not exist, and one for a dense table, are refused" {
	run -78 --separate-stderr ps-ctl run c.json --set sparse=values=fp8
	[[ $stderr == *'sparse: values: must be f32, bf16 or f16, got "fp8"'* ]]
	printf '{ "servers": 1 }' >none.json
	begin none.json
	run -78 --separate-stderr ps-ctl table add bad -C "$RUN" --rows 5 --policy values=bf16
	[[ $stderr == *'policy: requires a sparse table'* ]]
	ps-ctl table add mine -C "$RUN" --sparse --cols 2 --policy values=f16
	[ "$(http GET /v1/tables | jq -r '.tables[] | select(.id == "mine").policy')" = values=f16 ]
	ps-ctl stop -C "$RUN" >/dev/null
}
