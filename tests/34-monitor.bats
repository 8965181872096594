#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Monitoring that people have: Prometheus, Grafana, chrome://tracing.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
}

teardown() { teardown_dir; }

need() {
	command -v "$1" >/dev/null || skip "$1 is not installed"
}

metrics() { http GET /metrics; }

# value NAME: of the only sample that begins so.
value() { metrics | sed -n "s/^$1 //p"; }
value_is_above() { [ "$(value "$1" | cut -d. -f1)" -gt "$2" ]; }

# Names of metrics in text, without what PromQL and histograms add to them.
names() {
	grep -oE '\b(ps|process)_[a-z0-9_]+\b' "$@" | sed -E 's/_(bucket|sum|count)$//' | sort -u
}

two_servers() {
	endless
	jq '. + {servers: 2, checkpoint_every: "1s"}' lin.json >two.json
	begin two.json
}

ready() { curl -s -m 10 -o answer -w '%{http_code}' --unix-socket "$RUN/ctl.sock" http://x/readyz; }

@test "every GET is answered, and /readyz tells probes whether the cluster is complete" {
	printf '{ "servers": 1, "workers": 1, "job": { "model": "linear", "data": "train.csv?label=y", "steps": %d } }' $ENDLESS >lin.json
	printf 'a,y\n1,2\n2,4\n3,6\n' >train.csv
	background ps-serve lin.json -C lone.run
	RUN=$PWD/lone.run
	wait_for 10 test -S "$RUN/ctl.sock"
	[ "$(ready)" = 503 ]
	[ "$(jq -c '[.status, .state, .waiting_for != ""]' answer)" = '["not ready","forming",true]' ]
	ps-ctl stop -C "$RUN" >/dev/null
	begin lin.json
	wait_for 20 step_is_past 5
	[ "$(ready)" = 200 ]
	[ "$(jq -c '[.status, .state, .waiting_for]' answer)" = '["ok","running",""]' ]
	sed -n 's/^ROUTE("GET", *"\([^"]*\)".*/\1/p' "$ROOT/lib/role/coordinator/http/routes.def" >paths
	[ "$(wc -l <paths)" -gt 20 ]
	while read -r path; do
		code=$(curl -s -m 10 -o answer -w '%{http_code}' --unix-socket "$RUN/ctl.sock" "http://x$path")
		case $path:$code in
		# They need a parameter, or a listener on TCP.
		/v1/trace:4?? | /v1/prometheus/targets:503 | *:200) ;;
		*) echo "$path: $code"; cat answer; return 1 ;;
		esac
	done <paths
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "metrics: lint-clean, whole from the start, and what the cluster says of itself" {
	need promtool
	two_servers
	metrics >first
	promtool check metrics <first
	wait_for 20 step_is_past 100
	wait_for 20 value_is_above ps_checkpoints_total 0
	metrics >m
	promtool check metrics <m
	# No series comes later than the first scrape did.
	diff <(sed 's/ [^ ]*$//' first | grep '^[a-z]' | grep -v '^ps_server_.*le=\|^ps_worker_push_latency\|^process' | sort) \
		<(sed 's/ [^ ]*$//' m | grep '^[a-z]' | grep -v '^ps_server_.*le=\|^ps_worker_push_latency\|^process' | sort)
	for r in applied merged duplicate late refused split; do
		grep -q "^ps_server_pushes_total{server=\"server-1\",result=\"$r\"} [0-9]" m
	done
	for p in data pull compute push wait; do
		grep -q "^ps_worker_step_phase_seconds_total{worker=\"worker-1\",phase=\"$p\"} [0-9]" m
	done
	[ "$(grep -c '^ps_events_total{kind="worker_joined"} 2$' m)" -eq 1 ]
	[ "$(grep -c '^ps_events_total{kind="worker_lost"} 0$' m)" -eq 1 ]
	# Every kind of event that the code tells of is counted from 0 on.
	for kind in $(sed -n 's/^EVENT(\([a-z_]*\))$/\1/p' "$ROOT"/lib/net/msg/event.def); do
		grep -q "^ps_events_total{kind=\"$kind\"} [0-9]" m || { echo "$kind is not counted"; false; }
	done
	# Every process is there; the buckets of a histogram grow, and the last is its count.
	for p in coordinator server-0 server-1 worker-0 worker-1; do
		[ "$p" = coordinator ] || grep -q "^process_resident_memory_bytes{process=\"$p\"} [1-9]" m
	done
	awk '/^ps_server_barrier_wait_seconds_bucket\{server="server-0"/ { if ($2 < last) bad = 1; last = $2; n++ }
		/^ps_server_barrier_wait_seconds_count\{server="server-0"/ { if ($2 != last || !n) bad = 1; seen = 1 }
		END { exit bad || !seen }' m
	# Heard of within the last seconds, by the clock on the wall.
	awk -v now="$(date +%s)" '/^ps_worker_last_seen_timestamp_seconds/ { n++; if ($2 < now - 60 || $2 > now + 1) bad = 1 }
		END { exit bad || n != 2 }' m
	# What the JSON says of a server that stands still is what this says.
	ps-ctl pause -C "$RUN" >/dev/null
	wait_for 10 same_pulls
	[ "$(value ps_cluster_paused)" = 1 ]
	ps-ctl stop -C "$RUN" >/dev/null
}

# The heartbeat after the last pull has come.
same_pulls() {
	[ "$(http GET /v1/servers | jq '.servers[0].pulls')" = "$(value 'ps_server_pulls_total{server="server-0"}')" ]
}

@test "rules, alerts and dashboard: they are well-formed, and ask for what there is" {
	need promtool
	promtool check rules "$ROOT/contrib/prometheus/ps.rules.yml"
	promtool test rules "$ROOT/contrib/prometheus/ps.rules.test.yml"
	promtool check config --syntax-only "$ROOT/contrib/prometheus/prometheus.yml"
	jq -e '[.panels[] | select(.type != "row")] | length > 15 and all(.targets | length > 0)' "$ROOT/contrib/grafana/ps.json"
	jq -e '[.panels[].id] | length == (unique | length)' "$ROOT/contrib/grafana/ps.json"
	two_servers
	metrics | sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' | sort -u >there
	jq -r '.. | .expr? // empty' "$ROOT/contrib/grafana/ps.json" >asked
	sed '/^ *#/d; /record:/d; /ps-ctl/d; /ps-stat/d' "$ROOT/contrib/prometheus/ps.rules.yml" >>asked
	# Recording rules have a colon, and are looked for among the rules.
	for rule in $(grep -oE '[a-z]+:[a-z0-9_:]+' asked | sort -u); do
		grep -q "record: $rule\$" "$ROOT/contrib/prometheus/ps.rules.yml"
	done
	sed -E 's/[a-z]+:[a-z0-9_:]+//g' asked | names >wanted
	[ "$(wc -l <wanted)" -gt 30 ]
	comm -23 wanted there >missing
	[ ! -s missing ] || { cat missing; false; }
	# ps-metrics(7) has each with its type and labels, and none that is not there.
	metrics | awk '/^# TYPE/ { type[$3] = $4; next }
		/^#/ { next }
		{ name = $1; labels = ""; sub(/\{.*/, "", name)
		  if (match($0, /\{[^}]*\}/)) { labels = substr($0, RSTART + 1, RLENGTH - 2); gsub(/="[^"]*"/, "", labels) }
		  sub(/,?le$/, "", labels); sub(/_(bucket|sum|count)$/, "", name)
		  if (name in type) print name " (" type[name] (labels == "" ? "" : "; " labels) ")" }' |
		sed 's/,/, /g' | sort -u >documented
	while read -r line; do
		grep -qxF ".It $line" "$ROOT/man/ps-metrics.7" || { echo "ps-metrics(7) lacks: $line"; false; }
	done <documented
	sed -n 's/^\.It \(\(ps\|process\)_[a-z0-9_]*\) (.*/\1/p' "$ROOT/man/ps-metrics.7" | grep -v '^ps_relay_\|^ps_serve_\|_push_latency_' |
		sort -u | comm -23 - there >unknown
	[ ! -s unknown ] || { cat unknown; false; }
	ps-ctl stop -C "$RUN" >/dev/null
}

# ---- the real Prometheus ------------------------------------------------------------------

asks() { curl -s --max-time 5 "http://$PROMETHEUS/api/v1/query" --data-urlencode "query=$1"; }
answers() { [ "$(asks "$1" | jq -r '.data.result[0].value[1] // empty')" "${@:2}" ]; }
listens() {
	PROMETHEUS=$(ss -Hltnp | sed -n "s/.* \(127\.0\.0\.1:[0-9]*\) .*pid=$pid,.*/\1/p")
	[ -n "$PROMETHEUS" ] && curl -sf --max-time 5 "http://$PROMETHEUS/-/ready" >/dev/null
}

@test "Prometheus finds a cluster by its targets, scrapes it with a token, and answers" {
	need prometheus
	endless
	begin lin.json
	ps-ctl targets -C "$RUN" >targets.json
	at=$(jq -r '.[0].targets[0]' targets.json)
	[ "$(jq -r '.[0].labels | .cluster, .__meta_ps_role' targets.json | tr '\n' ' ')" = "lin coordinator " ]
	ps-ctl invite -C "$RUN" --role monitor --name prometheus | jq -r .token >token
	[ "$(curl -s -o /dev/null -w '%{http_code}' "http://$at/metrics")" = 401 ]
	[ "$(curl -s -o /dev/null -w '%{http_code}' "http://$at/v1/prometheus/targets")" = 401 ]
	[ "$(curl -s -o /dev/null -w '%{content_type}' -H "Authorization: Bearer $(cat token)" "http://$at/metrics")" = \
		"text/plain; version=0.0.4; charset=utf-8" ]
	cat >prometheus.yml <<-END
	global: { scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms }
	rule_files: [ "$ROOT/contrib/prometheus/ps.rules.yml" ]
	scrape_configs:
	  - job_name: pskit
	    authorization: { type: Bearer, credentials_file: token }
	    http_sd_configs:
	      - url: http://$at/v1/prometheus/targets
	        refresh_interval: 1s
	        authorization: { type: Bearer, credentials_file: token }
	    relabel_configs:
	      - { source_labels: [__meta_ps_role], target_label: role }
	END
	background prometheus --config.file=prometheus.yml --storage.tsdb.path="$T/data" --web.listen-address=127.0.0.1:0 \
		--log.level=warn
	wait_for 20 listens || { cat err; false; }
	wait_for 20 answers 'up{job="pskit",role="coordinator",cluster="lin"}' = 1
	wait_for 20 answers 'ps_cluster_step{cluster="lin"}' -gt 100
	wait_for 20 answers 'count(ps_worker_up == 1)' = 2
	wait_for 20 answers 'sum(increase(ps_worker_samples_total[5s])) > bool 0' = 1
	# The rules are evaluated; no alert of a cluster that is well.
	[ "$(curl -s "http://$PROMETHEUS/api/v1/rules" | jq '[.data.groups[].rules[] | select(.health == "err")] | length')" = 0 ]
	[ "$(asks 'ALERTS{alertstate="firing"}' | jq '.data.result | length')" = 0 ]
	# A token that is taken away opens nothing more.
	sed -i '/prometheus/d' "$RUN/keys/authorized_keys"
	kill -HUP "$(cat "$RUN/server-0.pid")"
	wait_for 20 answers 'up{job="pskit"}' = 0
	kill "$pid"
	finish
	ps-ctl stop -C "$RUN" >/dev/null
}

# ---- metrics.jsonl ------------------------------------------------------------------------------

@test "a full disk costs the metrics, not the job" {
	[ -e "$BIN/fault/shim.so" ] || skip "the fault kit is not built"
	write_cluster 60
	env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY=metrics.jsonl FS_BUDGET=400 \
		ps-ctl run lin.json --json >result 2>err
	[ "$(tail -n 1 result | jq -r .state)" = done ]
	[ "$(cat lin.run/*.log | grep -c "No space left on device")" -ge 1 ]
}

# ---- traces ---------------------------------------------------------------------------------------

# A job whose steps take some milliseconds, of several partitions; $1: more of its configuration.
slow_steps() {
	endless
	awk -F, -v OFS=, 'NR > 1 { $3 = $3 > 0.5 } { print }' train.csv >classes.csv
	mv classes.csv train.csv
	jq "del(.quota_pushes) + {servers: 2${1:+, $1}} | .job += {model: \"mlp\", hidden: [256, 256], batch: 100, lr: 0.01}" lin.json >two.json
}

# The workers' seconds in each phase so far.
phases() {
	http GET /v1/workers | jq -c 'reduce (.workers[] | {data: .data_seconds, pull: .pull_seconds, compute: .compute_seconds,
		push: .push_seconds, wait: .wait_seconds} | to_entries[]) as $p ({}; .[$p.key] += $p.value)'
}

being_taken() { ps-ctl events -C "$RUN" trace | grep -q .; }

@test "a trace has every process's steps, tied together, as ps-stat has their shares" {
	slow_steps
	begin two.json
	wait_for 20 step_is_past 10
	before=$(phases)
	stalled=$(stalled_usec || echo 0) began=$(date +%s%6N)
	ps-ctl trace -C "$RUN" -d 1s >trace.json 2>err
	grep -q '^4 processes, [0-9]* spans' err
	after=$(phases)
	# Both are measured a moment apart, and clocks by a message and its answer: where processes wait for a
	# processor that moment is longer.
	slack=$(jq -n "0.5 * ($(stalled_usec || echo 0) - $stalled) / ($(date +%s%6N) - $began)")
	python3 "$LIB/trace_check.py" trace.json server-0 server-1 worker-0 worker-1 >found
	jq -e --argjson slack "$slack" --argjson a "$before" --argjson b "$after" '([$b | keys[] | $b[.] - $a[.]] | add) as $all |
		.shares as $s | all($b | keys[]; (($b[.] - $a[.]) / $all - ($s[.] // 0) | fabs) < 0.15 + $slack)' found ||
		{ echo "$before $after"; cat found; false; }
	# One host, one clock.
	jq -e --argjson slack "$slack" '.otherData.cluster == "two" and (.otherData.clocks | length) == 4 and
		all(.otherData.clocks[]; .offset_seconds | fabs < 0.02 + $slack)' trace.json
	# Of workers that rest there are no spans, and that is a trace, too.
	ps-ctl pause -C "$RUN" >/dev/null
	ps-ctl trace -C "$RUN" -d 50ms >still.json
	jq -e 'all(.traceEvents[]; .ph == "M") and (.traceEvents | length) > 0' still.json
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "a trace over a worker that is killed, one that is too large, and one too many" {
	slow_steps 'lease: "10s"'
	begin two.json --max-restarts 9
	wait_for 20 step_is_past 10
	background ps-ctl trace -C "$RUN" -d "${PS_SANITIZED:+1}8s"
	wait_for 10 being_taken
	run -1 ps-ctl trace -C "$RUN" -d 1s
	[[ $output == *"a trace is already being recorded, for "*" more"* ]]
	kill -9 "$(cat "$RUN/worker-1.pid")"
	finish
	[ "$status" -eq 0 ]
	python3 "$LIB/trace_check.py" out server-0 server-1 worker-0 worker-1
	ps-ctl trace -C "$RUN" -d "${PS_SANITIZED:+3}500ms" --limit 32K >small 2>err
	[ "$(stat -c %s small)" -lt 36000 ]
	grep -q 'the size limit was reached' err
	jq -e '.traceEvents | length > 60' small >/dev/null
	run -2 ps-ctl trace -C "$RUN" -d 1h
	ps-ctl stop -C "$RUN" >/dev/null
	run -3 ps-ctl trace -C "$RUN" -d 1s
}

@test "a trace outlives its coordinator, and only an admin may take one" {
	slow_steps 'replicas: 2'
	begin two.json --max-restarts 9
	wait_for 20 step_is_past 10
	ps-ctl invite -C "$RUN" --role monitor | jq -r .token >token
	at=$(ps-ctl targets -C "$RUN" | jq -r '.[0].targets[0]')
	[ "$(curl -s -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $(cat token)" -d '{"seconds":1}' "http://$at/v1/trace")" = 403 ]
	[ "$(curl -s -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $(cat token)" "http://$at/v1/trace?id=1")" = 403 ]
	[ "$(curl -s -o /dev/null -w '%{http_code}' --unix-socket "$RUN/ctl.sock" "http://x/v1/trace?id=1")" = 404 ]
	for body in '{}' '{"seconds":0}' '{"seconds":601}' '{"seconds":"1"}' '{"seconds":1,"x":2}'; do
		[[ $(http POST /v1/trace "$body") == *'"error"'* ]]
	done
	background ps-ctl trace -C "$RUN" -d 20s
	# A request without an answer is sent to the next coordinator.
	wait_for 10 grep -q '^the cluster records' err
	kill -9 "$(cat "$RUN/coordinator.pid")"
	finish
	[ "$status" -ne 0 ]
	grep -q '^ps-ctl: ' err
	[ ! -s out ] || jq -e '.traceEvents' out >/dev/null
	# The next one knows nothing of it, and takes its own, of all that have found it.
	wait_for 30 eval 'ps-ctl trace -C "$RUN" -d 300ms >again 2>err2 &&
		python3 "$LIB/trace_check.py" again server-0 server-1 worker-0 worker-1 2>err3'
	ps-ctl stop -C "$RUN" >/dev/null
}
