#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# A part of the data that is held out, and jobs that end when an evaluation stops improving.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() { setup_dir; }
teardown() { teardown_dir; }

# The training data say y = 2x and the evaluation data y = x: a model that begins at 0 passes the best one.
write_job() {
	awk 'BEGIN { print "x,y"; for (i = 0; i < 400; i++) { x = i % 20 / 10 - 1; print x "," 2 * x } }' >train.csv
	awk 'BEGIN { print "x,y"; for (i = 0; i < 40; i++) { x = i % 20 / 10 - 1; print x "," x } }' >eval.csv
	cat >lin.json <<-END
		{"servers": 1, "workers": 2, "job": {"model": "linear", "optimizer": "sgd", "data": "train.csv?scale=none", "batch": 10, "lr": 0.05,
		 "steps": 100000, "eval": "eval.csv", "eval_every": 10, "stop": "rmse patience=2"}}
	END
}

field() { jq "$1" <<<"$result"; }

@test "the job ends when the metric stops improving, with the best model" {
	write_job
	result=$(ps-ctl run lin --json 2>err | tail -n 1)
	[ "$(field .state)" = '"done"' ]
	[[ $(field .ended) == *" evaluations after step $(field .best_step) had no better rmse"* ]]
	[ "$(field '.steps < 1000 and .best_step < .steps and .best_step % 10 == 0 and .best_value == .eval.rmse')" = true ]
	# The exported model is that of the best evaluation, not the last one.
	best=$(printf 'lin.run/checkpoints/step-%012d' "$(field .best_step)")
	ps-ctl -C "$best" export all >best.safetensors
	cmp best.safetensors lin.run/model.safetensors
	[ "$(ps-work eval lin.run/model.safetensors eval.csv --json | jq .rmse)" = "$(field .best_value)" ]
	jq -s -e 'map(select(.event == "early_stop")) | length == 1' lin.run/events.jsonl
	# A run that goes on from there ends again.
	run -0 --separate-stderr ps-ctl run lin --resume auto --json
	result=$(tail -n 1 <<<"$output")
	[ "$(field '.state == "done" and .ended != null')" = true ]
	[ "$(ps-work eval lin.run/model.safetensors eval.csv --json | jq .rmse)" = "$(field .best_value)" ]
}

@test "checkpoints at the steps of evaluations do not take the place of the best one's" {
	write_job
	result=$(ps-ctl run lin --json --set checkpoint_every=10 2>err | tail -n 1)
	[ "$(field '.state == "done" and .ended != null and .best_checkpoint == .best_step')" = true ]
	[ "$(ps-work eval lin.run/model.safetensors eval.csv --json | jq .rmse)" = "$(field .best_value)" ]
	# In asp the checkpoint has the evaluator's step, too, although the other worker has its own.
	result=$(ps-ctl run lin --json --set sync=asp --set checkpoint_every=10 2>err | tail -n 1)
	[ "$(field '.state == "done" and .ended != null and .best_checkpoint == .best_step')" = true ]
	# The other worker pushes between the evaluation and the snapshot, and the result tells it.
	[ "$(field 'if .best_is_earlier then .eval_step == .best_step else .eval_step == null end')" = true ]
}

@test "a loss that becomes infinite: the model of the best evaluation is saved" {
	write_job
	RUN=$T/lin.run
	ps-ctl start lin --set steps=$ENDLESS --set quota_pushes=200 --set stop="rmse patience=1000000" 2>err
	# The evaluations get worse after the best one, whose checkpoint is written meanwhile.
	wait_for 20 eval '[ "$(status "(.step > .best_step + 50) and .best_checkpoint == .best_step and .best_step > 0")" = true ]'
	# It also fails when the job has ended before every worker has begun a step with it.
	run ps-ctl set lr=1e6
	run -1 ps-ctl wait --for done
	result=$(<lin.run/result.json)
	[[ $(field .reason) == *"the training loss is infinite"* ]]
	[ "$(ps-work eval lin.run/model.safetensors eval.csv --json | jq .rmse)" = "$(field .best_value)" ]
}

@test "a job that evaluates nothing cannot stop early" {
	write_job
	run -78 --separate-stderr ps-ctl run lin --set eval=[]
	[[ $stderr == *"job.stop: the job has no evaluation data"* ]]
}

@test "job.validate holds a part of the examples out" {
	write_job
	result=$(ps-ctl run lin --set eval=[] --set validate=20% --set stop=none --set epochs=10 --set steps=0 \
		--set eval_every=0 --set lr=0.3 --json 2>err | tail -n 1)
	held=$(field .eval.examples)
	[ "$held" -gt 40 ] && [ "$held" -lt 120 ]
	[ "$(field .examples)" -eq $((10 * (400 - held))) ]
	[ "$(field '.eval.rmse < 0.1 and .progressive_loss > .train_loss')" = true ]
	# Beside job.eval, the examples that are held out choose the model, after each epoch: y = 2x, which job.eval is not.
	result=$(ps-ctl run lin --set validate=20% --set eval_every=0 --set steps=0 --set epochs=10 --set 'stop=rmse patience=20' \
		--set lr=0.1 --json 2>err | tail -n 1)
	[ "$(field '.state == "done" and .best_value == .eval.validate.rmse and .eval.validate.rmse < 0.1 and .eval.rmse > 0.5')" = true ]
	[ "$(field .eval.validate.examples)" -eq "$held" ]
	[ "$(field '.best_eval.metric == "rmse" and .best_eval.value == .best_value and .best_eval.step == .best_step')" = true ]
	ps-ctl -C lin.run events eval >evaluations
	[ "$(wc -l <evaluations)" -eq 9 ]
	[ "$(ps-work eval lin.run/model.safetensors eval.csv --json | jq .rmse)" = "$(field .eval.rmse)" ]
	run -78 ps-ctl run lin --set stop=auc
	[[ $output == *"job.stop: evaluations of model linear do not have the metric auc"* ]]
	run -78 ps-ctl run lin --set eval_every=0 --set 'data=train.csv?follow=yes&scale=none'
	[[ $output == *"job.stop: requires job.eval_every above 0 for a stream"* ]]
}
