#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
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

# bats test_tags=slow
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

@test "a worker whose OpenBLAS is older than the processor starts anew with better kernels, for its program, too" {
	grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo || skip "this processor has no AVX2"
	[ -z "${PS_SANITIZED:-}" ] || skip "a sanitizer must be loaded first"
	unset OPENBLAS_CORETYPE
	write_job '"epochs": 1'
	sed -i '2i echo "${OPENBLAS_CORETYPE-unset}" >"$PSKIT_WORKER.core"' to-three
	BLAS_CORE=Prescott LD_PRELOAD="$BIN/fault/old_blas.so" train c.json --set examples=40
	has .state done
	[ "$(cat worker-*.core | sort -u)" = Haswell ]
	OPENBLAS_CORETYPE=Nehalem train c.json --set examples=40
	[ "$(cat worker-*.core | sort -u)" = Nehalem ]
	OPENBLAS_CORETYPE=Nehalem run -0 ps-ctl doctor c.json
	[[ $output == *"warn blas: OPENBLAS_CORETYPE selects OpenBLAS's kernels for Nehalem, which do not use the AVX2 instructions of this processor; set OPENBLAS_CORETYPE=Haswell, or unset it"* ]]
}

@test "job.eval is scored by the program" {
	write_job '"epochs": 4, "eval": "to-three", "eval_every": 5'
	train c.json --set sync=bsp
	[ "$(res '.eval | [.rmse, .examples] | join(" ")')" = "0.5 7" ]
	jq -e '.eval.loss < 0.001' <<<"$RESULT"
	[ "$(jq -c 'select(.event == "eval")' "$RUN/events.jsonl" | wc -l)" -ge 3 ]
}

@test "a program that dies is started again, and asked once more; three times in a row, and its worker gives up" {
	write_job '"steps": '$ENDLESS '"quota_pushes": 20,'
	echo '[ -e "$PSKIT_WORKER.died" ] || { touch "$PSKIT_WORKER.died"; echo "no module named frob" >&2; exit 3; }' >bad
	touch worker-0.bad
	begin c.json
	wait_for 20 step_is_past 20
	grep 'the program (./to-three) ended with exit code 3 at step 0, after the line "no module named frob"; restarting it' "$RUN/worker-0.log"
	[ "$(http GET /v1/workers | jq '.workers[0].program_restarts')" -eq 1 ]
	rm worker-0.bad
	echo 'kill -KILL $$' >bad
	touch worker-1.bad
	wait_for 20 eval '[ "$(status .workers)" -eq 1 ]'
	grep '\(was ended by signal 9\|ended with exit code 137\) at step .*; it was restarted 3 times' "$RUN/worker-1.log"
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
	echo nonsense; continue|answered "nonsense", expected "ok loss NUMBER
	echo ok; continue|without its loss
	echo ok loss; continue|"loss" without a number
	echo ok loss x; continue|"loss x", which is not a number
	echo "ok loss 1 examples 3"; continue|answered for 3 examples, expected 20
	echo "error no such luck"; continue|reports an error at step 0: no such luck
	printf 123 >"$PSKIT_DIR/w.grad"; echo "ok loss 1"; continue|has 3 bytes, but the gradient of table "w" has 4
	rm "$PSKIT_DIR/w.grad"; echo "ok loss 1"; continue|cannot read the gradient in
	echo "ok loss nan"; continue|the training loss is NaN at step 0
	printf %5000s x; continue|a line of more than 4096 bytes
	END
	none_left "$T"
}

@test "kill -9 of a worker takes its program along, and what it left goes with the next" {
	write_job '"steps": '$ENDLESS '"quota_pushes": 20, "lease": "2s",'
	begin c.json
	wait_for 20 step_is_past 5
	# The directory of program $1, a process.
	program_dir() { tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^PSKIT_DIR=//p'; }
	program=$(pgrep -P "$(cat "$RUN/worker-1.pid")")
	kept=$(program_dir "$(pgrep -P "$(cat "$RUN/worker-0.pid")")") left=$(program_dir "$program")
	[ -d "$kept" ] && [ -d "$left" ]
	kill -9 "$(cat "$RUN/worker-1.pid")"
	wait_for 10 eval '! kill -0 '"$program"' 2>/dev/null'
	wait_for 20 eval '[ "$(status .workers)" -eq 1 ]'
	ps-work train -C "$RUN" --exec ./to-three >two.log 2>&1 3>&- &
	pids+=($!)
	wait_for 20 eval '[ "$(status .workers)" -eq 2 ]'
	[ ! -e "$left" ]
	new=$(program_dir "$(pgrep -P "${pids[-1]}")")
	[ -d "$kept" ] && [ -d "$new" ]
	ps-ctl stop >/dev/null
	# The run does not wait for a worker that it did not start.
	wait "${pids[-1]}"
	none_left "$T"
	[ ! -e "$kept" ] && [ ! -e "$new" ]
}

@test "a program that never answers: the worker leaves all the same" {
	write_job '"steps": '$ENDLESS '"quota_pushes": 20,'
	echo 'sleep 1000.'$$ >bad
	touch worker-1.bad
	begin c.json
	wait_for 20 eval 'ps-stat -C "$RUN" why 3>&- | grep -q worker-1'
	# No step ends, so no checkpoint can be taken.
	ps-ctl stop --discard --timeout 120s >/dev/null
	none_left "$T"
	run pgrep -f "sleep 1000.$$"
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
	tables=none|job.tables: model custom needs its tables
	tables=w|job.tables: must be NAME:ROWS or NAME:ROWSxCOLS
	tables=w:0|job.tables: must be NAME:ROWS
	tables=w:3x0|a row must have 1 to
	tables=w:3:zeros|only glorot, nodecay and sparse
	examples=0|job.data: must name the training data, or job.examples
	model=linear|job.tables: requires job.model custom
	END
	# A worker by hand wants a program, and other models want none.
	write_job '"steps": '$ENDLESS '"workers": "1:3",'
	sed -i 's/"workers": 2, //' c.json
	begin c.json
	run -78 --separate-stderr ps-work train -C "$RUN" --rank 2
	[[ $stderr == *'model custom requires a program that computes gradients: ps-work train --exec'* ]]
	ps-ctl stop >/dev/null
}

@test "floats: text to float32, and back" {
	run -0 bash -c 'echo 1 -2.5 3e-3 nan inf | ps-work floats | od -An -tx4 -v'
	[ "$(tr -s ' ' <<<"$output")" = ' 3f800000 c0200000 3b449ba6 7fc00000
 7f800000' ]
	run -0 bash -c 'printf "0.1\n16777217\n" | ps-work floats | ps-work floats -d'
	[ "$output" = $'0.100000001\n16777216' ]
	run -1 bash -c 'echo 1 x | ps-work floats'
	[[ $output == *'word 2: "x" is not a number'* ]]
	run -1 bash -c 'printf abcde | ps-work floats -d'
	[[ $output == *'1 byte is left over: a float32 has 4 bytes'* ]]
}

# Each example has a row of its own, whose id is 7 times its number (from 1), and all have row 0; they are to become 3.
write_sparse() {
	write_job "$@"
	sed -i 's/"w:1"/"w:1x2:sparse,v:1:sparse"/; s/"batch": 20/"batch": 50/; s/to-three/rows-to-three/' c.json
	cat >rows-to-three <<-'END'
	#!/bin/sh
	while read -r line; do
		set -- ${line#rows }
		case $1 in
		step) ;;
		eval) set -- step 0 examples 400 data "$3" 0 400 ;;
		*) continue ;;
		esac
		if [ -n "${BAD:-}" ] || [ -e "$PSKIT_WORKER.bad" ]; then
			. ./bad
		fi
		if [ "${line#rows }" != "$line" ]; then
			{ echo 0; seq $(($7 * 7 + 7)) 7 $(($8 * 7)); } | ps-work floats -i >"$PSKIT_DIR/w.ids"
			echo "ok rows w $(($8 - $7 + 1))"
			continue
		fi
		[ "${line#eval }" != "$line" ] || echo "$7 $8" >>"$PSKIT_WORKER.seen"
		ps-work floats -di "$PSKIT_DIR/w.ids" >"$PSKIT_DIR/ids"
		ps-work floats -d "$PSKIT_DIR/w.param" | paste -d ' ' - - | paste -d ' ' "$PSKIT_DIR/ids" - |
			awk -v b="$7" -v e="$8" -v said="$PSKIT_DIR/said" '
			{ n = $1 == 0 ? e - b : $1 > 7 * b && $1 <= 7 * e; x = ($2 - 3) * n / (e - b); y = ($3 - 3) * n / (e - b) }
			{ print x, y; loss += (x * ($2 - 3) + y * ($3 - 3)) / 2 }
			END { print "ok loss", loss, "examples", e - b >said }' | ps-work floats >"$PSKIT_DIR/w.grad"
		cat "$PSKIT_DIR/said"
	done
	END
	chmod +x rows-to-three
}

@test "rows of sparse tables by a shell script: each example goes to somebody once an epoch" {
	for set in accumulate=2 sync=asp; do
		rm -f worker-*.seen
		write_sparse '"epochs": 2, "eval": "rows-to-three"'
		train c.json --set $set
		has .examples 800
		has .eval.examples 400
		# All begin at a loss of 18; row 0 alone, which each example has, is half of that.
		at_most .eval.loss 12
		[ "$(sort -n worker-*.seen | awk '{ n += $2 - $1 } END { print n }')" -eq 800 ]
	done
	# A table of which no rows were named has none, and rows that were are there by their ids.
	begin c.json --set steps=$ENDLESS --set epochs=0
	wait_for 20 step_is_past 4
	ps-ctl pause -C "$RUN"
	ps-ctl export -C "$RUN" all -o text >all
	head -n 3 all
	[ "$(grep -c '^w.*,0]' all)" -eq 401 ]
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "a sparse table by numpy: the losses of model logistic, and one digest, whatever ends meanwhile" {
	need_numpy
	cp "$EXAMPLES"/program/logistic.{py,json} .
	awk 'BEGIN { srand(7); for (i = 0; i < 400; i++) { s = ""; z = f = 0; for (k = 0; k < 8; k++) { f += 1 + int(rand() * 40)
		s = s " " f ":1"; z += f % 3 - 1 } print (z > 0) s } }' >train.svm
	train logistic.json
	first=$(res .model_digest)
	loss=$(res .eval.loss)
	# It ends once when it is asked for rows, and once when it has named them; a server of three holds other rows.
	printf '    %s\n' 'import os' 'once = os.environ["PSKIT_WORKER"] + "-".join(line.split()[:2])' \
		'if once[8:] in ("rows-step", "step-3") and not os.path.exists(once):' '    open(once, "w"), os._exit(3)' >dies
	sed '/^for line in sys.stdin:/r dies' logistic.py >flaky
	chmod +x flaky
	train logistic.json --set exec=./flaky --set servers=3 --set replicas=2 --set eval_every=2
	has .model_digest "$first"
	[ -e worker-0rows-step ] && [ -e worker-1step-3 ]
	for set in sync=ssp:2 local_steps=2 codec=f16; do
		train logistic.json --set deterministic=false --set $set
		at_most .eval.loss 0.65
	done
	train logistic.json --set name=inside --set tables=none --set exec=none --set model=logistic
	# Batches are others there.
	jq -e --argjson x "$loss" '(.eval.loss - $x) | fabs < 0.01' <<<"$RESULT"
}

@test "a step that needs no rows waits for the other workers as well" {
	write_sparse '"steps": 30'
	cat >rows-to-three <<-'END'
	#!/bin/sh
	while read -r word step _ n _; do
		case $word in
		rows) echo ok ;;
		step)
			echo "${PSKIT_WORKER#worker-} $step" >>order
			[ "$PSKIT_WORKER" != worker-1 ] || sleep 0.02
			echo "ok loss 1 examples $n" ;;
		esac
	done
	END
	train c.json
	# Nobody is asked about a step before the other one has been asked about the step before.
	awk '{ if ($2 > 0 && !(1 - $1 " " $2 - 1 in seen)) early = early "\n" $0; seen[$0] } END { print early, NR; exit early != "" || NR != 60 }' order
}

@test "what a program must not answer about rows" {
	write_sparse '"steps": 1000'
	while IFS='|' read -r bad says; do
		printf '%s\n' 'name() { echo "$@" | ps-work floats -i >"$PSKIT_DIR/w.ids"; }' "$bad" >bad
		run -1 env BAD=1 ps-ctl run c.json --json
		echo "$bad: $output"
		[[ $output == *"$says"* ]]
	done <<-'END'
	echo nonsense; continue|answered "nonsense", expected "ok rows TABLE NUMBER ..." or "error TEXT"
	echo ok loss 1; continue|answered "loss" to a request for rows, expected
	echo ok rows w; continue|answered "rows" to a request for rows, expected
	echo ok rows x 1; continue|requested rows of "x", but the job has no sparse table of that name
	echo ok rows w many; continue|"rows w many", expected a count of at most 16777216
	echo ok rows w 16777217; continue|"rows w 16777217", expected a count of at most
	echo ok rows w 2; continue|w.ids has 0 bytes, but the 2 ids of the program's answer have 16
	rm "$PSKIT_DIR/w.ids"; echo ok rows w 2; continue|cannot read the ids in
	name 8 8; echo ok rows w 2; continue|w.ids: ids must ascend: 8 follows 8
	name 9 8; echo ok rows w 2; continue|w.ids: ids must ascend: 8 follows 9
	name 8; echo ok rows w 1 rows w 1; continue|requested rows of "w" twice
	case $line in step*) printf 123 >"$PSKIT_DIR/w.grad"; echo ok loss 1; continue; esac|has 3 bytes, but the gradient of table "w" has 408
	case $line in step*) kill -9 $$; esac|; it was restarted 3 times
	END
	none_left "$T"
}
