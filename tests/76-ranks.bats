#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# One command on every rank: by Open MPI, by Slurm, and by hand.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training
load lib/pods
load lib/slurm

setup() {
	setup_training
	cd "$T"
}

teardown() {
	# A step that is left would outlive its daemon.
	[ -z "${SLURM_CONF:-}" ] || timeout 10 scancel -f -s KILL --me 2>/dev/null || true
	teardown_dir
}

short=(--set deterministic=true --set epochs=0 --set steps=60 --set eval_every=0)

# The digest of the demo's job, of 3 workers on this host.
demo_here() {
	cp "$BATS_TEST_DIRNAME/../contrib/demo/fashion.json" cluster.json
	ps-ctl run cluster "${short[@]}" --set workers=3 --set name=here --json 2>/dev/null | field model_digest
}

# by_hand N [options]: rank N of 3 of the run r1, in the background; its words are in rank.N.
by_hand() {
	local n=$1
	shift
	ps-ctl launch -f lin.json --rank "$n" --world-size 3 --run-id r1 "$@" >"out.$n" 2>"rank.$n" 3>&- &
	pids+=($!)
	rank[$n]=$!
}

ends() {
	status=0
	wait "${rank[$1]}" || status=$?
	[ "$status" -eq "$2" ] || { cat rank.*; false; }
}

@test "by Open MPI: the same digest as on one host" {
	command -v mpirun >/dev/null || skip "openmpi-bin is not installed"
	here=$(demo_here)
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	mpirun --oversubscribe -n 5 ps-ctl launch --servers 2 "${short[@]}" --json -- ps-work train >out 2>err ||
		{ cat err; false; }
	[ "$(field model_digest <out)" = "$here" ]
	[ "$(wc -l <out)" -eq 1 ]
	for i in 0 1 2 3 4; do
		grep -q "rank=$i/5 local=$i from OMPI_COMM_WORLD_RANK, run " err
	done
	grep -q 'ps-ctl launch: server-1: role=by rank rank=1/5' err
	grep -q 'ps-ctl launch: worker-2: role=by rank rank=4/5' err
	[ -s cluster.run/model.safetensors ]
	[ -z "$(find cluster.run/launch -name '*.join')" ]
}

# bats test_tags=slow
@test "by Slurm, on two nodes: the same digest as on one host" {
	slurm_start
	here=$(demo_here)
	srun -n 5 -N 2 ps-ctl launch --servers 2 "${short[@]}" --json -- ps-work train >out 2>err || { cat err slurm/*.err; false; }
	[ "$(field model_digest <out)" = "$here" ]
	grep -q 'worker-2: role=by rank rank=4/5 local=[0-9] from SLURM_PROCID, run [0-9]*[.]0$' err
	# In the batch script itself nothing is a rank.
	printf '#!/bin/sh\nps-ctl launch --servers 1\n' >batch
	run -4 sbatch --wait -o batch.out batch
	grep -q 'cannot tell the rank of this process' batch.out
}

# bats test_tags=slow
@test "the whole of the demo's job by Slurm, too" {
	slurm_start
	cp "$BATS_TEST_DIRNAME/../contrib/demo/fashion.json" cluster.json
	here=$(ps-ctl run cluster --set deterministic=true --set workers=3 --set name=here --json 2>/dev/null | field model_digest)
	srun -n 5 -N 2 ps-ctl launch --servers 2 --set deterministic=true --json -- ps-work train >out 2>err || { cat err slurm/*.err; false; }
	[ "$(field model_digest <out)" = "$here" ]
	[ "$(jq '.eval.accuracy > 0.87' <out)" = true ]
	figure "digest $here on both"
}

@test "by hand: a program of the user's, with all it needs to know" {
	write_cluster 20
	for n in 0 1; do by_hand $n --servers 1; done
	by_hand 2 --servers 1 -- sh -c 'env | grep "^PS" | grep -v "^PS_SANITIZED=" | sort >seen; exec ps-work train'
	for n in 0 1 2; do ends $n 0; done
	grep -q 'done: .* steps' out.0
	cat seen
	[ "$(cut -d= -f1 seen | xargs)" = "PSKIT_RANK PSKIT_WORKER PS_BIN PS_CLUSTER PS_RANK PS_ROLE PS_RUN_ID PS_WORLD_SIZE" ] ||
		[ "$(cut -d= -f1 seen | xargs)" = "PSKIT_RANK PSKIT_WORKER PS_CLUSTER PS_RANK PS_ROLE PS_RUN_ID PS_WORLD_SIZE" ]
	grep -qx 'PS_RANK=1' seen && grep -qx 'PSKIT_WORKER=worker-1' seen && grep -qx 'PS_RUN_ID=r1' seen
	grep -qx "PS_CLUSTER=$T/lin.run/launch/r1/worker-1.join" seen
	# Who comes late hears that it is over.
	by_hand 2 --servers 1
	ends 2 1
	grep -q 'the run has ended: done' rank.2
}

@test "all ranks are told to stop: a checkpoint, exit code 75, and it goes on from there to the same bits" {
	write_cluster 80
	want=$(ps-ctl run lin.json --set deterministic=true --set workers=2 --set name=here --json 2>/dev/null | field model_digest)
	RUN=$T/lin.run
	for n in 0 1 2; do by_hand $n --servers 1 --set deterministic=true "${HELD[@]}"; done
	wait_for 20 step_is_past 10
	kill -TERM "${rank[@]}"
	ends 0 75
	ends 1 0
	ends 2 0
	at=$(ps-ctl -C lin.run checkpoint ls --json | tail -n 1 | jq .step)
	[ "$at" -gt 10 ]
	for n in 0 1 2; do by_hand $n --servers 1 --set deterministic=true "${HELD[@]}" --resume auto --run-id r2; done
	wait_for 20 step_is_past "$at"
	let_go
	for n in 0 1 2; do ends $n 0; done
	grep -rq 'resuming from .*step-0*'"$at" lin.run/server-0.log
	[ "$(jq -r .model_digest lin.run/result.json)" = "$want" ]
	figure "resumed at step $at"
}

# The last line of the batch job's output that is a result.
digest_of() { sed -n 's/^{.*"model_digest":"\([0-9a-f]*\)".*/\1/p' "$1" | tail -n 1; }

@test "a batch job for Slurm: told to stop it saves, is queued again, and ends in the same bits" {
	slurm_start
	write_cluster 80
	mkdir "a b's"
	mv lin.json train.csv "a b's/"
	cd "a b's"
	want=$(ps-ctl run lin.json --set deterministic=true --set workers=2 --set name=here --json 2>/dev/null | field model_digest)
	RUN=$PWD/lin.run
	ps-ctl start lin.json --emit sbatch --set deterministic=true --set workers=2 "${HELD[@]}" >job
	sh -n job
	grep -qx '#SBATCH --ntasks=3' job
	job=$(sbatch --parsable -N 2 job)
	wait_for 30 step_is_past 10
	scancel -s TERM "$job"
	wait_for 30 eval 'scontrol show job $job | grep -q "Restarts=1"'
	at=$(ps-ctl -C lin.run checkpoint ls --json | tail -n 1 | jq .step)
	[ "$at" -gt 10 ]
	wait_for 30 step_is_past "$at" || { scontrol show job "$job"; tail -n 20 slurm/*.err ../slurm/*.err lin-"$job".log; false; }
	let_go
	job_is_done() { scontrol show job "$job" | grep -q 'JobState=COMPLETED'; }
	wait_for 60 job_is_done || { scontrol show job "$job"; cat lin-"$job".log; false; }
	[ "$(jq -r .model_digest lin.run/result.json)" = "$want" ]
	grep -q 'from SLURM_PROCID, run '"$job"'[.]0[.]1$' lin-"$job".log
	figure "queued again at step $at"
}

# bats test_tags=slow
@test "a heterogeneous job for Slurm: servers on one node, workers on the other, and queued again" {
	slurm_start
	write_cluster 80
	want=$(ps-ctl run lin.json --set deterministic=true --set servers=2 --set workers=3 --set name=here --json 2>/dev/null | field model_digest)
	RUN=$T/lin.run
	ps-ctl start lin.json --emit sbatch-het --set deterministic=true --set servers=2 --set workers=3 "${HELD[@]}" >job
	sh -n job
	[ "$(grep -x '#SBATCH --ntasks=[0-9]*\|#SBATCH hetjob' job | xargs)" = "#SBATCH --ntasks=2 #SBATCH hetjob #SBATCH --ntasks=3" ]
	job=$(sbatch --parsable -w n0 : -w n1 job)
	wait_for 30 step_is_past 10 || { scontrol show job "$job"; cat lin-*.log; false; }
	# Each process is where it belongs.
	for n in 0 1 2 3 4; do
		[ "$n" -lt 2 ] && name=server-$n node=n0 || name=worker-$((n - 2)) node=n1
		pid=$(http GET /v1/"${name%-*}"s | jq -r --arg id "$name" '(.servers // .workers)[] | select(.id == $id).pid')
		tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "SLURMD_NODENAME=$node"
	done
	scancel -s TERM "$job"
	wait_for 30 eval 'scontrol show job $job | grep -q "Restarts=1"'
	at=$(ps-ctl -C lin.run checkpoint ls --json | tail -n 1 | jq .step)
	[ "$at" -gt 10 ]
	# An idle Slurm looks at the queue of such jobs when another job is submitted.
	wait_for 60 eval 'sbatch -o other.log --wrap true >/dev/null; step_is_past "$at"' || { scontrol show job "$job"; cat lin-*.log; false; }
	let_go
	wait_for 60 eval 'scontrol show job "$job" | grep -q JobState=COMPLETED' || { scontrol show job "$job"; cat lin-*.log; false; }
	[ "$(jq -r .model_digest lin.run/result.json)" = "$want" ]
	grep -q 'from SLURM_PROCID, run '"$job"'[.]0[.]1$' lin-"$job".log
}

@test "a shell script for Open MPI, a unit for systemd" {
	command -v mpirun >/dev/null || skip "openmpi-bin is not installed"
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	write_cluster 5
	ps-ctl start lin.json --emit mpirun --set 'hosts=localhost:3' >job
	grep -q 'exec mpirun -n 3 --host localhost:3 ' job
	sh job >out 2>err || { cat err; false; }
	grep -q '^done: ' out
	ps-ctl start lin.json --emit systemd --set 'job.cache=it"s $HOME 100%' --hostfile <(echo b) >lin.service
	grep -qF -- '--set "job.cache=it\"s $$HOME 100%%"' lin.service
	grep -qx 'SuccessExitStatus=75' lin.service
	# A newline would begin another setting.
	ps-ctl start lin.json --emit systemd --set $'job.cache=a\nExecStartPre=/bin/false' >evil.service
	grep -qF -- '--set "job.cache=a\x0aExecStartPre=/bin/false"' evil.service
	mkdir $'a\nb'
	cd $'a\nb'
	run -78 ps-ctl start ../lin.json --emit systemd
	[[ $output == *'the current directory has the control character \x0a'* ]]
	cd ..
	if command -v systemd-analyze >/dev/null; then
		systemd-analyze verify ./lin.service 2>verify || true
		run ! grep -F lin.service verify
	fi
	[ ! -e lin.run/lock ] || ! ps-ctl -C lin.run status
}

@test "for Kubernetes: the commands of the pods, whose coordinator is ended and killed" {
	write_cluster 8
	want=$(ps-ctl run lin.json --set deterministic=true --set servers=2 --set name=here --json 2>/dev/null | field model_digest)
	run -78 ps-ctl start lin.json --emit k8s --set name=No_Label
	[[ $output == *'is not valid for Kubernetes'* ]]
	ps-ctl start lin.json --emit k8s --set name=demo --set deterministic=true --set servers=2 --set slow=20ms --image lab/pskit:1 >k8s
	[ "$(jq -r '[.items[] | .kind + "/" + .metadata.name] | join(" ")' k8s)" = "ConfigMap/demo Secret/demo-keys Secret/demo-join \
Service/demo Service/demo-coordinator StatefulSet/demo-coordinator StatefulSet/demo-server Job/demo-worker PodDisruptionBudget/demo-server" ]
	[ "$(jq -r '[.items[].spec.template.spec.containers[]?.image] | unique | .[]' k8s)" = lab/pskit:1 ]
	[ "$(jq -r '.items[] | select(.kind == "Job").spec.completions' k8s)" = 2 ]
	lay_out_pods
	[ "$(ls join | xargs)" = "demo-server-0.join demo-server-1.join worker-0.join worker-1.join" ]
	pod coordinator demo-coordinator-0 none "$port"
	coordinator=${pids[-1]}
	pod server demo-server-0 demo-server-0.join 0
	pod server demo-server-1 demo-server-1.join 0
	servers=("${pids[@]: -2}")
	pod worker demo-worker-0 worker-0.join 0
	pod worker demo-worker-1 worker-1.join 0
	workers=("${pids[@]: -2}")
	for at in TERM:10 KILL:30; do
		signal=${at%:*}
		wait_for 20 state_is running || { cat demo-*.out; false; }
		wait_for 20 step_is_past "${at#*:}"
		kill -s "$signal" "$coordinator"
		wait "$coordinator" || true
		pod coordinator demo-coordinator-0 none "$port"
		coordinator=${pids[-1]}
	done
	wait_for 30 test -s "$RUN/result.json" || { cat demo-*.out; false; }
	wait "${workers[@]}"
	[ "$(jq -r '.state + " " + .model_digest' "$RUN/result.json")" = "done $want" ]
	[ -s "$RUN/model.safetensors" ]
	[ "$(status .servers)" = 2 ]
	kill -TERM "$coordinator"
	wait "$coordinator"
	pod coordinator demo-coordinator-0 none "$port"
	wait_for 20 state_is "done"
	[ ! -e "$RUN.1" ]
	ps-ctl -C "$RUN" stop >/dev/null
	wait "$coordinator"
	wait "${servers[@]}"
	none_left "$T"
}

@test "for Kubernetes: the same keys again, limits, volumes, further servers, and no indexed job" {
	write_cluster
	ps-ctl start lin.json --emit k8s --set name=demo --set servers_max=3 >k8s
	ps-ctl start lin.json --emit k8s --set name=demo --set servers_max=3 2>err | cmp - k8s
	[ ! -s err ]
	[ "$(stat -c %a lin.k8s-key)" = 600 ]
	[ "$(jq -r '.items[] | select(.metadata.name == "demo-join").stringData | keys | join(" ")' k8s)" = \
		"demo-server-0.join demo-server-1.join demo-server-2.join worker-0.join worker-1.join" ]
	[ "$(jq -r '.items[] | select(.metadata.name == "demo-keys").stringData["pskit.authorized_keys"]' k8s | cut -d' ' -f1,3 | xargs)" = \
		"server server-1 server server-2" ]
	[ "$(jq -r '.items[] | select(.kind == "ConfigMap").data["cluster.json"] | fromjson.join_wait' k8s)" = 168h ]
	# Nobody is root, and each process has its volumes alone to write to.
	[ "$(jq -c '[.items[].spec.template.spec | select(.) | [.securityContext.runAsUser, .securityContext.fsGroup,
		(.containers[0].securityContext | .readOnlyRootFilesystem, .allowPrivilegeEscalation, .capabilities.drop[0])]] | unique' k8s)" = \
		'[[10001,10001,true,false,"ALL"]]' ]
	[ "$(jq -r '.items[] | select(.metadata.name == "demo-server").spec.template.spec | select(.).terminationGracePeriodSeconds' k8s)" = 600 ]
	ps-ctl start lin.json --emit k8s-sets --keys other --set name=demo --set data=/far/train.csv --mount far:/far --memory 256Mi \
		--env-secret s3 --storage 5Gi >sets 2>err
	[[ $(<err) == *'other was made'* ]]
	[ "$(jq -r '[.items[] | select(.kind == "StatefulSet").metadata.name] | join(" ")' sets)" = "demo-coordinator demo-server demo-worker" ]
	[ "$(jq -r '[.items[].kind] | unique | join(" ")' sets)" = "ConfigMap Secret Service StatefulSet" ]
	[ "$(jq -r '[.items[].spec.template.spec.containers[]? | .resources.limits.memory + .envFrom[0].secretRef.name] | unique[]' sets)" = 256Mis3 ]
	[ "$(jq -r '[.items[].spec.template.spec.containers[]?.volumeMounts[] | select(.mountPath == "/far").readOnly] | unique[]' sets)" = true ]
	[ "$(jq -r '.items[] | select(.kind == "ConfigMap").data["cluster.json"] | fromjson | .mem_limit, .job.data_memory' sets | xargs)" = \
		"$((128 << 20)) $((64 << 20))" ]
	run -2 ps-ctl start lin.json --emit k8s --memory much
	[[ $output == *'--memory much: must be a size'* ]]
	run -2 ps-ctl start lin.json --emit k8s --mount nonsense
	[[ $output == *'must be CLAIM:/PATH'* ]]
}

@test "for Kubernetes: a base for Kustomize, with the keys apart" {
	write_cluster
	for form in k8s k8s-sets; do
		ps-ctl start lin.json --emit $form --set name=demo --set servers_max=4 --kustomize $form/base >out 2>err
		[ ! -s out ]
		[[ $(<err) == *"$form/base is a base for kubectl apply -k; secrets.json has the keys"* ]]
		[ "$(stat -c %a $form/base/secrets.json)" = 600 ]
		[ "$(jq -r '[.items[].kind] | unique[]' $form/base/secrets.json)" = Secret ]
		# Together they are the List.
		ps-ctl start lin.json --emit $form --set name=demo --set servers_max=4 2>/dev/null | jq -cS '[.items[]] | sort' >list
		jq -cS .items[] $form/base/cluster.json $form/base/secrets.json | jq -cS --slurp sort | cmp - list
	done
	# What the user has added is kept.
	echo 'commonLabels: { team: a }' >>k8s/base/kustomization.yaml
	ps-ctl start lin.json --emit k8s --set name=demo --set servers_max=4 --kustomize k8s/base 2>/dev/null
	grep -q team k8s/base/kustomization.yaml
	run -2 ps-ctl start lin.json --emit sbatch --kustomize base
	[[ $output == *'--kustomize can only be used with --emit k8s'* ]]
	echo '{ "servers": 2 }' >none.json
	run -78 ps-ctl start none.json --emit sbatch-het
	[[ $output == *'the cluster has no job, and so no workers'* ]]
	run -2 ps-ctl start lin.json --kustomize base
	: >file
	run -1 ps-ctl start lin.json --emit k8s --kustomize file/base
	command -v kubectl >/dev/null || skip "kubectl is not installed"
	for form in k8s k8s-sets; do
		kubectl kustomize $form/base >whole
		# As many objects as the List has, with the same names.
		[ "$(grep -c '^kind: ' whole)" -eq "$(jq -s '[.[].items[]] | length' $form/base/*.json)" ]
		[ "$(grep -A 9 '^metadata:' whole | sed -n 's/^  name: //p' | sort | xargs)" = \
			"$(jq -rs '[.[].items[].metadata.name] | sort | join(" ")' $form/base/*.json)" ]
		# The overlay of the manual.
		mkdir $form/overlay
		man -P cat -E UTF-8 "$BATS_TEST_DIRNAME/../man/ps-recipes.7" | col -bx |
			awk '/cat > overlay/ { on = 1; next } /^ *END$/ { on = 0 } on' | sed 's/cluster-server/demo-server/; s/^ *//' >$form/overlay/kustomization.yaml
		grep -q replicas $form/overlay/kustomization.yaml
		kubectl kustomize $form/overlay >changed
		[ "$(grep -c 'image: registry.example/pskit:1$' changed)" -eq 3 ]
		[ "$(grep -c '^  replicas: 4$' changed)" -eq 1 ]
		[ "$(grep -c '^  namespace: training$' changed)" -eq "$(grep -c '^kind: ' changed)" ]
	done
}

@test "what cannot be is said: nobody's rank, no run, no such rank, rank 0 that does not come" {
	write_cluster
	env -u PS_RANK -u SLURM_PROCID ps-ctl launch -f lin.json 2>err && false
	grep -q 'cannot tell the rank of this process' err
	run -2 ps-ctl launch -f lin.json --rank 0
	[[ $output == *'give --run-id'* ]]
	run -78 ps-ctl launch -f lin.json --rank 3 --world-size 3 --run-id x
	[[ $output == *'rank 3 is out of range: size is 3'* ]]
	run -78 ps-ctl launch -f lin.json --rank 1 --world-size 2 --servers 2 --run-id x
	[[ $output == *'no rank is left for a worker: of 2 ranks, 2 are servers'* ]]
	run -78 ps-ctl launch -f lin.json --role worker --rank 7 --run-id x
	[[ $output == *'there are only 1 server and 2 workers'* ]]
	run -124 ps-ctl launch -f lin.json --rank 1 --world-size 2 --run-id x --timeout 0.2s
	[[ $output == *"rank 0 has not written $T/lin.run/launch/x/worker-0.join within"* ]]
	[ ! -e lin.run ]
}
