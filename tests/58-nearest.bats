#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The nearest rows of a table: ps-work nearest beside a comparison of all rows in Python.

bats_require_minimum_version 1.5.0
load lib/helper

setup() {
	setup_dir
}

teardown() {
	teardown_dir
}

# ratings: 60 users and 40 items, some of which are words; users like items of their own parity.
ratings() {
	awk 'BEGIN {
		srand(3)
		for (u = 0; u < 60; u++)
			for (k = 0; k < 12; k++) {
				i = int(rand() * 40)
				printf "%s\t%s\t%d\n", (u < 3 ? "anna" u : u), (i == 7 ? "tea" : i), (u % 2 == i % 2 ? 5 : 1)
			}
	}'
}

# trained MODEL [settings]: a finished run of this model on ratings.tsv, as MODEL.safetensors; the cluster stays.
trained() {
	local model=$1
	shift
	echo "{ \"servers\": 2, \"job\": { \"model\": \"$model\", \"data\": \"ratings.tsv\", \"factors\": 5, \"epochs\": 8, \"batch\": 20 } }" >"$model.json"
	ps-ctl start "$model" "$@" 2>/dev/null
	ps-ctl wait -C "$model.run" --for done
	ps-ctl export all -C "$model.run" >"$model.safetensors"
}

# plainly MODEL QUERY-ID KIND METRIC BY-WEIGHT: the nearest ids among those of a kind, by all rows.
plainly() {
	python3 - "$@" <<-'END'
	import json, struct, sys
	path, query, kind, metric, weighs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:] == ["weighs"]
	f = open(path, "rb")
	head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
	data = f.read()
	def tensor(name, code, size):
	    a, b = head[name]["data_offsets"]
	    return struct.unpack("<%d%s" % ((b - a) // size, code), data[a:b])
	ids, w = tensor("v.ids", "Q", 8), tensor("v", "f", 4)
	n = len(w) // len(ids)
	rows = {i: w[k * n:k * n + n] for k, i in enumerate(ids)}
	q = rows[query]
	def dot(a, b): return sum(x * y for x, y in zip(a, b))
	def score(r):
	    if weighs: return r[0] + dot(q[1:], r[1:])
	    s = dot(q[1:], r[1:])
	    return s if metric == "dot" else s / (dot(q[1:], q[1:]) * dot(r[1:], r[1:])) ** .5
	order = sorted((i for i in rows if i % 2 == kind and i != query), key=lambda i: -score(rows[i]))
	print("\n".join("%d %.4f" % (i, score(rows[i])) for i in order[:5]))
	END
}

# found ARGUMENT...: the ids and scores that ps-work nearest prints as JSON.
found() {
	ps-work nearest "$@" -k 5 --json | jq -r '.nearest[] | "\(.id) \(.score)"' | awk '{ printf "%s %.4f\n", $1, $2 }'
}

@test "users and items of mf: of a model file, a living cluster and a checkpoint" {
	ratings >ratings.tsv
	trained mf
	# User 8 is row 16, item 6 is row 13.
	[ "$(plainly mf.safetensors 16 1 dot weighs)" = "$(found mf.safetensors v user=8)" ]
	[ "$(plainly mf.safetensors 16 1 dot weighs)" = "$(found mf.safetensors v 16)" ]
	[ "$(plainly mf.safetensors 16 1 cosine)" = "$(found mf.safetensors v user=8 --metric cosine)" ]
	[ "$(plainly mf.safetensors 16 0 cosine)" = "$(found mf.safetensors v user=8 --among user)" ]
	[ "$(plainly mf.safetensors 13 1 cosine)" = "$(found mf.safetensors v item=6)" ]
	[ "$(plainly mf.safetensors 13 1 dot)" = "$(found -C mf.run v item=6 --metric dot)" ]
	# Names are words where the data have words, and the best one of a cluster is that of the file.
	ps-work nearest mf.safetensors v item=tea -k 39 >of.tea
	[ "$(wc -l <of.tea)" = 39 ]
	! grep -q "	item=tea	" of.tea
	ps-work nearest -C mf.run v item=tea -k 39 | cmp - of.tea
	[ "$(ps-work nearest mf.safetensors v user=anna1 -k 40 | grep -c "	item=tea	")" = 1 ]
	# Items that were rated, and others that are not wanted, are left out.
	awk -F'\t' '$1 == 8 { print "item=" $2 }' ratings.tsv | sort -u >rated
	ps-work nearest mf.safetensors v user=8 -k 40 --rated ratings.tsv | cut -f 2 | sort >new
	[ "$(($(wc -l <new) + $(wc -l <rated)))" = 40 ]
	[ -z "$(comm -12 new rated)" ]
	head -n 3 new >not
	ps-work nearest mf.safetensors v user=8 -k 40 --rated ratings.tsv --exclude not | cut -f 2 | sort >rest
	[ "$(comm -23 new rest)" = "$(cat not)" ]
	# Queries in a file, beside those of the command line; a vector counts as a user.
	printf 'user=9\n\nuser=10' >users
	ps-work nearest mf.safetensors v user=8 --from users -k 2 >three
	[ "$(cut -f 1 three | uniq | tr '\n' ' ')" = "user=8 user=9 user=10 " ]
	[ "$(printf 'user=10\n' | ps-work nearest mf.safetensors v --from - -k 2)" = "$(tail -n 2 three)" ]
	[ "$(ps-work nearest mf.safetensors v 0,0,0,0,0 -k 1 | cut -f 3)" = "$(python3 - <<-'END'
	import json, struct
	f = open("mf.safetensors", "rb")
	head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
	data = f.read()
	a, b = head["v.ids"]["data_offsets"]
	ids = struct.unpack("<%dQ" % ((b - a) // 8), data[a:b])
	a, b = head["v"]["data_offsets"]
	w = struct.unpack("<%df" % ((b - a) // 4), data[a:b])
	print("%.6g" % max(w[k * 6] for k, i in enumerate(ids) if i % 2))
	END
	)" ]
	ps-ctl checkpoint -C mf.run >/dev/null 2>&1 || true
	ps-ctl stop -C mf.run >/dev/null
	ps-work nearest -C mf.run v item=tea -k 39 2>/dev/null | cmp - of.tea
}

@test "a question that has no answer is refused, and says how to ask" {
	ratings >ratings.tsv
	trained bpr
	ps-ctl stop -C bpr.run >/dev/null
	refused() {
		local code=$1 text=$2
		shift 2
		run -"$code" ps-work nearest "$@"
		echo "$output"
		[[ $output == *"$text"* ]]
	}
	refused 4 'no row "user=100": no example' bpr.safetensors v user=100
	refused 4 '"tea" is not a row of table "v"' bpr.safetensors v tea
	refused 2 'has 3 numbers, but the vectors of table "v" have 5' bpr.safetensors v 1,2,3
	refused 2 'in two calls' bpr.safetensors v user=8 item=6
	refused 2 'no kind "word"' bpr.safetensors v user=8 --among word
	refused 2 '--rated needs users' bpr.safetensors v item=6 --rated ratings.tsv
	refused 2 'give a query' bpr.safetensors v
	refused 4 'no table' bpr.safetensors w 1
	refused 2 'dot|cosine' bpr.safetensors v 1 --metric l2
	# bpr has no bias, and its items are ranked by the same rule.
	[ "$(plainly bpr.safetensors 16 1 dot weighs)" = "$(found bpr.safetensors v user=8)" ]
}

@test "words: the nearest are those of ps-work words, and a dense table has rows, too" {
	awk 'BEGIN { srand(1); for (i = 0; i < 3000; i++) printf "w%d ", int(rand() * rand() * 40); print "" }' >a.txt
	echo '{ "job": { "model": "word2vec", "factors": 6, "data": "a.txt?format=text", "epochs": 2 } }' >w.json
	ps-ctl run w.json >/dev/null 2>&1
	ps-work words -C w.run w3 w5 2>/dev/null >words
	ps-work nearest -C w.run v w3 w5 2>/dev/null | awk -F'\t' '{ printf "%s\t%s\t%.4f\n", $1, $2, $3 }' | cmp - words
	printf 'x,y,c\n' >t.csv
	awk 'BEGIN { srand(2); for (i = 0; i < 300; i++) { x = rand(); y = rand(); printf "%.3f,%.3f,%s\n", x, y, (x > y ? "a" : "b") } }' >>t.csv
	echo '{ "job": { "model": "softmax", "data": "t.csv", "epochs": 3 } }' >s.json
	ps-ctl run s.json >/dev/null 2>&1
	run ps-work nearest -C s.run w x
	[ "$status" = 0 ]
	[[ ${lines[-1]} == "x	y	-"* ]]
	[ "$(ps-work nearest -C s.run w '#0' 2>/dev/null | cut -f 2)" = y ]
}
