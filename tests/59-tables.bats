#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Tables with text and unscaled numbers: from the file as it is to a model, with the defaults of init.

setup() {
	load lib/helper
	setup_dir
}

teardown() {
	teardown_dir
}

# People whose income depends on their town, their age and a number of another magnitude.
# people SEED ROWS
people() {
	awk -v seed="$1" -v rows="$2" 'BEGIN {
		srand(seed)
		split("Oslo Rome Paris Lima", town, " ")
		print "age,town,weight,income"
		for (i = 0; i < rows; i++) {
			t = int(rand() * 4) + 1; a = 20 + int(rand() * 50); w = rand() * 1000000
			score = (a - 45) / 10 + (t - 2.5) * 2 + (w - 500000) / 250000
			paid = "<=50K"
			if (score > 0) paid = ">50K"
			if (rand() < 0.05) a = "?"
			printf "%s,\"%s\",%d,%s\n", a, town[t], w, paid
		}
	}'
}

@test "a table with text trains with what init writes" {
	people 1 3000 >train.csv
	people 2 1000 >test.csv
	run ps-ctl init --data train.csv --eval test.csv here
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(jq -r .job.model here/cluster.json)" = logistic ]
	accuracy=$(ps-ctl run here/cluster --json 2>/dev/null | field eval.accuracy)
	echo "# accuracy $accuracy" >&3
	[ "$(jq -n "$accuracy > 0.93")" = true ]
	# Without scaling the weights drown everything else.
	unscaled=$(ps-ctl run here/cluster --set data="$PWD/train.csv" --set name=unscaled --json 2>/dev/null | field eval.accuracy)
	[ "$(jq -n "$unscaled < $accuracy - 0.1")" = true ]
}

@test "several classes and real numbers get the models for them" {
	awk 'BEGIN { srand(3); print "a,b,kind"; for (i = 0; i < 900; i++) { k = i % 3; print k * 1000 + rand() * 500 "," k * k * 0.001 + rand() * 0.0005 ",k" k } }' >kinds.csv
	awk 'BEGIN { srand(4); print "a,b,price"; for (i = 0; i < 900; i++) { x = rand() * 1000; y = rand() / 1000; print x "," y "," 100000 + 50 * x + 3e7 * y } }' >prices.csv
	ps-ctl init --data kinds.csv --eval kinds.csv kinds
	[ "$(jq -r .job.model kinds/cluster.json)" = softmax ]
	[ "$(ps-ctl run kinds/cluster --json 2>/dev/null | tail -n 1 | jq '.eval.accuracy > 0.95')" = true ]
	ps-ctl init --data prices.csv --eval prices.csv prices
	[ "$(jq -r .job.model prices/cluster.json)" = linear ]
	[ "$(ps-ctl run prices/cluster --json 2>/dev/null | tail -n 1 | jq '.eval.r2 > 0.99')" = true ]
}

@test "a living model scores a table without labels, whose columns are in another order" {
	people 1 2000 >train.csv
	ps-ctl init --data train.csv
	ps-ctl start cluster --set epochs=0 --set steps=1000000 >/dev/null
	ps-ctl wait -C cluster.run --for step=100 --timeout 60s
	printf 'weight,age,town\n999999,69,Lima\n1000,20,Oslo\n5,?,Atlantis\n' >new.csv
	run ps-work predict -C cluster.run new.csv
	echo "$output"
	[ "$status" -eq 0 ]
	ps-ctl stop --discard -C cluster.run
}

# The people as JSON Lines, with the town in an object within.
as_jsonl() {
	awk -F, 'NR > 1 {
		printf "{\"income\": \"%s\", \"home\": {\"town\": %s}, \"age\": %s, \"weight\": %s}\n", $4, $2, $1 == "?" ? "null" : $1, $3
	}' "$1"
}

@test "JSON Lines train with what init writes, as the same table does" {
	people 1 3000 >train.csv
	people 2 1000 >test.csv
	as_jsonl train.csv >train.jsonl
	as_jsonl test.csv >test.jsonl
	run ps-ctl init --data 'train.jsonl?label=income' --eval test.jsonl here
	echo "$output"
	[ "$status" -eq 0 ]
	accuracy=$(ps-ctl run here/cluster --json 2>/dev/null | field eval.accuracy)
	echo "# accuracy $accuracy" >&3
	[ "$(jq -n "$accuracy > 0.93")" = true ]
	# In blocks, with the first block as the schema.
	people 1 60000 >train.csv
	as_jsonl train.csv >train.jsonl
	accuracy=$(ps-ctl run here/cluster --set data_memory=1M --json 2>/dev/null | field eval.accuracy)
	grep -q 'data: .* bytes in [0-9]* blocks' here/cluster.run/worker-0.log
	[ "$(jq -n "$accuracy > 0.93")" = true ]
	head -n 5 test.jsonl | jq -c 'del(.income)' >new.jsonl
	ps-work predict -C here/cluster.run new.jsonl >scores
	[ "$(wc -l <scores)" -eq 5 ]
}

@test "JSON Lines without end, or with columns without end, are refused in bounded memory" {
	for bomb in 'print "{\"a\":\"" . "x" x 300_000_000 . "\"}"' \
	            'print "{\"y\":1"; print ",\"$_\":1" for 1..1_000_000; print "}"' \
	            'print "{\"y\":[" . "1," x 1_000_000 . "1]}"' \
	            'print "{\"y\":1"; print ",\"$_\":1" for 1..70_000; print "}\n"' \
	            'print "{\"y\":" . "[" x 1_000_000'; do
		perl -e "$bomb" >bomb.jsonl
		run bash -c 'ulimit -v 400000; ps-ctl init --data bomb.jsonl bomb'
		echo "$output"
		[ "$status" -eq 1 ]
		[ "${#lines[@]}" -eq 1 ]
		[[ "$output" == 'ps-ctl: '*'/bomb.jsonl:1: '* ]] || [[ "$output" == 'ps-ctl: '*'/bomb.jsonl:1:'*': maximum parsing depth'* ]]
	done
}

@test "what is wrong with a table is said with its place and the remedy" {
	printf 'a,b,y\n1,2,0\n3,x,1\n5,6,0\n' >stray.csv
	run ps-ctl init --data stray.csv
	[ "$status" -ne 0 ]
	[[ "$output" == *'stray.csv:3:2: expected a number, got "x"; if the column has categories, say ?categories=2'* ]]
	run ps-ctl init --data 'stray.csv?categories=c'
	[[ "$output" == *'categories=c: there is no such column'* ]]
	[ ! -e cluster.json ]
}
