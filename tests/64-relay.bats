#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Relays: the pushes of a rack are summed on their way, its pulls fetched once; and
# whatever dies, each push counts once.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	SOAK=$BATS_TEST_DIRNAME/fault/soak
	export PS_BIN=$BIN
}

teardown() {
	teardown_dir
}

# 200 examples of 32 features and 4 classes.
write_classes() {
	awk 'BEGIN {
		srand(3)
		for (i = 0; i < 200; i++) {
			c = i % 4
			for (j = 0; j < 32; j++)
				printf "%.4f,", rand() + (j % 4 == c)
			print c
		}
	}' >classes.csv
}

# The same as rows of 40 features of 4000.
write_sparse() {
	awk 'BEGIN {
		srand(4)
		for (i = 0; i < 200; i++) {
			printf "%d", i % 2
			at = i % 2
			for (j = 0; j < 40; j++) {
				at += 1 + 2 * int(rand() * 45)
				printf " %d:%.3f", at + 1, rand()
			}
			print ""
		}
	}' >rows.libsvm
}

# job NAME STEPS MODEL [members]: two servers, four workers.
job() {
	cat >"$1.json" <<-END
	{ $(paced "$2" 400) "servers": 2, "workers": 4, "lease": "2s" ${4:-},
	  "job": { $3, "steps": $2, "batch": 8, "optimizer": "sgd", "lr": 0.05 } }
	END
}

MLP='"model": "mlp", "hidden": [1024], "data": "classes.csv?label=last&scale=none"'
ROWS='"model": "logistic", "data": "rows.libsvm"'

relay_options=()

# relay ZONE...: one each; their pids in $relays.
relay() {
	local zone i=0
	relays=()
	for zone; do
		rm -f "$i.join"
		ps-ctl invite -C "$RUN" --role relay -o "$i.join" 2>/dev/null
		ps-serve --relay --join "$i.join" --zone "$zone" "${relay_options[@]}" >"relay-$i.out" 2>&1 3>&- &
		relays+=($!)
		pids+=($!)
		wait_for 10 grep -q "joined as relay" "relay-$i.out"
		i=$((i + 1))
	done
}

# cluster NAME SERVERS [ZONE]...: the cluster of NAME.json, relays for the zones, and four
# workers, by turns in the first two of them.
cluster() {
	local name=$1 servers=$2 zone=() i
	shift 2
	RUN=$T/$name.run
	ps-serve "$name.json" >coordinator.out 2>&1 3>&- &
	pids+=($!)
	wait_for 10 test -S "$RUN/ctl.sock"
	server=()
	for ((i = 1; i < servers; i++)); do
		ps-serve -C "$RUN" --name "server-$i" >"server-$i.out" 2>&1 3>&- &
		pids+=($!)
		server[i]=$!
	done
	relay "$@"
	for i in 0 1 2 3; do
		[ $# -eq 0 ] || zone=(--zone "${@:1 + (i % 2 && $# > 1):1}")
		ps-work train -C "$RUN" --rank $i "${zone[@]}" >"worker-$i.out" 2>&1 3>&- &
		pids+=($!)
	done
}


is_done() {
	wait_for 60 over
	state_is "done" || {
		status .reason
		tail -n 5 ./*.out
		false
	}
}

# The sum of a figure over all servers, once each has told of the end.
figures() {
	wait_for 10 eval 'http GET /v1/servers | jq -e "[.servers[].step] | min >= '"$2"'" >/dev/null'
	http GET /v1/servers | jq "[.servers[].$1] | add"
}

# keep FILE TABLE...: the tables as they are, all in one.
keep() {
	local file=$1 t
	shift
	for t; do
		ps-work pull -C "$RUN" "$t"
	done >"$file"
}

# The greatest difference of two files of float32, in units of 1e-7.
difference() {
	python3 - "$1" "$2" <<-'END'
	import sys, array
	def read(path):
	    b, out = open(path, "rb").read(), array.array("f")
	    while b:
	        n = 10 + int.from_bytes(b[8:10], "little")
	        shape = eval(b[10:n].decode())["shape"]
	        size = 4
	        for k in shape:
	            size *= k
	        out.frombytes(b[n:n + size])
	        b = b[n + size:]
	    return out
	a, b = read(sys.argv[1]), read(sys.argv[2])
	assert len(a) == len(b) and max(map(abs, a)) > 0.01
	print(int(max(abs(x - y) for x, y in zip(a, b)) * 1e7))
	END
}

tables() {
	http GET /v1/tables | jq -r '.tables[] | select(.type == "dense") | .id'
}

@test "four workers through a relay: the same model, a quarter of the bytes" {
	local alone alone_out through through_out
	write_classes
	job alone 100 "$MLP"
	cluster alone 2
	is_done
	alone=$(figures received_bytes 100)
	alone_out=$(figures sent_bytes 100)
	keep alone.f32 $(tables)
	ps-ctl -C "$RUN" stop >/dev/null
	job through 100 "$MLP"
	cluster through 2 rack1
	is_done
	through=$(figures received_bytes 100)
	through_out=$(figures sent_bytes 100)
	keep through.f32 $(tables)
	figure "servers received $alone bytes alone, $through through a relay; sent $alone_out and $through_out;" \
		"the models differ by $(difference alone.f32 through.f32)e-7"
	[ "$(http GET /v1/relays | jq -r '.relays[0].zone')" = rack1 ]
	grep -q "through relay-0" worker-3.out
	[ "$(difference alone.f32 through.f32)" -lt 2000 ]
	[ $((through * 100)) -lt $((alone * 30)) ]
	[ $((through_out * 100)) -lt $((alone_out * 30)) ]
	[ "$(figures pushes_split 100)" = 0 ]
	# One push of each of four for each partition and step alone; one sum through it.
	[ "$(http GET /v1/servers | jq '[.servers[].pushes_merged] | add')" -eq "$(($(http GET /v1/tables | jq '[.tables[].partitions] | add') * 100))" ]
}

@test "rows of sparse tables through a relay: the same model" {
	write_sparse
	job alone 60 "$ROWS"
	cluster alone 2
	is_done
	ps-work eval -C "$RUN" --json rows.libsvm >alone.eval
	ps-ctl -C "$RUN" stop >/dev/null
	job through 60 "$ROWS"
	cluster through 2 rack1
	is_done
	grep -q "through relay-0" worker-0.out
	ps-work eval -C "$RUN" --json rows.libsvm >through.eval
	figure "loss $(jq -s '.[0].loss, .[1].loss' alone.eval through.eval | tr '\n' ' ')"
	jq -se '(.[0].loss - .[1].loss) | fabs < 1e-5' alone.eval through.eval
}

@test "tables that come, grow and go beside those that a relay sums" {
	write_classes
	job beside $ENDLESS "$MLP"
	cluster beside 2 rack1
	wait_for 20 step_is_past 10
	ps-ctl table add emb --rows 100 -C "$RUN"
	ps-ctl table grow emb --rows 70000 -C "$RUN"
	ps-work pull emb -C "$RUN" >emb.npy
	[ "$(stat -c %s emb.npy)" -gt 280000 ]
	ps-ctl table drop emb -C "$RUN"
	wait_for 20 step_is_past $(($(status .step) + 40))
	state_is running
	[ "$(http GET /v1/relays | jq -r '.relays[0].state')" = live ]
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "a relay is killed: training goes on directly, and through the next one" {
	write_classes
	job digits $ENDLESS "$MLP"
	cluster digits 2 rack1
	wait_for 20 step_is_past 20
	[ "$(http GET /v1/relays | jq '.relays[0].workers')" = 4 ]
	kill -9 "${relays[0]}"
	wait_for 10 grep -q "without" worker-0.out
	step=$(status .step)
	wait_for 10 step_is_past "$((step + 20))"
	[ "$(http GET /v1/relays | jq -r '.relays[0].state')" = lost ]
	relay rack1
	wait_for 10 eval '[ "$(http GET /v1/relays | jq "[.relays[].workers] | add")" = 4 ]'
	step=$(status .step)
	wait_for 10 step_is_past "$((step + 20))"
	kill "${relays[0]}"
	wait "${relays[0]}"
	step=$(status .step)
	wait_for 10 step_is_past "$((step + 20))"
	state_is running
}

@test "a relay that cannot be reached is done without" {
	write_classes
	job digits $ENDLESS "$MLP"
	relay_options=(--advertise 127.0.0.1:1)
	cluster digits 2 rack1
	wait_for 20 eval '[ "$(http GET /v1/relays | jq -r ".relays[0] | \"\(.state) \(.workers)\"")" = "live 0" ]'
	wait_for 10 step_is_past 20
	grep -q "on without relay-0" worker-0.out
	[[ $(http GET /v1/events | jq -r '.events[].event') == *relay_missed* ]]
}

# bats test_tags=slow
@test "a relay that stands still is done without" {
	write_classes
	job digits $ENDLESS "$MLP"
	cluster digits 2 rack1
	wait_for 20 step_is_past 20
	kill -STOP "${relays[0]}"
	wait_for 20 eval '[ "$(http GET /v1/relays | jq -r ".relays[0].state")" = lost ]'
	step=$(status .step)
	wait_for 10 step_is_past "$((step + 20))"
	kill -CONT "${relays[0]}"
	wait_for 10 eval '[ "$(http GET /v1/relays | jq "[.relays[].workers] | add")" = 4 ]'
	step=$(status .step)
	wait_for 10 step_is_past "$((step + 20))"
}

@test "a server with a copy is killed: the relay goes on with the other" {
	write_classes
	job digits $ENDLESS "$MLP" ', "replicas": 2'
	cluster digits 2 rack1
	wait_for 20 step_is_past 20
	kill -9 "${server[1]}"
	wait_for 10 eval '[ "$(status .layout_epoch)" -gt 1 ]'
	step=$(status .step)
	wait_for 10 step_is_past "$((step + 20))"
	[ "$(http GET /v1/relays | jq -r '.relays[0] | "\(.state) \(.workers)"')" = "live 4" ]
	ps-serve -C "$RUN" --name server-1 >server-1.out 2>&1 3>&- &
	pids+=($!)
	wait_for 20 eval '[ "$(status .servers)" = 2 ] && [ "$(http GET /v1/layout | jq "[.tables[].runs[][2] | length] | min")" = 2 ]'
	step=$(status .step)
	wait_for 10 step_is_past "$((step + 20))"
}

@test "relays are for bsp, and for who may be one" {
	write_classes
	job digits $ENDLESS "$MLP" ', "sync": "asp"'
	cluster digits 2
	wait_for 20 step_is_past 5
	ps-ctl invite -C "$RUN" --role relay -o r.join 2>/dev/null
	run -78 timeout 20 ps-serve --relay --join r.join --zone rack1
	[[ "$output" == *"requires that sync is bsp"* ]]
	run -2 ps-serve --relay --join r.join
	[[ "$output" == *"--relay requires --join and --zone"* ]]
	ps-ctl invite -C "$RUN" --role server -o s.join 2>/dev/null
	run -5 timeout 20 ps-serve --relay --join s.join --zone rack1
	[[ "$output" == *"role"* ]]
	http POST /v1/stop '{"why":"test"}' >/dev/null
}

@test "copies lie in different zones, as long as there are two" {
	write_classes
	job copies $ENDLESS "$MLP" ', "replicas": 2'
	sed -i 's/"servers": 2/"servers": 3/; s/"workers": 4/"workers": 1/' copies.json
	RUN=$T/copies.run
	ps-serve copies.json --zone a >coordinator.out 2>&1 3>&- &
	pids+=($!)
	wait_for 10 test -S "$RUN/ctl.sock"
	for i in 1 2; do
		ps-serve -C "$RUN" --name server-$i --zone "$([ $i = 1 ] && echo a || echo b)" >"server-$i.out" 2>&1 3>&- &
		pids+=($!)
		server[i]=$!
	done
	ps-work train -C "$RUN" >worker.out 2>&1 3>&- &
	pids+=($!)
	wait_for 20 step_is_past 20
	[ "$(http GET /v1/servers | jq -c '[.servers[].zone]')" = '["a","a","b"]' ]
	http GET /v1/layout | jq -e '[.tables[].runs[][2] | length == 2 and index(2) != null] | all'
	# Without b the two of a share what there is.
	kill -9 "${server[2]}"
	wait_for 20 eval 'http GET /v1/layout | jq -e "[.tables[].runs[][2] | length == 2 and index(2) == null] | all" >/dev/null'
}

# bats test_tags=fault
@test "workers, relays and servers are killed: nothing is lost, nothing counts twice" {
	LEASE=1 ZONES=z REPLICAS=2 SERVERS=3 SYNC=bsp KILLS=$(kills 6) QUOTA=300 EVERY=0.3 VICTIMS="workers servers relays" run "$SOAK" 5m
	echo "$output"
	echo "# ${lines[-1]}" >&3
	[ "$status" -eq 0 ]
}

# bats test_tags=fault
@test "a tree of relays, killed: nothing is lost, nothing counts twice" {
	LEASE=1 ZONES="dc/a dc/b dc" WORKERS=4 REPLICAS=2 SERVERS=3 SYNC=bsp KILLS=$(kills 6) QUOTA=300 EVERY=0.3 VICTIMS="workers relays servers" run "$SOAK" 5m
	echo "$output"
	echo "# ${lines[-1]}" >&3
	[ "$status" -eq 0 ]
}

@test "a relay, and what else spares the wire" {
	write_classes
	write_sparse
	n=0
	while read -r model options; do
		n=$((n + 1))
		job "o$n" 100 "${!model}" ", $options"
		cluster "o$n" 2 rack1
		is_done
		with=$(http GET /v1/result | jq .train_loss)
		http POST /v1/stop '{"why":"test"}' >/dev/null
		job "d$n" 100 "${!model}" ", $options"
		cluster "d$n" 2
		is_done
		without=$(http GET /v1/result | jq .train_loss)
		figure "$options: train loss $with, without a relay $without"
		jq -ne "($with - $without | fabs) < 0.01" >/dev/null
		http POST /v1/stop '{"why":"test"}' >/dev/null
	done <<-END
	MLP "codec": "topk:0.1", "pull_delta": true
	MLP "codec": "int8", "pull_codec": "f16", "prefetch": true
	MLP "local_steps": 4
	ROWS "row_ids": "cached", "codec": "int8"
	ROWS "row_ids": "packed", "filter": "threshold:0.0001"
	END
}
