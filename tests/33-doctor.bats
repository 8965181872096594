#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# What goes wrong with clusters, staged: the first line of ps-ctl doctor, or of ps-stat why, names
# the cause and what is to be done.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training
load lib/fault

setup() { setup_training; }
teardown() { teardown_dir; }

doctor() { ps-ctl doctor "$@"; }
# first PATTERN [options]: the first line, which waits for nothing else to be said.
first() {
	local want=$1 said
	shift
	said=$(doctor -C "$RUN" "$@" 2>&1 || true)
	grep -qE "$want" <<<"${said%%$'\n'*}"
}
# The same, and the lines where that never comes true.
says() {
	wait_for 15 first "$@" || {
		doctor -C "$RUN" || true
		return 1
	}
}

# job NAME [members]: one server, two workers, for ever.
job() {
	[ -e train.csv ] || write_csv train.csv
	cat >"$1.json" <<-END
	{ "servers": ${SERVERS:-1}, "workers": 2, "heartbeat": "100ms" ${2:-},
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "steps": $ENDLESS, "batch": 16, "lr": 0.001 } }
	END
	RUN=$T/$1.run
}

# One process after the other, as by hand; all of their words to their own files.
serve() {
	background ps-serve "$@"
	wait_for 10 test -S "$RUN/ctl.sock"
}
by_hand() {
	local out=$1
	shift
	"$@" >"$out" 2>&1 3>&- &
	last=$!
	pids+=("$last")
}
preloaded() {
	[ -z "${PS_SANITIZED:-}" ] || skip "a sanitizer must be loaded first"
	ahead=(env LD_PRELOAD="$BIN/fault/shim.so")
}

@test "nothing is wrong: every check says so, and the exit code is 0" {
	SERVERS=2 job well
	run -0 doctor well
	[[ ${lines[0]} == "ok   config: "* ]]
	[[ $output == *"ok   ports: 127.0.0.1:0 "* && $output == *"ok   data: "* ]]
	begin well.json
	wait_for 20 step_is_past 20
	run -0 doctor -C "$RUN" --json
	for check in keys disk clock versions files memory names servers waits links; do
		jq -es --arg c "$check" 'map(select(.check == $c and .kind == "check" and .level == "ok" and .v == 1)) | length == 1' <<<"$output" >/dev/null ||
			{ echo "$check"; echo "$output"; false; }
	done
	grep -q '"4 links from workers to servers, ' <<<"$output"
	[ "$(http GET /v1/probe | jq -c '[.workers[] | [.done, (.servers[] | [.stage, .error, .up_bytes_per_second > 1e6])]] | unique | length')" = 1 ]
	# Whoever trains has not stood still for it.
	at=$(status .step)
	wait_for 10 step_is_past "$at"
	ps-ctl stop -C "$RUN" >/dev/null
	run -0 doctor -C "$RUN"
	[[ $output == *"ok   result: the last run is stopped"* ]]
	none_left "$T"
}

@test "wrong key: by name, and its remedy is one" {
	job key
	serve key.json
	rm "$RUN/keys/worker-1.key"
	run -0 ps-ctl keygen --role worker --name worker-1 -o "$RUN/keys/worker-1.key"
	by_hand w0.log ps-work train -C "$RUN" --rank 0
	by_hand w1.log ps-work train -C "$RUN" --rank 1
	wait_for 10 grep -q "not in the server's authorized_keys" w1.log
	# The count of the server comes with its next heartbeat.
	refused_counted() { http GET /v1/servers | jq -e ".servers[0].auth_failures > 0" >/dev/null; }
	wait_for 10 refused_counted
	run -1 doctor -C "$RUN"
	[[ ${lines[0]} == "fail keys: worker-1's key ("*") is not in authorized_keys; echo 'worker x25519:"* ]]
	grep -q "server-0 has refused [0-9]* connections* of unknown peers" <<<"$output"
	remedy=$(sed -n '1s/.*; \(echo .* >> [^,]*\),.*/\1/p' <<<"$output" | sed 's/worker-1 >>/w1 >>/; s/ worker-1'"'"'/ mended'"'"'/')
	bash -c "$remedy"
	kill -HUP "$pid"
	by_hand w1.log ps-work train -C "$RUN" --rank 1
	wait_for 20 step_is_past 5
	# From elsewhere it is the file that is refused.
	ps-ctl invite -C "$RUN" --role worker --name gone -o gone.join 2>/dev/null
	sed -i '/ gone$/d' "$RUN/keys/authorized_keys"
	kill -HUP "$pid"
	refused() { doctor --join gone.join | head -n 1 | grep -q "^fail keys: the coordinator at 127.* refuses gone: .*this key is not .*; make a new join file"; }
	wait_for 10 refused
}

@test "wrong address; a join file that others may read" {
	job address
	serve address.json
	ps-ctl invite -C "$RUN" --role worker -o w.join 2>/dev/null
	run doctor --join w.join
	[[ $output == *"ok   links: the coordinator at 127.0.0.1:"*" accepts this key: "* ]]
	(umask 077 && jq -c '.data = "127.0.0.1:1"' w.join >wrong.join)
	run -1 doctor --join wrong.join
	[[ ${lines[0]} == "fail links: the coordinator at 127.0.0.1:1: cannot reach 127.0.0.1:1"*"; check that it runs and that the firewall opens its port"* ]]
	(umask 077 && jq -c '.data = "no-such-host.invalid:1"' w.join >name.join)
	run -1 doctor --join name.join
	[[ ${lines[0]} == "fail names: "*"no-such-host.invalid"*"; use a numeric address"* ]]
	chmod 644 w.join
	run -1 doctor --join w.join
	[[ ${lines[0]} == "fail keys: "*"chmod"* ]]
}

@test "dead server" {
	SERVERS=3 job dead ', "replicas": 2'
	begin dead.json --max-restarts 0
	wait_for 20 step_is_past 20
	was=$(cat "$RUN/server-2.pid")
	kill -9 "$was"
	says "^fail servers: server-2 is lost: it was on .* \(pid $was\).*; .*start it again: ps-serve" --quick
}

@test "lost worker; a run whose supervisor was killed" {
	job lost
	begin lost.json
	wait_for 20 step_is_past 20
	was=$(cat "$RUN/worker-1.pid")
	kill -9 "$was"
	says "^warn workers: worker-1 is lost: it was on .* \(pid $was\); the job continues with 1 of 2 workers; .*; ps-ctl scale workers=2 starts another one" --quick
	run -0 ps-ctl scale -C "$RUN" workers=2
	run -0 doctor -C "$RUN" --quick
	[[ $output != *"is lost"* ]]
	kill -9 "$(sed -n 1p "$RUN/lock")"
	wait_for 10 none_left "$T"
	run -0 doctor -C "$RUN"
	[[ ${lines[0]} == "warn result: the last run has no result: it was killed"*"; it has no checkpoint to go on from: ps-ctl start "*"lost trains from the beginning" ]]
}

@test "slow worker" {
	job slow
	serve slow.json
	by_hand w0.log ps-work train -C "$RUN" --rank 0
	by_hand w1.log ps-work train -C "$RUN" --rank 1 --compute 30ms
	wait_for 20 step_is_past 15
	says '^warn slow: everybody waits for worker-1 .*a step takes it .* of that is compute; sync=ssp:S or backup=1' --quick
	run -0 doctor -C "$RUN" --quick
}

@test "full disk: the job goes on, and who looks is told" {
	preloaded
	job disk ', "checkpoint_every": "200ms"'
	background "${ahead[@]}" FS_ONLY=/checkpoints/ FS_BUDGET=100 ps-serve disk.json
	wait_for 10 test -S "$RUN/ctl.sock"
	by_hand w0.log ps-work train -C "$RUN" --rank 0
	by_hand w1.log ps-work train -C "$RUN" --rank 1
	says '^fail disk: no checkpoint: .*No space left on device; free some space' --quick
	at=$(status .step)
	wait_for 10 step_is_past "$at"
}

@test "NaN: after the end, too" {
	job nan
	run -1 ps-ctl run nan.json --set lr=1e30
	run -1 doctor -C "$RUN"
	[[ ${lines[0]} == "fail loss: "*"the training loss is "*"; lower the learning rate (ps-ctl run "*" --set lr="* ]]
}

@test "clock off" {
	preloaded
	job clock
	serve clock.json
	by_hand w0.log ps-work train -C "$RUN" --rank 0
	by_hand w1.log "${ahead[@]}" CLOCK_AHEAD=-3600 ps-work train -C "$RUN" --rank 1
	says "^fail clock: worker-1's clock \(.*\) is 3[56][0-9.]* s behind the coordinator's; synchronize the clocks .*NTP" --quick
}

@test "clock off, on the host that asks" {
	preloaded
	job signed ', "http": "127.0.0.1:0"'
	serve signed.json
	ps-ctl invite -C "$RUN" --role worker -o w.join 2>/dev/null
	run -1 "${ahead[@]}" CLOCK_AHEAD=3600 ps-ctl doctor --join w.join
	[[ ${lines[0]} == "fail clock: cannot ask the coordinator: "*"the clocks differ: the client's is "*" s ahead of the server's "*"; synchronize both hosts' clocks by NTP"* ]]
}

@test "version skew" {
	job version
	serve version.json
	by_hand w0.log ps-work train -C "$RUN" --rank 0
	by_hand w1.log "$BIN/fault/older-work" train -C "$RUN" --rank 1
	says '^warn versions: worker-1 \(.*\) is pskit 0.0.9, the coordinator is 0.2.0; install the same pskit' --quick
}

@test "port taken: before the start, and after it" {
	start_proxy --to 127.0.0.1:1
	job port ", \"listen\": \"$PROXY\""
	run -1 doctor port.json
	[[ ${lines[0]} == "fail ports: listen: $PROXY is in use by another process: "*"; --set listen=HOST:0 takes a free port; ss -ltnp "* ]]
	run ps-ctl start port
	[ "$status" -ne 0 ]
	run -1 doctor -C "$RUN"
	[[ ${lines[0]} == "fail ports: server-0 ended with code "*"$PROXY is in use by another process"*"; port 0 takes a free one"* ]]
	run -0 doctor port.json --set listen=127.0.0.1:0
	[[ $output == *"ok   ports: "* ]]
}

@test "data missing on one worker" {
	job data
	serve data.json
	by_hand w0.log ps-work train -C "$RUN" --rank 0
	wait_for 20 grep -q 'worker-0 joined' "$RUN/events.jsonl"
	by_hand w1.log ps-work train -C "$RUN" --rank 1 --data nowhere.csv
	says '^fail data: the start waits for worker-1: it cannot begin on .*nowhere.csv.*; put the data at the path in job.data' --quick
	[[ $(ps-stat -C "$RUN" why | head -n 1) == "the start waits for worker-1 ("*"): it cannot begin on "*nowhere.csv*"; fix that, and start it again: "* ]]
	[[ $(ps-ctl events -C "$RUN" worker_unfit) == *"worker-1 cannot begin on "*nowhere.csv* ]]
	by_hand w1.log ps-work train -C "$RUN" --rank 1
	wait_for 20 step_is_past 5
	# All of it, before anything runs.
	sed -i 's/train.csv/gone.csv/' data.json
	run -1 doctor data.json
	[[ ${lines[0]} == "fail data: data.json: job.data: no such file "*"; put the data there"* ]]
}

@test "a slow link; one that large records do not pass" {
	start_proxy --stall up --stall-after 60000
	SERVERS=2 job line ', "transport": "tcp", "deadline": "30s"'
	serve line.json
	by_hand s1.log ps-serve -C "$RUN" --name server-1 --listen 127.0.0.1:0 --advertise "$PROXY"
	wait_for 10 eval '[ -n "$(sed -n "s/.*data plane on //p" s1.log)" ]'
	tell to "$(sed -n 's/.*data plane on //p' s1.log | head -n 1)"
	by_hand w0.log ps-work train -C "$RUN" --rank 0
	wait_for 10 worker_is 0 joining
	run -1 doctor -C "$RUN"
	[[ ${lines[0]} =~ ^"fail links: worker-0 cannot send large records to server-1 ($PROXY): ".*"; test the MTU: ping -M do " ]]
	by_hand w1.log ps-work train -C "$RUN" --rank 1
	tell heal
	tell rate 400000
	tell cut
	wait_for 20 step_is_past 2
	run doctor -C "$RUN"
	[[ ${lines[0]} =~ ^"warn links: worker-"[01]"'s link to server-1 ($PROXY) is slow: "[0-9.]+k"B/s there, ".*"; ethtool DEV and iperf3 " ]]
	[ "$status" -eq 0 ]
}

@test "too few descriptors" {
	job files
	run -1 bash -c 'ulimit -n 30; ps-ctl doctor files.json'
	[[ ${lines[0]} == "fail files: server-0 may open 30 descriptors, but can need up to "*"; raise the limit: ulimit -n 65536"* ]]
	run bash -c 'ulimit -n 20; ps-ctl start files.json --timeout 20s'
	[ "$status" -ne 0 ]
	run -1 doctor -C "$RUN"
	[[ ${lines[0]} == "fail files: "*"may open 20: set ulimit -n "*"; raise the limit"* ]]
	# One that cannot even answer, and does not say so a thousand times.
	background ps-serve files.json
	crowded() { ps-ctl doctor -C "$RUN" --quick | head -n 1 | grep -qE '^fail files: (the coordinator|server-0) (has reached its limit of 28 open descriptors|may open 28 descriptors, but can need up to [0-9]+); raise the limit: ulimit -n 65536'; }
	wait_for 10 test -e "$RUN/ctl.sock"
	prlimit --pid "$pid" --nofile=28:28
	by_hand w0.log ps-work train -C "$RUN" --rank 0
	by_hand w1.log ps-work train -C "$RUN" --rank 1
	wait_for 20 crowded
	[ "$(grep -c 'too many open files' err)" -lt 50 ]
}

@test "modes: a run directory and a key that others can read" {
	job modes
	serve modes.json
	chmod 755 "$RUN/keys"
	run -1 doctor -C "$RUN"
	[[ ${lines[0]} == "fail keys: other users can enter $RUN/keys (mode 0755): chmod 700 "* ]]
	chmod 700 "$RUN/keys"
	chmod 644 "$RUN/keys/worker-0.key"
	run -1 doctor -C "$RUN"
	[[ ${lines[0]} == "fail keys: "*"worker-0.key"*"chmod"* ]]
}

@test "workers for which a start waits for the same reason share a line, but not in JSON" {
	write_csv train.csv
	echo '{ "workers": 5, "job": { "model": "linear", "data": "train.csv?label=y", "cache": "kept", "epochs": 1 } }' >many.json
	ps-ctl run many.json >/dev/null
	rm kept/*.parsed/0*
	exec 8<>"$(ls kept/*.lock)"
	flock -n 8
	background ps-ctl start many.json 8>&-
	RUN=$T/many.run
	all_wait() { [ "$(ps-ctl doctor -C "$RUN" --quick --json 8>&- | jq -s 'map(select(.check == "waits" and (.text | test("reading its data")))) | length')" -eq 5 ]; }
	wait_for 20 all_wait
	wait_for 20 grep -q 'doctor: warn waits: ' err
	[ "$(grep -c 'doctor: .*waits: ' err)" -eq 1 ]
	grep -qE '^doctor: warn waits: the start waits for 5 workers \(worker-0, worker-1, worker-2 and 2 more; [0-9.]+ s\): they are reading their data; no action is needed; ' err
	exec 8>&-
	finish
	[ "$status" -eq 0 ]
	ps-ctl -C "$RUN" stop >/dev/null
}

@test "a start that takes long says what is wrong, once; wrong use is told" {
	job late
	serve late.json
	background ps-ctl wait -C "$RUN" --for ready --timeout 40s
	wait_for 15 grep -q '^doctor: fail waits: the start waits for worker-0 .*: it has not joined yet; start it: ' err
	by_hand w0.log ps-work train -C "$RUN" --rank 0
	by_hand w1.log ps-work train -C "$RUN" --rank 1
	finish
	[ "$status" -eq 0 ]
	[ "$(grep -c '^doctor: fail waits: the start waits for worker-0' err)" -eq 1 ]
	run -2 doctor late.json -C "$RUN"
	[[ $output == *"give only one of"* ]]
	run -2 doctor --set lr=1
	run -4 doctor nowhere.json
	run -4 doctor -C nowhere.run
	run -1 doctor late.json --set batch=0
	[[ ${lines[0]} == "fail config: "*batch*"; ps-ctl show KEY"* ]]
	echo '{ "job": { "model": "linear", "data": 7 } }' >seven.json
	run -1 doctor seven.json
	[[ ${lines[0]} == "fail data: "*"must be a path or a list of paths, got 7; ps-ctl show data describes the key" ]]
}

@test "what the supervisor is starting is not advised to be started" {
	endless
	mkfifo data.csv
	background ps-ctl run lin --set data=data.csv
	RUN=$T/lin.run
	# The workers are alive, and wait for the data before they join.
	wait_for 20 test -s "$RUN/worker-1.pid"
	wait_for 20 state_is forming
	wait_for 20 eval '[ "$(status .servers)" = 1 ]'
	run ps-ctl doctor -C "$RUN"
	[[ $output != *"start it: ps-work"* && $output != *"fail "* ]]
	kill "$pid"
	finish
}

@test "a remedy names the cluster file where it means that, and no other file" {
	echo '{ "workers": 1, "job": { "model": "custom", "steps": 1000 } }' >own.json
	background ps-serve own.json
	RUN=$T/own.run
	wait_for 10 state_is forming
	wait_for 10 says '^fail waits: the start waits for worker-0 .*: it has not joined yet; start it: PS_CLUSTER=.*own.run COMMAND here, PS_CLUSTER=FILE COMMAND elsewhere' --quick
	kill "$pid"
	finish || true
}
