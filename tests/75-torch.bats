#!/usr/bin/env bats
# PyTorch: models whose parameters are a cluster's tables.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	/usr/bin/python3 -c 'import torch' 2>/dev/null || skip "python3-torch is not installed (make deps-torch)"
	[ -z "${PS_SANITIZED:-}" ] || skip "a sanitizer must be loaded first"
	ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
	export PYTHONPATH=$ROOT/contrib/python PSKIT_LIBRARY=$BIN/libpskit.so.0 PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
	cp "$BATS_TEST_DIRNAME/lib/torch_calls.py" "$BATS_TEST_DIRNAME/lib/torch_alone.py" .
	RUN=$T/exec.run
}

teardown() {
	teardown_dir
}

# trains WORDS [options]: two workers, each of them torch_calls.py with these words
trains() {
	local words=$1
	shift
	RESULT=$(ps-ctl run --exec "/usr/bin/python3 torch_calls.py $words" --set workers=2 --json "$@" 2>stderr | tail -n 1)
	cat exec.run/worker-*.log
	[ "$(res .state)" = done ] || {
		cat stderr
		false
	}
}

@test "two workers in bsp train what one process trains, by each update rule; a state goes round" {
	# Of the same examples, so that the mean is the same gradient.
	for rule in nesterov adamw adagrad; do
		trains "same $rule" >log
		/usr/bin/python3 torch_alone.py $rule "$RUN/model.safetensors"
	done
	has .steps 20
	[ "$(sort -u log | wc -l)" -eq 1 ]
	# By its names, and as it was made: the script's settings are in the events.
	ps-ctl events -C "$RUN" 2>/dev/null | grep -q 'job.optimizer=adagrad .*by worker-[01], to begin with' ||
		grep -q 'job.optimizer=adagrad .*by worker-[01], to begin with' "$RUN/events.jsonl"
	trains "state"
}

@test "ssp, asp and codecs as arguments; what --set says goes before them" {
	for words in "learn ssp" "learn asp" "learn bsp fp16"; do
		trains "$words"
		has .examples 4000
		at_least .eval.accuracy 0.85
	done
	grep -q 'sync=bsp codec=f16\|codec=f16' "$RUN/events.jsonl"
	trains "learn asp" --set sync=bsp --set lr=0.1 --set epochs=1
	has .examples 1000
	[ "$(jq -r .job.lr "$RUN/cluster.json")" = 0.1 ]
	! grep '"event":"set"' "$RUN/events.jsonl" | grep -q 'sync\|job.lr'
}
