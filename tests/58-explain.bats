#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Why a model predicts what it predicts: ps-work explain.

bats_require_minimum_version 1.5.0
load lib/helper

setup() {
	setup_dir
}

teardown() {
	teardown_dir
}

# people SEED ROWS: x and the town decide, y does not.
people() {
	awk -v seed="$1" -v rows="$2" 'BEGIN {
		srand(seed)
		split("Oslo Rome Paris", town, " ")
		print "x,town,y,income"
		for (i = 0; i < rows; i++) {
			x = rand() * 10; k = int(rand() * 3) + 1
			printf "%.3f,%s,%.3f,%s\n", x, town[k], rand(), (x + k * 2 > 9 ? "yes" : "no")
		}
	}'
}

# trained MODEL: its saved model is MODEL.safetensors.
trained() {
	[ -e train.csv ] || people 2 400 >train.csv
	[ -e test.csv ] || people 3 200 >test.csv
	echo "{ \"job\": { \"model\": \"$1\", \"data\": \"train.csv\", \"epochs\": 20 } }" >"$1.json"
	ps-ctl run "$1.json" >/dev/null 2>&1
	cp "$1.run/model.safetensors" "$1.safetensors"
}

@test "the largest weights have the names of their features and classes" {
	trained logistic
	ps-work explain logistic.safetensors -o tsv >weights
	[ "$(head -n 2 weights | cut -f 1 | tr '\n' ' ')" = "feature intercept " ]
	[ "$(tail -n +3 weights | cut -f 1 | sort | tr '\n' ' ')" = "town=Oslo town=Paris town=Rome x y " ]
	[ "$(tail -n +3 weights | cut -f 2 | tr -d - | sort -gr)" = "$(tail -n +3 weights | cut -f 2 | tr -d -)" ]
	[ "$(ps-work explain logistic.safetensors -n 2 -o json | jq -r '.rows | length')" = 3 ]
	[ "$(ps-work explain logistic.safetensors -o json | jq -r .nonzero)" = 5 ]
	trained softmax
	ps-work explain softmax.safetensors | grep -Eq '^town=Paris +yes +[0-9]'
	trained mlp
	run -1 ps-work explain mlp.safetensors
	[[ $output == *"model mlp has no weight for each feature: name data"* ]]
}

@test "the parts of a prediction add up to its score" {
	local model row
	for model in logistic fm ffm; do
		trained $model
		ps-work predict $model.safetensors test.csv >all
		for row in 1 77 200; do
			ps-work explain $model.safetensors test.csv --row $row -o json >one
			jq -e --argjson p "$(sed -n ${row}p all)" '
				([.rows[].part] | add) as $sum
				| ($sum - .score | fabs) < 1e-9 and (1 / (1 + (-$sum | exp)) - $p | fabs) < 1e-5 and .prediction - $p < 1e-6' one
		done
		# What is left out is summed.
		ps-work explain $model.safetensors test.csv --row 1 -n 1 -o json >short
		[ "$(jq -r '.rows[-1].feature' short)" = "2 others" ]
		jq -e '([.rows[].part] | add) - .score | fabs < 1e-9' short
	done
	trained softmax
	ps-work predict --csv softmax.safetensors test.csv >all
	for class in no yes; do
		ps-work explain softmax.safetensors test.csv --row 5 --class $class -o json | jq -c '[.output, .score]'
	done | jq -se --argjson p "$(sed -n 6p all | cut -d, -f 4)" '.[0][0] == "no" and (1 / (1 + (.[0][1] - .[1][1] | exp)) - $p | fabs) < 1e-5'
	run -4 ps-work explain softmax.safetensors test.csv --row 201
	[[ $output == *"there is no example 201: the data have 200"* ]]
	run -4 ps-work explain softmax.safetensors test.csv --row 1 --class maybe
	[[ $output == *'there is no class "maybe"'* ]]
	trained mlp
	run -1 ps-work explain mlp.safetensors test.csv --row 1
	[[ $output == *"are not sums of parts"* ]]
}

@test "importance: columns that decide, of dense and sparse rows, the same each time" {
	local model
	for model in mlp ffm; do
		trained $model
		ps-work explain $model.safetensors test.csv -o json >one
		jq -e '[.rows[].feature] | sort == ["town", "x", "y"]' one
		[ "$(jq -r '.rows[0].feature' one)" = x ]
		jq -e '.metric == "accuracy" and .rows[0].importance > 0.2 and .rows[1].importance > 2 * .rows[2].importance
			and .rows[0].deviation > 0 and .rows[0].deviation < 0.1' one
		ps-work eval $model.safetensors test.csv --json | jq -e --argjson a "$(jq .value one)" '.accuracy == $a'
		ps-work explain $model.safetensors test.csv -o json | cmp - one
		! ps-work explain $model.safetensors test.csv -o json --seed 2 | cmp -s - one
		# A metric of which less is better: it also is larger for what matters more.
		ps-work explain $model.safetensors test.csv --metric loss -o json | jq -e '.metric == "loss" and .rows[0].feature == "x" and .rows[0].importance > 0'
	done
	run -2 ps-work explain mlp.safetensors test.csv --metric rmse
	[[ $output == *'no metric "rmse"'* ]]
	# Features of libsvm have no columns; those that occur most often are measured.
	awk 'BEGIN { srand(4); for (i = 0; i < 300; i++) { a = rand() < .5; printf "%d %s%s9:1\n", a, (a ? "1:1 " : ""), (rand() < .4 ? "4:1 " : "") } }' >a.svm
	echo '{ "job": { "model": "logistic", "data": "a.svm", "epochs": 20 } }' >s.json
	ps-ctl run s.json >/dev/null 2>&1
	ps-work explain s.run/model.safetensors a.svm -n 2 -o json 2>said | jq -e '.rows | length == 2 and .[0].feature != "4" and .[0].importance > 0.2'
	grep -q '2 features were measured' said
	# Users and items of ratings.
	awk 'BEGIN { srand(5); for (i = 0; i < 600; i++) { u = int(rand() * 9); j = int(rand() * 9); print u "\t" j "\t" (j % 5 + 1) } }' >r.tsv
	echo '{ "job": { "model": "mf", "data": "r.tsv", "factors": 2, "epochs": 20 } }' >r.json
	ps-ctl run r.json >/dev/null 2>&1
	ps-work explain r.run/model.safetensors r.tsv -o json | jq -e '.rows[0].feature == "item" and .rows[1].feature == "user" and .rows[0].importance > .5'
}
