#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# A model file is enough: it describes its model, and needs neither the run nor the training data.

bats_require_minimum_version 1.5.0
load lib/helper

setup() {
	setup_dir
	mkdir tmp
	export TMPDIR=$T/tmp
}

teardown() {
	teardown_dir
}

# people SEED ROWS: age, town and weight decide who earns more.
people() {
	awk -v seed="$1" -v rows="$2" 'BEGIN {
		srand(seed)
		split("Oslo Rome Paris Lima", town, " ")
		print "age,town,weight,income"
		for (i = 0; i < rows; i++) {
			t = int(rand() * 4) + 1; a = 20 + int(rand() * 50); w = rand() * 1000000
			score = (a - 45) / 10 + (t - 2.5) * 2 + (w - 500000) / 250000
			printf "%s,\"%s\",%d,%s\n", a, town[t], w, (score > 0 ? ">50K" : "<=50K")
		}
	}'
}

# train MODEL DATA [settings]: a run; its predictions are in want, and the file is all that is left.
train() {
	local model=$1 data=$2
	shift 2
	echo "{ \"servers\": 2, \"workers\": 2, \"job\": { \"model\": \"$model\", \"optimizer\": \"sgd\", \"lr\": 0.1, \"data\": \"$data\", \"epochs\": 3, \"batch\": 20 } }" >job.json
	ps-ctl start job "$@" 2>/dev/null
	ps-ctl wait --for done
	ps-ctl export all >live.safetensors
	ps-work predict "$data" >want
	ps-ctl stop >/dev/null
	cmp live.safetensors job.run/model.safetensors
	ps-ctl -C job.run export all >"$model.safetensors" 2>/dev/null
	rm -r job.run job.json
}

# The description of a model file.
described() {
	python3 -c 'import json, struct, sys
f = open(sys.argv[1], "rb")
print(json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))["__metadata__"]["pskit"])' "$1"
}

@test "a table with text: classes, scaling and categories go with the file" {
	people 1 800 >train.csv
	train logistic 'train.csv?scale=standard' --set epochs=40
	described logistic.safetensors >about
	[ "$(jq -c '.facts.classes' about)" = '["<=50K",">50K"]' ]
	[ "$(jq -c '.facts.schema.columns[1]' about)" = '{"name":"town","kind":"category","values":["Lima","Oslo","Paris","Rome"]}' ]
	[ "$(jq -r '.config.job.model' about)" = logistic ]
	run -1 grep -F "job.run" about
	cp train.csv test.csv
	rm train.csv
	ps-work predict logistic.safetensors test.csv | cmp - want
	# Without the column of labels, and in another order.
	awk -F, '{ print $3 "," $2 "," $1 }' test.csv >bare.csv
	ps-work predict logistic.safetensors bare.csv | cmp - want
	ps-work eval logistic.safetensors test.csv --json | jq -e '.accuracy > 0.9 and .examples == 800'
	head -n 4 bare.csv | ps-work predict logistic.safetensors --follow | cmp - <(head -n 3 want)
	[ -z "$(ls tmp)" ]
}

@test "--follow: a line that does not fit the model changes no answer to the lines before it" {
	awk 'BEGIN { srand(1); for (i = 0; i < 400; i++) print (rand() < 0.9) " 0:" int(rand() * 5) ":1 1:" 5 + int(rand() * 5) ":1" }' >a.ffm
	train ffm 'a.ffm?format=ffm' --set epochs=5
	{ head -n 1 a.ffm && echo '0 7:3:1'; } >lines
	run -1 --separate-stderr ps-work predict ffm.safetensors --follow --format ffm <lines
	[ "$output" = "$(head -n 1 want)" ]
	[[ $stderr == *"the data has 8 fields, but the model was made for 2"* ]]
}

@test "dense and sparse tables, with and without labels, in every format of lines" {
	awk 'BEGIN { srand(2); for (i = 0; i < 300; i++) { a = rand(); b = rand(); print a "," b "," 2 * a - b } }' >n.csv
	awk 'BEGIN { srand(3); for (i = 0; i < 300; i++) { u = int(rand() * 20); a = int(rand() * 30); y = (u * 7 + a) % 2
		print y " 0:" u ":1 1:" 20 + a ":1" >"n.ffm"
		print y " " u ":1 " 20 + a ":0.5" >"n.svm"
		print "__label__" (y ? "odd" : "even") " u" u " a" a >"n.fasttext"
		print (y ? 1 : -1) " |u u" u " |a a" a >"n.vw" } }'
	for case in linear,csv fm,svm ffm,ffm fasttext,fasttext logistic,vw; do
		model=${case%,*} kind=${case#*,}
		train "$model" "n.$kind"
		mv "n.$kind" "here.$kind"
		ps-work predict "$model.safetensors" "here.$kind" | cmp - want
		if [ "$kind" = csv ]; then
			cut -d, -f1,2 here.csv >bare.csv
		else
			cut -d' ' -f2- "here.$kind" >"bare.$kind"
		fi
		# Without labels, texts for fasttext are like any others.
		bare=bare.$kind$([ "$kind" != fasttext ] || echo "?format=fasttext")
		ps-work predict "$model.safetensors" "$bare" | cmp - want
		# A server of the file answers as the run did, and is as good a source.
		ps-serve --read-only "$model.safetensors" -C ro.run 2>ro.log 3>&- &
		pids+=($!)
		wait_for 10 test -S ro.run/ctl.sock
		ps-work predict -C ro.run "$bare" | cmp - want
		ps-ctl -C ro.run export all | cmp - "$model.safetensors"
		# It has read the file, and no copy of it.
		[ "$(find ro.run -size +0 -name '*.safetensors')" = "" ]
		ps-ctl -C ro.run stop
		wait_for 10 none_left ro.run
		rm -r ro.run
	done
}

@test "the words of word2vec go with the file" {
	awk 'BEGIN { srand(4); split("the king and queen of a far land went to their daughter", w, " ")
		for (i = 0; i < 3000; i++) printf "%s%s", w[int(rand() * 12) + 1], i % 12 == 11 ? "\n" : " " }' >text.txt
	echo '{ "servers": 2, "workers": 1, "job": { "model": "word2vec", "optimizer": "sgd", "lr": 0.1, "data": "text.txt", "epochs": 1 } }' >job.json
	ps-ctl run job >/dev/null
	ps-work words -C job.run >vectors 2>/dev/null
	ps-work words -C job.run king queen -n 3 >near 2>/dev/null
	ps-work eval -C job.run text.txt >loss 2>/dev/null
	mv job.run/model.safetensors words.safetensors
	mv text.txt other.txt
	rm -r job.run
	ps-work words words.safetensors | cmp - vectors
	ps-work words words.safetensors king queen -n 3 | cmp - near
	ps-work eval words.safetensors other.txt | cmp - loss
	run -4 ps-work words words.safetensors Atlantis
	[[ $output == *'"Atlantis" is not among the 12 trained words'* ]]
}

@test "a checkpoint, a run directory and a file are named in the same way" {
	people 1 400 >train.csv
	echo '{ "servers": 2, "workers": 1, "job": { "model": "logistic", "optimizer": "sgd", "lr": 0.1, "data": "train.csv?scale=standard", "epochs": 4, "batch": 20 } }' >job.json
	ps-ctl start job --set epochs=1000000 --set quota_pushes=120 2>/dev/null
	ps-ctl wait --for step=20
	ps-ctl stop 2>/dev/null
	ps-work predict -C job.run train.csv >want 2>/dev/null
	for model in job.run job.run/model.safetensors job.run/checkpoints/step-*; do
		ps-work predict "$model" train.csv 2>/dev/null | cmp - want
		ps-work predict -C "$model" train.csv 2>/dev/null | cmp - want
		PS_CLUSTER=$model ps-work predict train.csv 2>/dev/null | cmp - want
	done
	# The file of an older pskit has no description of its model; the state of its run does.
	rm -r job.run/checkpoints
	python3 -c 'import json, struct
f = open("job.run/model.safetensors", "rb").read()
n = struct.unpack("<Q", f[:8])[0]
head = json.loads(f[8:8 + n])
del head["__metadata__"]["pskit"]
text = json.dumps(head).encode()
open("job.run/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + f[8 + n:])'
	ps-work predict -C job.run train.csv 2>/dev/null | cmp - want
	run -1 --separate-stderr ps-work predict job.run/model.safetensors train.csv
	[[ $stderr == *"has no description of its model: an older pskit"* ]]
	run -2 ps-work predict -C job.run job.run/model.safetensors train.csv
	[[ $output == *"job.run/model.safetensors\" is a second model; the first is -C job.run"* ]]
}

@test "a large description is a file of the checkpoint and a tensor of the model, and nothing else has it" {
	awk 'BEGIN { srand(5); print "badge,age,income"
		for (i = 0; i < 400; i++) { a = int(rand() * 100); printf "c%0250d,%d,%d\n", i, a, (a > 50) } }' >train.csv
	head -n 100 train.csv >test.csv
	echo '{ "servers": 1, "workers": 2, "job": { "model": "logistic", "data": "train.csv", "batch": 20 } }' >job.json
	ps-ctl start job --set epochs=1000000 --set quota_pushes=120 2>/dev/null
	ps-ctl wait --for step=20
	ps-ctl checkpoint take >/dev/null
	ps-ctl export all >live.safetensors
	ps-ctl stop 2>/dev/null
	# Rows that are added to the training file change nothing.
	echo "$(printf '%0250d' 0 | tr 0 b),3,1" >>train.csv
	ps-work predict -C job.run test.csv >want 2>err
	run -1 grep 'worked out' err
	step=$(find job.run/checkpoints -name 'step-*' | sort | tail -n 1)
	for model in job.run/model.safetensors "$step"; do
		ps-work predict "$model" test.csv 2>/dev/null | cmp - want
	done
	ps-work predict live.safetensors test.csv >/dev/null
	[ "$(stat -c %s "$step/description.json")" -gt 100000 ]
	[ "$(stat -c %s "$step/MANIFEST.json")" -lt 65536 ]
	[ "$(stat -c %s job.run/state.json)" -lt 65536 ]
	described job.run/model.safetensors | jq -e '.facts | keys == ["blake2b", "size"]'
	# Any reader of the format finds the same text in the file.
	python3 -c 'import json, struct, sys
f = open("job.run/model.safetensors", "rb").read()
n = struct.unpack("<Q", f[:8])[0]
t = json.loads(f[8:8 + n])["pskit:description"]
assert t["dtype"] == "U8" and len(t["shape"]) == 1, t
sys.stdout.buffer.write(f[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])' | cmp - "$step/description.json"
	ps-ctl checkpoint verify "$step" >/dev/null
	# The job goes on by it.
	head -n -1 train.csv >as-before.csv
	mv as-before.csv train.csv
	ps-ctl start job --resume "$step" --set epochs=1000000 --set quota_pushes=120 2>/dev/null
	ps-ctl wait --for "step=$((10#${step##*-} + 5))"
	ps-ctl stop 2>/dev/null
}

@test "what is no model file is said in one sentence" {
	people 1 100 >train.csv
	train logistic train.csv
	one_sentence() {
		run --separate-stderr ps-work eval "$2" train.csv
		[ "$status" -eq "$1" ]
		[ -z "$output" ]
		[ "$(wc -l <<<"$stderr")" -eq 1 ]
		[[ $stderr == *"$3"* ]]
	}
	one_sentence 4 nowhere.safetensors 'cannot read the model "nowhere.safetensors": No such file'
	head -c 300 logistic.safetensors >cut.safetensors
	one_sentence 1 cut.safetensors 'cut.safetensors" is not a valid safetensors file'
	# As other programs write them.
	python3 -c 'import json, struct
head = json.dumps({"w": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}}).encode()
open("other.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + bytes(8))'
	one_sentence 1 other.safetensors '"other.safetensors" has no description of its model'
	run --separate-stderr ps-work predict logistic.safetensors
	[ "$status" -eq 2 ]
	[[ $stderr == *"give the path of data"* ]]
	run --separate-stderr ps-serve --read-only other.safetensors
	[ "$status" -eq 1 ]
	[[ $stderr == *'--read-only: "other.safetensors" has no description of its model'* ]]
	[ -z "$(ls tmp)" ]
}

# named [-C RUN]: the names of the rows of v, each once.
named() {
	ps-ctl "$@" export v -o text 2>/dev/null | cut -f 3 | sort -u | grep . || true
}

@test "users and items that are words keep their names: in blocks, in the cache, in checkpoints and in a job that begins with the model" {
	awk 'BEGIN { srand(3); print "who,what,stars"
		for (i = 0; i < 40000; i++) { u = int(rand() * 30); k = int(rand() * 20)
			printf "%s,\"%s\",%d\n", (u ? "user " u : 7), "Film, part " k, 1 + (u + k) % 5 } }' >old.csv
	printf 'user 3,"Film, part 4",5\ncarl,Jaws,3\n' >new.csv
	awk 'BEGIN { for (u = 1; u < 30; u++) print "user=user " u; for (k = 0; k < 20; k++) print "item=Film, part " k }' | sort >want
	write() {
		echo "{ \"servers\": 2, \"workers\": 2, \"job\": { \"model\": \"mf\", \"data\": \"$1.csv?format=ratings\", \"batch\": 500, \"epochs\": 2 } }" >"$1.json"
	}
	write old
	write new
	ps-ctl run old 2>/dev/null
	named -C old.run | diff want -
	ps-ctl -C old.run export v -o text 2>/dev/null | grep '^v\[14,0]' | run -0 awk -F '\t' '{ exit NF != 2 }'
	cp old.run/model.safetensors mf.safetensors
	described mf.safetensors >about
	[ "$(jq -r '.facts.hashed | (.user | length), (.item | keys[0])' about | tr '\n' '|')" = "29|Film, part 0|" ]
	# The file alone predicts, as the run does.
	ps-work predict mf.safetensors 'new.csv?format=ratings' 2>/dev/null >predicted
	ps-work predict old.run 'new.csv?format=ratings' 2>/dev/null | diff predicted -
	# In blocks, and from the cache.
	ps-ctl run old --set data_memory=1M 2>/dev/null
	grep -q 'data: .* bytes in [0-9]* blocks' old.run/worker-0.log
	named -C old.run | diff want -
	for turn in 1 2; do
		ps-ctl run old --set cache="$PWD/kept" 2>/dev/null
		named -C old.run | diff want -
	done
	grep -q 'parsed data: read from' old.run/worker-[01].log
	# In a checkpoint, and in the job that resumes from it.
	ps-ctl start old --set epochs=0 --set steps=1000000 --set quota_pushes=120 2>/dev/null
	ps-ctl wait -C old.run --for step=20
	ps-ctl stop -C old.run >/dev/null 2>&1
	from=$(find old.run/checkpoints -name 'step-*' | sort | tail -n 1)
	named -C "$from" | diff want -
	ps-ctl start old --resume "$from" --set epochs=0 --set steps=1000000 --set quota_pushes=120 2>/dev/null
	ps-ctl wait -C old.run --for "step=$((10#${from##*-} + 5))"
	named -C old.run | diff want -
	ps-ctl stop -C old.run --discard >/dev/null 2>&1
	# New words get names, and old ones keep theirs.
	ps-ctl run new --init-from mf.safetensors 2>/dev/null
	printf 'user=carl\nitem=Jaws\n' | sort - want | diff - <(named -C new.run)
}
