#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Data from s3:// and https://, checkpoints to s3:// and from there, against npm's s3rver
# (make deps-check), with a middleware that checks signatures and makes faults.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

# start_store NAME [KEY CERT]: its port is in $PORT.
start_store() {
	mkdir -p "$BATS_FILE_TMPDIR/$1/faults"
	node "$BATS_TEST_DIRNAME/lib/s3.js" "$BATS_FILE_TMPDIR/$1" "${@:2}" >"$BATS_FILE_TMPDIR/$1/port" \
		2>"$BATS_FILE_TMPDIR/$1/err" 3>&- &
	echo $! >"$BATS_FILE_TMPDIR/$1/pid"
	wait_for 20 test -s "$BATS_FILE_TMPDIR/$1/port"
	PORT=$(head -n 1 "$BATS_FILE_TMPDIR/$1/port")
}

setup_file() {
	export NODE_PATH=$BATS_TEST_DIRNAME/../build/npm/node_modules
	export STORE_PORT=
	[ -d "$NODE_PATH/s3rver" ] && command -v node >/dev/null || return 0
	start_store plain
	STORE_PORT=$PORT
}

teardown_file() {
	local file
	for file in "$BATS_FILE_TMPDIR"/*/pid; do
		[ ! -e "$file" ] || kill "$(cat "$file")" 2>/dev/null || true
	done
}

setup() {
	[ -n "$STORE_PORT" ] || skip "npm's s3rver is not installed (make deps-check)"
	setup_training
	unset AWS_PROFILE AWS_SESSION_TOKEN AWS_REGION AWS_DEFAULT_REGION AWS_ENDPOINT_URL_S3 AWS_CA_BUNDLE CURL_CA_BUNDLE \
		SSL_CERT_FILE AWS_SHARED_CREDENTIALS_FILE AWS_CONFIG_FILE
	export HOME=$T AWS_ACCESS_KEY_ID=S3RVER AWS_SECRET_ACCESS_KEY=not-to-be-seen AWS_ENDPOINT_URL=http://127.0.0.1:$STORE_PORT
	S=$BATS_FILE_TMPDIR/plain
	rm -f "$S"/faults/* "$S/requests"
	touch "$S/requests"
	# A prefix of its own for each test.
	P=s3://bkt/t$BATS_TEST_NUMBER
}

teardown() {
	[ -z "$STORE_PORT" ] || teardown_dir
}

# fault TIMES MEMBERS: the next requests that fit are answered so; of several the first counts.
fault() {
	NFAULTS=$((${NFAULTS:-100} + 1))
	echo "{$2}" >"$S/faults/$NFAULTS.$1"
}

# refused CODE TEXT COMMAND...: it ends with this code, and says this.
refused() {
	local want=$1 text=$2
	shift 2
	run "$@"
	[ "$status" -eq "$want" ] && [[ $output == *"$text"* ]] || {
		echo "code $status, not $want with \"$text\": $output"
		return 1
	}
}

@test "objects: put, list, read and remove; names of all kinds; 17 MB go in parts" {
	head -c 17000000 /dev/urandom >big
	echo text >small
	: >empty
	ps-ctl object put big $P/dir/big
	ps-ctl object put small "$P/dir/a b+c&d=ü~'(1).txt"
	ps-ctl object put - $P/dir/stdin <small
	ps-ctl object put empty $P/empty
	[ "$(grep -c partNumber= "$S/requests")" -eq 3 ]
	ps-ctl object cat $P/dir/big | cmp - big
	ps-ctl object cat "$P/dir/a b+c&d=ü~'(1).txt" | cmp - small
	ps-ctl object cat $P/empty | cmp - empty
	AWS_SESSION_TOKEN=token/with+signs== ps-ctl object cat - <<<"$P/dir/stdin" | cmp - small
	[ "$(ps-ctl object ls $P/dir/ | wc -l)" -eq 3 ]
	[ "$(ps-ctl object ls "$P/dir/[bs]*" --json | jq -r '"\(.name) \(.size_bytes)"' | xargs)" = \
		"$P/dir/big 17000000 $P/dir/stdin 5" ]
	# A star stops at slashes, as that of files does.
	[ "$(ps-ctl object ls "$P/*" | wc -l)" -eq 1 ]
	ps-ctl object rm $P/dir/big
	refused 4 "there is no such object" ps-ctl object cat $P/dir/big
	[ "$(grep -c . < <(ps-ctl object ls $P/))" -eq 3 ]
}

@test "what is refused: keys, names, regions, clocks, each with what to do" {
	refused 5 "the secret key does not fit the access key" env AWS_SECRET_ACCESS_KEY=wrong ps-ctl object ls $P
	refused 5 "there is no access key for S3: set AWS_ACCESS_KEY_ID" env -u AWS_ACCESS_KEY_ID ps-ctl object ls $P
	refused 4 "there is no such bucket" ps-ctl object ls s3://none/
	refused 4 "no object matches" ps-ctl object ls "$P/*.none"
	refused 78 "names no bucket" ps-ctl object cat s3:///key
	refused 78 "is not an object" ps-ctl object cat ftp://host/x
	refused 78 "use https" ps-ctl object cat http://example.org/x
	refused 78 ".netrc" ps-ctl object cat https://me:word@example.org/x
	[[ $output != *word@* ]]
	refused 78 "cannot be written to" ps-ctl object put /dev/null https://example.org/x
	refused 78 "is not https://HOST" env AWS_ENDPOINT_URL=example.org ps-ctl object ls $P
	refused 6 "cannot reach 127.0.0.1:1: Connection refused" env AWS_ENDPOINT_URL=http://127.0.0.1:1 ps-ctl object ls $P
	fault 1 '"do": "code", "status": 403, "code": "AccessDenied"'
	refused 5 "the key may not do this" ps-ctl object ls $P
	fault 1 '"do": "code", "status": 403, "code": "RequestTimeTooSkewed"'
	refused 5 "set the clock" ps-ctl object ls $P
	fault 1 '"do": "code", "status": 400, "code": "AuthorizationHeaderMalformed", "more": "<Region>eu-north-1</Region>"'
	refused 78 "set AWS_REGION=eu-north-1" ps-ctl object ls $P
	# Of files as other tools have them.
	mkdir .aws
	printf '[default]\naws_access_key_id = X\n\n[profile lab]\n# hidden\naws_access_key_id = S3RVER\naws_secret_access_key=not-to-be-seen\n' >.aws/credentials
	printf '[profile lab]\nregion = eu-west-1\nendpoint_url = %s\n' "$AWS_ENDPOINT_URL" >.aws/config
	unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_ENDPOINT_URL
	refused 5 "under [default]" ps-ctl object ls $P
	AWS_PROFILE=lab ps-ctl object ls $P
}

@test "connections that break or stand still, 503 twice: each byte once, within the time" {
	head -c 3000000 /dev/urandom >data
	ps-ctl object put data $P/data
	fault 2 '"method": "GET", "do": "break", "bytes": 1000000'
	ps-ctl object cat $P/data 2>err | cmp - data
	[ "$(grep -c "broke.*again in" err)" -eq 2 ]
	grep -q 'GET .*/data bytes=2000000- -' "$S/requests"
	fault 2 '"method": "GET", "do": "503"'
	ps-ctl object cat $P/data | cmp - data
	fault 1 '"method": "GET", "do": "stall", "bytes": 70000'
	ps-ctl object cat $P/data --timeout 2s 2>err | cmp - data
	grep -q "sends no more data; trying again" err
	# Not for ever.
	fault 99 '"method": "GET", "do": "503"'
	refused 6 "HTTP 503, SlowDown" ps-ctl object cat $P/data --timeout 3s
	rm "$S"/faults/*
}

@test "an object that is replaced while it is read is no object" {
	head -c 3000000 /dev/zero >data
	ps-ctl object put data $P/data
	fault 1 '"method": "GET", "do": "break", "bytes": 1000000'
	fault 3 '"method": "GET", "do": "swap", "with": "another text"'
	refused 1 "it was replaced while it was read" bash -c "ps-ctl object cat $P/data >/dev/null"
}

@test "an upload that fails or is stopped is taken back; a part that fails once is sent again" {
	head -c 17000000 /dev/zero >big
	fault 1 '"method": "PUT", "path": "partNumber=2", "do": "503"'
	ps-ctl object put big $P/big
	[ "$(grep -c 'partNumber=2.* - 503' "$S/requests")" -eq 1 ]
	ps-ctl object cat $P/big | cmp - big
	fault 99 '"method": "PUT", "path": "partNumber=2", "do": "503"'
	refused 6 "503" ps-ctl object put big $P/never --timeout 3s
	grep -q "DELETE .*/never?uploadId=" "$S/requests"
	rm "$S"/faults/*
	fault 1 '"method": "PUT", "path": "partNumber=3", "do": "stall", "bytes": 0'
	background ps-ctl object put big $P/stopped
	wait_for 10 grep -q "/stopped?partNumber=3.* stall" "$S/requests"
	kill "$pid"
	finish
	[ "$status" -eq 75 ]
	grep -q "DELETE .*/stopped?uploadId=" "$S/requests"
	[ -z "$(ps-ctl object ls $P/never)$(ps-ctl object ls $P/stopped)" ]
	# The end of it is answered with 200 and an error, as S3 does.
	fault 1 '"method": "POST", "path": "uploadId=", "do": "code", "status": 200, "code": "InternalError"'
	refused 6 "were not put together: InternalError" ps-ctl object put big $P/never
	# A reader that leaves ends the writer.
	ps-ctl object cat $P/big | head -c 10 | cmp - <(head -c 10 big)
}

@test "a part of an object, and its size" {
	head -c 3000000 /dev/urandom >data
	ps-ctl object put data $P/data
	[ "$(ps-ctl object stat $P/data --json | jq -c '[.size_bytes, .ranges, .first]')" = "[3000000,true,\"$(head -c 4 data | xxd -p)\"]" ]
	ps-ctl object cat $P/data --range 1000-2001 | cmp - <(tail -c +1001 data | head -c 1001)
	ps-ctl object cat $P/data --range 2999990-3000000 | cmp - <(tail -c 10 data)
	fault 2 '"method": "GET", "do": "break", "bytes": 700000'
	ps-ctl object cat $P/data --range 500000-2500000 2>err | cmp - <(tail -c +500001 data | head -c 2000000)
	[ "$(grep -c "broke.*again in" err)" -eq 2 ]
	grep -q 'GET .*/data bytes=1200000-2499999 ' "$S/requests"
	refused 1 "has become shorter" bash -c "ps-ctl object cat $P/data --range 2999990-3000010 >/dev/null"
	refused 78 "BEGIN-END" ps-ctl object cat $P/data --range 7
	# Another object of the same size, whose store looks at If-Match, or does not.
	version=$(ps-ctl object stat $P/data --json | jq -r .version)
	ps-ctl object cat $P/data --if-match "$version" | cmp - data
	head -c 3000000 /dev/zero >data
	ps-ctl object put data $P/data
	refused 1 "has changed since it was first read" bash -c "ps-ctl object cat $P/data --if-match '$version' >/dev/null"
	refused 1 "has changed since" bash -c "ps-ctl object cat $P/data --range 5-10 --if-match '$version' >/dev/null"
	fault 1 '"method": "GET", "do": "code", "status": 412, "code": "PreconditionFailed"'
	refused 1 "has changed since" bash -c "ps-ctl object cat $P/data --if-match '$version' >/dev/null"
	refused 4 "there is no such object" ps-ctl object stat $P/none
}

# bats test_tags=slow
@test "data of a store that are larger than the memory for them are read in parts, each byte about once" {
	awk 'BEGIN { srand(4); print "a,b,y"; for (i = 0; i < 120000; i++) { a = rand(); b = rand()
		printf "%.6f,%.6f,%.6f\n", a, b, 3 * a - b } }' >train.csv
	ps-ctl object put train.csv $P/train.csv
	gzip -k train.csv
	ps-ctl object put train.csv.gz $P/train.csv.gz
	cat >obj.json <<-END
	{ "servers": 1, "workers": 2, "sync": "asp",
	  "job": { "model": "linear", "optimizer": "sgd", "data": "$P/train.csv?label=y&scale=none", "data_memory": "1M", "epochs": 1, "batch": 400, "lr": 0.5 } }
	END
	size=$(stat -c %s train.csv)
	: >"$S/requests"
	train obj.json
	has .examples 120000
	grep -q "data: $size bytes in [0-9]* blocks" obj.run/worker-0.log
	# Ranges alone, of which each worker reads the beginning and some places more for the head.
	! grep -q 'GET .*/train.csv - ' "$S/requests"
	sed -n 's/.*train.csv bytes=\([0-9]*\)-\([0-9]*\) .*/\1 \2/p' "$S/requests" |
		awk -v size="$size" '{ n += $2 - $1 + 1 } END { print n; exit !(n > size && n < 2 * size) }'
	# Another object takes its place between two blocks.
	ps-ctl start obj --set epochs=100 --set quota_pushes=200 >/dev/null
	ps-ctl wait -C obj.run --for step=20 --timeout 60s
	tr 0-9 1-90 <train.csv | ps-ctl object put - $P/train.csv
	# The job may have failed already.
	ps-ctl set -C obj.run quota_pushes=0 || [ $? -eq 3 ]
	wait_for 120 grep -q 'train.csv: it has changed since it was first read' obj.run/worker-0.log obj.run/worker-1.log
	ps-ctl stop -C obj.run --discard >/dev/null 2>&1 || true
	ps-ctl object put train.csv $P/train.csv
	: >"$S/requests"
	train obj.json --set data="$P/train.csv.gz?label=y&scale=none"
	has .examples 120000
	grep -q 'bytes in 1 blocks' obj.run/worker-0.log
	# Evaluation data are read in pieces, to the same result, and small ones at once.
	train obj.json --set workers=1 --set sync=bsp --set steps=5 --set epochs=0 --set eval="$T/train.csv?label=y"
	want=$(res .eval.loss)
	for f in train.csv train.csv.gz; do
		train obj.json --set workers=1 --set sync=bsp --set steps=5 --set epochs=0 --set eval="$P/$f?label=y"
		grep -q "evaluation data: $P/$f, in pieces of 65536 bytes" obj.run/worker-0.log
		[ "$(res .eval.examples)" = 120000 ]
		[ "$(res .eval.loss)" = "$want" ]
	done
	head -n 1000 train.csv | ps-ctl object put - $P/few.csv
	train obj.json --set workers=1 --set sync=bsp --set steps=5 --set epochs=0 --set eval="$P/few.csv?label=y"
	grep -q "evaluation data: 999 examples" obj.run/worker-0.log
}

@test "a job's data: packed, by a pattern, over https with an authority of one's own" {
	write_cluster 3
	gzip -k train.csv
	split -n l/3 --additional-suffix=.csv train.csv part-
	for f in train.csv.gz part-*.csv; do
		ps-ctl object put $f $P/$f
	done
	train lin.json
	want=$(res .model_digest)
	# Two of the requests ask for the size.
	fault 4 '"method": "GET", "path": "train.csv.gz", "do": "break", "bytes": 2000'
	train lin.json --set data="$P/train.csv.gz?label=y&scale=none" --set eval="$P/train.csv.gz?label=y&scale=none"
	has .model_digest "$want"
	grep -q "warning: .*train.csv.gz: the connection .* broke" lin.run/worker-*.log
	train lin.json --set data="$P/part-*.csv?label=3&scale=none"
	has .examples 1200
	refused 4 "$P/none.csv: there is no such object" ps-ctl run lin.json --set data="$P/none.csv?label=y&scale=none"
	refused 78 "job.data: \"s3://" ps-ctl run lin.json --set data="s3://?label=y"

	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
		-keyout key.pem -out cert.pem 2>/dev/null
	start_store tls "$T/key.pem" "$T/cert.pem"
	export AWS_ENDPOINT_URL=https://localhost:$PORT
	CURL_CA_BUNDLE=cert.pem ps-ctl object put train.csv.gz s3://bkt/public/train.csv.gz
	url="https://localhost:$PORT/bkt/public/train.csv.gz"
	unset AWS_ACCESS_KEY_ID
	refused 5 "is not trusted" ps-ctl run lin.json --set data="$url?label=y&scale=none"
	SSL_CERT_FILE=$T/cert.pem train lin.json --set data="$url?label=y&scale=none"
	has .examples 1200
	# What a URL has behind its "?" stays its own, and is shown to nobody.
	SSL_CERT_FILE=$T/cert.pem train lin.json --set data="$url?token=hidden-word?label=y&scale=none"
	! grep -r hidden-word lin.run/*.log
}

# saving [STEPS [EVERY]]: ck.json, which copies its checkpoints to $P/ck.
saving() {
	write_csv train.csv
	cat >ck.json <<-END
	{ "servers": 2, "workers": 2, "deterministic": true, "on_worker_loss": "wait:30s", "checkpoint_every": ${2:-100},
	  "checkpoint_to": "$P", "deadline": "10s",
	  "job": { "model": "linear", "data": "$T/train.csv?label=y&scale=none", "steps": ${1:-1000}, "batch": 8, "optimizer": "adam", "lr": 0.01 } }
	END
}

stored() {
	ps-ctl checkpoint ls "${1:-$P/ck}" --json | jq -r 'select(.state == "whole") | .step' | xargs
}

here() {
	ps-ctl -C ck.run checkpoint ls --json | jq -r .step | xargs
}

@test "checkpoints are copied as they are made, the manifest last; keys are in no file and no argument" {
	saving
	train ck.json --set keep_every=500
	[ -n "$(here)" ]
	[ "$(stored)" = "$(here)" ]
	step=step-$(printf %012d "$(stored | awk '{ print $NF }')")
	for f in ck.run/checkpoints/$step/*; do
		ps-ctl object cat "$P/ck/$step/${f##*/}" | cmp - "$f"
	done
	[[ $(grep "^PUT .*/ck/$step/" "$S/requests" | tail -n 1) == *MANIFEST.json* ]]
	! grep -r not-to-be-seen ck.run
	# Nothing changes, nothing is sent.
	: >"$S/requests"
	ps-ctl -C ck.run checkpoint push
	! grep -E '^(PUT|POST|DELETE)' "$S/requests"
	# One that cannot be read is not left out in silence.
	touch broken
	run -1 env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY="$step/MANIFEST" FS_UNREADABLE="$T/broken" \
		ps-ctl -C ck.run checkpoint push
	[[ $output == *"$step/MANIFEST.json"*"Input/output error"* ]]
	# Another run of that name is another run.
	refused 78 "has checkpoints of an earlier run" ps-ctl run ck.json
	refused 78 "checkpoint_to: must be none or s3://BUCKET/PREFIX" ps-ctl run ck.json --set checkpoint_to=/tmp
	refused 5 "the secret key does not fit" env AWS_SECRET_ACCESS_KEY=x ps-ctl run ck.json --set name=new
	# Who serves one copies nothing.
	: >"$S/requests"
	ps-serve --read-only "ck.run/checkpoints/$step" -C serve.run 2>/dev/null &
	wait_for 20 test -S serve.run/ctl.sock
	ps-ctl export all -C serve.run >/dev/null
	ps-ctl stop -C serve.run
	wait
	[ ! -s "$S/requests" ]
	ps-ctl checkpoint rm "$P/ck/$step"
	[ -z "$(ps-ctl object ls "$P/ck/$step")" ]
	none_left "$T"
}

# goes_on: ck.json, which was HELD, from its newest checkpoint; it is let go when it is under way.
goes_on() {
	background ps-ctl run ck.json --json "${HELD[@]}" --resume auto
	wait_for 20 eval '[ -S ck.run/ctl.sock ] && state_is running'
	let_go
	finish
	RESULT=$(tail -n 1 out)
	[ "$status" -eq 0 ] || { cat out err; false; }
}

# bats test_tags=slow
@test "a job that was stopped goes on elsewhere, to the same bits" {
	saving 1000 50
	ps-ctl run ck.json --set name=whole --set checkpoint_to=none --set checkpoint_every=0 --json 2>/dev/null >out
	want=$(field model_digest <out)
	RUN=$T/ck.run
	background ps-ctl run ck.json --json "${HELD[@]}"
	wait_for 20 grep -qs "\"checkpoint_stored\".*$P/ck/step-" ck.run/events.jsonl
	kill "$pid"
	finish
	[ "$status" -eq 75 ]
	none_left "$T"
	last=$(here | awk '{ print $NF }')
	[ "$(stored | awk '{ print $NF }')" = "$last" ]
	# Of a host that has never seen it.
	mv ck.run gone
	refused 78 "had other values of job.steps" ps-ctl run ck.json --set steps=100 "${HELD[@]}" --resume auto
	[ ! -e ck.run ]
	goes_on
	has .model_digest "$want"
	grep -q "resuming from .*/ck.run/checkpoints/step-0*$last\$" ck.run/*.log
	# The host before has an older one, and takes that which the store has.
	rm -rf ck.run
	mv gone ck.run
	# Without a quota, as was set when that checkpoint was made.
	RESULT=$(ps-ctl run ck.json --json "${HELD[@]}" --resume auto 2>err | tail -n 1)
	has .state done
	has .model_digest "$want"
	! grep -q "resuming from .*/step-0*$last\$" ck.run/*.log
	# A run of its own, from one that is named.
	from=$P/ck/step-$(printf %012d "$(stored | awk '{ print $1 }')")
	train ck.json --set name=branch --set steps=1200 --resume "$from"
	grep -q "resuming from .*/branch.run/begin/${from##*/}" branch.run/*.log
	refused 4 "there is no such object" ps-ctl run ck.json --set name=other --resume "$P/ck/step-000000099999"
	[ ! -e other.run ]
	refused 4 "no whole checkpoint" ps-ctl checkpoint fetch "$P/nothing" there
	# A fetch is ended by a signal, and leaves nothing.
	fault 1 '"method": "GET", "path": "server-0.params", "do": "stall", "bytes": 0'
	background ps-ctl run ck.json --set name=other --resume "$from"
	wait_for 10 grep -q "server-0.params.* stall" "$S/requests"
	kill "$pid"
	finish
	[ "$status" -eq 143 ]
	! compgen -G "other.run*"
}

@test "a writer that is killed leaves no checkpoint; the next one mends it; damage is passed over" {
	saving 4000 200
	# Slowly enough for several checkpoints, since none begins while another is being written.
	train ck.json --set checkpoint_to=none --set quota_pushes=1500
	# shellcheck disable=SC2046
	set -- $(here)
	older=$(printf 'step-%012d' "$1") newest=$(printf 'step-%012d' "${@: -1}")
	[ "$older" != "$newest" ]
	cp -r ck.run/checkpoints all
	rm -r ck.run/checkpoints/"$newest"
	ps-ctl -C ck.run checkpoint push "$P/ck" >/dev/null
	cp -r all/"$newest" ck.run/checkpoints/
	fault 1 '"method": "PUT", "path": "MANIFEST", "do": "stall"'
	background ps-ctl -C ck.run checkpoint push "$P/ck"
	wait_for 10 grep -q "PUT .*MANIFEST.* stall" "$S/requests"
	kill -9 "$pid"
	ps-ctl checkpoint ls "$P/ck" >list
	grep -q 'damaged .*MANIFEST.json" does not exist' list
	ps-ctl checkpoint fetch "$P/ck" there 2>err >path
	[[ $(cat path) != *"$newest" ]]
	grep -q "warning: $P/ck/$newest was skipped: .*MANIFEST.json" err
	ps-ctl -C ck.run checkpoint push "$P/ck" >pushed
	grep -qx "$P/ck/$newest" pushed
	[ "$(ps-ctl checkpoint fetch "$P/ck" again)" = "again/$newest" ]
	diff -r "again/$newest" "all/$newest"
	[ -z "$(ps-ctl checkpoint fetch "$P/ck" again --newer)" ]
	# Bytes that are not those which were put.
	fault 1 '"method": "GET", "path": "'"$newest"'/server-0.params", "do": "lie"'
	ps-ctl checkpoint fetch "$P/ck" third 2>err >path
	[[ $(cat path) != *"$newest" ]]
	grep -q "server-0.params.safetensors.*it was damaged in transfer" err
	[ "$(find third -mindepth 1 -maxdepth 1 -name '.*' | wc -l)" -eq 0 ]
	# A part of a file is no file.
	ps-ctl object put <(head -c 20 "all/$newest/server-0.params.safetensors") "$P/ck/$newest/server-0.params.safetensors"
	ps-ctl checkpoint ls "$P/ck" | grep -q "damaged .* has 20 bytes, not"
	# What keep_last does not keep goes, the manifest first.
	: >"$S/requests"
	jq '.keep_last = 1' ck.run/cluster.json >config && mv config ck.run/cluster.json
	ps-ctl checkpoint rm "$P/ck/$newest"
	ps-ctl -C ck.run checkpoint push "$P/ck" >/dev/null
	[ "$(stored)" = "${@: -1}" ]
	[[ $(grep "^DELETE .*/ck/$older/" "$S/requests" | head -n 1) == *MANIFEST.json* ]]
}

@test "a store that fails costs the copies, not the job, and is told; ps-serve alone copies, too" {
	saving
	fault 9999 '"method": "PUT", "do": "code", "status": 403, "code": "AccessDenied"'
	RUN=$T/ck.run
	# It trains until that is told, on a machine of any speed.
	background ps-ctl run ck.json --set steps=5000 --set checkpoint_every=100 --set quota_pushes=50 --json
	wait_for 20 grep -qs '"checkpoint_not_stored".*the key may not do this' ck.run/events.jsonl
	let_go
	finish
	[ "$status" -eq 1 ]
	[ "$(field state <out)" = done ]
	grep -q "warning: not all checkpoints were copied to $P/ck; the others are in .*ck.run/checkpoints: .*the key may not do this" err
	rm "$S"/faults/*
	ps-ctl -C ck.run checkpoint push >/dev/null
	[ "$(stored)" = "$(here)" ]

	background ps-serve ck.json --set name=alone --set servers=1 --set steps=$ENDLESS --set workers=1
	wait_for 10 test -S alone.run/ctl.sock
	ps-work train -C alone.run 2>/dev/null &
	pids+=($!)
	one() { [ -n "$(stored "$P/alone" 2>/dev/null)" ]; }
	wait_for 20 one
	kill "$pid"
	finish
	[ "$status" -eq 0 ]
	[ "$(stored "$P/alone" | awk '{ print $NF }')" = \
		"$(ps-ctl -C alone.run checkpoint ls --json | jq -r .step | tail -n 1)" ]
}

@test "the model goes to a store: export --file" {
	saving
	train ck.json --set checkpoint_to=none
	ps-ctl -C ck.run export all --file $P/model.safetensors
	ps-ctl object cat $P/model.safetensors | cmp - ck.run/model.safetensors
	refused 4 "there is no such bucket" ps-ctl -C ck.run export all --file s3://none/model
}

@test "a model is taken from a store: predict, eval, ps-serve --read-only and --init-from; nothing is left behind" {
	saving 200
	mkdir tmp
	export TMPDIR=$T/tmp
	train ck.json --set checkpoint_to=none --set checkpoint_every=none
	cp ck.run/model.safetensors kept.safetensors
	model=$P/dir/model.safetensors
	ps-ctl object put kept.safetensors $model
	ps-work predict kept.safetensors train.csv >want
	[ "$(wc -l <want)" -gt 100 ]
	ps-work predict $model train.csv | cmp - want
	# A break in the middle costs a second request; the keys that sign are in no message.
	fault 1 '"method": "GET", "path": "model.safetensors", "do": "break", "bytes": 50'
	ps-work predict -C $model train.csv 2>err | cmp - want
	evaluate() {
		ps-work eval "$@" 'train.csv?label=y' --json 2>/dev/null | jq -c 'del(.ts)'
	}
	[ "$(evaluate $model)" = "$(evaluate kept.safetensors)" ]
	ps-serve --read-only $model -C ro.run >ro.log 2>&1 3>&- &
	pids+=($!)
	wait_for 20 eval 'ps-ctl status -C ro.run >/dev/null 2>&1'
	ps-work predict -C ro.run train.csv | cmp - want
	kill "${pids[-1]}"
	wait "${pids[-1]}" || true
	# A step of such a rate changes nothing that shows.
	train ck.json --set checkpoint_to=none --set checkpoint_every=none --set steps=1 --set lr=1e-12 --init-from $model
	grep -q "beginning with the model $model; the optimizer state starts from its initial values, because the file has none" stderr
	[ "$(jq -r .job.init_from ck.run/cluster.json)" = $model ]
	diff <(awk '{ printf "%.4f\n", $1 }' want) <(ps-work predict ck.run train.csv 2>/dev/null | awk '{ printf "%.4f\n", $1 }')

	refused 4 "cannot fetch the model: $P/none.safetensors: there is no such object" ps-work predict $P/none.safetensors train.csv
	refused 4 "job.init_from: cannot fetch the model: $P/none.safetensors: there is no such object" ps-ctl run ck.json --set checkpoint_to=none --resume none --init-from $P/none.safetensors
	refused 4 "--read-only: cannot fetch the model: $P/none.safetensors: there is no such object" ps-serve --read-only $P/none.safetensors
	[ -e ck.run/model.safetensors ]
	head -c 3000 train.csv | ps-ctl object put - $P/text.safetensors
	run ps-work predict $P/text.safetensors train.csv
	echo "$output"
	[ "$status" -ne 0 ]
	[[ $output == *"$P/text.safetensors"*safetensors* ]]
	TMPDIR=$T/none refused 1 "$T/none" ps-work predict $model train.csv
	ls -A tmp
	[ -z "$(ls -A tmp)" ]
}

@test "a checkpoint of a store is a model, too, for predict, eval and --init-from, and leaves nothing behind" {
	saving 200
	mkdir tmp
	export TMPDIR=$T/tmp
	train ck.json
	step=step-$(printf %012d "$(stored | awk '{ print $NF }')")
	model=$P/ck/$step
	cp -r ck.run/checkpoints/$step kept
	ps-work predict kept train.csv >want
	[ "$(wc -l <want)" -gt 100 ]
	ps-work predict $model train.csv | cmp - want
	ps-work predict -C $model/ train.csv | cmp - want
	[ "$(ps-work eval $model 'train.csv?label=y' --json 2>/dev/null | jq .loss)" = "$(ps-work eval kept 'train.csv?label=y' --json 2>/dev/null | jq .loss)" ]
	# The optimizer state comes along.
	train ck.json --set checkpoint_to=none --set checkpoint_every=none --set steps=1 --set lr=1e-12 --init-from $model
	grep -q "beginning with the model $model and its optimizer state" stderr
	refused 4 "cannot get the checkpoint: $P/ck/step-000000000007" ps-work predict $P/ck/step-000000000007 train.csv
	fault 1 '"method": "GET", "path": "'$step'/server-0.params", "do": "lie"'
	refused 1 "damaged in transfer" ps-work predict $model train.csv
	TMPDIR=$T/none refused 1 "$T/none" ps-work predict $model train.csv
	ls -A tmp
	[ -z "$(ls -A tmp)" ]
}
