#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# ps-serve as a service: says when it is ready and that it lives, takes sockets and keys that
# are handed over.  A python program plays systemd.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() { setup_training; }
teardown() { teardown_dir; }

# listen_to SOCKET [FILE]: write each message to the socket ("@..." is abstract) to the file (said), as a line
# "SECONDS NAME=VALUE;NAME=VALUE".
listen_to() {
	/usr/bin/python3 - "$1" 3>&- >"${2:-said}" 2>manager.err <<-'END' &
	import socket, sys, time
	s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
	name = sys.argv[1]
	s.bind('\0' + name[1:] if name[0] == '@' else name)
	open('bound', 'w').close()
	while True:
	    text = s.recv(4096).decode()
	    print('%.3f %s' % (time.monotonic(), text.replace('\n', ';')), flush=True)
	END
	pids+=($!)
	wait_for 10 test -e bound
	rm bound
	export NOTIFY_SOCKET=$1
}

said() { grep -q -- "$1" said; }
pings() { grep -c 'WATCHDOG=1' said || true; }
more_pings_than() { [ "$(pings)" -gt "$1" ]; }

# A second server, whose signs of life are in the file ticks, tells how long another one has been silent: on a slow
# machine both are slow.
start_witness() {
	printf '{ "servers": 1 }' >witness.json
	listen_to "$T/witness" ticks
	WATCHDOG_USEC=1000000 background ps-serve witness.json
	witness=$pid
	wait_for 20 ticks_are 1
}
ticks() { grep -c 'WATCHDOG=1' ticks || true; }
ticks_are() { [ "$(ticks)" -ge "$1" ]; }

# No sign of life while the witness gives 4.
is_silent() {
	local before
	before=$(pings)
	wait_for 20 ticks_are $(($(ticks) + 4)) || return 1
	[ "$(pings)" -eq "$before" ]
}

empty_cluster() {
	printf '{ "servers": 1 }' >e.json
	RUN=$T/e.run
}

@test "ready, status, reload, stopping; by a path and by an abstract name" {
	empty_cluster
	for socket in "$T/notify" "@pskit-test-$$"; do
		listen_to "$socket"
		background ps-serve e.json
		wait_for 20 said 'READY=1;STATUS=.'
		[ "$(grep -c READY=1 said)" -eq 1 ]
		# It may be asked then.
		ps-ctl -C e.run status >/dev/null
		kill -HUP "$pid"
		wait_for 10 said 'RELOADING=1;MONOTONIC_USEC=[1-9]'
		wait_for 10 grep -qx '[0-9.]* READY=1' said
		run ! said WATCHDOG
		kill "$pid"
		finish
		[ "$status" -eq 0 ]
		wait_for 5 said 'STOPPING=1;STATUS=leaving;EXTEND_TIMEOUT_USEC=[1-9]'
		kill "${pids[-2]}"
	done
	# Nobody to be told is no reason not to serve.
	for socket in /nowhere/at/all relative "" "@"; do
		NOTIFY_SOCKET=$socket background ps-serve e.json
		wait_for 10 ps-ctl -C e.run wait --for ready
		kill "$pid"
		finish
		[ "$status" -eq 0 ]
	done
}

@test "status tells what is waited for, and how the end was" {
	write_cluster 2
	listen_to "$T/notify"
	background ps-serve lin.json
	RUN=$T/lin.run
	wait_for 20 said 'STATUS=forming, waiting for'
	ps-work train -C lin.run --rank 0 >w0 2>&1 3>&- &
	pids+=($!)
	ps-work train -C lin.run --rank 1 >w1 2>&1 3>&- &
	pids+=($!)
	wait_for 20 said 'STATUS=done'
	kill "$pid"
	finish
	[ "$status" -eq 0 ]
}

@test "a store is ready when it has joined" {
	empty_cluster
	printf '{ "servers": 2 }' >e.json
	listen_to "$T/notify"
	NOTIFY_SOCKET= background ps-serve e.json
	wait_for 20 test -S e.run/coordinator.sock
	coordinator=$pid
	kill -STOP "$coordinator"
	background ps-serve -C e.run --name server-1
	wait_for 10 said 'STATUS=the coordinator cannot be reached'
	run ! said READY
	kill -CONT "$coordinator"
	wait_for 20 said 'READY=1;STATUS=server-1'
	kill "$pid" "$coordinator"
	wait_for 20 none_left "$RUN"
}

@test "signs of life, only while all loops turn" {
	empty_cluster
	start_witness
	listen_to "$T/notify"
	WATCHDOG_USEC=1000000 background ps-serve e.json --threads 2
	wait_for 20 said READY=1
	wait_for 20 more_pings_than 3
	kill -STOP "$pid"
	wait_for 10 is_silent
	before=$(pings)
	kill -CONT "$pid"
	wait_for 10 more_pings_than $((before + 2))
	# One thread of all that stands still: the main one alone is no sign of life.
	run /usr/bin/python3 - "$pid" 3>&- <<-'END'
	import ctypes, os, sys, time
	libc = ctypes.CDLL(None, use_errno=True)
	libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
	pid = int(sys.argv[1])
	count = lambda name='said': open(name).read().count('WATCHDOG=1')
	def held(tid):
	    if libc.ptrace(0x4206, tid, None, None) or libc.ptrace(0x4207, tid, None, None):    # SEIZE, INTERRUPT
	        sys.exit(77)
	    os.waitpid(tid, 0x40000000)     # __WALL
	def let_go(tid):
	    libc.ptrace(17, tid, None, None)
	def grows(n, name='said'):
	    before, end = count(name), time.monotonic() + 60
	    while count(name) < before + n and time.monotonic() < end:
	        time.sleep(0.02)
	    return count(name) >= before + n
	silent = 0
	for tid in map(int, os.listdir('/proc/%d/task' % pid)):
	    if tid == pid:
	        continue
	    held(tid)
	    before = count()
	    assert grows(4, 'ticks'), 'the witness gives no signs of life'
	    silent += count() <= before + 1
	    let_go(tid)
	    assert grows(1), 'no sign of life any more'
	# Two I/O threads and the coordinator's ticker.
	assert silent >= 3, silent
	END
	[ "$status" -ne 77 ] || skip "no thread may be held by ptrace(2) here"
	echo "$output"
	[ "$status" -eq 0 ]
	# Not for another process: its number is not ours.
	kill "$pid"
	finish
	: >said
	WATCHDOG_USEC=1000000 WATCHDOG_PID=1 background ps-serve e.json
	wait_for 20 said READY=1
	run is_silent
	[ "$status" -eq 0 ]
	[ "$(pings)" -eq 0 ]
	kill "$pid"
	finish
	pid=$witness
	kill "$pid"
	finish
}

# ./with_sockets NAMES PORT,PORT COMMAND...: as a socket unit would, with LISTEN_PID ours.
make_with_sockets() {
	cat >with_sockets <<-'END'
	#!/usr/bin/python3
	import os, socket, sys
	names, ports = sys.argv[1], sys.argv[2].split(',')
	for i, port in enumerate(ports):
	    if port == 'udp':
	        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
	        s.bind(('127.0.0.1', 0))
	    else:
	        s = socket.create_server(('127.0.0.1', int(port)))
	        with open('port.%d' % i, 'w') as f:
	            f.write(str(s.getsockname()[1]))
	    os.dup2(s.fileno(), 100 + i)
	for i in range(len(ports)):
	    os.dup2(100 + i, 3 + i)
	os.closerange(3 + len(ports), 200)
	os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(ports)))
	if names:
	    os.environ['LISTEN_FDNAMES'] = names
	os.execvp(sys.argv[3], sys.argv[3:])
	END
	chmod +x with_sockets
}

@test "sockets that are handed over, by name or in turn" {
	write_cluster 2
	make_with_sockets
	for names in http:data "" "unknown:other" data:x; do
		rm -rf lin.run* port.*
		background ./with_sockets "$names" 0,0 ps-serve lin.json
		RUN=$T/lin.run
		wait_for 20 ps-ctl -C lin.run invite --role worker -o w0.join
		data=$(cat port.0) http=$(cat port.1)
		[ "$names" != http:data ] || read -r http data <<<"$data $http"
		[ "$(jq -r .data w0.join)" = "127.0.0.1:$data" ]
		[ "$(jq -r .http w0.join)" = "127.0.0.1:$http" ]
		curl -sf --max-time 10 "http://127.0.0.1:$http/livez" >/dev/null
		rm -f w0.join
		kill "$pid"
		finish
	done
	# The whole way, by a worker from elsewhere.
	rm -rf lin.run* port.*
	background ./with_sockets data:http 0,0 ps-serve lin.json --set workers=1
	wait_for 20 ps-ctl -C lin.run invite --role worker -o w0.join
	timeout 60 ps-work train --join w0.join >w0 2>&1
	[ "$(http GET /v1/status | jq -r .state)" = done ]
	kill "$pid"
	finish
	[ "$status" -eq 0 ]
	# What cannot be used is said.
	run -78 timeout 20 ./with_sockets "" 0,0,0 ps-serve lin.json
	[[ $output == *"received 3 sockets"* ]]
	run -78 timeout 20 ./with_sockets "" udp ps-serve lin.json
	[[ $output == *"is not a listening TCP socket"* ]]
	# And what is meant for another process is left alone.
	run -4 env LISTEN_PID=1 LISTEN_FDS=9 ps-serve nothing.json
}

@test "the same by systemd-socket-activate" {
	command -v systemd-socket-activate >/dev/null || skip "no systemd-socket-activate"
	empty_cluster
	reserve_ports
	background systemd-socket-activate -l "127.0.0.1:$port" --fdname=http ps-serve e.json
	# The first connection starts it, and is answered.
	wait_for 20 curl -sf --max-time 10 "http://127.0.0.1:$port/livez" -o /dev/null
	ps-ctl -C e.run wait --for ready --timeout 120s
	[ "$(ps-ctl -C e.run status --json | jq -r 'select(.kind == "server") | .pid')" = "$pid" ]
	kill "$pid"
	finish
}

@test "credentials: the same secret and keys each time, join files by name" {
	write_cluster 2
	mkdir -m 700 cred
	ps-ctl keygen --role server --name coordinator -o cred/pskit.coordinator.key >/dev/null
	begin lin.json
	cp lin.run/keys/psk cred/pskit.psk
	ps-ctl -C lin.run stop >/dev/null
	export CREDENTIALS_DIRECTORY=$T/cred
	background ps-serve lin.json --set workers=1
	wait_for 20 ps-ctl -C lin.run invite --role worker --name w0 -o cred/worker.join
	grep ' w0$' lin.run/keys/authorized_keys >cred/pskit.authorized_keys
	kill "$pid"
	finish
	cmp cred/pskit.psk lin.run/keys/psk
	cmp cred/pskit.coordinator.key lin.run/keys/coordinator.key
	# A new run directory, and the join file of before: only the address is to be the same.
	port=$(jq -r .data cred/worker.join)
	background ps-serve lin.json --set workers=1 --listen "$port"
	wait_for 20 test -S lin.run/coordinator.sock
	timeout 60 ps-work train --join worker.join >w0 2>&1
	kill "$pid"
	finish
	[ "$status" -eq 0 ]
	# A secret that others may read is none, in whatever folder.
	chmod 644 cred/pskit.psk
	run -5 ps-serve lin.json
	[[ $output == *"can be read by others"* ]]
}

@test "the units are well-formed and hardened" {
	command -v systemd-analyze >/dev/null || skip "no systemd-analyze"
	for unit in "$BATS_TEST_DIRNAME"/../contrib/systemd/*@.*; do
		sed "s|/usr/local/bin/|$BIN/|" "$unit" >"$(basename "$unit")"
	done
	for unit in ./*@.service ./*@.socket; do
		run -0 systemd-analyze verify --man=no "$unit"
		[ -z "$output" ]
	done
	for unit in ./*@.service; do
		run -0 systemd-analyze security --offline=true --threshold=15 "$unit"
		figure "$(tail -n 1 <<<"$output" | grep -o 'level for.*[0-9.]* [A-Z]*')"
	done
}
