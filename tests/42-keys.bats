#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Keys while the cluster runs: admitted, listed, revoked (P9), and the cluster's secret renewed; and what
# a worker may push in a second.

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
	local quota=', "quota_pushes": 80'
	[ -e train.csv ] || write_csv train.csv
	cat >"$1.json" <<-END
	{ "servers": 2, "workers": 3, "replicas": 2, "sync": "$2" ${3:-$quota},
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "steps": $ENDLESS, "batch": 16, "lr": 0.01 } }
	END
}

@test "a worker's key holds no rank but its own, whatever incarnation it claims" {
	job claim bsp
	begin claim.json
	wait_for 20 step_is_past 5
	run -0 python3 "$BATS_TEST_DIRNAME/lib/impostor.py" "$RUN" worker-1 1
	[ "$output" = welcome ]
	run -0 python3 "$BATS_TEST_DIRNAME/lib/impostor.py" "$RUN" worker-2 1
	echo "$output"
	[ "$output" = "refused with status 5" ]
	grep -q "connection refused: rank 1 belongs to another key than that of worker-2" "$RUN/server-0.log"
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "a revoked worker loses its sessions within a second, its rank at once; the others go on" {
	job cut bsp
	begin cut.json
	wait_for 20 step_is_past 20
	[ "$(listed worker-1 .held_by)" = worker-1 ]
	[ "$(listed worker-1 .sessions)" -ge 1 ]
	victim=$(pid_of worker-1)
	at=$(now_ms)
	within 1000 run -0 --separate-stderr key revoke worker-1 --json
	figure "revoked in $(($(now_ms) - at)) ms: $(jq -c '[.sessions_cut, .servers]' <<<"$output")"
	[ "$(jq .sessions_cut <<<"$output")" -ge 3 ]
	[ "$(jq .servers <<<"$output")" -eq 2 ]
	[ "$(jq '.unreached | length' <<<"$output")" -eq 0 ]
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
	# A fresh key of the same name takes the rank over.
	key add worker-1 --role worker
	background ps-work train -C "$RUN" --rank 1
	wait_for 10 worker_is 1 active
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "a server that lags is named; without the coordinator a key of later is refused (P9)" {
	# Slow heartbeats: the server that is stopped must not be lost before the second is over.
	job lag bsp ', "heartbeat": "2s"'
	begin lag.json
	wait_for 20 step_is_past 20
	ps-ctl keygen --role admin --name late -o late.key >line
	stand_still "$(pid_of coordinator)"
	cat line >>"$RUN/keys/authorized_keys"
	cp late.key "$RUN/keys/late.key"
	# Straight to a server, which has heard of no such key: refused, and so is nobody else.
	run python3 "$LIB/knock.py" "$RUN" late server-1
	[[ $output == refused* ]]
	run -0 python3 "$LIB/knock.py" "$RUN" admin server-1
	[[ $output == admitted* ]]
	kill -CONT "$(pid_of coordinator)"
	kill -HUP "$(pid_of coordinator)"
	wait_for 10 eval 'python3 "$LIB/knock.py" "$RUN" late server-1 | grep -q admitted'
	stand_still "$(pid_of server-1)"
	run key revoke late
	kill -CONT "$(pid_of server-1)"
	[ "$status" -eq 1 ] || { echo "$status: $output"; false; }
	[[ $output == *"server-1 has not confirmed within 1 s"* ]]
	wait_for 10 eval 'python3 "$LIB/knock.py" "$RUN" late server-1 | grep -q refused'
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "a key that expires loses its sessions; one that is over is not admitted" {
	printf '{"name":"exp","servers":1,"sync":"asp","heartbeat":"100ms"}' >exp.json
	begin exp.json
	run -2 key add old --role admin --expires 2001-01-01
	run -0 key add short --role admin --expires 10s --json
	[ "$(jq -r .file <<<"$output")" = "$RUN/keys/short.key" ]
	python3 "$LIB/knock.py" "$RUN" short server-0 30 >knocked 3>&- &
	pids+=($!)
	wait_for 5 grep -q admitted knocked
	wait_for 20 grep -q closed knocked
	[ "$(listed short .expired)" = true ]
	grep -q "the key of short has expired" "$RUN/server-0.log"
	ps-ctl stop -C "$RUN" >/dev/null
	# Of a cluster that does not run the file is changed, and what else is in it stays.
	echo "# a comment" >>"$RUN/keys/authorized_keys"
	before=$(cat "$RUN/keys/authorized_keys")
	run -0 key add later --role worker --expires 30d
	[ "$(stat -c %a "$RUN/keys/later.key" "$RUN/keys/authorized_keys" | xargs)" = "600 600" ]
	run -1 key add later --role worker
	[[ $output == *"later.key exists already"* ]]
	run -2 key add "two words" --role worker
	run -0 key revoke later
	[ "$(cat "$RUN/keys/authorized_keys")" = "$before" ]
	run -4 key revoke later
	run -0 key list
	[[ $output == *expired* ]]
}

@test "an invitation that cannot be written admits nobody" {
	job invite asp
	begin invite.json
	touch taken.join
	before=$(cat "$RUN/keys/authorized_keys")
	for role in worker monitor; do
		run -1 --separate-stderr ps-ctl invite -C "$RUN" --role $role -o taken.join
		[ "$stderr" = "ps-ctl: taken.join exists already and is not overwritten; move it away first" ]
		run -1 ps-ctl invite -C "$RUN" --role $role -o nowhere/w.join
		run -1 --separate-stderr bash -c "ps-ctl invite -C '$RUN' --role $role >/dev/full"
		[ "$stderr" = "ps-ctl: cannot write to standard output: No space left on device" ]
	done
	[ "$(cat "$RUN/keys/authorized_keys")" = "$before" ]
	# The name of a monitor is known, so that its token can be revoked.
	name=$(ps-ctl invite -C "$RUN" --role monitor | jq -r .name)
	run -0 key revoke "$name"
	[ "$(cat "$RUN/keys/authorized_keys")" = "$before" ]
}

@test "a new secret of the cluster: who is there goes on, the old one holds for its grace and no longer" {
	job renew asp
	begin renew.json
	wait_for 20 step_is_past 20
	cp "$RUN/keys/psk" old.psk
	ps-ctl invite -C "$RUN" --role admin --name guest -o guest.join 2>/dev/null
	cp guest.join other.join
	joined() { ps-work pull w --join "$1" --timeout 5s >/dev/null 2>&1; }
	joined guest.join
	run -0 --separate-stderr key rotate-psk --grace 10s
	[[ $output == "the cluster has a new secret; the previous one is accepted until "*Z ]]
	[[ $stderr == *"guest (admin) joined with a join file: invite it again"* ]]
	! cmp -s "$RUN/keys/psk" old.psk
	run key rotate-psk
	[[ $status -ne 0 && $output == *"the secret was renewed before, with the promise that the previous one is accepted for "*" s more"* ]]
	[ "$(stat -c %a "$RUN/keys/psk" "$RUN/keys/psk.old" | xargs)" = "600 600" ]
	joined guest.join
	ps-work pull w -C "$RUN" >/dev/null
	# What dies now comes again with the new secret, to all the others.
	kill -9 "$(pid_of worker-0)" "$(pid_of server-1)" "$(pid_of coordinator)"
	at=$(status .step || echo 0)
	wait_for 20 eval '[ "$(status .servers)" = 2 ] && worker_is 0 active'
	at=$(status .step)
	wait_for 20 step_is_past $((at + 40))
	wait_for 20 eval '[ ! -e "$RUN/keys/psk.old" ]'
	run joined guest.join
	[ "$status" -eq 5 ]
	# A file that is given the new one works again.
	jq -c --arg psk "$(cut -d' ' -f2 "$RUN/keys/psk")" '.psk = $psk' other.join >guest.join
	joined guest.join
	run -0 event psk_rotated
	[[ $output == *"the cluster has a new secret, by local; the old one is accepted for 10 s" ]]
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "a server that came by a join file is reached with the old secret until it has the new one" {
	write_csv train.csv
	cat >far.json <<-END
	{ "servers": 2, "workers": 2, "heartbeat": "100ms", "sync": "asp", "quota_pushes": 80,
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "steps": $ENDLESS, "batch": 16, "lr": 0.01 } }
	END
	RUN=$T/far.run
	background ps-serve far.json
	wait_for 10 test -S "$RUN/ctl.sock"
	ps-ctl invite -C "$RUN" --role server --name far -o far.join 2>/dev/null
	background ps-serve --join far.join
	wait_for 10 eval '[ "$(status .servers)" = 2 ]'
	ps-work train -C "$RUN" --rank 0 >w0.out 2>&1 3>&- &
	pids+=($!)
	key rotate-psk --grace 5m 2>/dev/null
	# Made now, with the new secret, to a server that has the old one; and back.
	ps-work train -C "$RUN" --rank 1 >w1.out 2>&1 3>&- &
	pids+=($!)
	wait_for 20 step_is_past 20
	# It looks into its file again when somebody knocks with what it does not know.
	jq -c --arg psk "$(cut -d' ' -f2 "$RUN/keys/psk")" '.psk = $psk' far.join >new.join
	chmod 600 new.join
	mv new.join far.join
	wait_for 10 eval 'python3 "$LIB/knock.py" "$RUN" admin server-1 | grep -q admitted'
	ps-ctl stop -C "$RUN" >/dev/null
}

w0_is_past() { [ "$(worker 0 .step)" -gt "$1" ]; }
# rate STEPS: steps a second of worker 0, over so many.
rate() {
	local from begin
	from=$(worker 0 .step)
	begin=$(now_ms)
	wait_for 20 w0_is_past $((from + $1))
	echo $(($1 * 1000 / ($(now_ms) - begin)))
}

@test "a worker is held back by its quota, not dropped, and says so; the quota can be changed" {
	job quota asp ', "quota_pushes": 8'
	begin quota.json
	wait_for 20 step_is_past 10
	slow=$(rate 16)
	run -0 ps-stat -C "$RUN" why
	[[ $output == *"worker-"*" waits for its quota"*"is held back by its quota: quota_bytes 0B, quota_pushes 8 a second and server"* ]]
	[ "$(http GET /v1/workers | jq '.workers[0].quota_seconds > 0.5')" = true ]
	ps-ctl set -C "$RUN" quota_pushes=0 >/dev/null
	fast=$(rate 200)
	figure "steps a second with 8 pushes a second: $slow, without: $fast"
	[ "$slow" -le 12 ]
	[ "$fast" -gt $((2 * slow)) ]
	[ "$(http GET /v1/servers | jq '[.servers[] | .pushes_refused + .pushes_late] | add')" -eq 0 ]
	ps-ctl set -C "$RUN" quota_bytes=1K >/dev/null
	# What the worker made and told of before it was set is not of this rate.
	wait_for 10 eval 'ps-stat -C "$RUN" why | grep -q "worker-0 .*quota_bytes 1.0K"'
	wait_for 20 w0_is_past "$(worker 0 .step)"
	wait_for 20 w0_is_past "$(worker 0 .step)"
	slow=$(rate 20)
	figure "with 1 KiB a second: $slow"
	[ "$fast" -gt $((2 * slow)) ]
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "a key is revoked at once while the disk is full" {
	[ -z "${PS_SANITIZED:-}" ] || skip "a sanitizer must be loaded first"
	job full bsp
	RUN=$T/full.run
	env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY=full.run FS_FULL="$T/no-room" \
		ps-ctl start full.json >start.log 2>&1
	wait_for 20 step_is_past 20
	ps-ctl keygen --role admin --name late -o late.key >line
	cat line >>"$RUN/keys/authorized_keys"
	cp late.key "$RUN/keys/late.key"
	kill -HUP "$(pid_of coordinator)"
	wait_for 10 eval 'python3 "$LIB/knock.py" "$RUN" late server-1 | grep -q admitted'
	touch no-room
	run -1 key revoke late
	[[ $output == *"late is revoked for as long as the coordinator runs"* ]]
	wait_for 10 eval 'python3 "$LIB/knock.py" "$RUN" late server-1 | grep -q refused'
	grep -q ' late' "$RUN/keys/authorized_keys"
	rm no-room
	run -0 key revoke late
	[ "$(grep -c ' late' "$RUN/keys/authorized_keys")" -eq 0 ]
	ps-ctl stop -C "$RUN" >/dev/null
}
