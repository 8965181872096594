#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# A job that begins with the model of another one: --init-from, job.init_from.

bats_require_minimum_version 1.5.0
load lib/helper

setup() {
	setup_dir
}

teardown() {
	teardown_dir
}

# people SEED ROWS TOWNS
people() {
	awk -v seed="$1" -v rows="$2" -v towns="$3" 'BEGIN {
		srand(seed)
		n = split(towns, town, " ")
		print "age,town,weight,income"
		for (i = 0; i < rows; i++) {
			t = int(rand() * n) + 1; a = 20 + int(rand() * 50); w = rand() * 1000000
			score = (a - 45) / 10 + (t - 2.5) * 2 + (w - 500000) / 250000
			printf "%s,\"%s\",%d,%s\n", a, town[t], w, (score > 0 ? ">50K" : "<=50K")
		}
	}'
}

# job NAME SERVERS SETTINGS: NAME.json on NAME.csv; a rate of 1e-12 changes no value that is not 0.
job() {
	echo "{ \"servers\": $2, \"workers\": 2, $3 \"job\": { \"model\": \"${model:-logistic}\", \"data\": \"$1.${kind:-csv}\",
	  \"epochs\": 10, \"batch\": 50, \"optimizer\": \"adagrad\", \"lr\": 0.5, \"hidden\": [${hidden-}] } }" >"$1.json"
}

# run_with_state NAME: with a checkpoint of its last step, which has the optimizer state.
run_with_state() {
	ps-ctl start "$1" 2>/dev/null
	ps-ctl wait -C "$1.run" --for done
	ps-ctl checkpoint -C "$1.run" >/dev/null
	ps-ctl stop -C "$1.run" >/dev/null
}

# same OLD NEW: the lines of OLD, as the first of NEW, with values that are equal up to the rate of 1e-12.
same() {
	paste "$1" <(head -n "$(wc -l <"$1")" "$2") | awk -F '\t' '
		$1 != $3 || $2 - $4 > 1e-9 || $4 - $2 > 1e-9 { print; bad = 1 }
		END { exit bad || !NR }'
}

# values RUN [TABLE]: the values of a table, as text without names.
values() {
	ps-ctl -C "$1" export "${2:-w}" -o text 2>/dev/null | cut -f 1,2
}

@test "a table: old features and scaling stay, new categories come behind them" {
	people 1 1000 "Oslo Rome Paris Lima" >mon.csv
	people 2 800 "Bern Rome Paris Aden" >tue.csv
	job mon 2
	job tue 1
	ps-ctl run mon --set 'data=mon.csv?scale=standard' >/dev/null
	values mon.run >old
	[ "$(wc -l <old)" -eq 6 ]
	# Nearly nothing is learned: what was there is there.
	run --separate-stderr ps-ctl run tue --init-from mon.run --set lr=1e-12
	[ "$status" -eq 0 ]
	[[ $stderr == *"beginning with the model "*"mon.run/model.safetensors; the optimizer state starts from its initial values, because the file has none"* ]]
	values tue.run >new
	[ "$(wc -l <new)" -eq 8 ]
	same old new
	rounded() {
		ps-work predict "$@" 2>/dev/null | awk '{ printf "%.4f\n", $1 }'
	}
	rounded mon.run mon.csv >want
	rounded tue.run mon.csv | cmp - want
	# And with a rate that learns: Oslo and Lima, which the new data do not have, stay as they were.
	ps-ctl run tue --init-from mon.run >/dev/null 2>&1
	values tue.run >new
	cmp <(sed -n '3p;4p' new) <(sed -n '3p;4p' old)
	run -1 cmp -s <(sed -n 1p new) <(sed -n 1p old)
	ps-work eval tue.run tue.csv --json 2>/dev/null | jq -e '.accuracy > 0.95'
	# The third day knows the categories of both; in two steps as in one.
	people 3 300 "Cork Aden Oslo" >wed.csv
	job wed 2
	ps-ctl run wed --init-from tue.run/model.safetensors --set lr=1e-12 >/dev/null 2>&1
	values wed.run >newest
	same new newest
	python3 -c 'import json, struct, sys
f = open("wed.run/model.safetensors", "rb")
print(json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))["__metadata__"]["pskit"])' >about
	[ "$(jq -c '.facts.schema.columns[1].values' about)" = '["Aden","Bern","Cork","Lima","Oslo","Paris","Rome"]' ]
	[ "$(jq -c '.facts.schema.columns[1].places' about)" = '[4,5,6,0,1,2,3]' ]
	# A worker that comes later, and a resumed run, read the data in the same way.
	ps-ctl start wed --init-from tue.run --set epochs=0 --set steps=1000000 --set quota_pushes=120 --set workers=1:3 2>/dev/null
	ps-ctl wait -C wed.run --for step=20
	ps-ctl scale -C wed.run workers=3
	ps-ctl wait -C wed.run --for workers=3
	ps-ctl stop -C wed.run >/dev/null 2>&1
	from=$(find wed.run/checkpoints -name 'step-*' | sort | tail -n 1)
	# The model of tue.run, with which the job began, knows fewer towns.
	run -1 ps-ctl checkpoint diff "$(find tue.run*/checkpoints -name 'step-*' | sort | tail -n 1)" "$from"
	[[ $output == *'data: categories: "town": '*' only in B ('* ]]
	ps-ctl start wed --resume "$from" --set epochs=0 --set steps=1000000 --set quota_pushes=120 --set workers=1 --set data=tue.csv 2>/dev/null
	ps-ctl wait -C wed.run --for "step=$((10#${from##*-} + 20))"
	[ "$(values wed.run | wc -l)" -eq 9 ]
	ps-ctl stop -C wed.run --discard >/dev/null 2>&1
}

@test "sparse rows and the optimizer state, from another number of servers" {
	for n in 1 2; do
		awk -v n=$n 'BEGIN { srand(n); for (i = 0; i < 400; i++) {
			printf "%d", i % 2; for (k = 20 * n; k < 20 * n + 30; k += 1 + int(rand() * 6)) printf " %d:1", k; print "" } }' >"day$n.svm"
	done
	model=fm kind=svm
	job day1 3
	job day2 1 '"sync": "asp",'
	run_with_state day1
	values day1.run v >old
	run --separate-stderr ps-ctl run day2 --init-from day1.run --set lr=1e-12 --set checkpoint_every=5
	[ "$status" -eq 0 ]
	[[ $stderr == *"beginning with the model "*"day1.run/checkpoints/step-"*" and its optimizer state"* ]]
	values day2.run v >new
	[ "$(wc -l <old)" -lt "$(wc -l <new)" ]
	grep -vxFf old new | cut -d[ -f2 | cut -d, -f1 | sort -nu >changed
	# Rows that changed are new ones.
	[ "$(head -n 1 changed)" -gt "$(tail -n 1 old | cut -d[ -f2 | cut -d, -f1)" ]
	# The same rule has its state: the first checkpoint of both days has the accumulators of the first.
	state() {
		/usr/bin/python3 - "$1" <<'END'
import glob, json, struct, sys
total = 0
for name in sorted(glob.glob(sys.argv[1] + "/server-*.state.safetensors")):
    f = open(name, "rb").read()
    n = struct.unpack("<Q", f[:8])[0]
    head = json.loads(f[8:8 + n])
    for k, t in head.items():
        if k.startswith("v."):
            a, b = t["data_offsets"]
            total += sum(struct.unpack("<%df" % ((b - a) // 4), f[8 + n + a:8 + n + b]))
print(round(total, 3))
END
	}
	ps-ctl start day2 --init-from day1.run --set epochs=0 --set steps=1000000 --set quota_pushes=120 2>/dev/null
	[ "$(state day2.run/checkpoints/step-000000000000)" = "$(state day1.run/checkpoints/step-*)" ]
	ps-ctl stop -C day2.run --discard >/dev/null 2>&1
	# Another rule begins anew.
	run --separate-stderr ps-ctl run day2 --init-from day1.run --set optimizer=adam
	[[ $stderr == *"the optimizer state starts from its initial values, because the saved one is of adagrad"* ]]
}

# older CHECKPOINT: as a version wrote it whose adagrad kept squares of mean gradients.
older() {
	local text
	text=$(sed -E 's/"state_version": ?1, ?//; s/, ?"seal": ?"[0-9a-f]+"\}$/}/' "$1/MANIFEST.json")
	! grep -q state_version <<<"$text"
	printf '%s,"seal":"%s"}\n' "${text%\}}" "$(printf %s "$text" | b2sum -l 256 | cut -d ' ' -f 1)" >"$1/MANIFEST.json"
}

@test "optimizer state of an older version is not resumed, and its model is taken without it" {
	people 1 1000 "Oslo Rome Paris Lima" >mon.csv
	cp mon.csv tue.csv
	job mon 1
	job tue 1
	ps-ctl start mon --set epochs=0 --set steps=10000000 --set quota_pushes=120 2>/dev/null
	ps-ctl wait -C mon.run --for step=20
	ps-ctl checkpoint -C mon.run >/dev/null
	ps-ctl stop -C mon.run >/dev/null
	for at in mon.run/checkpoints/step-*; do
		older "$at"
	done
	ps-ctl -C mon.run checkpoint verify
	step=$((10#${at##*step-}))
	for from in auto "step=$step" "$PWD/$at"; do
		run --separate-stderr ps-ctl run mon --set epochs=0 --set steps=10000000 --set quota_pushes=120 --resume "$from"
		[ "$status" -ne 0 ]
		[[ $stderr == *"has the optimizer state of adagrad as an older version of pskit writes it"*"--init-from"* ]]
	done
	run --separate-stderr ps-ctl run tue --init-from "$at" --set lr=1e-12
	[ "$status" -eq 0 ]
	[[ $stderr == *"the optimizer state starts from its initial values, because the saved one is of another version of pskit"* ]]
	values mon.run >old
	values tue.run >new
	same old new
}

@test "a network grows by rows, and words keep their numbers" {
	people 1 400 "Oslo Rome" >mon.csv
	people 2 400 "Oslo Bern Cork" >tue.csv
	model=mlp hidden=8
	job mon 1
	job tue 2
	ps-ctl run mon >/dev/null
	ps-ctl run tue --init-from mon.run --set lr=1e-12 >/dev/null 2>&1
	values mon.run w0 >old
	values tue.run w0 >new
	[ "$(wc -l <old)" -eq 32 ]
	[ "$(wc -l <new)" -eq 48 ]
	same old new
	# The new rows begin as rows of a network do.
	[ "$(tail -n 16 new | awk '$2 == 0' | wc -l)" -eq 0 ]
	# Over the end of a partition, into new ones.
	hidden=20000
	job mon 2
	job tue 1
	people 2 400 "Oslo Bern Cork Aden Kyiv" >tue.csv
	ps-ctl run mon --set epochs=1 >/dev/null
	ps-ctl run tue --init-from mon.run --set lr=1e-12 --set epochs=1 >/dev/null 2>&1
	values mon.run w0 >old
	values tue.run w0 >new
	[ "$(wc -l <old)" -eq 80000 ]
	[ "$(wc -l <new)" -eq 160000 ]
	same old new
	[ "$(tail -n 80000 new | cut -f 2 | sort -u | wc -l)" -gt 70000 ]
	text() {
		awk -v words="$1" 'BEGIN { srand(4); n = split(words, w, " "); for (i = 0; i < 3000; i++) printf "%s%s", w[int(rand() * n) + 1], i % 12 == 11 ? "\n" : " " }'
	}
	text "the king and queen of a far land" >mon.txt
	text "the king had a daughter and a horse" >tue.txt
	model=word2vec kind=txt hidden=''
	job mon 1
	job tue 1
	ps-ctl run mon --set epochs=1 >/dev/null
	ps-ctl run tue --init-from mon.run --set epochs=1 --set lr=1e-12 >/dev/null 2>&1
	ps-work words mon.run 2>/dev/null | tail -n +2 | tr ' ' '\t' | cut -f 1,2 >old
	ps-work words tue.run 2>/dev/null | tail -n +2 | tr ' ' '\t' | cut -f 1,2 >new
	[ "$(wc -l <old)" -eq 8 ]
	[ "$(wc -l <new)" -eq 11 ]
	same old new
}

@test "killed processes: before the first checkpoint the job goes on with the model again" {
	people 1 400 "Oslo Rome Paris Lima" >mon.csv
	people 2 400 "Bern Rome Paris Aden" >tue.csv
	job mon 2
	ps-ctl run mon >/dev/null
	values mon.run >old
	job tue 2 '"heartbeat": "50ms", "lease": "1s",'
	# has_model: the run serves the values with which it began.
	has_model() {
		values tue.run >now && same old now
	}
	begun() {
		[ "$(grep -c '"event":"running"' tue.run/events.jsonl)" -ge "$1" ]
	}
	for victim in server-1 server-0 worker-0; do
		ps-ctl start tue --init-from mon.run --max-restarts 3 --set lr=1e-12 --set epochs=0 --set steps=10000000 --set quota_pushes=80 2>/dev/null
		ps-ctl wait -C tue.run --for step=5
		kill -9 "$(cat "tue.run/$victim.pid")"
		[ "$victim" = worker-0 ] || wait_for 30 begun 2
		wait_for 30 ps-ctl wait -C tue.run --for step=20 --timeout 10s
		wait_for 30 has_model
		[ "$(ls tue.run/checkpoints)" = step-000000000000 ]
		ps-ctl stop -C tue.run --discard >/dev/null 2>&1
	done
	ps-ctl start tue --init-from mon.run --set replicas=2 --set lr=1e-12 --set epochs=0 --set steps=10000000 --set quota_pushes=80 2>/dev/null
	ps-ctl wait -C tue.run --for step=5
	kill -9 "$(cat tue.run/coordinator.pid)"
	wait_for 30 grep -q '"event":"recovered"' tue.run/events.jsonl
	wait_for 30 ps-ctl wait -C tue.run --for step=40 --timeout 10s
	has_model
	ps-ctl stop -C tue.run --discard >/dev/null 2>&1
	# All of it at once: what is resumed is the job that began with the model.
	ps-ctl start tue --init-from mon.run --set lr=1e-12 --set epochs=0 --set steps=10000000 --set quota_pushes=80 2>/dev/null
	ps-ctl wait -C tue.run --for step=5
	kill -9 "$(sed -n 1p tue.run/lock)"
	for id in server-1 worker-0 worker-1 server-0; do
		kill -9 "$(cat "tue.run/$id.pid")" || true
	done
	wait_for 20 none_left tue.run
	ps-ctl start tue --resume auto --set lr=1e-12 --set epochs=0 --set steps=10000000 --set quota_pushes=80 2>/dev/null
	ps-ctl wait -C tue.run --for step=5
	has_model
	ps-ctl stop -C tue.run --discard >/dev/null 2>&1
}

@test "what does not fit is said, and nothing is moved aside" {
	people 1 200 "Oslo Rome" >mon.csv
	job mon 1
	ps-ctl run mon >/dev/null
	cp mon.csv tue.csv
	job tue 1
	refused() {
		local code=$1 what=$2
		shift 2
		run --separate-stderr ps-ctl run tue "$@"
		echo "$stderr"
		[ "$status" -eq "$code" ]
		[[ $stderr == *"$what"* ]]
	}
	refused 4 'nowhere": No such file' --init-from nowhere
	refused 78 'is of kind "logistic", but job.model is "linear"' --init-from mon.run --set model=linear
	refused 78 'job.init_from: cannot be combined with a file in job.init' --init-from mon.run --set init=mon.run/model.safetensors
	[ ! -e tue.run ]
	# What only a worker can see.
	awk 'BEGIN { for (i = 0; i < 100; i++) print i % 2 " 1:1 " 2 + i % 5 ":1" }' >tue.csv
	refused 1 'label "0" does not occur in the training data' --init-from mon.run
	people 1 200 "Oslo Rome" | sed 's/weight/height/' >tue.csv
	refused 1 'has no column "weight"' --init-from mon.run
	people 1 200 "Oslo Rome" | sed 's/>50K/rich/' >tue.csv
	refused 1 'label "rich" does not occur in the training data' --init-from mon.run
	run -2 ps-ctl start tue --emit sbatch --init-from mon.run
	[[ $output == *"set the key job.init_from"* ]]
}

@test "data in blocks and a stream: old features stay, and blocks add new categories behind them" {
	people 1 600 "Oslo Rome" >mon.csv
	people 2 50000 "Oslo Bern Rome Cork" >tue.csv
	people 3 400 "Rome Aden Oslo" >wed.csv
	for day in mon tue wed; do
		job $day 1
	done
	ps-ctl run mon --set 'data=mon.csv?scale=standard' >/dev/null
	values mon.run >old
	[ "$(wc -l <old)" -eq 4 ]
	ps-ctl run tue --init-from mon.run --set data_memory=1M --set epochs=1 --set lr=1e-12 >/dev/null
	grep -q 'data: .* bytes in [0-9]* blocks' tue.run/worker-0.log
	values tue.run >new
	[ "$(wc -l <new)" -eq 6 ]
	same old new
	# A stream has no new ones, and what it teaches is on the scale of the model.
	ps-ctl run wed --init-from mon.run --set 'data=wed.csv?follow=yes' --set epochs=0 --set steps=4 --set lr=1e-12 >/dev/null
	values wed.run >new
	[ "$(wc -l <new)" -eq 4 ]
	same old new
	ps-ctl run wed --init-from mon.run --set 'data=wed.csv?follow=yes' --set epochs=0 --set steps=4 >/dev/null
	ps-work eval wed.run mon.csv --json 2>/dev/null | jq -e '.accuracy > 0.9'
}

# svm SEED ROWS FIRST LAST: examples of libsvm with features FIRST to LAST.
svm() {
	awk -v seed="$1" -v rows="$2" -v first="$3" -v last="$4" 'BEGIN {
		srand(seed)
		for (i = 0; i < rows; i++) {
			printf "%d", rand() < 0.5
			for (k = first; k <= last; k += 1 + int(rand() * 12))
				printf " %d:1", k
			print ""
		}
	}'
}

@test "sparse rows and the optimizer state stay where the new data are in blocks" {
	model=fm kind=svm
	svm 1 400 20 50 >day1.svm
	svm 2 30000 40 80 >day2.svm
	job day1 3
	job day2 1
	run_with_state day1
	values day1.run v >old
	run --separate-stderr ps-ctl run day2 --init-from day1.run --set data_memory=1M --set epochs=1 --set lr=1e-12
	[ "$status" -eq 0 ]
	[[ $stderr == *"day1.run/checkpoints/step-"*" and its optimizer state"* ]]
	grep -q 'data: .* bytes in [0-9]* blocks' day2.run/worker-0.log
	values day2.run v >new
	[ "$(wc -l <new)" -gt "$(wc -l <old)" ]
	same old new
}

# ratings SEED ROWS FIRST LAST: ratings of the users FIRST to LAST for 20 items.
ratings() {
	awk -v seed="$1" -v rows="$2" -v first="$3" -v last="$4" 'BEGIN {
		srand(seed)
		print "user,item,rating"
		for (i = 0; i < rows; i++)
			printf "user-%d,item-%d,%d\n", first + i % (last - first + 1), rand() * 20, 1 + rand() * 5
	}'
}

# kept OLD NEW: all rows of OLD are in NEW, with values that are equal up to the rate of 1e-12; prints the number of other rows.
kept() {
	awk -F '\t' 'NR == FNR { new[$1] = $2; n++; next }
		!($1 in new) || new[$1] - $2 > 1e-9 || $2 - new[$1] > 1e-9 { print; bad = 1 }
		{ old++ }
		END { if (!bad) print n - old; exit bad || !old }' "$2" "$1"
}

# bats test_tags=slow
@test "ratings in blocks and in a stream: old users and items stay, and new ones get rows" {
	model=mf
	ratings 1 2000 1 60 >mon.csv
	ratings 2 60000 41 100 >tue.csv
	ratings 3 2000 51 120 >wed.csv
	for day in mon tue wed; do
		job $day 1
		sed -i "s/$day.csv/&?format=ratings/" $day.json
	done
	ps-ctl run mon --set factors=1 --set epochs=2 >/dev/null
	values mon.run v >old
	[ "$(wc -l <old)" -eq 160 ]
	ps-ctl run tue --init-from mon.run --set factors=1 --set epochs=1 --set batch=1000 --set data_memory=1M --set lr=1e-12 >/dev/null 2>&1
	grep -q 'data: .* bytes in [0-9]* blocks' tue.run/worker-0.log
	values tue.run v >new
	[ "$(kept old new)" = 80 ]
	# Users 1 to 50 are not in the stream, and learn nothing from it.
	mv new old
	ps-ctl run wed --init-from tue.run --set factors=1 --set 'data=wed.csv?format=ratings&follow=yes' --set workers=1 --set epochs=0 --set steps=40 >/dev/null 2>&1
	values wed.run v >new
	[ "$(wc -l <new)" -eq 280 ]
	[ "$(grep -cFxf old new)" -eq 100 ]
	# A rating of a user of the first day can still be predicted.
	ps-work eval wed.run "mon.csv?format=ratings" --json 2>/dev/null | jq -e '.rmse > 0'
}
