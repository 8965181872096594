#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Tables whose rows are in memory in part, and on the servers' disks: the same bits as in memory, also after kills, scaling
# and a resume; what is left on the disk; and what is refused.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	ln -s "$BATS_FILE_TMPDIR/ids.svm" .
	mkdir spill
	cat >c.json <<-JSON
	{ "servers": 2, "workers": 2, "deterministic": true, "on_worker_loss": "wait:10m", "spill_dir": "spill",
	  "sparse": "ram=16M", "job": { "model": "fm", "factors": 40, "data": "ids.svm", "eval": "ids.svm",
	  "epochs": 2, "batch": 100, "optimizer": "adagrad", "lr": 0.05 } }
	JSON
}

teardown() {
	teardown_dir
}

# Each example has 12 of 200,000 features, and its class is that of most of them.  A row of a server takes 350 bytes, so
# the rows of one server take twice its memory.
setup_file() {
	awk 'BEGIN {
		srand(7)
		for (i = 0; i < 16000; i++) {
			score = rand() - 0.5
			for (k = 0; k < 12; k++) {
				id[k] = k * 17000 + int(rand() * 17000) + 1
				score += id[k] % 2 ? 1 : -1
			}
			printf "%d", (score > 0)
			for (k = 0; k < 12; k++)
				printf " %d:1", id[k]
			print ""
		}
	}' >"$BATS_FILE_TMPDIR/ids.svm"
}

# The digest of the run that has all rows in memory.
in_memory() {
	local kept=$BATS_FILE_TMPDIR/digest
	[ -s "$kept" ] || {
		ps-ctl run c.json --set name=memory --set sparse=none --json 2>/dev/null >result
		field model_digest <result >"$kept"
	}
	cat "$kept"
}

# on_disk N: the files of rows of server N take more than a few bytes.
on_disk() { [ "$(http GET /v1/servers | jq "[.servers[] | select(.id == \"server-$1\") | .row_disk_bytes // 0] | add")" -gt 100000 ]; }

@test "ram=: the same bits as in memory, and nothing is left on the disk" {
	[ "$(in_memory | wc -c)" -ge 64 ]
	begin c.json "${HELD_SPARSE[@]}"
	wait_for 60 on_disk 0
	wait_for 60 on_disk 1
	[ "$(stat -c %a spill/c-server-0)" = 700 ]
	# The memory of rows keeps to its bound.
	http GET /v1/servers | jq -e '[.servers[] | .row_memory_bytes] | max <= 16 * 1048576'
	ps-stat servers -C "$RUN" -k id,row-memory,row-disk,row-hits,row-reads/s | grep -q server-1
	http GET /metrics | grep -q '^ps_server_row_disk_bytes{.*server="server-0"'
	let_go
	wait_for 120 over
	RESULT=$(http GET /v1/result)
	has .state done
	has .model_digest "$(in_memory)"
	ps-ctl stop -C "$RUN" >/dev/null
	[ -z "$(ls spill/*/rows 2>/dev/null)" ]
}

@test "ram=: a server is killed, others join, and the bits are the same" {
	begin c.json --set servers=3 --set replicas=2 --max-restarts 3 "${HELD_SPARSE[@]}"
	wait_for 60 on_disk 1
	kill -9 "$(cat "$RUN/server-1.pid")"
	wait_for 60 step_is_past 60
	ps-ctl scale -C "$RUN" servers=2 >/dev/null 2>&1
	let_go
	wait_for 120 over
	RESULT=$(http GET /v1/result)
	has .state done
	has .model_digest "$(in_memory)"
	ps-ctl stop -C "$RUN" >/dev/null
}

# bats test_tags=slow
@test "ram=: a checkpoint has all rows, and is resumed on another number of servers, also in memory" {
	begin c.json --set checkpoint_every=100 "${HELD_SPARSE[@]}"
	wait_for 60 step_is_past 130
	ps-ctl stop -C "$RUN" >/dev/null
	cp -r "$(ls -d "$RUN"/checkpoints/step-* | tail -n 1)" saved
	ps-ctl checkpoint verify saved
	for set in servers=1 "servers=3 --set sparse=none"; do
		train c.json --set $set --resume "$PWD/saved"
		has .model_digest "$(in_memory)"
	done
}

disk_is_named() { [ -n "$(ps-stat why -C "$RUN" --json | jq -c '.. | objects | select(.code? == "disk")')" ]; }

@test "disk=: a server whose disk is full waits, and says so" {
	# The size of the files counts, and RocksDB still has the first rows in its memory: a short job may end before.
	begin c.json --set sparse=ram=16M,disk=64K --set job.epochs=1000
	wait_for 60 disk_is_named
	ps-stat why -C "$RUN" | grep -qE 'server-[01] .*cannot use its disk: .*disk= allows 65536'
	grep -q 'error\[no-space\] spill_dir' "$RUN"/server-?.log
	state_is running
}

# with_failing_disk COMMAND...: as long as the file `broken` exists, servers cannot read their rows on the disk.
with_failing_disk() {
	ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY="$T/spill/" FS_UNREADABLE="$T/broken" "$@"
}

@test "ram=: a disk that cannot be read for a time is named, and the bits are the same" {
	[ -e "$BIN/fault/shim.so" ] || skip "the fault kit is not built"
	with_failing_disk begin c.json "${HELD_SPARSE[@]}"
	wait_for 60 on_disk 0
	touch broken
	wait_for 60 disk_is_named
	ps-stat why -C "$RUN" | grep -qE 'server-[01] .*cannot use its disk: .*/spill/c-server'
	run -1 ps-ctl doctor -C "$RUN" --quick
	[[ $output == *"fail disk: server-"*"cannot use its disk"* ]]
	rm broken
	let_go
	wait_for 120 over
	RESULT=$(http GET /v1/result)
	has .state done
	has .model_digest "$(in_memory)"
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# bats test_tags=slow
@test "ram=: a server whose disk cannot be read makes no checkpoint until it can, and ends when it is told to" {
	[ -e "$BIN/fault/shim.so" ] || skip "the fault kit is not built"
	with_failing_disk begin c.json --set servers=1 --set sync=asp --set deterministic=false "${HELD_SPARSE[@]}"
	wait_for 60 on_disk 0
	touch broken
	wait_for 60 disk_is_named
	run ! ps-ctl checkpoint -C "$RUN"
	[[ $output == *"spill_dir: "* ]]
	rm broken
	ps-ctl checkpoint -C "$RUN"
	touch broken
	wait_for 60 disk_is_named
	server=$(cat "$RUN/server-0.pid")
	kill -TERM "$server"
	wait_for 60 gone "$server"
}

@test "ram=: what is refused" {
	run -78 ps-ctl run c.json --set spill_dir=none
	[[ $output == *"ram=SIZE requires spill_dir"* ]]
	run -78 ps-ctl run c.json --set sparse=disk=1G
	[[ $output == *"disk: requires ram=SIZE"* ]]
	run -78 ps-ctl run c.json --set sparse=ram=1M
	[[ $output == *"ram: must be at least 16M"* ]]
	run -78 ps-ctl run c.json --set sparse=ram=16M,values=bf16
	[[ $output == *"ram: rows on a disk have values of f32, not of bf16"* ]]
	run -78 ps-ctl run c.json --set mem_limit=8M
	[[ $output == *"more than mem_limit"* ]]
}

@test "a server without librocksdb does not join, and leaves its place to one that has it" {
	RUN=$T/c.run
	ps-serve c.json --no-store --set servers=1 --set replicas=1 2>c 3>&- &
	pids+=($!)
	wait_for 20 test -S "$RUN/ctl.sock"
	ps-ctl invite -C "$RUN" --role server --name a -o a.join 2>/dev/null
	# A file with its name that is no library.
	mkdir none
	: >none/librocksdb.so.7.8
	LD_LIBRARY_PATH=$T/none run -78 ps-serve --join a.join
	[[ $output == *"spill_dir: the server from "*" cannot keep rows on its disk, because it has no RocksDB; install the Debian package librocksdb7.8 there"* ]]
	[[ $output != *"joined as"* ]]
	[ "$(ps-ctl events -C "$RUN" | grep -c server_)" -eq 0 ]
	[ ! -e spill/c-server-0 ]
	ps-serve --join a.join 2>a 3>&- &
	pids+=($!)
	wait_for 20 grep -q 'joined as server-0' a
	# A cluster without spill_dir does not need it.
	ps-ctl stop --discard -C "$RUN" >/dev/null
	LD_LIBRARY_PATH=$T/none ps-ctl run c.json --set sparse=none --set spill_dir=none --set epochs=1 >/dev/null 2>err || { cat err; false; }
}
