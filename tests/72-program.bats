#!/usr/bin/env bats
# Gradients from programs of the user's own.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	EXAMPLES=$(cd "$BATS_TEST_DIRNAME/.." && pwd)/contrib/examples
	RUN=$T/c.run
}

teardown() {
	teardown_dir
}

# y = a - 2 b, and a program in shell that trains w:1 to 3: its gradient is w - 3.
write_job() {
	cat >c.json <<-END
	{ "servers": 2, "workers": 2, ${2:-}
	  "job": { "model": "custom", "tables": "w:1", "examples": 400, "batch": 20, "lr": 0.5, "exec": "./to-three", $1 } }
	END
	cat >to-three <<-'END'
	#!/bin/sh
	while read -r word step _ n _ data begin end _; do
		case $word in
		step)
			if [ -n "${BAD:-}" ] || [ -e "$PSKIT_WORKER.bad" ]; then
				. ./bad
			fi
			w=$(ps-work floats -d "$PSKIT_DIR/w.param")
			awk -v w="$w" 'BEGIN { print w - 3 }' | ps-work floats >"$PSKIT_DIR/w.grad"
			echo "ok loss $(awk -v w="$w" 'BEGIN { print (w - 3) ^ 2 / 2 }') examples $n"
			echo "$begin $end" >>"$PSKIT_WORKER.seen" ;;
		eval)
			echo "ok loss $(ps-work floats -d "$PSKIT_DIR/w.param" | awk '{ print ($1 - 3) ^ 2 / 2 }') rmse 0.5 examples 7" ;;
		esac
	done
	END
	chmod +x to-three
}

@test "the examples train the same model in three languages" {
	need_numpy
	run -0 "$EXAMPLES/program/run"
	echo "$output"
	[ "$(cut -f 2,3 <<<"$output" | sort -u)" = $'done\t40' ]
	# To six digits: each sums in its own order.
	[ "$(cut -f 4 <<<"$output" | awk '{ printf "%.6g\n", $1 }' | sort -u | wc -l)" -eq 1 ]
	awk -F'\t' '$4 > 0.3 { bad = 1 } END { exit bad }' <<<"$output"
}

@test "every mode, with local steps, copies and all-reduce; each example goes to somebody once an epoch" {
	for set in sync=bsp sync=ssp:2 sync=asp local_steps=2 replicas=2 via=allreduce codec=f16; do
		rm -f worker-*.seen
		write_job '"epochs": 2'
		train c.json --set $set --set examples=200
		has .state done
		has .examples 400
		[ "$(sort -n worker-*.seen | awk '{ n += $2 - $1 } END { print n }')" -eq 400 ]
		[ "$(sort -nu worker-*.seen | awk '$1 != at { bad = 1 } { at = $2 } END { print at, bad + 0 }')" = "200 0" ]
		ps-ctl stop >/dev/null 2>&1 || true
	done
}

@test "job.eval is scored by the program" {
	write_job '"epochs": 4, "eval": "to-three", "eval_every": 5'
	train c.json --set sync=bsp
	[ "$(res '.eval | [.rmse, .examples] | join(" ")')" = "0.5 7" ]
	jq -e '.eval.loss < 0.001' <<<"$RESULT"
	[ "$(jq -c 'select(.event == "eval")' "$RUN/events.jsonl" | wc -l)" -ge 3 ]
}

@test "a program that dies is started again, and asked once more; three times in a row, and its worker gives up" {
	write_job '"steps": 2000'
	echo '[ -e "$PSKIT_WORKER.died" ] || { touch "$PSKIT_WORKER.died"; exit 3; }' >bad
	touch worker-0.bad
	begin c.json --set steps=1000
	wait_for 20 step_is_past 20
	grep 'the program (./to-three) ended with exit code 3 at step 0: it is started again' "$RUN/worker-0.log"
	[ "$(http GET /v1/workers | jq '.workers[0].program_restarts')" -eq 1 ]
	rm worker-0.bad
	echo 'kill -KILL $$' >bad
	touch worker-1.bad
	wait_for 20 eval '[ "$(status .workers)" -eq 1 ]'
	grep '\(was ended by signal 9\|ended with exit code 137\) at step .*; it was started again 3 times' "$RUN/worker-1.log"
	rm worker-1.bad
	at=$(status .step)
	wait_for 20 step_is_past $((at + 20))
	ps-ctl stop >/dev/null
	none_left "$T"
}

@test "what a program must not answer" {
	write_job '"steps": 1000'
	# Each line of `bad` is read in its loop, before its own answer.
	while IFS='|' read -r bad says; do
		printf '%s\n' "$bad" >bad
		run -1 env BAD=1 ps-ctl run c.json --json
		echo "$bad: $output"
		[[ $output == *"$says"* ]]
	done <<-'END'
	echo nonsense; continue|answers "nonsense": wanted is "ok loss NUMBER
	echo ok; continue|without its loss
	echo ok loss; continue|"loss" and no number behind it
	echo ok loss x; continue|"loss x": that is no number
	echo "ok loss 1 examples 3"; continue|answers for 3 examples, and was asked for 20
	echo "error no such luck"; continue|says at step 0: no such luck
	printf 123 >"$PSKIT_DIR/w.grad"; echo "ok loss 1"; continue|has 3 bytes, and the gradient of table "w" has 4
	rm "$PSKIT_DIR/w.grad"; echo "ok loss 1"; continue|cannot read the gradient in
	echo "ok loss nan"; continue|the loss is NaN at step 0
	printf %5000s x; continue|a line of more than 4096 bytes
	END
	none_left "$T"
}

@test "kill -9 of a worker takes its program along, and what it left goes with the next" {
	write_job '"steps": 1000000' '"lease": "2s",'
	begin c.json
	wait_for 20 step_is_past 5
	dirs() { find /dev/shm -maxdepth 1 -name 'pskit-program-*' -user "$(id -u)" 2>/dev/null | wc -l; }
	had=$(dirs)
	program=$(pgrep -P "$(cat "$RUN/worker-1.pid")")
	kill -9 "$(cat "$RUN/worker-1.pid")"
	wait_for 10 eval '! kill -0 '"$program"' 2>/dev/null'
	wait_for 20 eval '[ "$(status .workers)" -eq 1 ]'
	ps-work train -C "$RUN" --exec ./to-three >two.log 2>&1 3>&- &
	pids+=($!)
	wait_for 20 eval '[ "$(status .workers)" -eq 2 ]'
	[ "$(dirs)" -le "$had" ]
	ps-ctl stop >/dev/null
	none_left "$T"
	[ "$(dirs)" -le $((had - 2)) ]
}

@test "a program that never answers: the worker leaves all the same" {
	write_job '"steps": 1000000'
	echo 'sleep 1000' >bad
	touch worker-1.bad
	begin c.json
	wait_for 20 eval 'ps-stat -C "$RUN" why 3>&- | grep -q worker-1'
	ps-ctl stop --timeout 20s >/dev/null
	none_left "$T"
	run pgrep -f 'sleep 1000'
	[ "$status" -eq 1 ]
}

@test "what the cluster file must not say" {
	while IFS='|' read -r set says; do
		write_job '"steps": 10'
		IFS=, read -ra sets <<<"$set"
		run --separate-stderr ps-ctl run c.json "${sets[@]/#/--set=}"
		echo "$set: $status $stderr"
		[ "$status" -eq 78 ] || [ "$status" -eq 2 ]
		[[ $stderr == *"$says"* ]]
	done <<-'END'
	tables=none|job.tables: model custom has those that are named here
	tables=w|job.tables: must be NAME:ROWS or NAME:ROWSxCOLS
	tables=w:0|job.tables: must be NAME:ROWS
	tables=w:3x0|a row has 1 to
	tables=w:3:zeros|there may be glorot, nodecay and sparse
	examples=0|job.data: must name the training data, or job.examples
	model=linear|job.tables: is for model custom
	END
	# A worker by hand wants a program, and other models want none.
	write_job '"steps": 1000000' '"workers": "1:3",'
	sed -i 's/"workers": 2, //' c.json
	begin c.json
	run -78 --separate-stderr ps-work train -C "$RUN" --slot 2
	[[ $stderr == *'the gradients of model custom come from a program: ps-work train --exec'* ]]
	ps-ctl stop >/dev/null
}

@test "floats: text to float32, and back" {
	run -0 bash -c 'echo 1 -2.5 3e-3 nan inf | ps-work floats | od -An -tx4 -v'
	[ "$(tr -s ' ' <<<"$output")" = ' 3f800000 c0200000 3b449ba6 7fc00000
 7f800000' ]
	run -0 bash -c 'printf "0.1\n16777217\n" | ps-work floats | ps-work floats -d'
	[ "$output" = $'0.100000001\n16777216' ]
	run -1 bash -c 'echo 1 x | ps-work floats'
	[[ $output == *'word 2: "x" is no number'* ]]
	run -1 bash -c 'printf abcde | ps-work floats -d'
	[[ $output == *'1 bytes are left over'* ]]
}
