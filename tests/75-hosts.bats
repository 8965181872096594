#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Servers and workers on other hosts, started by a remote shell: an sshd on addresses of loopback
# plays the hosts.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training
load lib/sshd

setup() {
	setup_training
	cd "$T"
}

teardown() {
	teardown_dir
}

# The numbers of the processes that the cluster has on "other" hosts.
members() {
	ps-ctl -C "$RUN" status --json | jq -r 'select(.kind == "worker" or .kind == "server").pid'
}

gone() {
	local pid
	for pid; do
		[ ! -e "/proc/$pid" ] || [ "$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$pid/status" 2>/dev/null)" = Z ] || return 1
	done
}

# No process is left that came by our sshd.
none_elsewhere() {
	! grep -laE "SSH_CONNECTION=[^ ]+ [0-9]+ 127[.0-9]+ $port" /proc/[0-9]*/environ 2>/dev/null | grep -q .
}

# Where the process of that name was sent.
host_of() {
	tr '\0' '\n' <"/proc/$(cat "$RUN/$1.pid")/cmdline" | grep -m1 '^127'
}

# The directory that the far end of process $1 has for its join file.
place_of() {
	dirname "$(tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^PS_CLUSTER=//p')"
}

# demo [options]: some steps of the job of make demo, with equal bits.
demo() {
	cp "$BATS_TEST_DIRNAME/../contrib/demo/fashion.json" .
	ps-ctl run fashion.json --set deterministic=true --json "$@" 2>err | tail -n 1
}

short=(--set epochs=0 --set steps=60 --set eval_every=0)

@test "the demo's job on two hosts ends with the digest of a run on one" {
	sshd_start 127.0.0.2 127.0.0.3
	here=$(demo "${short[@]}" | field model_digest)
	there=$(demo "${short[@]}" --set 'hosts=["127.0.0.2 slots=2", "127.0.0.3"]')
	[ "$(field state <<<"$there")" = done ] || { cat err fashion.run/*.log; false; }
	[ "$(field model_digest <<<"$there")" = "$here" ]
	[ -s fashion.run/model.safetensors ]
	grep -q 'data plane on 127.0.0.1:[0-9]* (by the configuration)' fashion.run/coordinator.log
	grep -q 'data plane on .* (from which it reaches the coordinator)' fashion.run/server-1.log
}

# bats test_tags=slow
@test "the whole of the demo's job, too" {
	sshd_start 127.0.0.2 127.0.0.3
	here=$(demo | field model_digest)
	there=$(demo --set hosts=127.0.0.2,127.0.0.3)
	[ "$(field model_digest <<<"$there")" = "$here" ]
	[ "$(jq '.eval.accuracy > 0.87' <<<"$there")" = true ]
	figure "digest $here on both"
}

@test "dealt out by ranks, stopped in good order, no secret in any command line" {
	sshd_start 127.0.0.2 127.0.0.3
	endless
	printf '%s\n' '# the lab' '127.0.0.2 slots=3' 127.0.0.3 localhost >hosts
	RUN=$T/lin.run
	ps-ctl start lin.json --hostfile hosts --set servers=2 --set workers=3 2>start.log
	wait_for 20 step_is_past 5
	[ "$(host_of server-0) $(host_of server-1) $(host_of worker-1) $(host_of worker-2)" = "127.0.0.2 127.0.0.3 127.0.0.2 127.0.0.2" ]
	tr '\0' ' ' <"/proc/$(cat lin.run/worker-0.pid)/cmdline" | grep -q "ps-work train -C $RUN --rank 0"
	secrets=$(cut -d' ' -f2 lin.run/keys/psk lin.run/keys/*.key)
	[ "$(wc -l <<<"$secrets")" -ge 8 ]
	run ! grep -aF "$secrets" /proc/[0-9]*/cmdline
	all=$(members)
	[ "$(wc -w <<<"$all")" -eq 5 ]
	place=$(place_of "$(jq -r .pid <<<"$(ps-ctl -C "$RUN" status --json | jq -c 'select(.id == "server-1")')")")
	[ "$(stat -c %a "$place")" = 700 ] && [ "$(stat -c %a "$place"/server-1.join)" = 600 ]
	ps-ctl -C "$RUN" scale workers=4
	# All five ranks are taken, and those of 127.0.0.2 are a limit.
	[ "$(host_of worker-3)" = 127.0.0.3 ]
	all+=" $(members)"
	ps-ctl -C "$RUN" stop
	gone $all
	none_elsewhere
	[ ! -e "$place" ]
	run ! grep -i 'error\|killing' lin.run/supervisor.log
}

@test "kill -9 of the supervisor ends what runs elsewhere" {
	sshd_start 127.0.0.2 127.0.0.3
	endless
	RUN=$T/lin.run
	ps-ctl start lin.json --set hosts=127.0.0.2,127.0.0.3 2>start.log
	wait_for 20 step_is_past 5
	run ! none_elsewhere
	place=$(place_of "$(worker 0 .pid)")
	kill -9 "$(sed -n 1p lin.run/lock)"
	wait_for 10 none_elsewhere
	wait_for 10 test ! -e "$place"
}

# bats test_tags=slow
@test "a session that is cut: the process there ends, another is started, and the bits are the same" {
	sshd_start 127.0.0.2 127.0.0.3
	write_cluster 1000
	want=$(ps-ctl run lin.json --set deterministic=true --json 2>/dev/null | field model_digest)
	RUN=$T/lin.run
	ps-ctl start lin.json --set deterministic=true --set lease=2s --set hosts=127.0.0.2,127.0.0.3 --max-restarts 2 "${HELD[@]}" 2>start.log
	wait_for 20 step_is_past 5
	old=$(worker 1 .pid)
	kill -9 "$(cat lin.run/worker-1.pid)"
	wait_for 10 gone "$old"
	let_go
	ps-ctl -C "$RUN" wait --for done --timeout 180s
	grep -q 'starting worker-1 again' lin.run/supervisor.log
	[ "$(jq -r .model_digest lin.run/result.json)" = "$want" ]
	ps-ctl -C "$RUN" stop
}

@test "a program of the user's as a worker elsewhere, killed: it is known how" {
	sshd_start 127.0.0.2
	write_cluster 5
	jq '.workers = 1 | .job = { "model": "custom", "tables": "w:4", "examples": 10, "steps": 5, "command": "env >seen; kill -9 $$" }' \
		lin.json >own.json
	run -1 ps-ctl run own.json --set hosts=127.0.0.2
	[[ $output == *'worker-0 on 127.0.0.2 ended by SIGKILL'* ]]
	grep -q '^PSKIT_RANK=0' seen
	grep -q '^PS_CLUSTER=.*/worker-0.join' seen
}

@test "a new secret reaches those elsewhere" {
	sshd_start 127.0.0.2
	endless
	RUN=$T/lin.run
	ps-ctl start lin.json --set hosts=127.0.0.2 2>start.log
	pid=$(worker 0 .pid)
	join=$(place_of "$pid")/worker-0.join
	old=$(jq -r .psk "$join")
	ps-ctl -C "$RUN" key rotate-psk
	fresh() { [ "$(jq -r .psk "$join")" = "$(cut -d' ' -f2 lin.run/keys/psk)" ]; }
	wait_for 10 fresh
	[ "$(jq -r .psk "$join")" != "$old" ]
	ps-ctl -C "$RUN" stop
}

@test "who cannot be had, and why: one sentence, a code, and nothing is left" {
	sshd_start 127.0.0.2 127.0.0.3
	endless
	run -6 --separate-stderr ps-ctl run lin.json --set hosts=127.0.0.2,127.0.0.4
	[[ $stderr == *'worker-1 on 127.0.0.4 has no session: ssh: connect to host 127.0.0.4 port '*': Connection refused'* ]] ||
		[[ $stderr == *'worker-0 on 127.0.0.4 has no session: '* ]]
	run -6 --separate-stderr ps-ctl start lin.json --set hosts=127.0.0.4
	[[ $stderr == *' on 127.0.0.4 has no session: ssh: connect to host 127.0.0.4 '* ]]
	# Another host's key.
	ssh-keygen -q -t ed25519 -N '' -f ssh/other
	sed -i "s|ed25519 .*|ed25519 $(cut -d' ' -f2 ssh/other.pub)|" ssh/known
	run -6 --separate-stderr ps-ctl run lin.json --set hosts=127.0.0.2
	[[ $stderr == *'has no session: Host key verification failed.'* ]]
	# A host that has no pskit.
	printf '#!/bin/sh\nPATH=/usr/bin:/bin exec sh -c "$(printf %%s "$2" | sed "s|%s|/nowhere|g")"\n' "$BIN" >bare
	chmod +x bare
	PS_RSH=$T/bare run -4 --separate-stderr ps-ctl run lin.json --set hosts=127.0.0.2
	[[ $stderr == *'there is no pskit on '*', neither in /nowhere nor in PATH'* ]]
	PS_RSH=no-such-shell run -4 --separate-stderr ps-ctl run lin.json --set hosts=127.0.0.2
	[[ $stderr == *'no-such-shell: not found'* ]]
	wait_for 10 none_elsewhere
}

@test "hosts and addresses that cannot be" {
	write_cluster
	run -78 ps-ctl run lin.json --set 'hosts=-oProxyCommand=x'
	[[ $output == *'hosts: "-oProxyCommand=x" is not the name of a host'* ]]
	printf 'a slots=2\nb cpus=1\n' >hosts
	run -78 ps-ctl run lin.json --hostfile hosts
	[[ $output == *'--hostfile: hosts:2: "cpus=1" is not a known option'* ]]
	run -4 ps-ctl run lin.json --hostfile nowhere
	[[ $output == *'--hostfile: cannot open "nowhere"'* ]]
	run -6 ps-ctl run lin.json --set hosts=nowhere.invalid
	[[ $output == *'cannot find the address at which other hosts reach this one: give --bind'* ]]
	run -78 ps-ctl run lin.json --iface 'no-such*'
	[[ $output == *'no network interface "no-such*" is up here with an address; there is lo'* ]]
	[ ! -e lin.run ]
}

@test "addresses as they are told, and as they are in the log" {
	write_cluster 5
	ps-ctl run lin.json --bind 127.0.0.5 --advertise localhost >/dev/null 2>&1
	grep -q 'data plane on 127.0.0.5:\([0-9]*\) (by the configuration), advertised as localhost:\1' lin.run/server-0.log
	ps-ctl run lin.json --iface 'no*,lo' --set servers=2 >/dev/null 2>&1
	grep -q 'data plane on 127.0.0.1:[0-9]* (of the interface)' lin.run/server-1.log
	ps-ctl run lin.json --set listen=0.0.0.0:0 --set servers=2 >/dev/null 2>&1
	grep -q 'data plane on 0.0.0.0:\([0-9]*\) (by the configuration), advertised as [0-9.]*:\1 (of the interface)' lin.run/server-0.log
	run ! grep -q 'advertised as 0' lin.run/server-1.log
}

@test "a name of ssh_config is a host, and slots that are written are a limit" {
	write_cluster 2
	sshd_start 127.0.0.2
	printf 'Host far-one\nHostName 127.0.0.2\nHostKeyAlias [127.0.0.2]:%s\n' "$port" | cat - ssh/config >ssh/both
	export PS_RSH="ssh -o BatchMode=yes -F $T/ssh/both"
	ps-ctl run lin.json --set hosts=far-one --json >out 2>err || { cat err; false; }
	[ "$(field state <out)" = done ]
	printf 'far-one slots=2\n' >few
	run -78 --separate-stderr ps-ctl run lin.json --hostfile few
	[[ $stderr == *"1 server and 2 workers need 3 slots, and the hosts have 2"* ]]
	printf 'far-one slots=3\n' >enough
	ps-ctl run lin.json --hostfile enough --json >out 2>err || { cat err; false; }
	[ "$(field state <out)" = done ]
	kill "$sshd"
}
