#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Predictions over HTTP, by a read-only server.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	SERVER=
	awk 'BEGIN {
		srand(5); split("pear plum fig", name); split("red green", colour); print "weight,colour,fruit"
		for (i = 0; i < 300; i++) { k = i % 3; printf "%.3f,%s,%s\n", k * 2 + rand(), colour[1 + (rand() < 0.5)], name[k + 1] }
	}' >fruit.csv
	cut -d, -f 1,2 fruit.csv >new.csv
	cat >fruit.json <<-END
	{ "job": { "model": "softmax", "data": "fruit.csv?label=fruit", "epochs": 3, "batch": 20, "optimizer": "adam", "lr": 0.1 } }
	END
}

teardown() {
	[ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null || :
	teardown_dir
}

# train [SETTINGS]: fruit.run/model.safetensors.
train() {
	rm -rf fruit.run
	ps-ctl run fruit.json "$@" >run.log 2>&1 || { cat run.log; return 1; }
}

# serve FROM [KEY=VALUE]...: a read-only server in serve.run; URL is its address.
serve() {
	local from=$1 sets=()
	shift
	for set in serve_http=127.0.0.1:0 "$@"; do sets+=(--set "$set"); done
	# The shell truncates the file when it starts the server, which may be after the first look at it: the messages of an
	# earlier server must not be found.
	rm -f serve.log
	ps-serve --read-only "$from" -C serve.run "${sets[@]}" 2>serve.log &
	SERVER=$!
	wait_for 20 grep -q 'predictions:' serve.log || { cat serve.log; return 1; }
	URL=$(sed -n 's/.*predictions: \([^ ,]*\).*/\1/p' serve.log)
}

# The status of a request, whose answer is in `answer`.
status_of() {
	curl -s -o answer -w '%{http_code}' "$@"
}

@test "POST /predict gives the text of ps-work predict; v2, as JSON and binary, the same scores" {
	train
	serve fruit.run serve_open=true
	declare -A option=([plain]=--log-level=info [csv]=--csv [json]=--json)
	for form in plain csv json; do
		ps-work predict -C fruit.run new.csv "${option[$form]}" >expected
		curl -sf --data-binary @new.csv "$URL/predict?form=$form" >got
		cmp expected got
	done
	ps-work predict -C fruit.run new.csv --csv >expected
	curl -sf -H 'Accept: text/csv' --data-binary @new.csv "$URL/predict" >got
	cmp expected got
	# A large body has a thread of its own.
	{ cat new.csv; for i in $(seq 30); do tail -n +2 new.csv; done; } >large.csv
	ps-work predict -C fruit.run large.csv --json >large.expected
	curl -sf --data-binary @large.csv "$URL/predict?form=json" >got
	cmp large.expected got
	jq -cR 'split(",") | {colour: .[1], weight: .[0] | tonumber}' <(tail -n +2 new.csv) >new.jsonl
	curl -sf --data-binary @new.jsonl "$URL/predict?form=csv" >got
	cmp expected got
	tail -n +2 expected | awk -F, '{ printf "%s,%s", $1, $2; for (i = 3; i <= NF; i++) printf ",%.6g", $i; print "" }' >scores
	python3 "$BATS_TEST_DIRNAME/lib/predict_http.py" v2 "$URL" fruit new.csv >got
	cmp scores got
	python3 "$BATS_TEST_DIRNAME/lib/predict_http.py" v2 "$URL" fruit new.csv binary >got
	cmp scores got
	curl -sf "$URL/v2/models/fruit" | jq -e '.inputs[1].name == "colour" and .inputs[1].datatype == "BYTES" and .outputs[0].name == "prediction"'
	curl -sf "$URL/v2/health/ready" | jq -e .ready
	[ "$(curl -sf -D- -o /dev/null --data-binary @new.csv "$URL/predict" | grep -ci '^Pskit-\(Model: fruit/2\|Age: [0-9]\)')" = 2 ]
	curl -sf "$URL/metrics" >metrics
	grep -q '^ps_serve_requests_total{code="200"} [1-9]' metrics
	grep -q '^ps_serve_stage_seconds_bucket{stage="look_up",le="+Inf"} [1-9]' metrics
	# ps-metrics(7) has these, with their types, and no others.
	sed -n 's/^# TYPE \(ps_serve_[^ ]*\) \([a-z]*\)$/\1 (\2/p' metrics | sort >there
	sed -n 's/^\.It \(ps_serve_[a-z_]* ([a-z]*\).*/\1/p' "$BATS_TEST_DIRNAME/../man/ps-metrics.7" | sort | diff - there
}

@test "models of libsvm and of ratings: text, and tensors of version 2" {
	awk 'BEGIN { srand(3); for (i = 0; i < 300; i++) print i % 2, 1 + int(rand() * 50) ":1", 60 + i % 2 + 2 * int(rand() * 20) ":" rand() }' >a.svm
	echo '{ "job": { "model": "logistic", "data": "a.svm", "epochs": 2 } }' >fruit.json
	train
	serve fruit.run serve_open=true
	cut -d' ' -f 2- a.svm >q.svm
	ps-work predict -C fruit.run q.svm >expected
	curl -sf --data-binary @q.svm "$URL/predict" >got
	cmp expected got
	printf '3:1 61:0.5\n60:0.25\n' >q.svm
	ps-work predict --csv -C fruit.run q.svm | tail -n +2 | cut -d, -f 4 >expected
	curl -sf -d '{"inputs": [{"name": "indices", "datatype": "INT64", "shape": [2, 2], "data": [[3, 61], [60, -1]]},
		{"name": "values", "datatype": "FP32", "shape": [2, 2], "data": [[1, 0.5], [0.25, 0]]}]}' "$URL/v2/models/fruit/infer" |
		jq -c '.outputs[1].data | .[1], .[3]' >got
	cmp expected got
	ps-ctl stop -C serve.run
	wait "$SERVER"
	rm -r serve.run
	awk 'BEGIN { srand(4); print "user,item,rating"; for (i = 0; i < 600; i++) printf "u%d,i%d,%d\n", rand() * 20, rand() * 30, 1 + rand() * 5 }' >r.csv
	echo '{ "job": { "model": "mf", "data": "r.csv?format=ratings", "epochs": 2 } }' >fruit.json
	train
	serve fruit.run serve_open=true
	printf 'user,item\nu1,i3\nu2,i4\n' >q.csv
	ps-work predict -C fruit.run q.csv >expected
	curl -sf --data-binary @q.csv "$URL/predict" >got
	cmp expected got
	curl -sf -d '{"inputs": [{"name": "user", "datatype": "BYTES", "shape": [2], "data": ["u1", "u2"]},
		{"name": "item", "datatype": "BYTES", "shape": [2], "data": ["i3", "i4"]}]}' "$URL/v2/models/fruit/infer" | jq '.outputs[0].data[]' >got
	paste expected got | awk '{ d = $1 - $2; if (d > 1e-6 || d < -1e-6) exit 1; n++ } END { exit n != 2 }' || { paste expected got; return 1; }
}

@test "faults are said with line, column and remedy, and end no other request" {
	train
	serve fruit.run serve_open=true serve_body=64K serve_rows=500
	printf 'weight,colour\n1.5,red\nheavy,red\n' >bad.csv
	[ "$(status_of --data-binary @bad.csv "$URL/predict")" = 400 ]
	grep -q 'the body:3' answer && grep -q weight answer
	printf 'wieght,colour\n1,red\n' >bad.csv
	[ "$(status_of --data-binary @bad.csv "$URL/predict")" = 400 ]
	grep -q weight answer
	[ "$(status_of --data-binary '{"inputs": [{"name": "wieght", "shape": [1], "datatype": "FP32", "data": [1]}]}' "$URL/v2/models/fruit/infer")" = 400 ]
	jq -e '.error | test("did you mean \"weight\"")' answer
	[ "$(status_of --data-binary '{"inputs": [' "$URL/v2/models/fruit/infer")" = 400 ]
	[ "$(status_of "$URL/predict")" = 405 ]
	[ "$(status_of "$URL/nothing")" = 404 ]
	[ "$(status_of "$URL/v2/models/other")" = 404 ]
	[ "$(status_of "$URL/v2/models/fruit/versions/1")" = 404 ]
	[ "$(status_of --data-binary @new.csv "$URL/predict?form=xml")" = 400 ]
	[ "$(status_of --data-binary @new.csv "$URL/predict?formt=csv")" = 400 ]
	[ "$(status_of -H 'Content-Encoding: gzip' --data-binary @new.csv "$URL/predict")" = 415 ]
	[ "$(status_of -H 'Transfer-Encoding: chunked' --data-binary @new.csv "$URL/predict")" = 411 ]
	[ "$(status_of -H 'Host: evil.example' --data-binary @new.csv "$URL/predict")" = 403 ]
	head -c 70000 /dev/zero | tr '\0' a >large
	[ "$(status_of --data-binary @large "$URL/predict")" = 413 ]
	(cat new.csv; tail -n +2 new.csv) >rows.csv
	[ "$(status_of --data-binary @rows.csv "$URL/predict")" = 413 ]
	grep -q serve_rows answer
	curl -sf --data-binary @new.csv "$URL/predict" >/dev/null
}

@test "who may ask: tokens, TLS and client certificates; what is open to others is refused at the start" {
	train
	run ps-serve --read-only fruit.run -C serve.run --set serve_http=127.0.0.1:0
	[ "$status" = 78 ]
	[[ "$output" == *serve_tokens*serve_open* ]]
	run ps-serve --read-only fruit.run -C serve.run --set serve_http=0.0.0.0:0 --set serve_open=true
	[ "$status" = 78 ]
	[[ "$output" == *serve_cert* ]]
	printf '# of the web shop\n0123456789abcdef0123\n' >tokens
	run ps-serve --read-only fruit.run -C serve.run --set serve_http=127.0.0.1:0 --set serve_tokens=tokens
	[ "$status" = 78 ]
	[[ "$output" == *"chmod 600"* ]]
	chmod 600 tokens
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=localhost -days 2 -addext subjectAltName=DNS:localhost 2>/dev/null
	openssl req -x509 -newkey rsa:2048 -nodes -keyout client.key -out client.pem -subj /CN=client -days 2 2>/dev/null
	chmod 600 key.pem
	serve fruit.run serve_tokens=tokens serve_cert=cert.pem serve_key=key.pem serve_ca=client.pem
	local at="https://localhost:${URL##*:}"
	[ "$(status_of --cacert cert.pem --data-binary @new.csv "$at/predict")" = 401 ]
	[ "$(status_of --cacert cert.pem -H 'Authorization: Bearer 0123456789abcdef9999' --data-binary @new.csv "$at/predict")" = 401 ]
	[ "$(status_of --cacert cert.pem -H 'Authorization: Bearer 0123456789abcdef0123' --data-binary @new.csv "$at/predict")" = 200 ]
	[ "$(status_of --cacert cert.pem --cert client.pem --key client.key --data-binary @new.csv "$at/predict")" = 200 ]
	[ "$(status_of --cacert cert.pem --cert cert.pem --key key.pem --data-binary @new.csv "$at/predict")" = 401 ]
	[ "$(status_of --cacert cert.pem "$at/livez")" = 200 ]
	printf 'another-token-0123456789\n' >tokens
	kill -HUP "$SERVER"
	wait_for 5 test_token "$at" another-token-0123456789
	[ "$(status_of --cacert cert.pem -H 'Authorization: Bearer 0123456789abcdef0123' --data-binary @new.csv "$at/predict")" = 401 ]
}

test_token() {
	[ "$(status_of --cacert cert.pem -H "Authorization: Bearer $2" --data-binary @new.csv "$1/predict")" = 200 ]
}

@test "a model is replaced under load: no request fails, each answer is of one model; a damaged one is refused" {
	train
	cp fruit.run/model.safetensors a.safetensors
	train --set seed=9 --set epochs=1
	cp fruit.run/model.safetensors b.safetensors
	cp a.safetensors served.safetensors
	serve served.safetensors serve_open=true
	head -n 41 new.csv >rows.csv
	ps-work predict a.safetensors rows.csv >a.txt
	ps-work predict b.safetensors rows.csv >b.txt
	! cmp -s a.txt b.txt
	python3 "$BATS_TEST_DIRNAME/lib/predict_http.py" load "$URL" 5 "$(cat rows.csv)" >seen &
	local load=$! n=0
	while kill -0 $load 2>/dev/null && [ $n -lt 10 ]; do
		[ $((n % 2)) = 0 ] && cp b.safetensors next || cp a.safetensors next
		mv next served.safetensors
		n=$((n + 1))
		wait_for 5 models_taken $n
	done
	wait $load || { cat seen; return 1; }
	cut -d' ' -f 2 seen | sort -u >codes
	[ "$(cat codes)" = 200 ]
	# Only two texts were seen, those of the two models.
	cut -d' ' -f 4- seen | sort -u >texts
	for m in a b; do tr '\n' ' ' <$m.txt; echo; done | sed 's/ $//; s/$/ /' | sort >expected
	sed -i 's/ *$/ /' texts expected
	cmp texts expected
	head -c 300 a.safetensors >next
	mv next served.safetensors
	wait_for 5 grep -q 'the new model is refused' serve.log
	curl -sf --data-binary @rows.csv "$URL/predict" >got
	cmp a.txt got || cmp b.txt got
	curl -s "$URL/metrics" | grep -q '^ps_serve_models_refused_total 1$'
}

models_taken() {
	[ "$(curl -s "$URL/metrics" | sed -n 's/^ps_serve_models_taken_total //p')" = "$1" ]
}

@test "clients that send and read slowly, too many connections and bodies harm nobody else" {
	train
	serve fruit.run serve_open=true serve_deadline=500ms serve_connections=64 serve_memory=8M serve_body=4M serve_rated=new.csv
	wait_for 5 grep -q 'serve_rated changes nothing: model .* has no users' serve.log
	timeout 60 python3 "$BATS_TEST_DIRNAME/lib/predict_http.py" hostile "$URL" "$(head -n 2 new.csv)" >seen || { cat seen; return 1; }
	cat seen
	grep -qx 'slow body closed' seen
	grep -qx 'slow reader closed' seen
	grep -qx 'with 300 connections 200' seen
	grep -qx 'with full memory 429' seen
	figure "$(grep longest seen) s for an honest request; $(grep VmHWM "/proc/$SERVER/status")"
	wait_for 5 memory_is_free
	# Bodies and answers of 8 MiB, and what the server takes without them.
	[ "${PS_SANITIZED:-}" ] || [ "$(awk '/VmHWM/ { print $2 }' "/proc/$SERVER/status")" -lt 60000 ]
}

memory_is_free() {
	[ "$(curl -s "$URL/metrics" | sed -n 's/^ps_serve_memory_bytes //p')" = 0 ]
}

@test "SIGTERM: requests under way are answered" {
	train
	serve fruit.run serve_open=true serve_delay=1s
	curl -sf --data-binary @new.csv "$URL/predict" >got &
	local asks=$!
	wait_for 5 is_waiting
	kill "$SERVER"
	wait $asks
	ps-work predict -C fruit.run new.csv >expected
	cmp expected got
	wait "$SERVER"
	SERVER=
}

is_waiting() {
	[ "$(curl -s "$URL/metrics" | sed -n 's/^ps_serve_memory_bytes //p')" -gt 0 ]
}

@test "a read replica answers with its cluster's present parameters, and says how old they are" {
	cat >live.json <<-END
	{ "sync": "asp", "job": { "model": "softmax", "data": "fruit.csv?label=fruit", "epochs": 1000000000, "batch": 20, "lr": 0.01 } }
	END
	begin live.json
	serve live.run serve_open=true
	ps-ctl wait -C live.run --for step=300
	ps-ctl pause -C live.run
	wait_for 10 answers_as_the_cluster
	[ "$(curl -sf -D- -o /dev/null --data-binary @new.csv "$URL/predict" | grep -ci '^Pskit-Model: live/live')" = 1 ]
	ps-ctl stop -C serve.run
	wait "$SERVER"
	SERVER=
	ps-ctl stop -C live.run
}

@test "a read replica answers from rows of sparse tables" {
	awk 'BEGIN { srand(3); for (i = 0; i < 600; i++) print i % 2, int(rand() * 500) ":1", 500 + i % 2 + 2 * int(rand() * 20) ":1" }' >new.svm
	cat >live.json <<-END
	{ "sync": "asp", "sparse": "expire=100000", "job": { "model": "fm", "data": "new.svm", "epochs": 1000000000, "batch": 20, "lr": 0.01 } }
	END
	begin live.json
	serve live.run serve_open=true
	ps-ctl wait -C live.run --for step=300
	ps-ctl pause -C live.run
	wait_for 10 answers_as_the_cluster new.svm "?format=libsvm"
	ps-ctl stop -C serve.run
	wait "$SERVER"
	SERVER=
	ps-ctl stop -C live.run
}

@test "a read-only cluster of several servers answers from the rows of all of them; options that nothing heeds are refused" {
	awk 'BEGIN { srand(3); for (i = 0; i < 600; i++) print i % 2, int(rand() * 500) ":1", 500 + i % 2 + 2 * int(rand() * 20) ":1" }' >new.svm
	echo '{ "job": { "model": "fm", "data": "new.svm", "epochs": 3, "batch": 20, "lr": 0.05 } }' >fruit.json
	train --set checkpoint_every=90
	local saved=$(ls -d fruit.run/checkpoints/step-*)
	cat >wide.json <<-END
	{ "servers": 3, "replicas": 2, "read_only": true, "lease": "2s", "serve_http": "127.0.0.1:0", "serve_redis": "unix:$T/redis.sock",
	  "serve_open": true, "job": { "model": "fm", "data": "new.svm", "epochs": 3, "batch": 20, "lr": 0.05 } }
	END
	ps-ctl start wide.json --resume "$saved"
	wait_for 20 grep -q predictions: wide.run/coordinator.log
	URL=$(sed -n 's/.*predictions: \([^ ,]*\).*/\1/p' wide.run/coordinator.log)
	ps-work predict "$saved" new.svm >expected
	curl -sf --data-binary @new.svm "$URL/predict?format=libsvm" | cmp expected -
	[ "$(curl -sf -D- -o /dev/null --data-binary @new.svm "$URL/predict?format=libsvm" | grep -ci "^Pskit-\(Model: wide/${saved##*/}\|Age: [0-9]\)")" = 2 ]
	ps-work nearest "$saved" v 7 -k 3 --json | jq -cS .nearest >nearest
	nearest '{"table": "v", "queries": [7], "k": 3}' | jq -cS '.nearest[0]' | cmp nearest -
	[ "$(redis-cli -s redis.sock GET v:7 | wc -c)" -gt 30 ]
	# Each server has a part of the rows, and one of them may be lost.
	[ "$(ps-ctl status -C wide.run --json | jq -s "[.[] | .servers // empty][0]")" = 3 ]
	kill -9 "$(cat wide.run/server-1.pid)"
	answers_as_saved() { curl -sf --data-binary @new.svm "$URL/predict?format=libsvm" | cmp -s expected -; }
	wait_for 20 answers_as_saved
	ps-ctl stop -C wide.run
	sed -i 's/"serve_open"/"serve_if": "auc >= 0.5", "serve_open"/' wide.json
	run -78 ps-serve wide.json --resume "$saved"
	[[ $output == *"serve_if: only a read replica"* ]]
}

# nearest BODY: what POST /nearest answers, without the blanks of the body.
nearest() {
	curl -sf --data-binary "$1" "$URL/nearest"
}

# nearest_as_work MODEL [OPTION]...: the answer to user=u3 is that of ps-work nearest.
nearest_as_work() {
	ps-work nearest "$1" v user=u3 -k 5 "${@:2}" --json | jq -cS .nearest >expected
	status_of -d '{"table": "v", "queries": ["user=u3"], "k": 5}' "$URL/nearest" >status
	jq -cS '.nearest[0]' answer | cmp -s expected - || { cat expected status answer; return 1; }
}

@test "POST /nearest finds what ps-work nearest finds, of a saved model that is replaced, and of a living cluster" {
	awk 'BEGIN { srand(4); print "user,item,rating"; for (i = 0; i < 600; i++) printf "u%d,i%d,%d\n", rand() * 20, rand() * 30, 1 + rand() * 5 }' >r.csv
	echo '{ "job": { "model": "mf", "data": "r.csv?format=ratings", "epochs": 2 } }' >fruit.json
	train --set epochs=9
	cp fruit.run/model.safetensors later.safetensors
	train
	cp fruit.run/model.safetensors served.safetensors
	serve served.safetensors serve_open=true serve_rows=1000
	nearest_as_work served.safetensors
	# Rows of another kind, by another measure, have an index of their own.
	ps-work nearest served.safetensors v item=i7 item=i9 -k 3 --metric dot --json | jq -cS .nearest >expected
	nearest '{"table": "v", "queries": ["item=i7", "item=i9"], "k": 3, "metric": "dot"}' | jq -cS '.nearest[]' | cmp expected -
	first=$(jq -r '.[0].name' expected | head -n 1)
	nearest "{\"table\": \"v\", \"queries\": [\"item=i7\"], \"k\": 3, \"metric\": \"dot\", \"exclude\": [\"$first\"]}" |
		jq -c '[.nearest[0][].name]' >without
	[[ $(<without) != *"\"$first\""* ]]
	# What one request excludes, the next one finds.
	nearest '{"table": "v", "queries": ["item=i7", "item=i9"], "k": 3, "metric": "dot"}' | jq -cS '.nearest[]' | cmp expected -
	nearest_as_work served.safetensors
	[ "$(status_of -d '{"table": "v", "queries": ["user=u99"]}' "$URL/nearest") $(jq -r .error answer | grep -c 'no example has trained it')" = "404 1" ]
	[ "$(status_of -d '{"table": "w", "queries": [1]}' "$URL/nearest") $(jq -r .error answer | grep -c 'no table')" = "404 1" ]
	[ "$(status_of -d '{"table": "v", "queries": [[1, 2]]}' "$URL/nearest") $(jq -r .error answer | grep -c 'has 2 numbers')" = "400 1" ]
	[ "$(status_of -d '{"table": "v", "queries": ["user=u3"], "k": 1001}' "$URL/nearest")" = 413 ]
	[ "$(status_of "$URL/nearest")" = 405 ]
	mv later.safetensors served.safetensors
	wait_for 5 models_taken 1
	nearest_as_work served.safetensors
	ps-ctl stop -C serve.run
	wait "$SERVER"
	SERVER=
	rm -r serve.run
	# A request cannot have the server open a file, and what serve_rated names must be there.
	mkfifo fifo
	serve served.safetensors serve_open=true
	for option in item_features=fifo user_features=/etc/hosts 'labels=/etc/hosts&format=npy' properties=fifo; do
		[ "$(status_of -m 30 --data-binary 'u1,i1' "$URL/predict?$option") $(jq -r .error answer | grep -c 'cannot be given in a request')" = "400 1" ] ||
			{ echo "$option"; cat answer; return 1; }
	done
	ps-ctl stop -C serve.run
	wait "$SERVER"
	SERVER=
	rm -r serve.run
	run -4 --separate-stderr ps-serve --read-only served.safetensors -C none.run --set serve_http=127.0.0.1:0 --set serve_open=true --set serve_rated=nowhere.csv
	[[ $stderr == *"serve_rated: "*nowhere.csv* ]]
	# Users do not get what they have rated, and items are found as before.
	serve served.safetensors serve_open=true serve_rated=r.csv
	nearest_as_work served.safetensors --rated r.csv
	nearest '{"table": "v", "queries": ["item=i7"], "k": 29}' | jq -e '.nearest[0] | length == 29' >/dev/null
	mv r.csv away.csv
	[ "$(status_of -d '{"table": "v", "queries": ["user=u3"], "metric": "cosine"}' "$URL/nearest") $(jq -r .error answer | grep -c 'serve_rated: .*r.csv')" = "500 1" ]
	mv away.csv r.csv
	ps-ctl stop -C serve.run
	wait "$SERVER"
	SERVER=
	rm -r serve.run
	# The values of a living cluster change, and the index follows them.
	echo '{ "sync": "asp", "job": { "model": "mf", "data": "r.csv?format=ratings", "epochs": 1000000000 } }' >live.json
	begin live.json
	serve live.run serve_open=true
	ps-ctl wait -C live.run --for step=300
	wait_for 5 nearest '{"table": "v", "queries": ["user=u3"]}'
	ps-ctl pause -C live.run
	wait_for 10 nearest_as_work live.run
	[ "$(curl -sf -D- -o /dev/null -d '{"table": "v", "queries": ["user=u3"]}' "$URL/nearest" | grep -ci '^Pskit-\(Model: live/live\|Age: [0-9]\)')" = 2 ]
	ps-ctl stop -C serve.run
	wait "$SERVER"
	SERVER=
	ps-ctl stop -C live.run
}

# answers_as_the_cluster [FILE QUERY]
answers_as_the_cluster() {
	ps-work predict -C live.run "${1:-new.csv}" >expected && curl -sf --data-binary "@${1:-new.csv}" "$URL/predict${2-}" >got && cmp -s expected got
}
