#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Classes that are drawn in place of all: fasttext with job.negatives.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
}

teardown() {
	teardown_dir
}

# texts CLASSES ROWS SEED: each class has six words of its own, of which a text has three, among others that tell
# nothing. Classes are as frequent as words are. The first texts have all classes.
texts() {
	awk -v classes="$1" -v rows="$2" -v seed="$3" 'BEGIN {
		srand(1)
		for (c = 0; c < classes; c++)
			for (i = 0; i < 6; i++) own[c, i] = int(rand() * classes)
		srand(seed)
		for (r = 0; r < rows; r++) {
			c = seed == 1 && r < classes ? r : int(exp(rand() * log(classes + 1))) - 1
			printf "__label__c%d", c
			for (i = 0; i < 3; i++) printf " w%d u%d", own[c, int(rand() * 6)], int(rand() * 1000)
			print ""
		}
	}'
}

# job NAME SETTINGS MEMBERS: NAME.json
job() {
	cat >"$1.json" <<-END
	{ "servers": ${servers:-1}, "workers": 2, $2 "job": { "model": "fasttext", "data": "train.txt?ngrams=1", "eval": "test.txt?ngrams=1",
	  "negatives": 50, $3 } }
	END
}

# bats test_tags=slow
@test "drawn classes: as good as all, and the files of the model evaluate and predict" {
	texts 1500 12000 1 >train.txt
	texts 1500 1000 2 >test.txt
	job drawn "" '"epochs": 6'
	train drawn.json --set negatives=0
	all=$(res .eval.accuracy)
	at_least .eval.accuracy 0.6
	train drawn.json --set checkpoint_every=564
	at_least .eval.accuracy "$(jq -n "$all - 0.05")"
	loss=$(res .eval.loss)
	mv drawn.run/model.safetensors .
	latest=$(ls -d drawn.run/checkpoints/step-* | tail -1)
	rm train.txt
	ps-work eval model.safetensors 'test.txt?ngrams=1' --json >eval
	[ "$(jq .loss eval)" = "$loss" ]
	ps-work eval "$latest" 'test.txt?ngrams=1' --json >eval
	[ "$(jq .loss eval)" = "$loss" ]
	cut -d' ' -f1 test.txt | sed 's/__label__//' >labels
	cut -d' ' -f2- test.txt >bare.txt
	ps-work predict model.safetensors 'bare.txt?format=fasttext&ngrams=1' | cut -f 1 >classes
	[ "$(paste labels classes | awk '$1 == $2' | wc -l)" = "$(jq '.accuracy * 1000 | round' eval)" ]
	ps-ctl -C drawn.run export c -o text >rows
	[[ $(head -1 rows) == c\[0,0\]*$'\t'c0 ]]
	[ "$(cut -f 3 rows | sort -u | wc -l)" -eq 1500 ]
}

@test "drawn classes: a job that begins with the model of another one keeps its classes" {
	texts 300 3000 1 >train.txt
	texts 300 500 2 >test.txt
	job first "" '"epochs": 3'
	train first.json
	loss=$(res .eval.loss)
	job second "" '"steps": 2, "lr": 1e-12'
	train second.json --init-from first.run
	at_most "((.eval.loss - $loss) | fabs)" 1e-6
}

@test "drawn classes: equal bits with 1, 2 and 3 workers, however the job is harmed" {
	texts 300 3000 1 >train.txt
	texts 300 500 2 >test.txt
	for workers in 1 2 3; do
		servers=2 job same "\"deterministic\": true, \"replicas\": 2, \"on_worker_loss\": \"wait:10m\",
		  \"heartbeat\": \"100ms\", \"lease\": \"1s\", \"checkpoint_every\": 10," '"steps": 60, "l2": 0.001'
		train same.json --set workers="$workers" --set name=first
		want=$(res .model_digest)
		[ ${#want} -ge 64 ]
		train same.json --set workers="$workers" --set name=second --set servers=3 --set replicas=1 --set eval_every=7
		has .model_digest "$want"
		begin same.json --max-restarts 9 --set workers="$workers" --set quota_pushes=160
		wait_for 30 step_is_past 5
		kill -9 "$(cat "$RUN/worker-$((workers - 1)).pid")"
		kill -9 "$(cat "$RUN/server-1.pid")"
		let_go
		wait_for 60 over
		RESULT=$(http GET /v1/result)
		has .state done
		has .model_digest "$want"
		ps-ctl stop -C "$RUN" >/dev/null
		none_left "$T"
		rm -r ./*.run
	done
}

@test "drawn classes: a killed worker in asp, whose batches others repeat" {
	texts 300 3000 1 >train.txt
	texts 300 500 2 >test.txt
	job asp '"sync": "asp", "heartbeat": "100ms", "lease": "1s",' '"epochs": 12'
	begin asp.json --max-restarts 3 --set quota_pushes=160
	wait_for 30 step_is_past 5
	kill -9 "$(cat "$RUN/worker-1.pid")"
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done
	at_least .eval.accuracy 0.6
	ps-ctl stop >/dev/null
	none_left "$T"
}

@test "drawn classes: data in blocks" {
	texts 100 40000 1 >train.txt
	texts 100 500 2 >test.txt
	job blocks "" '"epochs": 1, "data_memory": 1048576'
	train blocks.json
	grep -q "bytes in [0-9]* blocks" blocks.run/worker-0.log
	at_least .eval.accuracy 0.6
}

@test "drawn classes: all-reduce, accumulated gradients, and another model" {
	texts 300 3000 1 >train.txt
	texts 300 500 2 >test.txt
	job ways "" '"epochs": 8'
	run -78 ps-ctl run ways.json --set local_steps=4
	[[ $output == *"local_steps: must be 1 with job.negatives"* ]]
	train ways.json --set via=allreduce
	at_least .eval.accuracy 0.6
	train ways.json --set accumulate=3
	at_least .eval.accuracy 0.5
	run ! ps-ctl run ways.json --set model=softmax
	[[ $output == *"job.negatives: model softmax draws neither classes nor several items; use fasttext or warp, or leave out job.negatives"* ]]
}

# bats test_tags=slow
@test "drawn classes: a relay that is killed, a read replica, and processes that come and go" {
	texts 300 3000 1 >train.txt
	texts 300 500 2 >test.txt
	servers=2 job far '"lease": "1s", "heartbeat": "100ms", "quota_pushes": 160,' '"epochs": 8'
	RUN=$T/far.run
	ps-serve far.json >coordinator.out 2>&1 3>&- &
	pids+=($!)
	wait_for 10 test -S "$RUN/ctl.sock"
	ps-serve -C "$RUN" --name server-1 >server-1.out 2>&1 3>&- &
	pids+=($!)
	ps-ctl invite -C "$RUN" --role relay -o relay.join 2>/dev/null
	ps-serve --relay --join relay.join --zone a >relay.out 2>&1 3>&- &
	relay=$!
	pids+=($!)
	wait_for 10 grep -q "joined as relay" relay.out
	for i in 0 1; do
		ps-work train -C "$RUN" --rank $i --zone a >"worker-$i.out" 2>&1 3>&- &
		pids+=($!)
	done
	wait_for 30 step_is_past 5
	ps-ctl pause -C "$RUN" >/dev/null
	ps-serve --read-only "$RUN" -C rep.run 2>rep.log 3>&- &
	pids+=($!)
	wait_for 20 test -S rep.run/ctl.sock
	ps-work predict -C "$RUN" 'test.txt?ngrams=1' >source
	wait_for 10 eval "ps-work predict -C rep.run 'test.txt?ngrams=1' | cmp -s - source"
	ps-ctl resume -C "$RUN" >/dev/null
	kill -9 "$relay"
	steps_on 3
	ps-ctl set -C "$RUN" quota_pushes=0 >/dev/null
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done
	at_least .eval.accuracy 0.5
	ps-ctl stop -C "$RUN" >/dev/null
	job scaled "" '"epochs": 8'
	begin scaled.json --set workers=1:3 --set quota_pushes=40
	for to in workers=3 servers=3 workers=1 servers=1; do
		steps_on 2
		ps-ctl scale -C "$RUN" $to >/dev/null
	done
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done
	at_least .eval.accuracy 0.5
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$RUN"
}
