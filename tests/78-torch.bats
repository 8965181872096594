#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# PyTorch: models whose parameters are a cluster's tables.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training
load lib/torch

setup_file() {
	start_torch_forks
}

teardown_file() {
	stop_torch_forks
}

setup() {
	setup_torch torch_calls.py torch_alone.py
}

teardown() {
	teardown_dir
}

@test "two workers in bsp train what one process trains, by each update rule; a state goes round" {
	# Of the same examples, so that the mean is the same gradient.
	for rule in nesterov amsgrad groups adamw; do
		trains "same $rule" >log
		$FORK torch_alone.py $rule "$RUN/model.safetensors"
	done
	has .steps 20
	[ "$(grep "^\[" log | sort -u | wc -l)" -eq 1 ]
	# By its names, and as it was made: the script's settings are in the events.
	grep -q 'job.optimizer=adamw .*by worker-[01], to begin with' "$RUN/events.jsonl"
	trains "state"
	[ -s last.0 ] && [ -s last.1 ]
}

@test "ssp, asp and codecs as arguments; what --set says goes before them" {
	for words in "learn ssp" "learn asp fp16"; do
		trains "$words"
		has .examples 4000
		at_least .eval.accuracy 0.85
	done
	grep -q 'sync=bsp codec=f16\|codec=f16' "$RUN/events.jsonl"
	trains "learn asp" --set sync=bsp --set lr=0.1 --set epochs=1 --set eval_every=3
	has .examples 1000
	[ "$(grep -c '"event":"eval","text":"step [369]: eval .*accuracy 0' "$RUN/events.jsonl")" -eq 3 ]
	[ "$(jq -r .job.lr "$RUN/cluster.json")" = 0.1 ]
	! grep '"event":"set"' "$RUN/events.jsonl" | grep -q 'sync\|job.lr'
}

@test "an embedding's rows: only those that a batch touches travel" {
	trains embedding
	at_least .eval.accuracy 0.95
	# A million rows of 8 floats are 32 MB: of 15 passes over 400 examples none comes near to that.
	figure "pulled $(res .pulled_bytes) bytes, pushed $(res .pushed_bytes)"
	jq -e '.pulled_bytes < 4e6 and .pushed_bytes < 4e6' <<<"$RESULT"
	[ "$(/usr/bin/python3 - "$RUN/model.safetensors" <<-'END'
	import json, struct, sys
	f = open(sys.argv[1], "rb")
	print(json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))["words.ids"]["shape"][0])
	END
	)" -eq 500 ]
}

@test "LocalSGD and DiLoCo; a hook of DDP has gloo's mean; two optimizers, accumulation, and what cannot be" {
	trains "local" >log
	[ "$(grep "^\[" log | sort -u | wc -l)" -eq 1 ]
	has .examples 6000
	at_least .eval.accuracy 0.9
	jq -e '.steps < 30' <<<"$RESULT"
	trains ddp
	trains wrong
}

@test "workers that torchrun or srun starts; a script that is killed costs its lease" {
	echo '{ "workers": 2, "lease": "2s", "job": { "model": "custom" } }' >own.json
	RUN=$T/own.run
	ps-ctl start own
	state_is forming
	PS_CLUSTER=$RUN RANK=1 WORLD_SIZE=2 background /usr/bin/python3 torch_calls.py long
	killed=$pid
	# A batch script's variables are in the environment of what it starts, too.
	PS_CLUSTER=$RUN SLURM_PROCID=5 SLURM_NTASKS=9 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 RANK=0 WORLD_SIZE=2 \
		background /usr/bin/python3 torch_calls.py long
	wait_for 60 step_is_past 50
	[ "$(worker 0 .pid)" -eq "$pid" ]
	kill -9 "$killed"
	at=$SECONDS
	wait_for 10 eval '[ "$(status .workers)" -eq 1 ]'
	figure "the other went on after $((SECONDS - at)) s"
	at=$(status .step)
	wait_for 10 step_is_past $((at + 50))
	touch enough
	finish
	cat out err
	[ "$status" -eq 0 ]
	ps-ctl wait --for done --timeout 30s
	RESULT=$(http GET /v1/result)
	at_least .eval.accuracy 0.9
	ps-ctl stop >/dev/null
	none_left "$T"
}

@test "a script that fails, or forgets shutdown(), leaves the job" {
	cat >forgets.py <<-'END'
	import sys, torch, pskit.torch as ps
	ps.init()
	w = torch.zeros(3, requires_grad=True)
	opt = ps.DistributedOptimizer(torch.optim.SGD([w], lr=1))
	opt.zero_grad()
	(w.sum() * (float("nan") if "nan" in sys.argv else 1)).backward()
	opt.step()
	END
	run ps-ctl run --exec "/usr/bin/python3 forgets.py"
	[ "$status" -ne 0 ]
	grep 'the script ended without shutdown(); this worker leaves the job' exec.run/worker-0.log
	run ps-ctl run --exec "/usr/bin/python3 forgets.py nan"
	[ "$status" -ne 0 ]
	[[ $output == *"the training loss is NaN at step 0"* ]]
	# Without a cluster it says so.
	run /usr/bin/python3 forgets.py
	[ "$status" -eq 1 ]
	[[ $output == *"pskit.Error:"* ]]
}
