#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Training data that are larger than job.data_memory, and so are read in blocks.

setup() {
	load lib/helper
	setup_dir
}

teardown() {
	teardown_dir
}

ROWS=60000

# Data of 4.6 MB for all tests.
setup_file() {
	awk -v n="$ROWS" 'BEGIN {
		srand(9)
		print "y,a,b,c,d,e,f,g,h"
		for (i = 0; i < n; i++) {
			s = 0.5; line = ""
			for (k = 0; k < 8; k++) {
				x = rand() * 2 - 1
				s += (k - 3) * x
				line = line sprintf(",%.5f", x)
			}
			printf "%.5f%s\n", s, line
		}
	}' >"$BATS_FILE_TMPDIR/wide.csv"
}

# A cluster blocks.json with one server, two workers and data, of which a worker may keep 1 MiB.
write_blocks() {
	cp "$BATS_FILE_TMPDIR/wide.csv" .
	head -n 2001 wide.csv >test.csv
	cat >blocks.json <<-'END'
	{
		"servers": 1, "workers": 2,
		"job": { "model": "linear", "optimizer": "sgd", "data": "wide.csv?label=y&scale=none", "eval": "test.csv?label=y&scale=none", "data_memory": "1M",
		         "epochs": 2, "batch": 100, "lr": 0.1 }
	}
	END
}

@test "every mode trains on every example once an epoch, in bounded memory" {
	write_blocks
	for sync in bsp ssp:3 asp; do
		result=$(ps-ctl run blocks --set sync=$sync --json 2>/dev/null | tail -n 1)
		echo "$sync: $result"
		[ "$(jq .examples <<<"$result")" -eq $((2 * ROWS)) ]
		[ "$(jq '.eval.r2 > 0.999' <<<"$result")" = true ]
		grep -q 'data: .* bytes in [0-9]* blocks' blocks.run/worker-0.log
		grep -q 'data: .* bytes in [0-9]* blocks' blocks.run/worker-1.log
	done
	# With enough memory they are read at once.
	result=$(ps-ctl run blocks --set data_memory=1G --json 2>/dev/null | tail -n 1)
	[ "$(jq .examples <<<"$result")" -eq $((2 * ROWS)) ]
	! grep -q blocks, blocks.run/worker-0.log
}

@test "others train on the blocks of a worker that dies, and the job goes on when the coordinator is started again" {
	write_blocks
	ps-ctl start blocks --set sync=asp --set servers=2 --set replicas=2 --set workers=2:3 --set epochs=6 --set on_worker_loss=shrink --set quota_pushes=400 >/dev/null
	ps-ctl wait -C blocks.run --for step=300 --timeout 60s
	kill -9 "$(ps-ctl status -C blocks.run | awk '$1 == "worker-1" { print $3 }')"
	ps-ctl wait -C blocks.run --for step=900 --timeout 60s
	kill -9 "$(pgrep -f -- "ps-serve -C .*$T/blocks.run --coordinator")"
	ps-ctl wait -C blocks.run --for done --timeout 120s
	ps-ctl stop -C blocks.run >/dev/null 2>&1 || true
	ps-ctl events -C blocks.run | grep -q 'continues from the saved state'
	jq -c '{state, examples}' blocks.run/result.json
	[ "$(jq -r .state blocks.run/result.json)" = done ]
	# The figure leaves out what the dead worker had done, whose steps its successor continues.
	from=$(ps-ctl events -C blocks.run | grep -oE 'worker-1 takes part from step [0-9]+' | grep -oE '[0-9]+$')
	[ "$(jq ".examples >= 6 * $ROWS - 100 * $from" blocks.run/result.json)" = true ]
	[ "$(jq '.eval.r2 > 0.999' blocks.run/result.json)" = true ]
}

@test "a checkpoint in the middle of an epoch is gone on from" {
	write_blocks
	for key in epochs:4 sync:'"ssp:2"' quota_pushes:500; do
		jq "if \"${key%%:*}\" == \"epochs\" then .job.epochs = 4 else .${key%%:*} = ${key#*:} end" blocks.json >with && mv with blocks.json
	done
	ps-ctl start blocks >/dev/null
	ps-ctl wait -C blocks.run --for step=300 --timeout 60s
	step=$(ps-ctl checkpoint take -C blocks.run)
	ps-ctl stop -C blocks.run --discard >/dev/null 2>&1
	ps-ctl start blocks --resume auto >/dev/null
	ps-ctl set -C blocks.run quota_pushes=0
	ps-ctl wait -C blocks.run --for done --timeout 120s
	ps-ctl stop -C blocks.run >/dev/null
	result=$(cat blocks.run/result.json)
	echo "step $step: $result"
	# What was trained on before the checkpoint is not trained on again, but for the groups at hand.
	[ "$(jq ".examples <= 4 * $ROWS - $step * 100" <<<"$result")" = true ]
	[ "$(jq '.eval.r2 > 0.999' <<<"$result")" = true ]
}

@test "compressed files are read in blocks: frames of zstd, and a gzip file piece by piece" {
	write_blocks
	split -b 900000 wide.csv part-
	zstd -q part-*
	cat part-*.zst >wide.csv.zst
	gzip -k wide.csv
	for packed in zst gz; do
		for sync in bsp asp; do
			result=$(ps-ctl run blocks --set sync=$sync --set data="wide.csv.$packed?label=y&scale=none" --json 2>err | tail -n 1)
			echo "$packed $sync: $result"
			[ "$(jq .examples <<<"$result")" -eq $((2 * ROWS)) ]
			[ "$(jq '.eval.r2 > 0.999' <<<"$result")" = true ]
		done
		grep -h 'data: .* bytes in [0-9]* blocks' blocks.run/worker-0.log
	done
	grep -q 'data: [0-9]* bytes in 1 blocks' blocks.run/worker-0.log
	grep -q 'warn data: 1 block cannot keep 2 workers busy' blocks.run/worker-0.log
}

@test "data that are sorted by label have all classes; a rare class in the middle is refused with advice" {
	awk 'BEGIN { srand(3); for (i = 0; i < 90000; i++) printf "%s,%.5f,%.5f\n", substr("abc", int(i / 30000) + 1, 1), \
		rand() + (i >= 30000), rand() + (i >= 60000) }' >sorted.csv
	cat >sorted.json <<-'END'
	{ "servers": 1, "workers": 2,
	  "job": { "model": "softmax", "optimizer": "sgd", "data": "sorted.csv?label=1&scale=none", "data_memory": "1M", "epochs": 1, "batch": 50, "lr": 0.5 } }
	END
	result=$(ps-ctl run sorted --json 2>/dev/null | tail -n 1)
	[ "$(jq .examples <<<"$result")" -eq 90000 ]
	awk '{ print } NR == 40000 { print "rare,1,1" }' sorted.csv >rare.csv
	run ps-ctl run sorted --set data='rare.csv?label=1'
	echo "$output"
	[ "$status" -ne 0 ]
	[[ "$output" =~ rare\.csv\+[0-9]+:\ label\ \"rare\".*shuffle\ the\ examples ]]
}

@test "a bad line names its block, and what blocks cannot do is said at the start" {
	write_blocks
	run ps-ctl run blocks --set via=allreduce
	echo "$output"
	[ "$status" -ne 0 ]
	[[ "$output" == *'job.data_memory: the data need more than 1048576 bytes, and via allreduce cannot read them in blocks'* ]]
	# In the middle, where nothing is looked at when the job begins.
	awk '{ print } NR == 30000 { print "1,2,3,4,x,6,7,8,9" }' wide.csv >bad.csv
	run ps-ctl run blocks --set data='bad.csv?label=y&scale=none'
	echo "$output"
	[ "$status" -ne 0 ]
	[[ "$output" =~ bad\.csv\+[0-9]+:5:\ expected\ a\ number,\ got\ \"x\" ]]
}

# A deterministic cluster exact.json with data in blocks, two of everything and three workers. sparse: its table is.
write_exact() {
	if [ "${1-}" = sparse ]; then
		awk 'BEGIN { srand(7); for (i = 0; i < 40000; i++) print rand() < 0.5, 1 + int(rand() * 50) ":1", 51 + int(rand() * 500) ":" rand(), 600 + int(rand() * 9000) ":1" }' >exact.svm
		job='"model": "logistic", "data": "exact.svm", "optimizer": "adagrad", "lr": 0.1'
	else
		awk 'BEGIN { srand(9); for (i = 0; i < 40000; i++) {
			s = rand(); line = ""; for (k = 0; k < 8; k++) { x = rand() * 2 - 1; s += (k - 3) * x; line = line sprintf(",%.5f", x) }
			printf "%.5f%s\n", s, line } }' >exact.csv
		job='"model": "linear", "data": "exact.csv?label=1&scale=none", "optimizer": "momentum", "lr": 0.02'
	fi
	cat >exact.json <<-END
		{ "servers": 2, "workers": 3, "replicas": 2, "deterministic": true, "on_worker_loss": "wait:10m", "lease": "2s",
		  "job": { $job, "data_memory": "1M", "epochs": 2, "batch": 50 } }
	END
	want=$(ps-ctl run exact --json 2>/dev/null | tail -n 1 | jq -r .model_digest)
	[ ${#want} -ge 64 ]
	grep -q 'data: .* bytes in [0-9]* blocks' exact.run/worker-0.log
}

# kill_worker N: kill it, and wait until another process has its rank.
kill_worker() {
	local was
	was=$(worker "$1" .pid)
	kill -9 "$was"
	wait_for 60 eval '[ "$(worker '"$1"' .pid)" != '"$was"' ] && worker_is '"$1"' active'
}

# The held job goes on, and its model is that of the undisturbed one.
exact_ends() {
	let_go
	wait_for 200 over
	RESULT=$(http GET /v1/result)
	echo "$RESULT"
	has .state done
	has .model_digest "$want"
	ps-ctl stop -C "$RUN" >/dev/null 2>&1
}

@test "a deterministic job ends in the same bits when workers, a server and the coordinator are killed within an epoch" {
	load lib/training
	write_exact
	begin exact.json --max-restarts 99 --set quota_pushes=8
	wait_for 60 step_is_past 12
	kill_worker 1
	steps_on 3
	epoch=$(status .layout_epoch)
	kill -9 "$(cat "$RUN/server-1.pid")"
	wait_for 60 eval '[ "$(status .layout_epoch)" -gt '"$epoch"' ]'
	kill_worker 0
	epoch=$(status .layout_epoch)
	kill -9 "$(cat "$RUN/coordinator.pid")"
	wait_for 60 eval '[ "$(status .layout_epoch)" -gt '"$epoch"' ]'
	kill_worker 2
	exact_ends
}

# bats test_tags=slow
@test "so does one that resumes in the middle of an epoch, with a sparse table, and only with as many workers" {
	load lib/training
	write_exact sparse
	begin exact.json --max-restarts 99 --set quota_pushes=400
	wait_for 60 step_is_past 20
	ps-ctl checkpoint take -C "$RUN" >/dev/null
	steps_on 5
	kill_worker 2
	ps-ctl stop -C "$RUN" --discard >/dev/null 2>&1
	begin exact.json --max-restarts 99 --set quota_pushes=400 --resume auto
	wait_for 60 step_is_past 22
	kill_worker 0
	exact_ends
	begin exact.json --set quota_pushes=400
	wait_for 60 step_is_past 20
	ps-ctl checkpoint take -C "$RUN" >/dev/null
	ps-ctl stop -C "$RUN" --discard >/dev/null 2>&1
	from=$(find "$RUN/checkpoints" -name 'step-*' | tail -n 1)
	run ps-ctl run exact --set name=other --set workers=2 --resume "$from"
	echo "$output"
	[ "$status" -ne 0 ]
	[[ "$output" == *'workers: must be 3 for a deterministic job that resumes from this checkpoint, because its data are read in blocks and assigned to that number of workers, got 2'* ]]
	run ps-ctl run exact --set name=other --set deterministic=false --resume "$from"
	echo "$output"
	[ "$status" -ne 0 ]
	[[ "$output" == *'deterministic: must be true for a job that resumes from this checkpoint'* ]]
}

# bats test_tags=fault
@test "every example counts exactly once an epoch, whatever is killed" {
	ROWS=64000 QUOTA=1200 PS_BIN=$BIN run "$BATS_TEST_DIRNAME/fault/examples" "$(kills 5)"
	echo "$output"
	[ "$status" -eq 0 ]
	# On a slow machine the job may end before the last ones.
	[[ "$output" =~ ,\ [1-9][0-9]*\ kills\ of\  ]]
}

# bats test_tags=slow
@test "so it does when a range is a file that is read in several chunks" {
	ROWS=120000 QUOTA=1200 PACKED=yes PS_BIN=$BIN run "$BATS_TEST_DIRNAME/fault/examples" "$(kills 5)"
	echo "$output"
	[ "$status" -eq 0 ]
	# On a slow machine the job may end before the last ones.
	[[ "$output" =~ ,\ [1-9][0-9]*\ kills\ of\  ]]
}

# bats test_tags=slow
@test "and in bsp, where a worker without data waits for those that hold the last ranges" {
	ROWS=64000 QUOTA=300 SYNC=bsp VICTIMS="worker-0 worker-1 worker-2 server-0 server-1" PS_BIN=$BIN run "$BATS_TEST_DIRNAME/fault/examples" 200
	echo "$output"
	[ "$status" -eq 0 ]
}

# bats test_tags=slow
@test "and in bsp with rows that are updated when their pushes arrive" {
	ROWS=64000 QUOTA=300 SYNC=bsp RULES=w:sync=asp VICTIMS="worker-0 worker-1 worker-2 server-0 server-1" PS_BIN=$BIN run "$BATS_TEST_DIRNAME/fault/examples" 200
	echo "$output"
	[ "$status" -eq 0 ]
}

# The pid of a process of the cluster blocks.run.
pid_of() {
	ps-ctl status -C blocks.run | awk -v name="$1" '$1 == name { print $3 }'
}

happened() {
	ps-ctl events -C blocks.run | grep -q "$1"
}

# A push counts when all replicas have it. Here the server with the first replica is lost, before the push of a
# worker that was lost just before could be copied: worker-0 holds their step open. The rate 0.1 of AdaGrad
# makes each weight 0.1 if its example has been pushed once.
@test "what a worker that dies has pushed into the open step counts once if its server dies next" {
	awk 'BEGIN { for (i = 0; i < 64000; i++) printf "%-15s\n", "1 " 100000 + i ":1" }' >ids.svm
	cat >blocks.json <<-'END'
	{ "servers": 2, "workers": 2, "replicas": 2, "sync": "bsp", "quota_pushes": 400, "lease": "60s", "on_worker_loss": "shrink",
	  "job": { "model": "linear", "data": "ids.svm", "data_memory": "1M", "scale": "none", "epochs": 1, "batch": 32, "optimizer": "adagrad", "lr": 0.1, "frozen": "b" } }
	END
	ps-ctl start blocks --max-restarts 10 >/dev/null
	ps-ctl wait -C blocks.run --for step=20 --timeout 60s
	slow=$(pid_of worker-0)
	kill -STOP "$slow"
	# The other one is at the step after the open one, and waits there.
	wait_for 30 grep -q 'waiting at step .*: worker-0' blocks.run/worker-1.log
	kill -9 "$(pid_of worker-1)"
	wait_for 30 happened 'worker-1 takes part from'
	kill -9 "$(pid_of server-0)"
	wait_for 30 happened 'partitions of server-0 take over'
	kill -CONT "$slow"
	ps-ctl set -C blocks.run quota_pushes=0
	ps-ctl wait -C blocks.run --for done --timeout 120s
	ps-ctl export -C blocks.run w -o text >weights
	awk '{ n++; bad += $NF < 0.09999 || $NF > 0.10001 } END { print n, bad + 0; exit n != 64000 || bad > 0 }' weights
}

@test "evaluation data that are larger than memory are read in pieces, with the same result" {
	awk 'BEGIN {
		srand(4)
		print "a,b,c,y"
		for (i = 0; i < 25000; i++) {
			a = rand(); b = rand(); c = rand()
			printf "%.5f,%.5f,%.5f,%d\n", a, b, c, (a - b + rand() / 3 > 0)
		}
	}' >train.csv
	{ cat train.csv && tail -n +2 train.csv && tail -n +2 train.csv; } >large.csv
	gzip -k large.csv
	cat >pieces.json <<-'END'
	{ "workers": 2, "job": { "model": "logistic", "optimizer": "sgd", "lr": 0.1, "data": "train.csv?label=y&scale=none", "eval": "large.csv?label=y&scale=none", "data_memory": "1M",
	  "steps": 200, "batch": 100, "eval_every": 50 } }
	END
	result=$(ps-ctl run pieces --json 2>/dev/null | tail -n 1)
	echo "$result"
	grep -q 'evaluation data: .*large.csv, in pieces of 65536 bytes' pieces.run/worker-0.log
	[ "$(jq .eval.examples <<<"$result")" -eq 75000 ]
	evaluate() {
		ps-work eval -C pieces.run --json "$@" 2>/dev/null | jq -c 'del(.ts)'
	}
	want=$(evaluate)
	echo "$want"
	[ "$(jq -c '[.loss, .accuracy, .auc]' <<<"$want")" = "$(jq -c '[.eval.loss, .eval.accuracy, .eval.auc]' <<<"$result")" ]
	[ "$(evaluate 'large.csv?label=y')" = "$want" ]
	[ "$(evaluate 'large.csv.gz?label=y')" = "$want" ]
	[ "$(evaluate '-?label=y' <large.csv)" = "$(evaluate '-?label=y' <large.csv.gz)" ]
	digest=$(ps-work predict -C pieces.run large.csv 2>/dev/null | md5sum)
	[ "$(ps-work predict -C pieces.run - <large.csv 2>/dev/null | md5sum)" = "$digest" ]
	[ "$(ps-work predict -C pieces.run large.csv 2>/dev/null | wc -l)" -eq 75000 ]
	# The saved model, with enough memory for all.
	jq '.job.data_memory = 1000000000' pieces.run/cluster.json >with && mv with pieces.run/cluster.json
	jq '.config.job.data_memory = 1000000000' pieces.run/state.json >with && mv with pieces.run/state.json
	run ps-work eval -C pieces.run --log-level info
	[[ "$output" == *'evaluation data: 75000 examples'* ]]
	[ "$(evaluate)" = "$want" ]
	[ "$(ps-work predict -C pieces.run large.csv 2>/dev/null | md5sum)" = "$digest" ]
	printf '1,2,x,1\n' >>large.csv
	run ps-work eval -C pieces.run 'large.csv?label=y'
	[ "$status" -eq 1 ]
	[[ "$output" == *'large.csv:75002:3: expected a number, got "x"'* ]]
}

@test "bad lines are skipped as far as job.bad_lines allows, counted and reported" {
	write_blocks
	# A bad line in 30 places of the training data, and one in the evaluation data.
	awk 'NR > 1 && NR % 2000 == 0 { print "1,2,3,4,x,6,7,8,9" } { print }' wide.csv >dirty.csv
	{ cat test.csv && echo '1,2,3'; } >checked.csv
	sed -i 's/wide.csv/dirty.csv/; s/test.csv/checked.csv/' blocks.json
	run ps-ctl run blocks --set 'eval=test.csv?label=y'
	echo "$output"
	[ "$status" -eq 1 ]
	[[ "$output" =~ dirty\.csv:2000:5:|dirty\.csv\+[0-9]+:5: ]]
	# The byte is the place of the line.
	at=$(grep -ohE 'dirty\.csv\+[0-9]+' blocks.run/*.log | head -n 1)
	[ "$(tail -c "+$((${at#*+} + 1))" dirty.csv | head -n 1)" = '1,2,3,4,x,6,7,8,9' ]
	ps-ctl start blocks --set sync=asp --set bad_lines=skip:100 >/dev/null
	ps-ctl wait -C blocks.run --for done --timeout 120s
	workers=$(ps-stat workers -C blocks.run -k id,bad --json | tail -n 2 | jq -s 'map(.bad_lines) | add')
	ps-ctl events -C blocks.run | grep 'bad line'
	ps-ctl stop -C blocks.run >/dev/null 2>&1 || true
	echo "skipped: $workers"
	[ "$(jq .examples blocks.run/result.json)" -eq $((2 * ROWS)) ]
	[ "$(jq .eval.examples blocks.run/result.json)" -eq 2000 ]
	[ "$(jq '.eval.r2 > 0.999' blocks.run/result.json)" = true ]
	# 30 lines, of which both workers may have read some, and that of the evaluation.
	[ "$workers" -ge 31 ]
	[ "$workers" -le 62 ]
	grep -q 'bad line 1 skipped: .*csv' blocks.run/worker-0.log
	# One too many.
	run ps-ctl run blocks --set workers=1 --set bad_lines=skip:20
	echo "$output"
	[ "$status" -eq 1 ]
	[[ "$output" == *'this worker has skipped 20 bad lines, the limit of job.bad_lines'* ]]
	run ps-ctl run blocks --set bad_lines=some
	[ "$status" -eq 78 ]
	[[ "$output" == *'job.bad_lines: must be fail, or skip:N'* ]]
}

@test "progress is told in bytes, and in examples after the first epoch" {
	write_blocks
	size=$(stat -c %s wide.csv)
	ps-ctl start blocks --set sync=asp --set servers=2 --set replicas=2 --set quota_pushes=100 >/dev/null
	ps-ctl wait -C blocks.run --for step=60 --timeout 60s
	status=$(ps-ctl status -C blocks.run --json | head -n 1)
	jq -c '{data_bytes, data_done_bytes, data_epochs, epoch_examples}' <<<"$status"
	[ "$(jq ".data_bytes == $size and .data_done_bytes < $size and .data_epochs == 2 and .epoch_examples == null" <<<"$status")" = true ]
	ps-ctl status -C blocks.run | grep -E ', data [0-9.]+[kM]?B/9.2MB,'
	ps-stat workers -C blocks.run -k id,read/s,left,data,data% --json 1 2 | tail -n 2 |
		jq -se 'all(.data_bytes == '"$size"' and .data_read_bytes > 0 and .blocks_left > 0 and .data_seconds >= 0)'
	# The coordinator's successor knows it, too.
	kill -9 "$(pgrep -f -- "ps-serve -C .*$T/blocks.run --coordinator")"
	ps-ctl wait -C blocks.run --for step=150 --timeout 60s
	ps-ctl set -C blocks.run quota_pushes=0
	ps-ctl wait -C blocks.run --for done --timeout 120s
	status=$(ps-ctl status -C blocks.run --json | head -n 1)
	jq -c '{data_bytes, data_done_bytes, data_epochs, epoch_examples}' <<<"$status"
	[ "$(jq ".data_done_bytes == 2 * $size and .epoch_examples == $ROWS" <<<"$status")" = true ]
	ps-ctl status -C blocks.run | grep -F ', data 9.2MB/9.2MB (60.0k examples an epoch)'
	ps-ctl stop -C blocks.run >/dev/null 2>&1 || true
}
