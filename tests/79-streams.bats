#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Training data without an end: growing files, and topics of Kafka.  The brokers are librdkafka's mock cluster
# (tests/fault/kafka.c); kcat writes the events.

bats_require_minimum_version 1.5.0

setup() {
	load lib/helper
	setup_dir
	EVENTS=$BATS_TEST_DIRNAME/fault/events
	export PS_BIN=$BIN TMPDIR=$T
}

teardown() {
	[ -z "${orders:-}" ] || exec 9>&-
	teardown_dir
}

# Lines of libsvm for the events FROM to TO: each has a feature of its own.
lines() {
	awk -v from="$1" -v to="$2" 'BEGIN { for (i = from; i < to; i++) print "1 " 100000 + i ":1" }'
}

# A cluster file c.json for this data, with AdaGrad from 0: one push makes the weight of an event 0.1, whatever
# the size of its batch.
write_job() {
	cat >c.json <<-END
	{ "servers": 1, "workers": ${2:-2}, "sync": "${3:-asp}",
	  "job": { "model": "linear", "data": "$1", "batch": 32, "lr": 0.1, "optimizer": "adagrad", "frozen": "b" } }
	END
}

# Is each of N events in the model, and each once?
are_once() {
	ps-ctl export -C "${RUN:-c.run}" w -o text >weights 2>/dev/null || return 1
	[ "$(awk '$NF > 0.09999 && $NF < 0.10001 { n++ } $NF > 0.10001 { n = "some twice"; exit } END { print n + 0 }' weights)" -eq "$1" ]
}

# Kafka's client cannot be watched by the thread sanitizer.
need_kafka() {
	[[ $BIN != *san-thread* ]] || skip "the thread sanitizer of gcc 12 does not know the C11 threads of librdkafka"
}

start_brokers() {
	need_kafka
	mkfifo orders
	"$BIN/fault/kafka" "$1" address <orders 3>&- &
	pids+=($!)
	exec 9>orders
	orders=1
	wait_for 20 test -s address
	broker=$(cat address)
}

# produce TOPIC PARTITION FROM TO
produce() {
	lines "$3" "$4" | kcat -P -b "$broker" -t "$1" -p "$2"
}

@test "a file that grows is trained on, each line once, and after the job was stopped" {
	lines 0 1000 >ids.svm
	write_job "ids.svm?follow=yes&format=libsvm"
	ps-ctl start c
	wait_for 30 are_once 1000
	lines 1000 1100 >>ids.svm
	printf '1 10' >>ids.svm
	wait_for 30 are_once 1100
	printf '1100:1\n' >>ids.svm
	wait_for 30 are_once 1101
	# Its first worker is killed with all others, and the job goes on from a checkpoint.
	ps-ctl stop -C c.run
	lines 1101 1500 >>ids.svm
	ps-ctl start c --resume auto
	wait_for 30 are_once 1500
	run ps-stat -C c.run workers -k id,ex/s,lag 1 1
	echo "$output"
	[[ "$output" == *lag* ]]
	ps-ctl stop -C c.run
}

@test "a job that was killed with all its processes goes on from the places of its checkpoint" {
	lines 0 2000 >ids.svm
	write_job "ids.svm?follow=yes&format=libsvm" 1
	ps-ctl start c
	wait_for 30 are_once 2000
	ps-ctl checkpoint take -C c.run
	lines 2000 2500 >>ids.svm
	wait_for 30 are_once 2500
	# What came after the checkpoint is trained on again, from the model of the checkpoint.
	# The kernel kills the others with the supervisor.
	kill -9 "$(sed -n 1p c.run/lock)"
	wait_for 30 none_left "$T"
	lines 2500 2600 >>ids.svm
	ps-ctl start c --resume auto
	wait_for 30 are_once 2600
	ps-ctl stop -C c.run
}

@test "a pipe is spooled by whichever worker lives, and what checkpoints have is freed" {
	mkfifo events
	lines 0 20000 >part
	write_job "events?follow=yes&format=libsvm&head=100" 2
	# A writer sees no broken pipe, and no event is lost or doubled, when workers are killed.
	(for ((i = 0; i < 20; i++)); do sed -n "$((i * 1000 + 1)),$((i * 1000 + 1000))p" part || exit 1; sleep 0.1; done) >events 3>&- &
	writer=$!
	ps-ctl start c --set checkpoint_every=1s --set on_worker_loss=shrink --max-restarts 1000
	# Both workers are there, and the one that was killed last is another process now.
	both_active() {
		mapfile -t workers < <(ps-ctl status -C c.run | awk '$1 ~ /^worker-/ && $2 == "active" { print $3 }')
		[ "${#workers[@]}" -eq 2 ] && [[ " ${workers[*]} " != *" $killed "* ]]
	}
	killed=0
	for ((i = 0; i < 6; i++)); do
		wait_for 30 both_active
		killed=${workers[RANDOM % 2]}
		kill -9 "$killed"
	done
	wait "$writer"
	wait_for 60 are_once 20000
	[ "$(stat -c %s events.spool)" -eq "$(stat -c %s part)" ]
	# Those that are kept are of later steps, soon.
	is_freed() {
		ps-ctl checkpoint take -C c.run >/dev/null
		[ "$(($(stat -c %b events.spool) * 512))" -lt "$(stat -c %s events.spool)" ]
	}
	wait_for 30 is_freed
	# All workers are killed while lines are in the pipe.
	wait_for 30 both_active
	kill -STOP "${workers[@]}"
	lines 20000 20100 >events
	kill -9 "${workers[@]}"
	wait_for 60 are_once 20100
	ps-ctl stop -C c.run
	ps-ctl start c --set checkpoint_every=1s --set on_worker_loss=shrink --resume auto
	lines 20100 20200 >events
	wait_for 30 are_once 20200
	ps-ctl stop -C c.run
}

@test "a topic is trained on by workers that share its partitions, and others see how far" {
	start_brokers clicks:3
	for p in 0 1 2; do
		produce clicks $p $((p * 500)) $((p * 500 + 400))
	done
	write_job "kafka://$broker/clicks?format=libsvm&group=model" 2
	ps-ctl start c
	wait_for 60 are_once 1200
	for p in 0 1 2; do
		produce clicks $p $((p * 500 + 400)) $((p * 500 + 500))
	done
	wait_for 30 are_once 1500
	# The group has the offsets of the newest checkpoint; kcat asks the broker for them.
	ps-ctl checkpoint take -C c.run
	step=$(ps-ctl status -C c.run --json | jq -s '.[0].step')
	wait_for 30 ps-ctl wait -C c.run --for "step=$((step + 3))" --timeout 30s
	committed() {
		ps-ctl checkpoint take -C c.run >/dev/null
		ps-ctl topic ls "kafka://$broker/clicks?group=model" >offsets
		[ "$(awk '$4 == 500' offsets | wc -l)" -eq 3 ]
	}
	wait_for 30 committed
	[ "$(kcat -C -b "$broker" -t clicks -G model -c 1 -e 2>/dev/null clicks | wc -l)" -eq 0 ]
	run ps-ctl topic ls "kafka://$broker/clicks" --json
	[ "$(jq -s 'map(.end) | add' <<<"$output")" -eq 1500 ]
	# A worker that is added takes a partition over.
	ps-ctl scale -C c.run workers=3
	wait_for 30 eval '[ "$(ps-ctl status -C c.run --json | jq -s "map(select(.kind == \"worker\" and .state == \"active\")) | length")" -eq 3 ]'
	for p in 0 1 2; do
		produce clicks $p $((2000 + p * 100)) $((2000 + p * 100 + 100))
	done
	wait_for 30 are_once 1800
	ps-ctl stop -C c.run
}

@test "a broker that goes away is waited for, and said once" {
	start_brokers clicks:1
	produce clicks 0 0 200
	write_job "kafka://$broker/clicks?format=libsvm&head=100" 1
	ps-ctl start c
	wait_for 60 are_once 200
	echo down >&9
	wait_for 30 grep -q "no broker of $broker answers" c.run/worker-0.log
	echo up >&9
	wait_for 30 produce clicks 0 200 300
	wait_for 30 are_once 300
	[ "$(grep -c "no broker of" c.run/worker-0.log)" -eq 1 ]
	grep -q "a broker answers again" c.run/worker-0.log
	ps-ctl stop -C c.run
}

@test "a broker with TLS and a password is read by the properties of a file, which are told nowhere" {
	start_brokers clicks:1
	produce clicks 0 0 100
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
		-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem 2>openssl.err
	cat key.pem cert.pem >both.pem
	mkfifo account
	"$BATS_TEST_DIRNAME/fault/kafka_guard" "$broker" both.pem guard <account 3>&- 9>&- &
	pids+=($!)
	exec 8>account
	echo 'anna:pass=word' >&8
	wait_for 20 test -s guard
	printf '%s\n' '# of anna' security.protocol=SASL_SSL sasl.mechanisms=PLAIN sasl.username=anna sasl.password=pass=word \
		"ssl.ca.location=$T/cert.pem" >right
	topic="kafka://$(cat guard)/clicks?format=libsvm&head=100&properties=$T"
	write_job "$topic/right" 1
	ps-ctl start c 8>&-
	wait_for 60 are_once 100
	# The brackets keep grep from finding itself.
	run ! grep -qs 'pass[=]word' /proc/[0-9]*/cmdline /proc/[0-9]*/environ
	ps-ctl stop -C c.run
	run ! grep -r 'pass[=]word' c.run
	sed 's/pass=word/another/' right >wrong
	run ps-ctl topic ls "$topic/wrong"
	echo "$output"
	[ "$status" -ne 0 ]
	[[ "$output" == *"refuses the connection: "*"Authentication failed"* ]]
	[[ "$output" != *another* ]]
	grep -v ssl.ca right >unknown
	run ps-ctl topic ls "$topic/unknown"
	echo "$output"
	[ "$status" -ne 0 ]
	[[ "$output" == *"refuses the connection: "*"certificate verify failed"* ]]
	echo security.protocol=plaintext >plain
	ps-ctl topic ls "$topic/plain" 2>plain.err 3>&- 8>&- 9>&- &
	pids+=($!)
	wait_for 20 grep -q "no broker of .* answers; trying again until one does (.*security.protocol" plain.err
	exec 8>&-
}

@test "events that a topic has deleted end the worker with one sentence, or are skipped; a topic made anew ends it" {
	start_brokers clicks:1,anew:1
	# The brokers keep 5 MiB of a partition.
	awk 'BEGIN { for (i = 0; i < 9000; i++) printf "1 %d:1 #%0990d\n", 100000 + i, 0 }' | kcat -P -b "$broker" -t clicks -p 0
	oldest=$(ps-ctl topic ls "kafka://$broker/clicks" | awk '$1 == 0 { print $2 }')
	[ "$oldest" -gt 0 ]
	# The process that reads a topic for a worker sends no more bytes than it may, but for its last event.
	mkfifo ask
	ps-ctl topic read "kafka://$broker/clicks" <ask >records 3>&- &
	exec 8>ask
	echo 'seek 0 -2 7 8192 100000' >&8
	wait_for 20 eval '[ "$(stat -c %s records)" -ge 100000 ]'
	exec 8>&-
	wait $!
	[ "$(stat -c %s records)" -lt 110000 ]
	write_job "kafka://$broker/clicks?format=libsvm&from=1" 1
	run ! ps-ctl run c
	echo "$output"
	[[ "$output" == *"clicks[0] has events $oldest to 9000, but training is at 1: events were deleted before they were read; deleted=skip skips them"* ]]
	rm -rf c.run
	write_job "kafka://$broker/clicks?format=libsvm&from=1&deleted=skip" 1
	ps-ctl start c
	wait_for 60 are_once $((9000 - oldest))
	grep -q "events 1 to $oldest were deleted before they were read; they are skipped" c.run/worker-0.log
	ps-ctl stop -C c.run
	# A topic that was made anew has fewer events than were trained on.
	produce anew 0 9000 9100
	write_job "kafka://$broker/anew?format=libsvm&deleted=skip&head=100" 1
	run ! ps-ctl run c --set name=again --resume "$(find "$T/c.run/checkpoints" -name 'step-*' | sort | tail -n 1)"
	echo "$output"
	[[ "$output" =~ anew\[0\]\ ends\ at\ 100,\ but\ training\ is\ at\ [89][0-9]{3}:\ the\ topic\ was\ deleted\ and\ created\ again,\ or\ its\ end\ was\ lost\;\ start\ a\ new\ job\ with\ --init-from ]]
	ps-ctl start c --set name=again --init-from "$T/c.run"
	RUN=again.run
	wait_for 30 are_once $((9000 - oldest + 100))
	ps-ctl stop -C again.run
}

@test "from=end trains on what comes, and a bad event is skipped or named, as job.bad_lines says" {
	start_brokers clicks:1
	produce clicks 0 0 100
	write_job "kafka://$broker/clicks?format=libsvm&from=end&head=10" 1
	ps-ctl start c --set bad_lines=skip:1
	ps-ctl wait -C c.run --for step=3 --timeout 60s
	produce clicks 0 100 150
	printf 'what is this\n' | kcat -P -b "$broker" -t clicks -p 0
	produce clicks 0 150 200
	wait_for 30 are_once 100
	grep -q "bad line 1 skipped: clicks\[0\]+150" c.run/worker-0.log
	wait_for 30 eval '[ "$(ps-stat workers -C c.run -k id,bad --json | tail -n 1 | jq .bad_lines)" = 1 ]'
	printf 'and this\n' | kcat -P -b "$broker" -t clicks -p 0
	wait_for 30 grep -q "clicks\[0\]+201:1: .*; this worker has skipped 1 bad lines, the limit of job.bad_lines" c.run/worker-0.log
	ps-ctl stop -C c.run --discard || true
	rm -rf c.run
	write_job "kafka://$broker/clicks?format=libsvm&head=10" 1
	run ! ps-ctl run c
	echo "$output"
	[[ "$output" == *"clicks[0]+150:1: "*'"what"'* ]]
}

@test "a worker without events holds nobody up in bsp" {
	awk -v OFS=, 'BEGIN { print "a", "b", "y"; for (i = 0; i < 6400; i++) print i % 7, i % 5, i % 3 }' >rows.csv
	write_job "rows.csv?follow=yes&label=y" 2 bsp
	sed -i 's/, "frozen": "b"//' c.json
	ps-ctl start c
	# The other worker has no partition. With a pause of 100 ms a step, this would take 20 s.
	within 10000 ps-ctl wait -C c.run --for step=200 --timeout 60s
	ps-ctl stop -C c.run
}

@test "nor in a job that trains only rows" {
	lines 0 12800 >ids.svm
	write_job "ids.svm?follow=yes&format=libsvm" 2 bsp
	ps-ctl start c
	within 10000 ps-ctl wait -C c.run --for step=200 --timeout 60s
	ps-ctl stop -C c.run
}

@test "the place of a partition that always has a batch is told again and again" {
	lines 0 16000 >ids.svm
	write_job "ids.svm?follow=yes&format=libsvm" 1
	# The log of leases belongs to a coordinator that is a process of its own.
	ps-ctl start c --set servers=2 --set replicas=2 --set quota_pushes=50
	# A line of the log of leases: checksum, number, H, id, worker, event, step, batch, place, list.
	told() {
		awk '$3 == "H" && $6 > 0 && $8 == 32 && $9 > 0 { told = 1 } END { exit !told }' c.run/state.leases-*
	}
	wait_for 30 told
	ps-ctl stop -C c.run --discard
}

@test "wrong streams are refused before anything starts" {
	lines 0 10 >ids.svm
	write_job "kafka://localhost:9/"
	run -78 ps-ctl run c
	[[ "$output" == *"kafka://HOST:PORT/TOPIC"* ]]
	write_job "ids.svm?follow=yes&from=middle"
	run -78 ps-ctl run c
	[[ "$output" == *'unknown from "middle"'* ]]
	write_job "ids.svm?follow=yes"
	run -78 ps-ctl run c --set epochs=2
	[[ "$output" == *"must be 0 for a stream"* ]]
	write_job "ids.svm?follow=yes"
	run -78 ps-ctl run c --set deterministic=true --set sync=bsp
	[[ "$output" == *"deterministic cannot use"* ]]
}

# bats test_tags=fault
@test "each event counts once while workers, readers, servers and the coordinator are killed: asp" {
	need_kafka
	SYNC=asp VICTIMS="worker-0 worker-1 worker-2 server-0 server-1 coordinator reader" run "$EVENTS" "$(kills 5)"
	echo "$output"
	[ "$status" -eq 0 ]
}

# bats test_tags=slow
@test "each event of a file counts once while processes are killed: ssp" {
	SOURCE=file SYNC=ssp:2 EVENTS=8000 run "$EVENTS" "$(kills 5)"
	echo "$output"
	[ "$status" -eq 0 ]
}

# bats test_tags=slow
@test "each event counts once while processes are killed: bsp" {
	need_kafka
	SYNC=bsp EVENTS=8000 run "$EVENTS" "$(kills 5)"
	echo "$output"
	[ "$status" -eq 0 ]
}

# bats test_tags=fault
@test "each event counts once while the job is rolled back to checkpoints" {
	need_kafka
	SYNC=asp REPLICAS=1 EVENTS=8000 run "$EVENTS" "$(kills 5)"
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "an event of a topic changes a score over HTTP, by the example" {
	start_brokers clicks:1
	EVENTS=kafka://$broker/clicks SERVE_IF="train_loss < 5" PATH=$BIN:$PATH run --separate-stderr -0 \
		"$BATS_TEST_DIRNAME/../contrib/examples/online" 200 3
	[[ $output =~ p99\ ([0-9]+) ]]
	echo "# p99 ${BASH_REMATCH[1]} ms" >&3
	[ "${BASH_REMATCH[1]}" -lt 10000 ]
}
