#!/usr/bin/env bats
# Keys while the cluster runs: admitted, listed, revoked (P9), and the cluster's secret renewed.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() { setup_training; }
teardown() { teardown_dir; }

key() { ps-ctl key "$@" -C "$RUN"; }
pid_of() { cat "$RUN/$1.pid"; }
is_gone() { ! kill -0 "$1" 2>/dev/null; }
event() { ps-ctl events -C "$RUN" "$@"; }
now_ms() { date +%s%3N; }
# Of the key NAME: what list says of it.
listed() { key list --json | jq -r --arg n "$1" "select(.name == \$n)$2"; }

# job NAME MODE [members of the file]
job() {
	[ -e train.csv ] || write_csv train.csv
	cat >"$1.json" <<-END
	{ "servers": 2, "workers": 3, "replicas": 2, "heartbeat": "100ms", "sync": "$2" ${3:-},
	  "job": { "model": "linear", "data": "train.csv?label=y", "steps": 100000000, "batch": 16, "lr": 0.01 } }
	END
}

@test "a revoked worker loses its sessions within a second, its slot at once; the others go on" {
	job cut bsp
	begin cut.json
	wait_for 20 step_is_past 50
	[ "$(listed worker-1 .held_by)" = worker-1 ]
	[ "$(listed worker-1 .sessions)" -ge 1 ]
	victim=$(pid_of worker-1)
	at=$(now_ms)
	run -0 --separate-stderr key revoke worker-1 --json
	took=$(($(now_ms) - at))
	figure "revoked in $took ms: $(jq -c '[.sessions_cut, .servers]' <<<"$output")"
	[ "$(jq .sessions_cut <<<"$output")" -ge 3 ]
	[ "$(jq .servers <<<"$output")" -eq 2 ]
	[ "$(jq '.unreached | length' <<<"$output")" -eq 0 ]
	[ -n "$PS_SANITIZED" ] || [ "$took" -lt 1000 ]
	wait_for 5 is_gone "$victim"
	wait_for 5 worker_is 1 lost
	at=$(status .step)
	wait_for 20 step_is_past $((at + 20))
	[ -z "$(listed worker-1 .name)" ]
	[ ! -e "$RUN/keys/worker-1.key" ]
	run -0 event revoked worker_lost
	[[ ${lines[0]} == *"the key of worker-1 is revoked, by local" ]]
	[[ ${lines[1]} == *"worker-1 "*"is lost: its key was revoked" ]]
	grep -q "refused.*authorized" "$RUN/worker-1.log" || { cat "$RUN/worker-1.log"; false; }
	# A fresh key of the same name takes the slot over.
	key add worker-1 --role worker
	background ps-work train -C "$RUN" --slot 1
	wait_for 10 worker_is 1 active
	ps-ctl stop -C "$RUN" >/dev/null
}
