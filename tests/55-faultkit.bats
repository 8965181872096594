#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The tools that do harm do the harm that they say, and the programs stand it.

load lib/helper
load lib/training
load lib/fault

setup() {
	setup_training
}

teardown() {
	exec 7>&-
	teardown_dir
}

# ---- the proxy, by itself ----------------------------------------------------------

# An echo on a port of its own, in $ECHO; and `say BYTES`: through the proxy.
start_echo() {
	/usr/bin/python3 -c '
import socket, threading
s = socket.create_server(("127.0.0.1", 0))
print("127.0.0.1:%d" % s.getsockname()[1], flush=True)
def serve(c):
    while True:
        d = c.recv(65536)
        if not d: break
        c.sendall(d)
    c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()' >echo.out 3>&- &
	pids+=($!)
	wait_for 5 test -s echo.out
	ECHO=$(cat echo.out)
}

# say BYTES [SECONDS]: what comes back of so many: "BYTES MILLISECONDS HOW"; it stalls
# when nothing comes for so long, which is long unless that is what is to be seen.
say() {
	/usr/bin/python3 - "$PROXY" "$1" "${2:-30}" <<-'END'
	import socket, sys, time
	host, port = sys.argv[1].split(":")
	data = bytes(i * 7 % 251 for i in range(int(sys.argv[2])))
	s = socket.create_connection((host, int(port)))
	s.settimeout(float(sys.argv[3]))
	begun, got, how = time.time(), b"", "whole"
	try:
	    s.sendall(data)
	    while len(got) < len(data):
	        d = s.recv(65536)
	        if not d:
	            how = "cut"
	            break
	        got += d
	except ConnectionResetError:
	    how = "reset"
	except socket.timeout:
	    how = "stalled"
	print(len(got), int(1000 * (time.time() - begun)), how if data.startswith(got) else "other")
	END
}

@test "proxy: passes, delays, slows, stalls, cuts and resets" {
	start_echo
	start_proxy --to "$ECHO" --seed 3
	run say 300000
	[[ "$output" == "300000 "*" whole" ]]
	tell delay 100
	read -r got ms how <<<"$(say 1000)"
	[ "$how" = whole ] && [ "$ms" -ge 200 ]
	tell heal
	tell rate 100000
	read -r got ms how <<<"$(say 50000)"
	[ "$how" = whole ] && [ "$ms" -ge 400 ]
	tell heal
	for side in up down both; do
		tell stall $side
		run say 10 0.3
		[[ "$output" == "0 "*" stalled" ]]
		tell heal
	done
	tell cut-after 1500
	read -r got ms how <<<"$(say 1000)"
	[ "$how" != whole ] && [ "$got" -le 500 ]
	tell heal
	tell reset-after 1000
	run say 1000
	[[ "$output" == *" reset" ]]
	tell heal
	run say 100
	[[ "$output" == "100 "*" whole" ]]
	echo bend >&7
	wait_for 5 grep -q 'not understood: bend' "$PROXY_OUT"
}

@test "proxy: stalls when so much has passed" {
	start_echo
	start_proxy --to "$ECHO" --stall down --stall-after 500
	run say 400
	[[ "$output" == "400 "*" whole" ]]
	run say 200000 0.5
	[[ "$output" == *" stalled" ]]
}

# ---- the proxy between workers and a server -------------------------------------------

# behind_proxy SUITE STEPS [options]: a cluster whose only server is reached through the proxy;
# workers are ours.
behind_proxy() {
	write_csv train.csv
	cat >far.json <<-END
	{ "workers": 2, "deterministic": true, "on_worker_loss": "wait:10m", "lease": "60s", "transport": "tcp", "suite": "$1",
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "steps": $2, "batch": 8, "lr": 0.01 } }
	END
	RUN=$T/far.run
	rm -rf "$RUN" err
	background ps-serve far.json --advertise "$PROXY" "${@:3}"
	wait_for 10 grep -qs 'data plane on' err
	tell to "$(sed -n 's/.*data plane on //p' err | head -n 1)"
	for rank in 0 1; do
		ps-work train -C "$RUN" --rank $rank >w$rank.out 2>&1 3>&- &
		pids+=($!)
	done
}

# done_as DIGEST: the job ends with this model, or any when it is empty.
done_as() {
	wait_for 60 over || { cat err w?.out; return 1; }
	RESULT=$(http GET /v1/result)
	has .state done || { cat err w?.out; return 1; }
	[ -z "$1" ] || has .model_digest "$1" || return 1
	ps-ctl stop -C "$RUN" >/dev/null
}

slowly() {
	tell delay 2
}

# Records come often enough for each harm to meet some, and the job lasts until it is let go.
HELD=(--set quota_pushes=20)

more_connections() {
	[ "$(seen connections)" -gt "$1" ]
}

faults_are() {
	[ "$(seen faults)" -eq "$1" ]
}

# harm WHAT SIDE: one record; the session ends.  The next record tells of one
# that is missing: where it was the last, none comes, and the link is cut.
harm() {
	local connections faults i
	connections=$(seen connections)
	faults=$(seen faults)
	tell "$1" "$2" 7
	wait_for 10 faults_are $((faults + 1)) || return 1
	case $1 in
	drop|swap)
		for ((i = 0; i < 15; i++)); do
			more_connections "$connections" && break
			sleep 0.02
		done
		more_connections "$connections" || tell cut ;;
	esac
	wait_for 10 more_connections "$connections"
}

# harm_records SUITE: each kind of damage to a record, in each direction, while a job trains with this suite.
harm_records() {
	start_proxy --seed 5
	behind_proxy "$1" 800
	done_as ""
	first=$(res .model_digest)
	before=$(seen faults)
	slowly
	behind_proxy "$1" 800 "${HELD[@]}"
	wait_for 10 step_is_past 20
	for side in up down; do
		for what in flip drop dup swap; do
			harm $what $side || { cat err w?.out; false; }
		done
	done
	[ "$(seen faults)" -eq $((before + 8)) ]
	tell heal
	let_go
	done_as "$first"
	grep -q 'record' err
}

@test "a record flipped, dropped, doubled or swapped ends the session; the model is the same" {
	harm_records chacha20poly1305
}

# bats test_tags=slow
@test "a record flipped, dropped, doubled or swapped ends the session by the suite poly1305, too" {
	harm_records poly1305
}

@test "cuts, resets and stalls within a step: sessions come again, the model is the same" {
	start_proxy --seed 6
	behind_proxy auto 800
	done_as ""
	first=$(res .model_digest)
	slowly
	behind_proxy auto 800 "${HELD[@]}"
	for harm in cut reset "cut-after 20000" "reset-after 30000"; do
		wait_for 10 step_is_past $(($(status .step) + 20))
		connections=$(seen connections)
		tell $harm
		wait_for 10 more_connections "$connections"
		tell heal
		slowly
	done
	tell heal
	let_go
	done_as "$first"
}

@test "a line that stalls is named after two seconds" {
	start_proxy --seed 7
	slowly
	behind_proxy auto 800 "${HELD[@]}"
	wait_for 10 step_is_past 20
	tell stall both
	# Who is behind names the line; who was ahead when it stalled, the one behind.
	wait_for 10 grep -q 'waiting for server-0 (.*) for 2 s: it is connected, but does not answer' w0.out w1.out
	wait_for 10 grep -qE 'waiting (for server-0 |at step [0-9]+ for 2 s: worker-1 )' w0.out
	wait_for 10 grep -qE 'waiting (for server-0 |at step [0-9]+ for 2 s: worker-0 )' w1.out
	tell heal
	let_go
	done_as ""
}

# ---- the disk shim ---------------------------------------------------------------------

# on_disk [FS_...=...]... COMMAND: with the shim.
on_disk() {
	env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_REPORT="$T/report" "$@"
}

# What an export of $1 bytes to $2 looks like to the operating system, call by call.
calls() {
	cat <<-END
	import os
	fd = os.open("$1", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
	def say(what, f):
	    try:
	        print(what, f())
	    except OSError as e:
	        print(what, e.strerror)
	say("fallocate", lambda: os.posix_fallocate(fd, 0, 100))
	say("write", lambda: os.write(fd, b"x" * 60))
	say("pwrite", lambda: os.pwrite(fd, b"y" * 30, 60))
	say("writev", lambda: os.writev(fd, [b"z" * 5, b"z" * 25]))
	say("fsync", lambda: os.fsync(fd))
	say("fdatasync", lambda: os.fdatasync(fd))
	say("rename", lambda: os.rename("$1", "$1.new"))
	END
}

@test "shim: a disk that is full, writes short and does not sync" {
	[ -z "${PS_SANITIZED:-}" ] || skip "a sanitizer must be loaded first"
	calls data.bin >calls.py
	run on_disk /usr/bin/python3 calls.py
	[ "${lines[*]}" = "fallocate None write 60 pwrite 30 writev 30 fsync None fdatasync None rename None" ]
	grep -q 'write 1 pwrite 1 writev 1 posix_fallocate 1 fsync 1 fdatasync 1 rename 1 bytes 120' report
	run on_disk FS_BUDGET=70 FS_ONLY=data.bin /usr/bin/python3 calls.py
	[ "${lines[*]}" = "fallocate No space left on device write 60 pwrite 10 writev No space left on device fsync None fdatasync None rename None" ]
	run on_disk FS_SHORT=7 /usr/bin/python3 calls.py
	[ "${lines[*]}" = "fallocate None write 7 pwrite 7 writev 5 fsync None fdatasync None rename None" ]
	run on_disk FS_FSYNC_EIO=2 /usr/bin/python3 calls.py
	[ "${lines[*]}" = "fallocate None write 60 pwrite 30 writev 30 fsync None fdatasync Input/output error rename None" ]
	touch broken
	run on_disk FS_ONLY=calls.py FS_UNREADABLE="$T/broken" /usr/bin/python3 -c 'open("calls.py").read()'
	[[ $status -eq 1 && $output == *"Input/output error"* ]]
	rm broken
	on_disk FS_ONLY=calls.py FS_UNREADABLE="$T/broken" /usr/bin/python3 -c 'open("calls.py").read()'
	run on_disk FS_BUDGET=0 FS_ONLY=elsewhere /usr/bin/python3 calls.py
	[ "${lines[*]}" = "fallocate None write 60 pwrite 30 writev 30 fsync None fdatasync None rename None" ]
}

# Names and contents, synced and not.
synced() {
	cat <<-END
	import os
	def write(path, text, sync):
	    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
	    os.write(fd, text)
	    if sync:
	        os.fsync(fd)
	    os.close(fd)
	def sync_dir(path):
	    fd = os.open(path, os.O_RDONLY)
	    os.fsync(fd)
	    os.close(fd)
	os.mkdir("tree/inner")
	write("tree/whole", b"first", True)
	write("tree/empty", b"unsynced", False)
	write("tree/inner/nameless", b"synced", True)
	sync_dir("tree")
	write("tree/late", b"synced", True)
	write("tree/new", b"second", True)
	os.rename("tree/new", "tree/whole")
	END
}

@test "shim: a power cut loses what was not synced" {
	[ -z "${PS_SANITIZED:-}" ] || skip "a sanitizer must be loaded first"
	mkdir tree cut
	synced >synced.py
	on_disk FS_CUT="$T/cut" /usr/bin/python3 synced.py
	[ "$(cat tree/whole)" = second ]
	"$BATS_TEST_DIRNAME/fault/powercut" "$T/cut" "$T/tree" left
	[ "$(cd left && find . | sort | tr '\n' ' ')" = ". ./empty ./inner ./whole " ]
	[ "$(cat left/whole)" = first ]
	[ ! -s left/empty ]
}

@test "a join file is written whole or not at all, whatever the disk does" {
	[ -z "${PS_SANITIZED:-}" ] || skip "a sanitizer must be loaded first"
	echo '{ "servers": 1 }' >c.json
	background ps-serve c.json
	wait_for 10 test -S c.run/ctl.sock
	RUN=$T/c.run
	wait_for 10 state_is running
	on_disk FS_ONLY=.join FS_SHORT=10 ps-ctl invite -C c.run --role worker -o w.join
	size=$(stat -c %s w.join)
	[ "$(tail -c 1 w.join | wc -l)" -eq 1 ]
	rm w.join
	for k in 0 1 $((size / 2)) $((size - 1)); do
		run on_disk FS_ONLY=.join FS_BUDGET=$k ps-ctl invite -C c.run --role worker -o w.join
		echo "$output"
		[ "$status" -eq 1 ]
		[[ "$output" == *"No space left"* ]]
		[ -z "$(find . -name '*w.join*')" ]
	done
	run on_disk FS_ONLY=.join FS_FSYNC_EIO=1 ps-ctl invite -C c.run --role worker -o w.join
	echo "$output"
	[ "$status" -eq 1 ]
	[ -z "$(find . -name '*w.join*')" ]
}

# ---- failpoints ----------------------------------------------------------------------------

# The names at FAIL_POINT and FAIL_ERROR in the sources.
points_used() {
	grep -ohE "$1"'\("[a-z_]+"' -r "$SRC/lib" --include='*.c' | sed 's/.*"\(.*\)"/\1/' | sort -u
}

@test "every failpoint stands in the list, and the list has no others" {
	SRC=$BATS_TEST_DIRNAME/..
	diff <(points_used FAIL_POINT) <(sed -n 's/^FAIL(\([a-z_]*\), *POINT).*/\1/p' "$SRC/lib/base/core/fail.def" | sort)
	diff <(points_used FAIL_ERROR) <(sed -n 's/^FAIL(\([a-z_]*\), *ERROR).*/\1/p' "$SRC/lib/base/core/fail.def" | sort)
}

@test "ordinary programs have no trace of failpoints" {
	case $BIN in
	*/fault-points) skip "these are not ordinary" ;;
	esac
	for p in ps-serve ps-work ps-ctl ps-stat libps.a; do
		run bash -c "nm '$BIN/$p' 2>/dev/null | grep -w fail_pass"
		[ "$status" -ne 0 ]
		run grep -c -a -e PS_FAIL -e close_before "$BIN/$p"
		[ "$output" = 0 ]
	done
}

# ---- soaks -------------------------------------------------------------------------

# resume ANSWER...: all are killed, and the job is resumed by a ps-ctl that gives these answers, one a call.
resume() {
	: >calls
	mkdir -p c.run
	touch c.run/result.json
	sleep 1000 &
	echo $! >c.run/lock
	run bash -c '
		set -u
		run=c.run replicas=1 killed=0 stopped=0 everything=0 victims=(all)
		fail() { echo "failed: $1"; exit 1; }
		. "$1/fault/harm.bash"
		shift
		none_runs() { ! kill -0 "$(cat c.run/lock)" 2>/dev/null; }
		answer=("$@")
		ps-ctl() {
			echo call >>calls
			local text=${answer[$(wc -l <calls) - 1]}
			echo "ps-ctl: $text"
			[ "$text" = started ]
		}
		harm_one' harm "$BATS_TEST_DIRNAME" "$@"
}

@test "soaks resume a job again only while the lock of the killed supervisor is held" {
	resume "cluster c is already running (pid 7)" "cluster c is already running (pid 7)" started
	[ "$status" -eq 0 ]
	[ "$(wc -l <calls)" -eq 3 ]
	resume "c.run/checkpoints/step-000000000020 is damaged" started
	[ "$status" -eq 1 ]
	[[ $output == *"failed: the job cannot be resumed: "*"is damaged"* ]]
	[ "$(wc -l <calls)" -eq 1 ]
}
