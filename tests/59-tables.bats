#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Tables with text and unscaled numbers: from the file as it is to a model, with the defaults of init.

bats_require_minimum_version 1.5.0

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
	run ps-ctl init --fast --data train.csv --eval test.csv here
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(jq -r .job.model here/cluster.json)" = logistic ]
	accuracy=$(ps-ctl run here/cluster --json 2>/dev/null | field eval.accuracy)
	echo "# accuracy $accuracy" >&3
	[ "$(jq -n "$accuracy > 0.93")" = true ]
	ps-ctl -C here/cluster.run export all -o text | cut -f 3 >names
	diff names - <<<$'age\nweight\ntown=Lima\ntown=Oslo\ntown=Paris\ntown=Rome\nintercept'
	# Without scaling the weights drown everything else.
	unscaled=$(ps-ctl run here/cluster --set data="$PWD/train.csv?scale=none" --set name=unscaled --json 2>/dev/null | field eval.accuracy)
	[ "$(jq -n "$unscaled < $accuracy - 0.1")" = true ]
}

# wide_scales ROWS SEED: two classes in columns of scales from 1e-3 to 1e3 that are far from 0, the label in front.
wide_scales() {
	/usr/bin/python3 -c '
import sys, numpy as np
n, cut, rng = int(sys.argv[1]), int(sys.argv[1]) * 3 // 4, np.random.default_rng(int(sys.argv[2]))
y = rng.integers(2, size=n)
z = rng.normal(size=(n, 8)) + np.outer(y - 0.5, rng.normal(size=8)) * 1.5
x = z * 10.0 ** np.array([-3, 3, 0, 2, -1, 1, -2, 3]) + np.array([1, 5e4, 0, 1000, 3, 40, 0.1, -2e4])
for name, part in (("wide.csv", slice(0, cut)), ("test.csv", slice(cut, n))):
    with open(name, "w") as f:
        for r, k in zip(x[part], y[part]):
            print(",".join(["%d" % k] + ["%.9g" % v for v in r]), file=f)' "$1" "$2"
}

# bats test_tags=slow
@test "a job of model, data and eval learns columns of any scale as well as scikit-learn" {
	has_module sklearn || skip "python3-sklearn is not installed"
	wide_scales 4000 11
	theirs=$(/usr/bin/python3 -c '
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
a, b = (np.loadtxt(p, delimiter=",") for p in ("wide.csv", "test.csv"))
print(make_pipeline(StandardScaler(), LogisticRegression()).fit(a[:, 1:], a[:, 0]).score(b[:, 1:], b[:, 0]))')
	echo '{ "job": { "model": "logistic", "data": "wide.csv?label=1", "eval": "test.csv?label=1" } }' >job.json
	ours=$(ps-ctl run job --json 2>/dev/null | tail -n 1 | jq .eval.accuracy)
	raw=$(ps-ctl run job --set scale=none --json 2>/dev/null | tail -n 1 | jq .eval.accuracy)
	echo "# pskit $ours, scikit-learn $theirs, without scaling $raw" >&3
	[ "$(jq -n "$ours > $theirs - 0.01")" = true ]
	[ "$(jq -n "$raw < $theirs - 0.05")" = true ]
	# The file of the model has the scaling.
	ps-ctl run job --json 2>/dev/null | tail -n 1 | jq -c '.eval | [.accuracy, .loss]' >want
	ps-work eval job.run/model.safetensors 'test.csv?label=1' --json | jq -c '[.accuracy, .loss]' >got
	diff want got
	ps-ctl show model | grep -q scale=auto
}

# goes_on SETTING...: what a job that resumes from the checkpoint of step 20 without scaling learns.
goes_on() {
	ps-ctl run old --resume "$from" --set steps=60 --set name=on "$@" --json 2>/dev/null | tail -n 1 | jq -c .eval
	grep -h 'data: ' on.run/worker-0.log >&2
}

@test "a job that goes on from a checkpoint without scaling stays without it" {
	people 5 600 | cut -d, -f 1,3- | sed 's/^?/30/; s/<=50K/0/; s/>50K/1/' >mere.csv
	echo '{ "workers": 1, "job": { "model": "logistic", "data": "mere.csv", "eval": "mere.csv", "steps": 40 } }' >old.json
	ps-ctl run old --set scale=none --set checkpoint_every=20 --set steps=20 --set deterministic=true >/dev/null 2>&1
	from=$(ls -d old.run/checkpoints/*20)
	goes_on --set scale=none --set deterministic=true >want
	goes_on --set deterministic=true >got
	cat want
	[ -s want ]
	diff want got
}

@test "several classes and real numbers get the models for them" {
	awk 'BEGIN { srand(3); print "a,b,kind"; for (i = 0; i < 900; i++) { k = i % 3; print k * 1000 + rand() * 500 "," k * k * 0.001 + rand() * 0.0005 ",k" k } }' >kinds.csv
	awk 'BEGIN { srand(4); print "a,b,price"; for (i = 0; i < 900; i++) { x = rand() * 1000; y = rand() / 1000; print x "," y "," 100000 + 50 * x + 3e7 * y } }' >prices.csv
	ps-ctl init --fast --data kinds.csv --eval kinds.csv kinds
	[ "$(jq -r .job.model kinds/cluster.json)" = softmax ]
	[ "$(ps-ctl run kinds/cluster --json 2>/dev/null | tail -n 1 | jq '.eval.accuracy > 0.95')" = true ]
	ps-ctl init --fast --data prices.csv --eval prices.csv prices
	[ "$(jq -r .job.model prices/cluster.json)" = linear ]
	[ "$(ps-ctl run prices/cluster --json 2>/dev/null | tail -n 1 | jq '.eval.r2 > 0.99')" = true ]
}

# The people of above with other cells, by awk; $1 to $4 are age, "town", weight and income.
# odd PROGRAM OFS: from train.csv and test.csv
odd() {
	for f in train test; do
		awk -F, -v OFS="$2" "NR == 1 { \$1 = \$1; print; next } { $1; print }" $f.csv >odd-$f.csv
	done
}

# accuracy_of: of what init makes of odd-train.csv on odd-test.csv
accuracy_of() {
	rm -rf there there.log
	ps-ctl init --fast --data odd-train.csv --eval odd-test.csv there >there.log 2>&1 || { cat there.log >&3; return 1; }
	ps-ctl run there/cluster --json 2>/dev/null | field eval.accuracy
}

# bats test_tags=slow
@test "tables as people have them train as well as the plain one" {
	people 1 1500 >train.csv
	people 2 700 >test.csv
	odd '$1 = $1' ,
	plain=$(accuracy_of)
	echo "# plain $plain" >&3
	[ "$(jq -n "$plain > 0.93")" = true ]
	check() {
		got=$(accuracy_of)
		echo "# $1 $got" >&3
		[ "$(jq -n "$got > $plain - 0.015")" = true ]
	}
	odd '$3 = $3 / 1000; sub(/[.]/, ",", $3)' ';'
	check 'decimal commas'
	odd '$3 = sprintf("\"$%d,%03d.50\"", $3 / 1000, $3 % 1000)' ,
	check currencies
	odd '$2 = substr($2, 2, length($2) - 2); if ($1 == "?") $1 = "."' ' '
	check blanks
	odd 'sub(/"$/, ", \"\"the\"\" town\"", $2)' '|'
	check 'quotes and bars'
	odd '$1 = $1 == "?" ? "" : sprintf("%d-%02d-01", 1970 + $1, NR % 12 + 1)' ,
	check dates
	odd '$4 = NR % 50 ? $4 : "?"; $2 = "row " NR "," $2' ,
	sed -i '1s/age,/age,name,/' odd-train.csv odd-test.csv
	sed -i 's/50K$/50K./' odd-test.csv
	check 'names of rows, gaps in labels, and a dot'
	grep -q 'ignored: column "name", which has a different text in almost every row' there.log
	grep -q 'ignored: 30 rows without a label' there.log
	# The label in the middle, below a comment, as spreadsheets on Windows write it.
	for f in train test; do
		awk -F, -v OFS='\t' 'NR == 1 { print "\xef\xbb\xbf# people\r"; $4 = "Class" } { print $1, $4, $3, $2 "\r" }' $f.csv >odd-$f.csv
	done
	check 'a label in the middle'
	grep -q 'label: column "Class"; to choose another one, add --set label=NAME' there.log
}

@test "codes are categories, and a target far from 0 trains" {
	awk 'BEGIN { srand(5); print "code,n,y"; for (i = 0; i < 1500; i++) { c = int(rand() * 8); print c "," rand() "," (c == 2 || c == 3 || c == 7) } }' >codes.csv
	ps-ctl init --fast --data codes.csv --eval codes.csv codes 2>codes.log
	grep -q 'categories: column "code", which has 8 distinct integers' codes.log
	[ "$(ps-ctl run codes/cluster --json 2>/dev/null | tail -n 1 | jq '.eval.accuracy > 0.99')" = true ]
	awk 'BEGIN { srand(4); print "a,t,price"; split("x y z", t, " "); for (i = 0; i < 1500; i++) { k = int(rand() * 3) + 1; x = rand() * 1000
		printf "%.3f,%s,\"$%d.00\"\n", x, t[k], 9e6 + 100 * x + 30000 * k } }' >prices.csv
	ps-ctl init --fast --data prices.csv --eval prices.csv prices
	ps-ctl run prices/cluster --json 2>/dev/null | tail -n 1 >result
	jq .eval result
	[ "$(jq '.eval.r2 > 0.9999 and .eval.rmse < 300' result)" = true ]
	# Predictions are prices.
	head -n 4 prices.csv | ps-work predict -C prices/cluster.run - >scores
	awk '$1 < 8e6 || $1 > 1e7 { exit 1 }' scores
	# So are they with every rule of the same rate, from the defaults.
	for rule in adagrad adam; do
		got=$(ps-ctl run prices/cluster --set name=$rule --set optimizer=$rule --set lr=0.01 --json 2>/dev/null | tail -n 1 | jq .eval.r2)
		echo "# $rule $got" >&3
		[ "$(jq -n "$got > 0.9")" = true ]
	done
}

@test "an example of weight 2 counts as two, and one of weight 0 not at all" {
	# Of two contradicting halves the one with weights wins.
	awk 'BEGIN { srand(6); print "x,w,y"; for (i = 0; i < 2000; i++) { x = rand() - 0.5; good = i % 3 == 0; print x "," (good ? 5000 : 0) "," ((x > 0) == good) } }' >w.csv
	ps-ctl init --fast --data 'w.csv?weight=w' --eval w.csv w
	ps-ctl run w/cluster --json 2>/dev/null | tail -n 1 >result
	jq .eval result
	[ "$(jq '.eval.accuracy > 0.98 and .eval.examples == 2000' result)" = true ]
	# Without weights these are a third of the examples.
	cut -d , -f 1,3 w.csv >plain.csv
	[ "$(ps-work eval -C w/cluster.run --json plain.csv | jq '.accuracy < 0.4')" = true ]
}

@test "a quoted cell that spans lines is read in memory, and refused in blocks" {
	awk 'BEGIN { print "n,text,y"; for (i = 0; i < 60000; i++) print i % 7 ",\"" (i % 2 ? "odd" : "even") "\nnumber\"," i % 2 }' >lines.csv
	ps-ctl init --fast --data lines.csv --eval lines.csv lines
	[ "$(ps-ctl run lines/cluster --set epochs=1 --json 2>/dev/null | field eval.accuracy)" = 1 ]
	run ps-ctl run lines/cluster --set epochs=1 --set data_memory=1M --set name=blocks
	echo "$output"
	[ "$status" -ne 0 ]
	[[ "$output" == *'lines.csv:2: a quoted cell does not end in its line; in data in blocks each record must be on one line'* ]]
}

@test "the words of a text are weighted by the frequencies of the training data, which go with the model" {
	awk 'BEGIN { srand(5); for (f = 1; f <= 2; f++) { file = f "-texts.csv"; print "body,y" >file
		for (i = 0; i < 400; i++) { y = i % 2; print "the film the day " (rand() < 0.8 ? y : 1 - y) "x of the year " int(rand() * 50) "," y >file } } }'
	echo '{"servers": 1, "workers": 2, "job": {"model": "logistic", "data": "1-texts.csv", "eval": "2-texts.csv", "label": "y", "text": "body", "text_weight": "tfidf", "epochs": 10}}' >texts.json
	result=$(ps-ctl run texts --json 2>err | tail -n 1)
	[ "$(jq '.state == "done" and .eval.auc > 0.65' <<<"$result")" = true ]
	# The model file alone is enough: evaluated without its training data, it gives the same figures.
	rm 1-texts.csv
	[ "$(ps-work eval texts.run/model.safetensors 2-texts.csv --json | jq .log_loss)" = "$(jq .eval.log_loss <<<"$result")" ]
	run ! ps-work eval texts.run/model.safetensors '2-texts.csv?text_weight=none'
	[[ $output == *"text_weight=none, but the training data were read with text_weight=tfidf: give them the same value"* ]]
}

@test "files that are no tables are named, with the remedy" {
	printf 'PK\3\4xl/worksheets' >book.xlsx
	/usr/bin/python3 -c 'import numpy; numpy.savez("arrays.npz", x=numpy.ones((3, 2)))'
	printf 'a\001,b\n1,2\n' >control.csv
	printf '\xff\xfea\0,\0b\0\n\0' >utf16.csv
	printf 'a\0,\0b\0\n\0' >low.csv
	printf '\0a\0,\0b\0\n' >high.csv
	printf '<!DOCTYPE html>\n<html>404</html>\n' >page.csv
	printf '\xef\xbb\xbf' >mark.csv
	printf '| a | y |\n|---|--:|\n| 1 | 0 |\n' >table.md
	printf '+---+---+\n| a | y |\n+===+===+\n' >framed.txt
	printf '[1.5, 2, 0]\n[2, 3, 1]\n' >lists.txt
	printf "{'a': 1, 'y': 0}\n{'a': 2, 'y': 1}\n" >dict.jsonl
	printf '@relation r\n@attribute a numeric\n@DATA\n1,0\n' >weka.arff
	printf 'a,y\n1,0\n' | gzip | gzip >twice.csv.gz
	printf 'a,y\n1,0\n' | zstd -q | zstd -q >twice.csv.zst
	printf 'BZh91AY&SY\1\2' >b.csv.bz2
	printf '\xfd7zXZ\0' >x.csv.xz
	tar cf - page.csv | gzip >table.tar.gz
	printf 'y\n1\n0\n' >one.csv
	printf 'a,y\n1,yes\n2,yes\n' >same.csv
	awk 'BEGIN { print "a,name"; for (i = 0; i < 30; i++) print i ",person " i }' >names.csv
	printf '[{"a": 1, "y": 0},\n {"a": 2, "y": 1}]\n' >list.json
	while read -r file words; do
		run ps-ctl init --fast --data "$file" nowhere
		echo "$output"
		[ "$status" -eq 1 ]
		[[ "${lines[-1]}" == "ps-ctl: "*"$file$words"* ]]
		[ "$(grep -c "^ps-ctl: " <<<"$output")" -eq 1 ]
	done <<-'END'
		book.xlsx : is an Excel workbook or another zip archive; save the sheet as CSV
		arrays.npz : is an npz archive of numpy; save the array alone, as with numpy.save
		control.csv :1: holds the control byte 0x01, and is in none of the formats; if it is text, tr -d '\001' removes that byte
		utf16.csv : is text in UTF-16; convert it with iconv -f UTF-16 -t UTF-8
		low.csv : is text in UTF-16; convert it with iconv -f UTF-16LE -t UTF-8
		high.csv : is text in UTF-16; convert it with iconv -f UTF-16BE -t UTF-8
		page.csv : is XML or a web page; check the address of the download
		mark.csv : is empty
		table.md : is a table with a frame, as in Markdown; convert it with sed -n '/^[-+|:= ]*$/d; s/^ *|//; s/| *$//; s/ *| */|/gp'
		framed.txt : is a table with a frame, as in Markdown; convert it with sed
		lists.txt : has its lines in brackets; convert it with tr -d '[]'
		dict.jsonl : is a dictionary of Python and no JSON; write it with json.dumps
		weka.arff : is ARFF; sed '1,/^@data/Id' removes its header, and leaves CSV
		twice.csv.gz : is compressed twice; decompress it once, as with gunzip
		twice.csv.zst : is compressed twice; decompress it once, as with unzstd
		b.csv.bz2 : is compressed with bzip2; compress it with gzip or zstd instead
		x.csv.xz : is compressed with xz; compress it with gzip or zstd instead
		table.tar.gz : is a tar archive; extract its files
		one.csv :1: has one column; a table needs a label and features
		same.csv : all labels are "yes"; a model of classes needs at least two
		names.csv : the labels are 30 different texts in 30 rows, too many for classes; if another column is the label, add --set label=NAME
		list.json :1: a line must be an object, got the start of an array; convert it with jq -c '.[]'
	END
	[ ! -e nowhere ]
	mkdir folder
	run -1 ps-ctl init --fast --data folder nowhere
	[ "$output" = "ps-ctl: \"$PWD/folder\" is a directory; name its files, as \"$PWD/folder/*\"" ]
	people 1 100 | gzip >tail.csv.gz
	echo junk >>tail.csv.gz
	run -1 ps-ctl init --fast --data tail.csv.gz nowhere
	[ "$output" = "ps-ctl: \"$PWD/tail.csv.gz\" has other bytes after its gzip data; gzip -dc writes the data without them" ]
	[ "$(gzip -dc tail.csv.gz 2>/dev/null | wc -l)" -eq 101 ]
	# The remedies make tables of them.
	awk 'BEGIN { print "| a | town | y |"; print "|--:|------|---|"; for (i = 0; i < 50; i++) printf "| %d | a-b | %s |\n", i, i % 3 ? "yes" : "no" }' >long.md
	remedy=$(ps-ctl init --data long.md nowhere 2>&1 | sed 's/.*convert it with //')
	eval "$remedy long.md" >from.csv
	eval "$(ps-ctl init --fast --data weka.arff nowhere 2>&1 | sed 's/.*is ARFF; \(sed .*\) removes.*/\1/') weka.arff" | grep -xq 1,0
	ps-ctl init --fast --data from.csv from
	run ps-ctl run from/cluster --json
	[ "$(jq .examples <<<"${lines[-1]}")" -gt 0 ]
	printf 'a,y\n1,yes\n2,No\n3,Yes\n' >spelt.csv
	run ps-ctl init --fast --data spelt.csv spelt
	[[ "$output" == *'warning: the labels "Yes" and "yes" are different classes; correct the file if they should be the same'* ]]
}

@test "init writes no file that cannot be run" {
	people 1 300 >train.csv
	# Its last line can be given to a shell.
	run -0 ps-ctl init --fast --data train.csv "a b"
	[ "${lines[-1]}" = "next: ps-ctl run 'a b/cluster.json'" ]
	run -2 ps-ctl init --fast --data train.csv --model auto nowhere
	[[ $output == *'no model "auto"; this version has linear, '* ]]
	run -4 ps-ctl init --fast --data gone.csv nowhere
	[ "$output" = "ps-ctl: cannot open \"$PWD/gone.csv\": No such file or directory" ]
	run -4 ps-ctl init --fast --data train.csv --eval gone.csv nowhere
	[ "$output" = "ps-ctl: --eval: no such file \"$PWD/gone.csv\"" ]
	run -4 ps-ctl init --fast --data 'gone*.csv' nowhere
	run -4 ps-ctl init --fast --data train.csv --eval 'gone*.csv' nowhere
	run -78 ps-ctl init --fast --data train.csv --eval 'train.csv?format=gone' nowhere
	cp train.csv $'caf\xe9.csv'
	run -78 ps-ctl init --fast --data $'caf\xe9.csv' nowhere
	[[ $output == *"its name is not UTF-8; rename it, or make a link"* ]]
	[ ! -e nowhere ]
	ps-ctl init --fast --data train.csv
	[ -z "$(tail -c 1 cluster.json | tr -d '\n')" ]
	run -78 ps-ctl run cluster --set data=$'caf\xe9.csv'
	[[ $output == *"job.data: must be UTF-8 "* ]]
}

@test "init leaves out a column that counts the rows" {
	awk 'BEGIN { print ",a,y"; for (i = 0; i < 300; i++) print i "," (i * 7) % 50 "," (i > 150 ? "yes" : "no") }' >pandas.csv
	run -0 ps-ctl init --fast --data pandas.csv pandas
	[[ $output == *'ignored: column "", which counts the rows'* ]]
	[ "$(ps-ctl run pandas/cluster --json 2>/dev/null | tail -n 1 | jq .state)" = '"done"' ]
	[[ "$(ps-ctl -C pandas/cluster.run export w -o text 2>/dev/null)" == "w[0,0]"*"a" ]]
	# A trend is a feature, and so is a column with a gap.
	sed '1s/^/day/' pandas.csv >days.csv
	sed '1s/^/id/; 50d' pandas.csv >gap.csv
	for file in days gap; do
		run -0 ps-ctl init --fast --data $file.csv $file
		[[ $output != *ignored* ]]
	done
	[[ $(ps-ctl init --fast --data 'pandas.csv?ignore=a' given 2>&1) != *counts* ]]
}

@test "init knows a table of ratings by the names of its columns" {
	awk 'BEGIN {
		srand(5)
		print "stars,userId,movie,timestamp"
		for (i = 0; i < 3000; i++) {
			u = int(rand() * 30); m = int(rand() * 40)
			print 1 + (u + m) % 5 ",u" u ",Film " m "," 1000 + i
		}
	}' >stars.csv
	run -0 ps-ctl init --fast --data stars.csv --eval stars.csv stars
	[[ $output == 'ratings: columns "userId", "movie" and "stars"; to read a table instead, add --set format=csv'* ]]
	[ "$(jq -r .job.model stars/cluster.json)" = mf ]
	ps-ctl run stars/cluster --json 2>/dev/null | tail -n 1 | jq -e '.eval.examples == 3000 and .eval.rmse < 1.2'
	# Not with a model that does not read them, with an option of tables, or with more columns.
	ps-ctl init --fast --data stars.csv --model softmax table
	ps-ctl init --fast --data 'stars.csv?label=stars' label
	sed 's/^/x,/; 1s/^x/genre/' stars.csv >genres.csv
	ps-ctl init --fast --data genres.csv genres
	[ "$(jq -r .job.model table/cluster.json label/cluster.json genres/cluster.json | xargs)" = "softmax softmax linear" ]
	# A model of ratings takes no other columns, and says how to name them; in memory, in blocks, and of a stream.
	for how in epochs=1 data_memory=1M; do
		run -78 --separate-stderr ps-ctl run label/cluster --set model=mf --set $how
		[[ $stderr == *'is CSV, but the model needs a user, an item and a rating'*'?user=NAME&item=NAME&rating=NAME'* ]]
	done
	run -78 --separate-stderr ps-ctl run label/cluster --set model=bpr
	[[ $stderr == *'is CSV, but the model needs a user and an item'* ]]
	run --separate-stderr ps-ctl run stars/cluster --set user=none --set item=none --set rating=none \
		--set "data=$PWD/stars.csv?follow=yes" --set eval= --set validate=none --set stop=none --set epochs=0
	[[ $stderr == *'"userId", "movie" and "stars" are columns 2, 3 and 1'*'?user=2&item=3&rating=1'* ]]
}

# bats test_tags=slow
@test "init tries two models on a sample, and writes the better one" {
	awk 'BEGIN { srand(11); print "x,z,y"; for (i = 0; i < 1200; i++) { x = rand() * 4 - 2; z = rand(); printf "%.3f,%.3f,%.3f\n", x, z, 10 * x * x + z } }' >curve.csv
	run -0 ps-ctl init --data curve.csv curve
	[[ $output == *'model: mlp, by a trial on a sample: mlp r2 '*', linear r2 '* ]]
	[ "$(jq -c '[.workers, .job.model, .job.loss, .job.validate, .job.stop]' curve/cluster.json)" = '[1,"mlp","squared","20%","r2 patience=10"]' ]
	ps-ctl run curve/cluster --json 2>/dev/null | tail -n 1 | jq -e '.eval.r2 > 0.97'
	# The simpler model, unless the other is better.
	awk -F, 'NR > 1 { $3 = 2 * $1 - $2 } { print $1 "," $2 "," $3 }' curve.csv >line.csv
	run -0 ps-ctl init --data line.csv line
	[[ $output == *'model: linear, by a trial on a sample: linear r2 '*', mlp r2 '* ]]
	# A linear model of few rows trains on all of them, with a prior of its weights.
	jq -e '.job.validate == null and (.job.l2 * 1200 - 1 | fabs) < 0.01' line/cluster.json
	# Sparse data get a network, too, if it is better; an interrupted trial leaves no files.
	awk -F, 'NR > 1 { print $3, "1:" $1, "2:" $2 }' curve.csv >curve.libsvm
	TMPDIR=$PWD/empty run -0 ps-ctl init --data curve.libsvm sparse
	[[ $output == *'model: '*'mlp r2 '*', linear r2 '* && ! -e empty ]]
	# The loss follows the labels, and --set the choice.
	run -0 ps-ctl init --data curve.csv --model mlp --set epochs=3 --set sync=asp given
	[[ $output != *trial* ]]
	[ "$(jq -c '[.sync, .job.loss, .job.epochs]' given/cluster.json)" = '["asp","squared",3]' ]
	run -78 ps-ctl init --data curve.csv --fast --set epohcs=3 wrong
	[ ! -e wrong ]
	[ "$(ps-ctl init --fast --data curve.csv --set model=fm fm 2>/dev/null; jq -c '[.job.model, .job.loss]' fm/cluster.json)" = '["fm","squared"]' ]
}

@test "init lists the columns of all files, and passes over bad lines" {
	awk 'BEGIN { srand(12); for (f = 1; f <= 2; f++) { file = "part-" f ".csv"; print "id,zip,age,visits" >file
		for (i = 0; i < 300; i++) { v = int(-log(rand()) * 1.5); v = f == 1 && v > 5 ? 5 : v
			printf "%d,%05d,%s,%d\n", i, i % 40 * 251, i % 10 ? 20 + i % 50 : "?", v >file } } }'
	echo 'oops' >>part-1.csv
	run -0 ps-ctl init --fast --data 'part-*.csv' both
	[[ $output == *$'\nzip '*' number '*' 40  categories: has digits with leading zeros'* ]]
	[[ $output == *$'\nage '*' number '*' 10 % '*' feature'* ]]
	[[ $output == *'distinct integers are taken for counts, not classes'* ]]
	[[ $output == *'bad lines: 1 of 603 passed over, the first one '*'part-1.csv:302: has 1 column'* ]]
	[ "$(jq -c '[.job.model, .job.bad_lines]' both/cluster.json)" = '["linear","skip:12"]' ]
	ps-ctl run both/cluster --set epochs=1 2>/dev/null | grep '^done: '
	# A number that only the evaluation data have as their label is no class.
	awk 'BEGIN { print "x,y"; for (i = 0; i < 300; i++) print i * 7 % 31 "," i % 3 }' >three.csv
	awk 'BEGIN { print "x,y"; for (i = 0; i < 300; i++) print i * 7 % 31 "," i % 4 }' >four.csv
	ps-ctl init --fast --data three.csv --eval four.csv counts
	ps-ctl init --fast --data three.csv --eval three.csv classes
	[ "$(jq -r .job.model counts/cluster.json classes/cluster.json | xargs)" = "linear softmax" ]
	# Texts and lists.
	awk 'BEGIN { print "body,kinds,y"; for (i = 0; i < 60; i++) print "the film no " i " was seen,k" i % 3 "|k" i % 2 "," (i % 3 ? "yes" : "no") }' >films.csv
	run -0 ps-ctl init --fast --data films.csv films
	[[ $output == *'text: column "body", which has 6.0 words in a cell'*'lists: column "kinds", which has parts between "|"'* ]]
	[ "$(jq -c '.job | [.data, .label, .text, .lists, .scale]' films/cluster.json)" = "[\"$PWD/films.csv\",\"y\",\"body\",\"kinds\",\"standard\"]" ]
	# Another label is chosen by its key, before the file is looked at; other data keep it.
	run -0 ps-ctl init --fast --data 'films.csv?head=60' --set label=kinds kinds
	[[ $output == *'target: "kinds", 6 classes'* ]]
	[ "$(jq -c '.job | [.data, .label, .text]' kinds/cluster.json)" = "[\"$PWD/films.csv?head=60\",\"kinds\",\"body\"]" ]
	head -n 31 films.csv >today.csv
	run -0 --separate-stderr ps-ctl run kinds/cluster --set data=today.csv --set epochs=1
	[[ $stderr == 'job: softmax (job.model) predicts column kinds, '*' classes (job.label) from 2 columns of 30 rows (job.data: today.csv)'* ]]
	# The labels behind the first MiB of a sorted file count.
	awk 'BEGIN { print "x,y"; for (i = 0; i < 200000; i++) print i * 7 % 3001 "," (i < 150000 ? "low" : "high") }' >sorted.csv
	ps-ctl init --fast --data sorted.csv sorted
	[ "$(jq -r .job.model sorted/cluster.json)" = logistic ]
}

@test "init knows ratings without names, and observations" {
	awk 'BEGIN { srand(13); for (i = 0; i < 3000; i++) printf "%d\t%d\t%d\t%d\n", rand() * 100, rand() * 90, 1 + rand() * 5, 880000000 + i }' >u.data
	run -0 ps-ctl init --data u.data rated
	[[ $output == *'ratings: four columns of numbers'*'user: column 1, item: column 2, rating: column 3'* ]]
	awk 'BEGIN { print "movieId,userId"; for (i = 0; i < 300; i++) print i % 17 "," i % 31 }' >seen.csv
	run -0 ps-ctl init --data seen.csv seen
	[[ $output == *'observations without ratings: columns "userId" and "movieId"'*'user: column 2 "userId", item: column 1 "movieId"'* ]]
	[ "$(jq -r .job.model rated/cluster.json seen/cluster.json | xargs)" = "mf bpr" ]
	# Options of ratings do not say that there are any.
	run -0 ps-ctl init --data 'seen.csv?format=ratings' options
	[ "$(jq -r .job.model options/cluster.json)" = bpr ]
	ps-ctl run seen/cluster --set epochs=1 2>/dev/null | grep '^done: '
}

@test "init looks at a glob, at bytes, and not at a pipe" {
	people 1 1000 >mon.csv
	people 2 500 >tue.csv
	ps-ctl init --fast --data '[mt]*.csv' days
	[[ "$(jq -r .job.data days/cluster.json)" == *'/[mt]*.csv' ]]
	[ "$(ps-ctl run days/cluster --set epochs=2 --json 2>/dev/null | tail -n 1 | jq .examples)" -eq 3000 ]
	# More bytes than init looks at in a text.
	/usr/bin/python3 -c 'import struct, sys
sys.stdout.buffer.write(struct.pack(">HBBIII", 0, 8, 3, 3000, 20, 20) + bytes(i % 251 for i in range(3000 * 400)))' >t-images-idx3-ubyte
	/usr/bin/python3 -c 'import struct, sys
sys.stdout.buffer.write(struct.pack(">HBBI", 0, 8, 1, 3000) + bytes(i % 10 for i in range(3000)))' >t-labels-idx1-ubyte
	ps-ctl init --fast --data t-images-idx3-ubyte bytes
	[ "$(jq -c '.job | [.model, .batch]' bytes/cluster.json)" = '["softmax",null]' ]
	mkfifo pipe
	run -78 --separate-stderr ps-ctl init --fast --data pipe nowhere
	[ "$stderr" = "ps-ctl: $PWD/pipe is a pipe, which can be read only once, and init reads data several times; save them to a file" ]
	run -78 --separate-stderr ps-ctl init --fast --data - nowhere </dev/null
	[ "$stderr" = "ps-ctl: standard input can be read only once, and init reads data several times; save them to a file" ]
	# A name with a question mark; numbers that a float does not tell apart are no codes.
	awk 'BEGIN { print "when,y"; for (i = 0; i < 300; i++) printf "%d,%d\n", 1600000000 * 1000 + i, i % 2 }' >'is it?.csv'
	run ps-ctl init --fast --data 'is it?.csv' question
	[ "${lines[-1]}" = "next: ps-ctl run question/cluster.json" ]
	[[ "$output" != *categories* ]]
}

@test "a living model scores a table without labels, whose columns are in another order" {
	people 1 2000 >train.csv
	ps-ctl init --fast --data train.csv
	ps-ctl start cluster --set epochs=0 --set steps=1000000 --set quota_pushes=120 >/dev/null
	ps-ctl wait -C cluster.run --for step=30 --timeout 60s
	ps-ctl checkpoint -C cluster.run >/dev/null
	for of in cluster.run cluster.run/checkpoints/step-*; do
		ps-ctl -C "$of" export w -o text | cut -f 3 | paste -sd ' ' >names
		diff names - <<<'age weight town=Lima town=Oslo town=Paris town=Rome'
	done
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
	run ps-ctl init --fast --data 'train.jsonl?label=income' --eval test.jsonl here
	echo "$output"
	[ "$status" -eq 0 ]
	accuracy=$(ps-ctl run here/cluster --json 2>/dev/null | field eval.accuracy)
	echo "# accuracy $accuracy" >&3
	[ "$(jq -n "$accuracy > 0.93")" = true ]
	# In blocks, with the first block as the schema.
	people 1 60000 >train.csv
	as_jsonl train.csv >train.jsonl
	accuracy=$(ps-ctl run here/cluster --set data_memory=1M --set epochs=10 --json 2>/dev/null | field eval.accuracy)
	grep -q 'data: .* bytes in [0-9]* blocks' here/cluster.run/worker-0.log
	[ "$(jq -n "$accuracy > 0.93")" = true ]
	head -n 5 test.jsonl | jq -c 'del(.income)' >new.jsonl
	ps-work predict -C here/cluster.run new.jsonl >scores
	[ "$(wc -l <scores)" -eq 5 ]
}

# bats test_tags=slow
@test "a table of 12,000 columns is scaled and trains" {
	perl -e 'srand(1); for my $i (1..40) { print join(",", map { sprintf "%.2f", rand(50) } 1..12000), ",", $i % 2, "\n" }' >wide.csv
	echo '{"name":"wide","servers":1,"workers":1,"job":{"model":"logistic","data":"wide.csv?label=last&scale=standard","epochs":2}}' >wide.json
	ps-ctl run wide.json 2>/dev/null | grep '^done: '
}

# bats test_tags=slow
@test "JSON Lines without end, or with columns without end, are refused in bounded memory" {
	# AddressSanitizer reserves more addresses than that.
	local bound=400000
	[ -z "${PS_SANITIZED:-}" ] || bound=unlimited
	for bomb in 'print "{\"a\":\"" . "x" x 300_000_000 . "\"}"' \
	            'print "{\"y\":1"; print ",\"$_\":1" for 1..1_000_000; print "}"' \
	            'print "{\"y\":[" . "1," x 1_000_000 . "1]}"' \
	            'print "{\"y\":1"; print ",\"$_\":1" for 1..70_000; print "}\n"' \
	            'print "{\"y\":" . "[" x 1_000_000'; do
		perl -e "$bomb" >bomb.jsonl
		run bash -c "ulimit -v $bound; ps-ctl init --fast --data bomb.jsonl bomb"
		echo "$output"
		[ "$status" -eq 1 ]
		[ "${#lines[@]}" -eq 1 ]
		[[ "$output" == 'ps-ctl: '*'/bomb.jsonl:1: '* ]] || [[ "$output" == 'ps-ctl: '*'/bomb.jsonl:1:'*': maximum parsing depth'* ]]
	done
}

@test "what is wrong with a table is said with its place and the remedy" {
	printf 'a,b,y\n1,2,0\n3,x,1\n5,6,0\n' >stray.csv
	run ps-ctl init --fast --data stray.csv
	[ "$status" -ne 0 ]
	[[ "$output" == *'stray.csv:3:2: expected a number, got "x"; if the column has categories, use ?categories=2'* ]]
	run ps-ctl init --fast --data 'stray.csv?categories=c'
	[[ "$output" == *'categories=c: there is no such column'* ]]
	[ ! -e cluster.json ]
}

# bats test_tags=slow
@test "ratings in any columns, with names, train as those of numbers in the first three do" {
	awk -v OFS=, 'BEGIN { srand(8); print "stars,\"title, year\",seen,reviewer" > "named.csv"
		for (k = 0; k < 40000; k++) {
			u = int(rand() * 60); i = int(rand() * 40); r = 3 + u % 3 - i % 3 + (rand() - 0.5) / 2
			print u, i, r >"plain.csv"
			print r, "\"The \"\"Film\"\", part " i "\"", 2000, "reviewer " u >"named.csv"
		}
	}'
	ps-ctl init --fast --data 'plain.csv?format=ratings' --eval 'plain.csv?format=ratings' plain
	ps-ctl init --fast --data 'named.csv?user=reviewer&item=title%2C year&rating=1' --eval 'named.csv?user=4&item=2&rating=stars' named
	# With the model mf, a table is one of ratings.
	ps-ctl init --model mf --data plain.csv --eval plain.csv short
	[[ $(jq -r .job.data short/cluster.json) == *plain.csv ]]
	for name in plain named short; do
		[ "$(jq -r .job.model $name/cluster.json)" = mf ]
		got=$(ps-ctl run $name/cluster --json 2>/dev/null | tail -n 1 | jq .eval.r2)
		echo "# $name $got" >&3
		[ "$(jq -n "$got > 0.9")" = true ]
	done
	# A user that no example has trained adds nothing to the score, whoever it is.
	[ "$(printf '900,3,1\n901,3,1\n902,3,1\n' | ps-work predict short/cluster.run --follow 2>/dev/null | sort -u | wc -l)" = 1 ]
	ps-work predict short/cluster.run plain.csv 2>/dev/null >scores
	head -n 3 plain.csv | ps-work predict short/cluster.run --follow 2>/dev/null | cmp - <(head -n 3 scores)
	ps-ctl run short/cluster --set data_memory=1M --json 2>/dev/null | tail -n 1 | jq -e '.eval.r2 > 0.9'
	# In blocks the header holds for all of them.
	got=$(ps-ctl run named/cluster --set data_memory=1M --json 2>/dev/null | tail -n 1 | jq .eval.r2)
	grep -q 'data: .* bytes in [0-9]* blocks' named/cluster.run/worker-0.log
	[ "$(jq -n "$got > 0.9")" = true ]
}

@test "predictions as CSV and JSON Lines have ids, and the probability of each class by its name" {
	awk 'BEGIN { srand(3); print "who,a,b,buys"
		for (i = 0; i < 600; i++) {
			a = rand(); b = rand()
			printf "%d.50,%.3f,%.3f,%s\n", i, a, b, (a > b + 0.1 ? "yes" : a < b - 0.1 ? "no" : "\"perhaps, \"\"later\"\"\"")
		} }' >train.csv
	printf '{"name":"c","workers":1,"job":{"model":"softmax","data":"train.csv?id=who","epochs":3}}' >c.json
	ps-ctl run c.json >/dev/null
	{ head -n 1 train.csv; tail -n 300 train.csv; } >new.csv
	ps-work predict c.run new.csv 2>/dev/null >plain
	ps-work predict --csv c.run new.csv 2>/dev/null >scores.csv
	ps-work predict --json c.run new.csv 2>/dev/null >scores.jsonl
	ps-work predict --follow --csv c.run <new.csv 2>/dev/null | cmp - scores.csv
	ps-work eval --detail --json c.run new.csv 2>/dev/null >eval.json
	ps-work eval --detail c.run new.csv 2>/dev/null | grep -q $'^no\t'
	/usr/bin/python3 -c '
import csv, json
rows = list(csv.DictReader(open("scores.csv")))
names = ["no", "perhaps, \"later\"", "yes"]
truth = [r["buys"] for r in csv.DictReader(open("new.csv"))]
plain = [line.rstrip("\n").split("\t") for line in open("plain")]
objects = [json.loads(line) for line in open("scores.jsonl")]
assert list(rows[0]) == ["id", "prediction"] + ["probability_" + n for n in names], rows[0]
assert [r["id"] for r in rows] == ["%d.50" % i for i in range(300, 600)] == [o["id"] for o in objects]
for r, o, p in zip(rows, objects, plain):
    each = [float(r["probability_" + n]) for n in names]
    assert abs(sum(each) - 1) < 1e-5 and r["prediction"] == names[each.index(max(each))] == o["prediction"] == p[0]
    assert abs(float(p[1]) - max(each)) < 1e-5 and list(o["probability"]) == names
table = json.load(open("eval.json"))
assert table["confusion"]["classes"] == names
assert table["confusion"]["count"] == [
    [sum(t == a and r["prediction"] == b for t, r in zip(truth, rows)) for b in names] for a in names]
assert sum(b["examples"] for b in table["calibration_table"]) == 300
assert abs(sum(b["examples"] * abs(b["predicted"] - b["observed"]) for b in table["calibration_table"]) / 300 -
    table["calibration_error"]) < 1e-6
'
}
