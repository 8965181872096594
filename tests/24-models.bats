#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Models of features and their vectors, and the formats that their data have.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
}

teardown() {
	teardown_dir
}

# both_modes FILE FILTER CHECK NUMBER: a whole run each in asp and ssp.
both_modes() {
	local sync
	for sync in asp ssp:2; do
		train "$1.json" --set sync=$sync
		"$3" "$2" "$4"
	done
}

# criteo AUC QUERY JOB: what is to be learned of clicks, from data read with this query, by a job of these members.
criteo() {
	need_data criteo-80k/train60k.ffm.zst criteo-80k/test20k.ffm.zst
	cat >criteo.json <<-END
	{ "servers": 2, "workers": 2, "job": { "data": "$DATA/criteo-80k/train60k.ffm.zst$2",
	  "eval": "$DATA/criteo-80k/test20k.ffm.zst$2", "batch": 100, $3 } }
	END
	both_modes criteo .eval.auc at_least "$1"
}

# bats test_tags=slow
@test "criteo, logistic by ftrl: AUC 0.768" {
	criteo 0.7675 "" '"model": "logistic", "epochs": 4, "optimizer": "ftrl", "lr": 0.05, "l1": 1, "l2": 1'
}

# bats test_tags=slow
@test "criteo, fm: AUC 0.767" {
	criteo 0.7665 "?norm=l2" '"model": "fm", "factors": 4, "epochs": 4, "optimizer": "adagrad", "lr": 0.3, "eps": 1,
	  "schedule": "cosine:1200"'
}

# bats test_tags=slow
@test "criteo, ffm: AUC 0.765" {
	criteo 0.764 "?norm=l2" '"model": "ffm", "factors": 4, "epochs": 3, "optimizer": "adagrad", "lr": 0.6, "eps": 1,
	  "schedule": "cosine:900"'
}

# bats test_tags=slow
@test "ratings, mf: RMSE 0.93" {
	need_data ml-100k/u1.base.gz ml-100k/u1.test.gz
	cat >mf.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "mf", "factors": 20, "data": "$DATA/ml-100k/u1.base.gz?format=ratings",
	  "eval": "$DATA/ml-100k/u1.test.gz?format=ratings", "epochs": 9, "batch": 100, "optimizer": "adagrad", "lr": 0.1, "l2": 0.1 } }
	END
	both_modes mf .eval.rmse at_most 0.93
}

# bats test_tags=slow
@test "observations, bpr: NDCG at 10 of 0.36, from ps-work eval too" {
	need_data ml-100k/u1.base.gz ml-100k/u1.test.gz
	cat >bpr.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "bpr", "data": "$DATA/ml-100k/u1.base.gz?format=ratings&positive=4",
	  "eval": "$DATA/ml-100k/u1.test.gz?format=ratings&positive=4" } }
	END
	both_modes bpr .eval.ndcg_at_k at_least 0.36
	at_least .eval.group_auc 0.905
	[ "$(res '.eval | has("accuracy") or has("auc")')" = false ]
	run -0 --separate-stderr ps-work eval bpr.run --json
	[ "$(field ndcg_at_k <<<"$output")" = "$(res .eval.ndcg_at_k)" ]
	run -0 --separate-stderr ps-work eval bpr.run --json -k 1
	[ "$(field ndcg_at_k <<<"$output")" != "$(res .eval.ndcg_at_k)" ]
	[ "$(field mrr <<<"$output")" = "$(res .eval.mrr)" ]
	printf '%s\t%s\n' 1 50 1 1352 >pairs.tsv
	run -0 --separate-stderr ps-work predict bpr.run 'pairs.tsv?format=ratings'
	# Star Wars before an item that was rated once.
	awk 'NR == 1 { first = $1 } END { exit !(NR == 2 && first > $1) }' <<<"$output"
}

# bats test_tags=slow
@test "observations, warp: NDCG at 10 of 0.37" {
	need_data ml-100k/u1.base.gz ml-100k/u1.test.gz
	cat >warp.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "warp", "data": "$DATA/ml-100k/u1.base.gz?format=ratings&positive=4",
	  "eval": "$DATA/ml-100k/u1.test.gz?format=ratings&positive=4" } }
	END
	both_modes warp .eval.ndcg_at_k at_least 0.37
	at_least .eval.group_auc 0.905
}

@test "bpr and warp: deterministic jobs draw the same items" {
	awk 'BEGIN { srand(1); for (i = 0; i < 900; i++) {
		u = int(rand() * 60); printf "%d\t%d\n", u, u % 3 + 3 * int(rand() * 12) } }' >seen.tsv
	cat >same.json <<-END
	{ "servers": 2, "workers": 2, "deterministic": true, "job": { "model": "bpr", "data": "seen.tsv?format=ratings",
	  "eval": "seen.tsv?format=ratings", "batch": 32, "epochs": 4 } }
	END
	train same.json
	first=$(res .model_digest)
	train same.json
	[ "$(res .model_digest)" = "$first" ]
	train same.json --set seed=2
	[ "$(res .model_digest)" != "$first" ]
	# All items of the user's kind are observed, or nearly so.
	at_least .eval.group_auc 0.8
	train same.json --set model=warp --set negatives=5
	first=$(res .model_digest)
	at_least .eval.group_auc 0.8
	train same.json --set model=warp --set negatives=5
	[ "$(res .model_digest)" = "$first" ]
	# Items are drawn for each example, as local steps need it.
	train same.json --set model=warp --set deterministic=false --set local_steps=4
	at_least .eval.group_auc 0.8
}

# write_kinds ROWS: observations of users who have items of one of three kinds, in the order of the users, for kinds.json.
write_kinds() {
	awk -v n="$1" 'BEGIN { srand(1); for (i = 0; i < n; i++) {
		u = int(i * 900 / n); printf "%d\t%d\n", u, u % 3 + 3 * int(rand() * 70) } }' >kinds.tsv
	cat >kinds.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "bpr", "data": "kinds.tsv?format=ratings", "validate": "20%",
	  "batch": 256, "epochs": 3, "eval_every": 50 } }
	END
}

@test "bpr holds out the same share of data in memory and in blocks, and ranks its items" {
	write_kinds 60000
	train kinds.json --set seed=3
	memory=$(res .eval.examples)
	at_least .eval.group_auc 0.7
	local trained
	trained=$(res .examples)
	for sync in bsp asp; do
		train kinds.json --set seed=3 --set data_memory=1M --set sync=$sync
		grep -q 'reading all observations once' kinds.run/worker-1.log
		grep -q 'data: .* bytes in [0-9]* blocks' kinds.run/worker-1.log
		res '[.examples, .eval.examples, .eval.group_auc]'
		[ "$(res .examples)" = "$trained" ]
		# The filter may find a few items that a user does not have.
		at_least .eval.examples $((memory - memory / 1000))
		at_most .eval.examples "$memory"
		at_least .eval.group_auc 0.7
	done
	# Evaluation of a file needs the observations of the blocks, too.
	head -n 500 kinds.tsv >some.tsv
	run -0 --separate-stderr ps-work eval kinds.run 'some.tsv?format=ratings' --json
	[ "$(jq '.group_auc > 0.7 and .examples > 500' <<<"$output")" = true ]
}

# bats test_tags=slow
@test "bpr: a metric of groups ends the job, with data in memory and in blocks" {
	write_kinds 60000
	local metric
	for metric in group_auc ndcg_at_k mrr; do
		train kinds.json --set epochs=0 --set eval_every=20 --set stop="$metric patience=2 min_delta=0.02" --set data_memory=1M
		res '[.ended, .steps, .best_value]'
		[[ $(res .ended) == *"had no better $metric"* ]]
		[ "$(res ".best_metric == \"$metric\" and .best_value == .eval.$metric and .best_step < .steps")" = true ]
	done
	train kinds.json --set epochs=0 --set eval_every=20 --set stop="group_auc patience=2 min_delta=0.02"
	[[ $(res .ended) == *"had no better group_auc"* ]]
}

# bats test_tags=slow
@test "bpr: deterministic jobs with data in blocks draw the same items" {
	write_kinds 50000
	local digest
	train kinds.json --set deterministic=true --set data_memory=1M
	grep -q 'data: .* bytes in [0-9]* blocks' kinds.run/worker-1.log
	digest=$(res .model_digest)
	train kinds.json --set deterministic=true --set data_memory=1M --set net=20ms
	[ "$(res .model_digest)" = "$digest" ]
}

# Users like two of six genres; items 100 to 119 are in the evaluation data alone.
write_genres() {
	awk 'BEGIN { srand(5); print "item,title,genre" >"items.csv"; print "user,likes" >"users.csv"
		print "user,item" >"seen.csv"; print "user,item" >"later.csv"
		for (i = 0; i < 120; i++) { g[i] = int(rand() * 6); printf "i%d,Title %d,g%d\n", i, i, g[i] >"items.csv" }
		for (u = 0; u < 80; u++) { a = int(rand() * 6); b = int(rand() * 6); printf "u%d,g%d|g%d\n", u, a, b >"users.csv"
			for (i = 0; i < 120; i++) if ((g[i] == a || g[i] == b) && rand() < 0.6)
				printf "u%d,i%d\n", u, i >(i < 100 ? "seen.csv" : "later.csv") } }'
	cat >genres.json <<-END
	{ "servers": 1, "workers": 2, "job": { "model": "warp", "epochs": 10, "batch": 64,
	  "data": "seen.csv?user=user&item=item&user_features=users.csv&item_features=items.csv",
	  "eval": "later.csv?user=user&item=item" } }
	END
}

@test "features of users and items: items that come later have scores, nearest adds up, and all say what is missing" {
	write_genres
	train genres.json
	at_least .eval.group_auc 0.75
	grep -q '6 features of users from users.csv, 6 features of items' genres.run/worker-0.log
	grep -q '6 features of items from items.csv, without 120 that only one item has' genres.run/worker-0.log
	mkdir away
	printf 'user,item\nu1,i3\nu1,i119\nnobody,i119\n' >away/new.csv
	run -0 --separate-stderr ps-work predict genres.run away/new.csv
	[ "${#lines[@]}" = 3 ]
	same=$output
	run -0 --separate-stderr ps-work predict genres.run - <away/new.csv
	[ "$output" = "$same" ]
	# The products of sums are the scores, and features are not found as items.
	ps-work nearest genres.run v user=u1 -k 100 2>nearest.log >found
	[ "$(grep -c '	item=i' found)" = "$(wc -l <found)" ]
	awk '{ sub("user=", "", $1); sub("item=", "", $2); print $1 "," $2 }' found >pairs.csv
	ps-work predict genres.run 'pairs.csv?user=1&item=2' 2>/dev/null >scores
	paste found scores | awk '{ d = $3 - $4; if (d * d > 1e-8) bad = 1 } END { exit bad || NR == 0 }'
	run -0 --separate-stderr ps-work explain genres.run away/new.csv --row 1
	[[ $output == *item.genre=g* ]]
	mv items.csv films.csv
	run -1 --separate-stderr ps-work predict genres.run away/new.csv
	[[ $stderr == *"item_features: cannot open "*items.csv* ]]
	run -0 --separate-stderr ps-work predict genres.run 'away/new.csv?item_features=../films.csv'
	[ "$output" = "$same" ]
	# What counts is whether the model knows a feature, however few items the table has.
	grep -e '^item,' -e '^i3,' -e '^i119,' films.csv >few.csv
	run -0 --separate-stderr ps-work predict genres.run 'away/new.csv?item_features=../few.csv'
	[ "$output" = "$same" ]
	sed 's/genre/kind/' films.csv >other.csv
	run -0 --separate-stderr ps-work predict genres.run 'away/new.csv?item_features=../other.csv'
	[[ $output != "$same" && $stderr == *'in column "item.kind"'* ]]
	# All files have the same features.
	run -78 --separate-stderr ps-ctl run genres.json --set 'data=["seen.csv?user=user&item=item&item_features=films.csv","seen.csv?user=user&item=item"]'
	[[ $output$stderr == *"item_features="*"but other files of these data are read without it"* ]]
	# A table of few items is no error, and the log of the worker that reads the data says it.
	head -n 60 films.csv >items.csv
	train genres.json
	cat genres.run/worker-*.log | grep -q 'that the table of features lacks'
	cp seen.csv once.csv
	for i in {1..60}; do tail -n +2 once.csv; done >>seen.csv
	rm -r genres.run
	run -78 --separate-stderr ps-ctl run genres.json --set data_memory=1M
	[[ $output$stderr == *"can be used only if all data fit into memory; raise it"* ]]
}

@test "bpr refuses data that it cannot rank" {
	seq 1 40000 | awk '{ print $1 % 900, $1 % 700, 1 }' >seen.tsv
	refuse() {
		echo '{ "job": { "model": "bpr", "data": "'"$1"'", "steps": 1 } }' >r.json
		shift
		run ! --separate-stderr ps-ctl run r "$@" --json
		echo "$output" "$stderr" >&2
	}
	refuse 'seen.tsv?format=ratings&follow=yes'
	[[ $output$stderr == *"is a stream, which a model that ranks items cannot use"* ]]
	printf '%s\n' '1 1:2' '0 2:1' >a.svm
	refuse a.svm
	[[ $output$stderr == *"is libsvm, but the model ranks the items of users"* ]]
}

# bats test_tags=slow
@test "census, deepfm and wide and deep: AUC 0.915" {
	need_data angel/census_148d_train.libsvm.gz angel/census_148d_test.libsvm.gz
	cat >deep.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "deepfm", "hidden": [64, 32], "data": "$DATA/angel/census_148d_train.libsvm.gz",
	  "eval": "$DATA/angel/census_148d_test.libsvm.gz", "epochs": 3, "batch": 100, "optimizer": "adam", "lr": 0.002 } }
	END
	both_modes deep .eval.auc at_least 0.915
	sed -i 's/deepfm/wide_deep/' deep.json
	both_modes deep .eval.auc at_least 0.915
}

# bats test_tags=slow
@test "Shakespeare's words: the loss falls, and a son's nearest are of the family" {
	need_data text/tinyshakespeare.txt.gz
	cat >words.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "word2vec", "factors": 64, "data": "$DATA/text/tinyshakespeare.txt.gz",
	  "eval": "$DATA/text/tinyshakespeare.txt.gz", "epochs": 1, "batch": 100, "optimizer": "adagrad", "lr": 0.5 } }
	END
	train words.json --set sync=asp
	at_most .eval.loss 1.80
	begin words.json --set sync=ssp:2 --set epochs=8
	ps-ctl wait -C words.run --for done
	RESULT=$(ps-ctl status -C words.run --json | head -n 1)
	at_most .eval.loss 1.65
	ps-work words -C words.run -n 10 son >near
	[ "$(wc -l <near)" = 10 ]
	[ "$(cut -f 2 near | grep -cE '^(father|brother|daughter|wife|husband|mother|uncle|sister|cousin|child|heir)$')" -ge 2 ]
	ps-work words -C words.run >all
	[ "$(head -n 1 all)" = "$(($(wc -l <all) - 1)) 64" ]
	run ps-work words -C words.run xyzzy
	[ "$status" -ne 0 ]
	[[ $output == *'"xyzzy" is not among the '* ]]
	ps-ctl stop -C words.run
}

@test "a model of words takes text alone, and text no other model" {
	printf '1 1:1\n0 2:1\n' >a.svm
	printf 'a b c\n' >a.txt
	echo '{ "job": { "model": "word2vec", "optimizer": "sgd", "lr": 0.1, "data": "a.svm?format=libsvm", "epochs": 1 } }' >w.json
	run ps-ctl run w.json
	[ "$status" -ne 0 ]
	[[ $output == *"is libsvm, but the model needs plain text"* ]]
	run ps-ctl run w.json --set model=logistic --set "data=a.txt?format=text"
	[ "$status" -ne 0 ]
	[[ $output == *"is read as plain text, which requires job.model word2vec"* ]]
}

# Two crossed features, neither of which says anything alone, N lines of `printf FORMAT, label, x, y`.
crossed() {
	awk -v n="$1" -v form="$2" 'BEGIN {
		srand(7)
		for (i = 0; i < n; i++) { x = int(rand() * 4); y = int(rand() * 4); printf form "\n", (x % 2 == y % 2), x, y }
	}'
}

@test "pairs of features that only count together: vw with pairs, fm, ffm, deepfm, dcn, dlrm" {
	crossed 2000 '%d |x x%d |y y%d' >a.vw
	crossed 2000 '%d 0:%d:1 1:1%d:1' >a.ffm
	cat >cross.json <<-END
	{ "servers": 2, "workers": 2, "deterministic": true, "job": { "model": "logistic", "data": "a.vw", "eval": "a.vw", "epochs": 4,
	  "batch": 20, "optimizer": "adagrad", "lr": 0.3 } }
	END
	train cross.json
	at_most .eval.auc 0.6
	train cross.json --set data=a.vw?pairs=xy --set eval=a.vw?pairs=xy
	at_least .eval.auc 0.999
	for model in fm ffm deepfm dcn dlrm; do
		train cross.json --set model=$model --set data=a.ffm --set eval=a.ffm --set epochs=10 $([[ $model = *fm && $model != deepfm ]] || echo --set hidden=[8])
		at_least .eval.auc 0.999
	done
}

@test "many pairs of features are slow: who runs it is told, with the remedy" {
	awk 'BEGIN { for (i = 0; i < 300; i++) printf "f%d,", i; print "y"
		for (r = 0; r < 4; r++) { for (i = 0; i < 300; i++) printf "%d,", (r + i) % 7; print r % 2 } }' >wide.csv
	echo '{ "workers": 1, "job": { "model": "ffm", "data": "wide.csv?label=y", "steps": 1, "batch": 2 } }' >wide.json
	run -0 --separate-stderr ps-ctl run wide
	[ "$(grep -c '^warning: 300 features in an example make 44850 pairs, .* model fm takes as many .* ignore= ' <<<"$stderr")" -eq 1 ]
}

# texts N [SEED]: N lines for fastText's classifier. A text of two subjects, each with words of its own among common
# ones, is about what has happened or what has not: the words are the same, in another order.
texts() {
	awk -v n="$1" -v seed="${2:-1}" 'BEGIN {
		srand(seed)
		for (i = 0; i < n; i++) {
			subject = int(rand() * 2); order = int(rand() * 2)
			printf "__label__%s_%s", subject ? "sport" : "music", order ? "yes" : "no"
			at = int(rand() * 12)
			for (k = 0; k < 12; k++) {
				if (k == at) printf order ? " did win" : " win did"
				# Frequencies fall as those of Zipf do.
				w = int(exp(rand() * 6))
				if (rand() < 0.3) printf " %s%d", subject ? "s" : "m", w; else printf " w%d", w
			}
			print ""
		}
	}'
}

@test "fasttext: texts whose classes differ in the order of words; the model file predicts and evaluates" {
	texts 3000 1 >train.txt
	texts 500 2 >test.txt
	echo '{ "servers": 2, "workers": 2, "job": { "model": "fasttext", "data": "train.txt", "eval": "test.txt", "epochs": 6 } }' >text.json
	train text.json --set data=train.txt?ngrams=1 --set eval=test.txt?ngrams=1
	at_most .eval.accuracy 0.65
	train text.json
	at_least .eval.accuracy 0.95
	mv text.run/model.safetensors .
	rm -r text.run train.txt
	ps-work eval model.safetensors test.txt --json >eval
	[ "$(jq .accuracy eval)" = "$(res .eval.accuracy)" ]
	cut -d' ' -f1 test.txt | sed 's/__label__//' >labels
	cut -d' ' -f2- test.txt >bare.txt
	ps-work predict model.safetensors bare.txt?format=fasttext | cut -f 1 >classes
	[ "$(paste labels classes | awk '$1 == $2' | wc -l)" = "$(jq '.accuracy * 500 | round' eval)" ]
}

@test "fasttext: a killed worker" {
	texts 3000 1 >train.txt
	texts 500 2 >test.txt
	cat >text.json <<-END
	{ "servers": 1, "workers": 2, "heartbeat": "100ms", "lease": "1s",
	  "job": { "model": "fasttext", "data": "train.txt", "eval": "test.txt", "epochs": 6 } }
	END
	begin text.json --max-restarts 3 "${HELD_SPARSE[@]}"
	wait_for 20 step_is_past 5
	kill -9 "$(cat "$RUN/worker-1.pid")"
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done
	at_least .eval.accuracy 0.95
	ps-ctl stop >/dev/null
	none_left "$T"
}

@test "Criteo's columns: numbers by their logarithm, categories by hash" {
	awk 'BEGIN {
		srand(3); OFS = "\t"
		for (i = 0; i < 2000; i++) {
			n = int(exp(rand() * 8)); c = int(rand() * 8)
			line = (n > 50) != (c % 2) ? 1 : 0
			for (j = 0; j < 13; j++) line = line OFS (j == 4 ? n : "")
			for (j = 0; j < 26; j++) line = line OFS (j == 9 ? sprintf("%08x", c * 77777) : "")
			print line
		}
	}' >clicks.tsv
	cat >clicks.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "deepfm", "hidden": [16], "data": "clicks.tsv?format=criteo&bits=12",
	  "eval": "clicks.tsv?format=criteo&bits=12", "epochs": 20, "batch": 20, "optimizer": "adam", "lr": 0.01 } }
	END
	train clicks.json
	at_least .eval.auc 0.97
	# Its numbers are categories, too.
	run ! grep -h 'job.bottom is set' clicks.run/*.log
	ps-ctl run clicks.json --set model=dlrm --set bottom=[8] --set epochs=1 >/dev/null 2>err
	grep -q '^warning: job.bottom is set, but changes nothing' err
}

@test "dlrm: a number that counts with the sign of its category, and the same from the saved model" {
	awk 'BEGIN { srand(4); print "a,b,k,m,y"; for (i = 0; i < 2000; i++) {
		a = rand() * 2 - 1; k = int(rand() * 6)
		printf "%.4f,%.4f,k%d,m%d,%d\n", a, rand(), k, int(rand() * 4), (a > 0) == (k % 2) } }' >t.csv
	cat >t.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "dlrm", "data": "t.csv?label=y", "eval": "t.csv?label=y", "epochs": 20, "batch": 20,
	  "optimizer": "adam", "lr": 0.01, "bottom": [8], "hidden": [8], "factors": 4 } }
	END
	train t.json
	at_least .eval.auc 0.98
	# z of the numbers and of two columns: the first layer sees 4 numbers and 3 products.
	[ "$(ps-ctl export -C t.run -o text w0 | wc -l)" = $((7 * 8)) ]
	[ "$(ps-ctl export -C t.run -o text bottom_w0 | wc -l)" = $((2 * 8)) ]
	ps-work predict t.run/model.safetensors t.csv >predicted
	tail -n +2 t.csv | cut -d, -f5 | paste - predicted >both
	awk '($1 == 1) == ($2 > 0.5) { right++ } END { exit right < 0.9 * NR }' both
	cut -d, -f1,2,5 t.csv >numbers.csv
	run ! --separate-stderr ps-ctl run t.json --set data=numbers.csv?label=y --set eval=numbers.csv?label=y
	[[ $stderr == *"model dlrm needs columns of categories"* ]]
}

# Data in the format that init names for model $1, into directory $2.
write_data_of() {
	local file
	case $1 in
	mf | bpr) for file in ratings test; do
		awk 'BEGIN { srand(1); for (i = 0; i < 600; i++) {
			u = int(rand() * 40); m = int(rand() * 30)
			printf "%d\t%d\t%d\t%d\n", u, m, 1 + (u + m) % 5, 880000000 + i } }' >"$2/$file.tsv"
		done ;;
	word2vec) awk 'BEGIN { srand(1); for (i = 0; i < 4000; i++)
		printf "%s%s", substr("abcdefghij", 1 + int(rand() * 10), 1) "word", i % 12 == 11 ? "\n" : " " }' >"$2/text.txt" ;;
	fasttext) for file in train test; do texts 400 >"$2/$file.txt"; done ;;
	fm) for file in train test; do
		awk 'BEGIN { srand(1); for (i = 0; i < 400; i++) {
			a = int(rand() * 20); b = int(rand() * 20)
			printf "%d %d:1 %d:1\n", (a + b) % 2, 1 + a, 21 + b } }' >"$2/$file.libsvm"
		done ;;
	ffm | wide_deep | deepfm | dcn | dlrm) for file in train test; do
		awk 'BEGIN { srand(1); for (i = 0; i < 400; i++) {
			a = int(rand() * 20); b = int(rand() * 20)
			printf "%d 0:%d:1 1:%d:1\n", (a + b) % 2, a, 20 + b } }' >"$2/$file.ffm"
		done ;;
	esac
}

@test "init: the file of each model trains on data of the format that it names" {
	for model in mf bpr word2vec fasttext fm ffm wide_deep deepfm dcn dlrm; do
		run -0 ps-ctl init --model $model $model
		[[ $output == *"next: put your data into $model/"* && $output != *"?format"* ]]
		write_data_of $model $model
		run -0 --separate-stderr ps-ctl run $model/cluster --json
		[ "$(field state <<<"$output")" = done ]
		[ "$(field steps <<<"$output")" -gt 0 ]
	done
}

# fitted SCALE KEY=VALUE...: R2 of a factorization machine whose targets are SCALE times as large, far from 0.
fitted() {
	awk -v c="$1" 'BEGIN { srand(3); for (i = 0; i < 4000; i++) { a = int(rand() * 20); b = int(rand() * 20)
		print c * (50 + a % 5 + (a % 3) * (b % 4)), a ":1", 20 + b ":1" } }' >"fit$1.txt"
	shift
	train fit.json "$@"
}

@test "regression with vectors does not depend on the unit of the targets" {
	for scale in 1 1000; do
		echo '{ "job": { "model": "fm", "loss": "squared", "data": "fit'$scale'.txt", "eval": "fit'$scale'.txt", "epochs": 20 }, "deterministic": true }' >fit.json
		fitted $scale
		at_least .eval.r2 0.95
		res .eval.r2 >r2.$scale
		# The file of the model predicts in the unit of the data.
		head -n 5 fit$scale.txt >five.txt
		ps-work predict fit.run/model.safetensors five.txt >scores
		paste scores five.txt | awk '{ d = ($1 - $2) / $2; if (d > 0.1 || d < -0.1) exit 1 }'
		# A job that goes on with the model keeps its unit.
		ps-ctl run fit --set name=more --set steps=1 --init-from fit.run --set optimizer=sgd --set lr=1e-9 --json 2>/dev/null | tail -n 1 | field eval.r2 >more
		paste "r2.$scale" more | awk '{ d = $1 - $2; exit !(d < 1e-6 && d > -1e-6) }'
	done
	paste r2.1 r2.1000 | awk '{ d = $1 - $2; exit !(d < 1e-4 && d > -1e-4) }'
	echo '{ "job": { "model": "fm", "loss": "squared", "data": "fit1.txt", "eval": "fit1.txt", "epochs": 20, "scale": "none" } }' >fit.json
	fitted 1
	at_most .eval.r2 0.95
}

@test "the default l2 of softmax is 1 by the number of examples" {
	awk 'BEGIN { srand(3); for (i = 0; i < 400; i++) { k = i % 4; print k + rand() "," k * k + rand() ",k" k } }' >k.csv
	echo '{ "workers": 2, "job": { "model": "softmax", "data": "k.csv", "epochs": 2 } }' >prior.json
	ps-ctl run prior >/dev/null
	[ "$(jq -r 'select(.event == "set").text' prior.run/events.jsonl)" = "job.l2=0.0025, by default, to begin with" ]
	for args in l2=0.01 model=mlp; do
		ps-ctl run prior --set $args >/dev/null
		run -1 grep '"event":"set"' prior.run/events.jsonl
	done
	# In deterministic jobs it is the same setting as one in the file, also after a resume.
	ps-ctl run prior --set deterministic=true --json 2>/dev/null | tail -n 1 | field model_digest >default
	ps-ctl run prior --set deterministic=true --set l2=0.0025 --json 2>/dev/null | tail -n 1 | field model_digest >given
	[ -s default ]
	cmp default given
	ps-ctl run prior --set deterministic=true --set steps=1 >/dev/null
	ps-ctl run prior --set deterministic=true --resume auto --json 2>/dev/null | tail -n 1 | field model_digest >resumed
	cmp default resumed
}

# write_targets: the table t.csv, whose columns are "the a" = 2 p - 3 q + 1, b = 1000 p + 5000 and c = q; and t.jsonl.
write_targets() {
	awk 'BEGIN { srand(5); print "p,\"the a\",q,b,c"; for (i = 0; i < 2000; i++) {
		p = int(rand() * 2000) / 1000; q = int(rand() * 2000) / 100
		print p "," 2 * p - 3 * q + 1 "," q "," 1000 * p + 5000 "," q } }' >t.csv
	awk -F, 'NR > 1 { printf "{\"p\": %s, \"the a\": %s, \"q\": %s, \"b\": %s, \"c\": %s}\n", $1, $2, $3, $4, $5 }' t.csv >t.jsonl
}

# predicts_targets FILE: the predictions for the first rows of t.csv have the targets b, c and "the a" in this order.
predicts_targets() {
	ps-work predict "$1" t.csv >scores
	[ "$(wc -l <scores)" -eq 2000 ]
	tail -n +2 t.csv | tr , '\t' | paste scores - |
		awk '{ if (NF != 8 || ($1 - $7)^2 > 100 || ($2 - $8)^2 > 0.01 || ($3 - $5)^2 > 0.09) exit 1 }'
}

@test "several targets: a column of predictions for each, and metrics that are means" {
	write_targets
	for data in t.csv t.jsonl; do
		echo '{ "workers": 2, "servers": 2, "job": { "model": "linear", "data": "'$data'?label=b,c,the a", "eval": "t.csv",
			"epochs": 40, "optimizer": "sgd", "lr": 0.05 } }' >t.json
		train t.json
		at_least .eval.r2 0.9999
		res .eval.mae >mae
		predicts_targets t.run/model.safetensors
		tail -n +2 t.csv | tr , '\t' | paste scores - mae | awk 'function far(x) { return x < 0 ? -x : x }
			NR == 1 { mae = $9 } { s += far($1 - $7) + far($2 - $8) + far($3 - $5) }
			END { d = s / NR / 3 - mae; exit !(far(d) < 1e-3 * mae + 1e-4) }'
	done
	# Data whose columns have another order, or no targets, have the predictions of the same rows.
	awk -F, '{ print $3 "," $1 }' t.csv >inputs.csv
	ps-work predict t.run/model.safetensors inputs.csv | cmp - scores
	# A job that goes on with the model keeps the targets.
	ps-ctl run t --set name=more --set steps=1 --init-from t.run --set lr=1e-9 >/dev/null
	predicts_targets more.run/model.safetensors
}

@test "several targets: data in blocks, and layers" {
	write_targets
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do tail -n +2 t.csv; done >rows
	{ head -n 1 t.csv; cat rows; } >large.csv
	echo '{ "workers": 2, "job": { "model": "linear", "data": "large.csv?label=b,c,the a", "eval": "t.csv", "data_memory": "1M",
		"epochs": 2, "optimizer": "sgd", "lr": 0.05 } }' >t.json
	train t.json
	at_least .eval.r2 0.9999
	predicts_targets t.run/model.safetensors
	train t.json --set model=mlp --set loss=squared --set optimizer=adam --set lr=0.001 --set "hidden=[16]" --set epochs=8
	at_least .eval.r2 0.99
}

@test "several targets: a stream, a server that is killed, and a read replica" {
	write_targets
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do tail -n +2 t.csv; done >rows
	{ head -n 1 t.csv; cat rows; } >stream.csv
	echo '{ "workers": 2, "servers": 2, "replicas": 2, "job": { "model": "linear", "data": "stream.csv?follow=yes&label=b,c,the a",
		"eval": "t.csv", "steps": 300, "optimizer": "sgd", "lr": 0.05 } }' >t.json
	begin t.json --max-restarts 3 "${HELD[@]}"
	wait_for 30 step_is_past 3
	ps-ctl pause -C t.run >/dev/null
	ps-serve --read-only t.run -C rep.run 2>rep.log 3>&- &
	pids+=($!)
	wait_for 20 test -S rep.run/ctl.sock
	ps-work predict -C t.run t.csv >source
	[ "$(awk '{ print NF }' source | sort -u)" -eq 3 ]
	wait_for 10 eval 'ps-work predict -C rep.run t.csv | cmp -s - source'
	head -n 3 t.csv | ps-work predict -C rep.run --follow | cmp - <(head -n 2 source)
	ps-ctl resume -C t.run >/dev/null
	kill -9 "$(cat t.run/server-1.pid)"
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done
	at_least .eval.r2 0.999
	predicts_targets t.run
	ps-ctl stop -C t.run >/dev/null
}

@test "several targets: refused by models of one target, and in data that lack one" {
	write_targets
	echo '{ "job": { "model": "linear", "data": "t.csv?label=b,c,the a", "epochs": 1 } }' >t.json
	run ! --separate-stderr ps-ctl run t --set model=fm --set loss=squared
	[[ $output == *"job.model fm has one target, but the data has 3; use linear or mlp"* ]]
	run ! --separate-stderr ps-ctl run t --set model=softmax
	[[ $output == *"a model of classes has one label"* ]]
	ps-ctl run t >/dev/null
	cut -d, -f1-4 t.csv >three.csv
	run ! ps-work eval t.run/model.safetensors three.csv
	[[ $output == *'has no column "c", which is a target of the training data'* ]]
	# A row that lacks one of its targets is left out.
	{ cat t.csv; echo 1,,2,3,4; } >gap.csv
	[ "$(ps-work eval t.run/model.safetensors gap.csv | awk '/^examples/ { print $2 }')" = 2000 ]
}

@test "mf begins with the mean rating" {
	printf '%s\n' '1 1 4' '1 2 5' '2 1 3' '2 3 4' >m.tsv
	echo '{ "job": { "model": "mf", "data": "m.tsv?format=ratings", "steps": 1, "optimizer": "sgd", "lr": 1e-9 } }' >m.json
	ps-ctl run m >/dev/null
	ps-ctl -C m.run export b -o npy >b.npy
	[ "$(tail -c 4 b.npy | od -An -tf4 | tr -d ' ')" = 4 ]
	ps-ctl run m --set init=zeros >/dev/null
	ps-ctl -C m.run export b -o npy >b.npy
	[ "$(tail -c 4 b.npy | od -An -tf4 | awk '{ print $1 < 1e-6 }')" = 1 ]
}

@test "every model is listed, and shown, in both forms" {
	models=$(ps-ctl list models | cut -d' ' -f1)
	[ "$(wc -l <<<"$models")" -eq 16 ]
	[ "$(ps-ctl list models --json | jq -r .name)" = "$models" ]
	for model in $models; do
		run -0 ps-ctl show "$model"
		[[ $output == *"model $model: "*"target"*"tables"* ]]
		ps-ctl show "$model" --json | jq -es 'map(select(.kind == "model"))[0] | .target | length > 3'
	done
}

@test "a model without hidden layers over a file that has some: the remedy is named, and works" {
	ps-ctl init --model wide_deep m 2>/dev/null
	write_data_of wide_deep m
	sed -i 's/"model": "wide_deep",/& "hidden": [8],/' m/cluster.json
	run -78 ps-ctl run m/cluster --set model=ffm
	[[ $output == *"model ffm has no hidden layers"*"--set hidden=[]"* ]]
	run -0 ps-ctl run m/cluster --set model=ffm --set 'hidden=[]'
	run -78 ps-ctl run m/cluster --set model=mlp --set 'hidden=[]'
	[[ $output == *"--set hidden=[256]"* ]]
}

# bats test_tags=slow
@test "vectors of rare features are trained in few passes, and linear weights in many" {
	awk 'BEGIN { srand(3); for (i = 0; i < 4000; i++) print i % 2, 1 + int(rand() * 2000) ":1", 2001 + int(rand() * 2000) ":1" }' >rare.svm
	echo '{ "job": { "model": "fm", "data": "rare.svm" } }' >rare.json
	ps-ctl run rare --json 2>/dev/null | tail -n 1 | jq -e '.examples == 4000'
	ps-ctl run rare --set model=logistic --json 2>/dev/null | tail -n 1 | jq -e '.examples == 100 * 4000'
}

@test "a loss that is not finite: data read in the wrong format are named" {
	ps-ctl init --model mf m 2>/dev/null
	write_data_of mf m
	# The times are of many years, so that float32 tells them apart.
	awk -F '\t' -v OFS='\t' '{ $4 = 500000000 + NR * 633000 } 1' m/ratings.tsv >m/years.tsv && mv m/years.tsv m/ratings.tsv
	run -1 --separate-stderr ps-ctl run m/cluster --set model=fm --set loss=squared --set scale=none --set 'data=m/ratings.tsv?label=1' --set eval= \
		--set optimizer=sgd --json
	[[ $(field reason <<<"$output") == *"the training loss is "*"m/ratings.tsv was read as CSV, and has values as large as 8."*"e+08: "*"?format="* ]]
	# Small values are no sign of that, and neither are targets that the model scales.
	awk 'BEGIN { print "a,y"; for (i = 0; i < 200; i++) print i % 7 "," 300000 + i % 11 * 1000.5 }' >prices.csv
	echo '{ "job": { "model": "linear", "data": "prices.csv?label=y", "lr": 1e30, "optimizer": "sgd" } }' >prices.json
	run -1 --separate-stderr ps-ctl run prices --json
	[[ $(field reason <<<"$output") == *"the training loss is "*"lower job.lr"* && $(field reason <<<"$output") != *"was read as"* ]]
	# A target whose squared error is infinite fails at any rate, scaled or not, and that of a batch before counts, too.
	{ cat prices.csv; echo 1,1e30; } >wrong.csv
	for set in scale=standard scale=none model=mlp; do
		run -1 --separate-stderr ps-ctl run prices --set data=wrong.csv?label=y --set loss=squared --set lr=0.01 --set "$set" --json
		reason=$(field reason <<<"$output")
		[[ $reason == *"wrong.csv has a target as large as 1e+30"*"correct or remove such examples"* && $reason != *job.lr* ]]
	done
	run -1 --separate-stderr ps-ctl run prices --set scale=none --set lr=10 --json
	[[ $(field reason <<<"$output") == *"prices.csv has targets as large as 3.1e+05: if the label is another column, name it"*"lower job.lr"* ]]
	write_cluster 100
	run -1 --separate-stderr ps-ctl run lin --set lr=1e30 --json
	[[ $(field reason <<<"$output") == *"lower job.lr"* && $(field reason <<<"$output") != *"was read as"* ]]
}

# 200 columns of ten causes and noise: gradient descent diverges at a rate of 0.1.
# bats test_tags=slow
@test "linear learns from columns that depend on each other, in any unit and by any workers, without a rate" {
	for unit in 1 1e6; do
		awk -v unit=$unit 'BEGIN {
			srand(3)
			for (i = 0; i < 2000; i++) mix[i] = rand() * 2 - 1
			for (r = 0; r < 600; r++) {
				y = rand()
				for (k = 0; k < 10; k++) y += z[k] = (rand() + rand() + rand() - 1.5) * 2
				printf "%g", y * unit
				for (c = 0; c < 200; c++) {
					x = rand() - 0.5
					for (k = 0; k < 10; k++) x += z[k] * mix[10 * c + k]
					printf " %d:%.5f", c + 1, x
				}
				print ""
			} }' >deep.svm
		head -n 500 deep.svm >part.svm
		tail -n 100 deep.svm >rest.svm
		echo '{ "job": { "model": "linear", "data": "part.svm", "eval": "rest.svm" } }' >deep.json
		for set in sync=bsp "sync=asp workers=3"; do
			# shellcheck disable=SC2086
			train deep.json --set epochs=60 $(printf -- '--set %s ' $set)
			has '.eval.r2 > 0.9' true
		done
	done
}

@test "job.loss: a linear model learns the quantile 0.9, and softmax takes no such loss" {
	# y is uniform in 0..100, whatever x is: its quantile 0.9 is 90, with a loss of 4.5.
	seq 0 499 | awk '{ print $1 * 37 % 101 / 50 - 1 "," ($1 * 29 % 500) / 5 }' >y.csv
	cat >quantile.json <<-END
	{ "job": { "model": "linear", "loss": "quantile:0.9", "data": "y.csv?scale=none", "eval": "y.csv", "epochs": 20, "batch": 25,
	  "optimizer": "adagrad", "lr": 5 } }
	END
	train quantile.json
	at_most .eval.loss 4.6
	at_least .eval.loss 4.4
	[ "$(res '.eval.pinball == .eval.loss or (.eval.pinball / .eval.loss - 1 | fabs) < 1e-6')" = true ]
	run -78 ps-ctl run quantile.json --set model=softmax
	[[ $output == *"job.loss: model softmax cannot use the loss quantile"* ]]
}

@test "job.class_weight: balanced classes count the same, and a name that is no class is an error" {
	# A tenth of the examples say yes, whatever x is: predicting that costs 0.33, and even odds cost 0.69.
	seq 0 499 | awk '{ print $1 * 37 % 101 / 50 - 1 "," ($1 * 29 % 10 ? "no" : "yes") }' >y.csv
	cat >class.json <<-END
	{ "job": { "model": "logistic", "class_weight": "balanced", "data": "y.csv?scale=none", "eval": "y.csv", "epochs": 5, "batch": 50,
	  "optimizer": "sgd", "lr": 0.5 } }
	END
	train class.json
	at_least .eval.loss 0.6
	run ! ps-ctl run class.json --set class_weight=Yes:9
	grep -q 'the data have no class "Yes"' <<<"$output" class.run/*.log
}
