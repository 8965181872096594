#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Parsed data that are kept for the next start, or shared while the run lasts (job.cache, ps-work train --cache).

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	awk 'BEGIN {
		srand(3)
		for (i = 0; i < 2000; i++) {
			printf "%d", i % 2 ? 1 : -1
			for (k = 1; k < 200; k += 1 + int(rand() * 40))
				printf " %d:%.4f", k, rand() + (i % 2) * (k < 50)
			print ""
		}
	}' >train.svm
	head -n 300 train.svm >test.svm
	cat >keep.json <<-END
	{ "servers": 1, "workers": 2, "deterministic": true, "job": { "model": "logistic", "optimizer": "sgd", "data": "train.svm",
	  "eval": "test.svm", "epochs": 2, "batch": 50, "lr": 0.1, "cache": "kept" } }
	END
}

teardown() {
	teardown_dir
}

# Lines of both workers' logs that match.
said() {
	cat keep.run/worker-*.log | grep -cE "$1" || true
}

@test "the next start reads what the first has kept: the same bits" {
	train keep.json --set cache=none
	want=$(res .model_digest)
	[ ! -e kept ]
	[ "$(said "parsed data")" -eq 0 ]
	# Two workers at once, two data sets: each is parsed once.
	train keep.json
	has .model_digest "$want"
	[ "$(said 'parsed data: kept as ')" -eq 2 ]
	[ "$(said 'parsed data: read from ')" -eq 2 ]
	[ "$(stat -c %a kept)" = 700 ]
	[ "$(ls -d kept/*.parsed/0* | wc -l)" -eq 2 ]
	train keep.json
	has .model_digest "$want"
	[ "$(said 'parsed data: kept as ')" -eq 0 ]
	[ "$(said 'parsed data: read from ')" -eq 4 ]
	[ "$(grep -c '2000 examples, .* libsvm (.*train.svm)' keep.run/worker-0.log)" -eq 1 ]
	# It is the file that is read, and not the text: which of them says 1.
	ps-ctl start keep.json >/dev/null 2>&1
	ps-ctl -C keep.run wait --for done >/dev/null
	run -0 ps-work eval -C keep.run --log-level info
	# What the training data are like the coordinator tells.
	[ "$(grep -c 'parsed data: read from ' <<<"$output")" -eq 1 ]
}

@test "a file that is damaged or cut is noticed, said once, and made anew" {
	train keep.json
	want=$(res .model_digest)
	for harm in flip cut empty; do
		for f in kept/*.parsed/0*; do
			case $harm in
			flip) flip_byte "$f" $(($(stat -c %s "$f") / 2)) ;;
			cut) truncate -s -64 "$f" ;;
			empty) : >"$f" ;;
			esac
		done
		train keep.json
		has .model_digest "$want"
		[ "$(said 'is unusable and is rebuilt: ')" -eq 2 ]
		[ "$(said 'parsed data: kept as ')" -eq 2 ]
		train keep.json
		[ "$(said 'parsed data: read from ')" -eq 4 ]
	done
}

@test "other options, other models and changed files have files of their own" {
	train keep.json
	first=$(ls -d kept/*.parsed/0*)
	train keep.json --set data='train.svm?index_base=0' --set eval='[]'
	[ "$(said 'parsed data: kept as ')" -eq 1 ]
	[ "$(ls -d kept/*.parsed/0* | wc -l)" -eq 3 ]
	train keep.json --set model=softmax
	[ "$(said 'parsed data: kept as ')" -eq 2 ]
	[ "$(ls -d kept/*.parsed/0* | wc -l)" -eq 5 ]
	train keep.json
	[ "$(said 'parsed data: read from ')" -eq 4 ]
	# The same length and the same time, but not the same data.
	touch -r train.svm time
	sed -i 's/^-1 1:0/-1 1:9/' train.svm
	touch -r time train.svm
	train keep.json
	[ "$(said 'parsed data: kept as ')" -eq 1 ]
	# Of the two of the first run that of the training data is another one now.
	[ "$(ls -d kept/*.parsed/0* | grep -cxF "$first")" -eq 1 ]
	[ "$(ls -d kept/*.parsed/0* | wc -l)" -eq 5 ]
}

@test "a worker killed while it parses holds up nobody; what it has torn goes away" {
	train keep.json
	f=$(ls kept/*.parsed/0* | head -n 1)
	cp "$f" "$f.tmp-0123456789abcdef"
	rm kept/*.parsed/0*
	# A lock that nobody holds is none.
	[ "$(ls kept/*.lock | wc -l)" -eq 2 ]
	train keep.json
	[ "$(said 'parsed data: kept as ')" -eq 2 ]
	[ ! -e "$f.tmp-0123456789abcdef" ]
}

@test "who parses is waited for" {
	train keep.json
	rm kept/*.parsed/0*
	exec 8<>"$(ls kept/*.lock | head -n 1)" 9<>"$(ls kept/*.lock | tail -n 1)"
	flock -n 8
	flock -n 9
	background ps-ctl run keep.json --json 8>&- 9>&-
	wait_for 10 grep -q 'waiting for another process that reads the same data' keep.run/worker-0.log keep.run/worker-1.log
	[ -z "$(ls kept/*.parsed/0* 2>/dev/null)" ]
	exec 8>&- 9>&-
	finish
	[ "$status" -eq 0 ]
	[ "$(field state <out)" = done ]
	# A process whose lock stored nothing is not waited for twice: both workers may parse, and store the same.
	[ "$(ls -d kept/*.parsed/0* | wc -l)" -eq 2 ]
}

@test "a full disk, or no directory, costs the file and not the job" {
	train keep.json --set cache=none
	want=$(res .model_digest)
	background env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY=.parsed FS_BUDGET=3000 \
		ps-ctl run keep.json --json
	finish
	[ "$status" -eq 0 ]
	[ "$(field model_digest <out)" = "$want" ]
	grep -hq 'parsed data are not kept: .*No space left' keep.run/worker-*.log
	[ -z "$(ls kept/*.parsed/0* 2>/dev/null)" ]
	train keep.json --set cache=no/such/place
	has .model_digest "$want"
	[ "$(said 'cannot make the directory ".*/no/such/place": No such file')" -ge 2 ]
	run ps-ctl run keep.json --set cache=train.svm
	[ "$status" -eq 78 ]
	[[ "$output" == *'job.cache: must be run, none or a directory, and "'*'train.svm" is a file'* ]]
}

@test "ps-work train --cache, instead of the cluster's" {
	ps-ctl start keep.json --set cache=none --set deterministic=false --set workers=1:2 --set epochs=100000 >/dev/null 2>&1
	ps-ctl invite -C keep.run --role worker -o w.join
	background ps-work train --join w.join --cache mine
	wait_for 20 grep -q 'parsed data: kept as .*mine/' err
	ps-ctl -C keep.run stop >/dev/null
	finish
	[ "$(ls -d mine/*.parsed/0* | wc -l)" -ge 1 ]
	[ ! -e kept ]
}

@test "by default the workers of a run share parsed data, until it ends" {
	train keep.json --set cache=none
	want=$(res .model_digest)
	train keep.json --set cache=run
	has .model_digest "$want"
	[ "$(said 'parsed data: kept as .*/keep.run/parsed/')" -eq 2 ]
	[ "$(said 'parsed data: read from .*/keep.run/parsed/')" -eq 2 ]
	[ ! -e keep.run/parsed ]
	# A single worker shares nothing, and neither do workers that are told so.
	train keep.json --set cache=run --set workers=1
	[ "$(said 'parsed data')" -eq 0 ]
	# Lines that are skipped are counted by each worker, so such data are not stored; no worker waits for
	# another one that could not store them.
	echo "no label" >>train.svm
	train keep.json --set cache=run --set bad_lines=skip:1
	[ "$(said 'parsed data: kept as .*')" -eq 1 ]
	[ ! -e keep.run/parsed ]
	[ "$(jq .bad_lines keep.run/result.json)" -eq 1 ]
	ps-ctl doctor -C keep.run | grep -q 'skipped 1 bad line'
}

@test "parsed blocks are kept and shared: the next epoch and the next start read them" {
	# 1.6 MB, of which a worker may keep 1 MiB.
	for i in 1 2 3 4 5 6 7 8; do cat train.svm; done >many.svm
	for i in 1 2 3 4; do cat many.svm; done >large.svm
	rows=$(wc -l <large.svm)
	jq '.deterministic = false | .sync = "asp" | .job.data = "large.svm" | .job.data_memory = "1M" | .job.epochs = 3' keep.json >b.json
	result=$(ps-ctl run b.json --set cache=none --json 2>/dev/null | tail -n 1)
	[ "$(jq .examples <<<"$result")" -eq $((3 * rows)) ]
	[ ! -e kept ]
	result=$(ps-ctl run b.json --json 2>/dev/null | tail -n 1)
	[ "$(jq .examples <<<"$result")" -eq $((3 * rows)) ]
	d=$(sed -n 's/.*parsed blocks: kept in \(.*kept\/.*\.parsed\)$/\1/p' b.run/worker-0.log)
	blocks=$(sed -n 's/.* bytes in \([0-9]*\) blocks.*/\1/p' b.run/worker-0.log | head -n 1)
	[ "$(ls "$d" | grep -o '^[0-9]*-' | sort -u | wc -l)" -eq "$blocks" ]
	[ "$(stat -c %a "$d")" = 700 ]
	# Nothing is written any more, also by another number of workers, and a damaged file is.
	newest=$(stat -c %Y.%y "$d"/0* | sort | tail -n 1)
	flip_byte "$(ls "$d"/0* | head -n 1)" 200
	result=$(ps-ctl run b.json --set workers=3 --json 2>/dev/null | tail -n 1)
	[ "$(jq .examples <<<"$result")" -eq $((3 * rows)) ]
	[ "$(cat b.run/worker-*.log | grep -c 'is unusable and is rebuilt')" -eq 1 ]
	[ "$(stat -c %Y.%y "$d"/0* | sort | tail -n 2 | head -n 1)" = "$newest" ]
	# A directory that cannot be written: one warning a worker, and the job goes on.
	rm -r kept
	result=$(ps-ctl run b.json --set cache=/proc/none --json 2>/dev/null | tail -n 1)
	[ "$(jq .examples <<<"$result")" -eq $((3 * rows)) ]
	# Evaluation data are kept, too, and would warn a second time.
	grep -q 'parsed data are not kept: cannot make the directory' b.run/worker-0.log
}

@test "blocks that are held out are read from the cache, too" {
	for i in 1 2 3 4 5 6 7 8; do cat train.svm; done >many.svm
	for i in 1 2 3 4; do cat many.svm; done >large.svm
	jq '.workers = 1 | .job.data = "large.svm" | .job.eval = [] | .job.data_memory = "1M" | .job.validate = "20%"' keep.json >v.json
	result=$(ps-ctl run v.json --set cache=none --json 2>/dev/null | tail -n 1)
	want=$(jq -r .model_digest <<<"$result")
	eval=$(jq -c '.eval | del(.seconds)' <<<"$result")
	for i in 1 2; do
		result=$(ps-ctl run v.json --json 2>/dev/null | tail -n 1)
		[ "$(jq -r .model_digest <<<"$result")" = "$want" ]
		[ "$(jq -c '.eval | del(.seconds)' <<<"$result")" = "$eval" ]
		stored=$(ls kept/*.parsed/0* | wc -l)
		newest=${newest:-$(stat -c %Y.%y kept/*.parsed/0* | sort | tail -n 1)}
	done
	# The second run wrote nothing: every block of both kinds was there.
	blocks=$(sed -n 's/.* bytes in \([0-9]*\) blocks.*/\1/p' v.run/worker-0.log | head -n 1)
	[ "$(ls kept/*.parsed | grep -o '^[0-9]*-' | sort -u | wc -l)" -eq "$blocks" ]
	[ "$(stat -c %Y.%y kept/*.parsed/0* | sort | tail -n 1)" = "$newest" ]
	[ "$stored" -ge "$blocks" ]
}
