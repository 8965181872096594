#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Update rules and synchronization of single tables (job.rules): in each mode and exchange, in checkpoints, and
# while the job runs.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	awk 'BEGIN { srand(2); for (i = 1; i <= 256; i++) {
		printf "%d", rand() < 0.4; for (f = 0; f < 4; f++) printf " %d:%d:1", f, f * 50 + int(rand() * 50); print "" } }' >clicks.ffm
	cat >deep.json <<-END
	{ "servers": 2, "workers": 2, "replicas": 2, "deterministic": true, "job": { "model": "wide_deep", "hidden": [8], "factors": 4,
	  "data": "clicks.ffm?format=ffm", "steps": 30, "batch": 32 } }
	END
}
teardown() { teardown_dir; }

digest_of() {
	train "$@" && DIGEST=$(res .model_digest)
}

# table_of NAME: the digest of a table of the model that was trained last.
table_of() { ps-ctl export "$1" -C "$T/deep.run" -o text | sha256sum; }

@test "a rule for all tables is the job's rule, and the first pattern that matches a table holds" {
	digest_of deep.json --set optimizer=adam --set lr=0.01
	first=$DIGEST
	digest_of deep.json --set optimizer=sgd --set lr=9 --set 'rules=*:optimizer=adam lr=0.01'
	[ "$DIGEST" = "$first" ]
	digest_of deep.json --set optimizer=sgd --set lr=9 --set 'rules=v:lr=0.01 optimizer=adam, w*:optimizer=adam lr=0.01, b?:optimizer=adam lr=0.01, *:lr=3'
	[ "$DIGEST" = "$first" ]
	digest_of deep.json --set optimizer=adam --set lr=0.01 --set 'rules=b1:lr=0.02'
	[ "$DIGEST" != "$first" ]
}

# bats test_tags=slow
@test "each table moves by its own rule: bsp, asp, and workers that update by themselves" {
	# After one step, a table does not depend on the rules of the others.
	one=(--set steps=1 --set workers=1)
	for set in "sync=bsp" "sync=asp deterministic=false" "via=allreduce deterministic=false workers=2"; do
		set=("${one[@]}" $(printf -- '--set %s ' $set))
		train deep.json "${set[@]}" --set optimizer=adagrad --set lr=0.1
		w=$(table_of w0)
		train deep.json "${set[@]}" --set optimizer=momentum --set lr=0.1
		[ "$(table_of w0)" != "$w" ]
		v=$(table_of v)
		train deep.json "${set[@]}" --set optimizer=momentum --set lr=0.1 --set "rules=w0:optimizer=adagrad lr=0.1"
		[ "$(table_of w0)" = "$w" ] || { echo "${set[*]}: w0"; return 1; }
		[ "$(table_of v)" = "$v" ] || { echo "${set[*]}: v"; return 1; }
	done
	# The two parts of wide_deep.
	train deep.json "${one[@]}" --set optimizer=adagrad --set lr=0.1
	wide=$(table_of wide) v=$(table_of v)
	train deep.json "${one[@]}" --set optimizer=adagrad --set lr=0.1 --set "rules=wide:optimizer=ftrl lr=0.1 l1=1000"
	[ "$(table_of wide)" != "$wide" ]
	[ "$(table_of v)" = "$v" ]
	# Workers that take several steps by themselves.
	write_csv train.csv
	echo '{ "workers": 1, "deterministic": true, "local_steps": 2, "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none",
	  "steps": 5, "batch": 8, "lr": 0.01 } }' >local.json
	digest_of local.json --set deterministic=false --set optimizer=adagrad --set lr=0.1
	first=$DIGEST
	digest_of local.json --set deterministic=false --set "rules=*:optimizer=adagrad lr=0.1"
	[ "$DIGEST" = "$first" ]
	digest_of local.json --set deterministic=false --set "rules=w:optimizer=adagrad lr=0.1"
	[ "$DIGEST" != "$first" ]
	run -78 --separate-stderr ps-ctl run local.json --set rules=w:optimizer=adagrad
	[[ $stderr == *"job.rules: with local_steps and deterministic w must have optimizer sgd"* ]]
}

@test "checkpoints have the state of each table's rule: the same bits after a resume, a new run that begins with the model, and no other rule" {
	rules='rules=v:optimizer=ftrl lr=0.05 l1=0.1, w*:optimizer=amsgrad, b1:lr=0.3'
	# On a fast machine the job would be over before the coordinator can order a checkpoint of its middle.
	slow=(--set slow=30ms)
	set=(--set checkpoint_every=15 --set "$rules" "${slow[@]}")
	digest_of deep.json "${set[@]}"
	first=$DIGEST
	cp -r deep.run/checkpoints/step-000000000015 half
	digest_of deep.json "${set[@]}" --resume half
	[ "$DIGEST" = "$first" ]
	# b0 has adagrad's vector and w0 those of amsgrad, also where v has none.
	digest_of deep.json --set checkpoint_every=15 --set "rules=v:optimizer=sgd, w*:optimizer=amsgrad" "${slow[@]}"
	first=$DIGEST
	cp -r deep.run/checkpoints/step-000000000015 bare
	digest_of deep.json --set "rules=v:optimizer=sgd, w*:optimizer=amsgrad" --resume bare
	[ "$DIGEST" = "$first" ]
	run -78 --separate-stderr ps-ctl run deep.json --set 'rules=v:optimizer=ftrl, w*:optimizer=amsgrad' --resume bare
	[[ $stderr == *'was made with an update rule of 0 vectors for table "v", but ftrl has 2'* ]]
	# A model's state goes on where the rule is the same, and begins anew elsewhere.
	train deep.json --set 'rules=v:optimizer=ftrl, w*:optimizer=adam' --set init_from="$PWD/half"
}

# bats test_tags=slow
@test "rowwise_adagrad and rowwise_adam: one number for each row in servers, replicas and checkpoints, another rule and back" {
	set=(--set checkpoint_every=15 --set optimizer=adagrad --set slow=30ms)
	digest_of deep.json "${set[@]}"
	first=$DIGEST
	digest_of deep.json "${set[@]}" --set "rules=v:optimizer=rowwise_adagrad lr=0.05"
	[ "$DIGEST" != "$first" ]
	first=$DIGEST
	cp -r deep.run/checkpoints/step-000000000015 half
	/usr/bin/python3 - half/server-0.state.safetensors <<-END
		import json, struct, sys
		f = open(sys.argv[1], "rb")
		shape = {k: v["shape"] for k, v in json.loads(f.read(struct.unpack("<Q", f.read(8))[0])).items() if k[0] == "v"}
		assert shape and all(s[1] == 1 for s in shape.values()), shape
	END
	digest_of deep.json "${set[@]}" --set "rules=v:optimizer=rowwise_adagrad lr=0.05" --resume half
	[ "$DIGEST" = "$first" ]
	run -78 --separate-stderr ps-ctl run deep.json "${set[@]}" --resume half
	[[ $stderr == *'was made with an update rule whose state for table "v" differs from that of adagrad'* ]]
	digest_of deep.json "${set[@]}" --set "rules=v:optimizer=rowwise_adam lr=0.01"
	first=$DIGEST
	rm -r half
	cp -r deep.run/checkpoints/step-000000000015 half
	digest_of deep.json "${set[@]}" --set "rules=v:optimizer=rowwise_adam lr=0.01" --resume half
	[ "$DIGEST" = "$first" ]
	begin deep.json --set deterministic=false --set steps=$ENDLESS --set quota_pushes=80
	for rule in rowwise_adagrad adam rowwise_adam rowwise_adagrad rowwise_adam adagrad; do
		run -0 ps-ctl set -C "$RUN" "rules=v:optimizer=$rule"
		steps_on 5
	done
	[ "$(http GET /v1/servers | jq '[.servers[].pushes_refused] | add')" -eq 0 ]
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
}

@test "a table, rule or key that does not exist is told in one sentence, before and while the job runs" {
	for case in 'v:optimizer=ftlr|job.rules: v: no update rule "ftlr"; did you mean "ftrl"?' \
		'v:optimzer=ftrl|job.rules: v: no key "optimzer"; did you mean "optimizer"?' 'v:lr=0|job.rules: v: job.lr: must be > 0, got 0' \
		'x:lr=1|job.rules: the model has no table "x"'; do
		run -78 --separate-stderr ps-ctl run deep.json --set "rules=${case%%|*}"
		[[ $stderr == *"${case#*|}"* ]] || { echo "$case: $stderr"; return 1; }
	done
}

@test "a live change of lr leaves alone what has its own, and rules change at a step" {
	[ -e train.csv ] || write_csv train.csv
	cat >live.json <<-END
	{ "servers": 2, "workers": 2, "replicas": 2, "quota_pushes": 80, "job": { "model": "linear", "data": "train.csv?label=y&scale=none", "batch": 16,
	  "optimizer": "sgd", "lr": 1e-30, "steps": $ENDLESS, "rules": "w:optimizer=momentum lr=1e-30" } }
	END
	begin live.json
	wait_for 20 step_is_past 5
	run -0 ps-ctl get config -C "$RUN" rules lr --origin
	[[ ${lines[0]} == "job.rules=w:optimizer=momentum lr=1e-30  (file)" ]]
	[ "$(http GET /v1/tables | jq -c '[.tables[] | [.id, .optimizer]]')" = '[["w","momentum"],["b","sgd"]]' ]
	run -0 ps-ctl set -C "$RUN" lr=0.01
	wait_for 20 eval '[ "$(status .settings_step)" != null ]'
	steps_on 5
	# w is what 1e-30 leaves of its gradients, and b has moved.
	ps-ctl export w -C "$RUN" -o text | awk '$2 > 1e-20 || $2 < -1e-20 { exit 1 }'
	run -1 eval 'ps-ctl export b -C "$RUN" -o text | awk "\$2 > 1e-20 || \$2 < -1e-20 { exit 1 }"'
	run -78 --separate-stderr ps-ctl set -C "$RUN" rules=x:lr=1
	[[ $stderr == *'job.rules: there is no table "x"'* ]]
	run -78 --separate-stderr ps-ctl set -C "$RUN" rules=w:rate=1
	[[ $stderr == *'job.rules: w: no key "rate"'* ]]
	run -0 ps-ctl set -C "$RUN" rules=none
	[[ $output =~ ^rules=none:\ from\ step\ [0-9]+\ on$ ]]
	wait_for 20 eval '! ps-ctl export w -C "$RUN" -o text | awk "\$2 > 1e-20 || \$2 < -1e-20 { exit 1 }"'
	[ "$(http GET /v1/tables | jq -c '[.tables[] | .optimizer]')" = '["sgd","sgd"]' ]
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
}

# A table of 70000 values, which is divided into two partitions unless its rule acts on whole tables.
lamb_data() {
	awk 'BEGIN { srand(3); for (i = 0; i < 60; i++) { s = 0; t = ""
		for (f = 0; f < 10; f++) { x = rand() - 0.5; s += f % 2 ? x : -x; t = t x "," }
		print t (s > 0) } }' >layers.csv
	cat >layers.json <<-END
	{ "servers": 1, "workers": 2, "deterministic": true, "job": { "model": "mlp", "hidden": [7000], "steps": 6, "batch": 10,
	  "data": "layers.csv?label=last&scale=none", "optimizer": "lamb", "lr": 0.02, "l2": 0.01 } }
	END
}

# bats test_tags=slow
@test "lamb: a layer is a whole table: the same bits over one server and several, with replicas and after a resume" {
	lamb_data
	digest_of layers.json
	first=$DIGEST
	for set in "servers=2" "servers=3 replicas=2" "servers=2 pull_delta=true"; do
		digest_of layers.json $(printf -- '--set %s ' $set)
		[ "$DIGEST" = "$first" ] || { echo "$set: $DIGEST, not $first"; return 1; }
	done
	digest_of layers.json --set servers=2 --set replicas=2 --set checkpoint_every=3
	cp -r layers.run/checkpoints/step-000000000003 half
	jq -e '.tables[] | select(.name == "w0") | .whole and .parts == 1 and .rows * .cols == 70000' half/MANIFEST.json >/dev/null
	digest_of layers.json --set servers=2 --resume half
	[ "$DIGEST" = "$first" ]
	# All-reduce makes the updates of the servers, in workers.
	digest_of layers.json --set via=allreduce --set deterministic=false --set servers=2
	[ "$DIGEST" = "$first" ]
	# Pushes of one worker that are applied on arrival; and other codings, which make about the same updates.
	one=(--set workers=1 --set servers=2 --set deterministic=false)
	digest_of layers.json "${one[@]}" --set sync=asp
	first=$DIGEST loss=$(res .train_loss)
	for set in "sync=asp replicas=2" "sync=ssp:1 pull_delta=true servers=1"; do
		digest_of layers.json "${one[@]}" $(printf -- '--set %s ' $set)
		[ "$DIGEST" = "$first" ] || { echo "$set: $DIGEST, not $first"; return 1; }
	done
	for set in "codec=f16" "sync=asp codec=int8 pull_codec=bf16" "local_steps=2 outer=average steps=3"; do
		train layers.json "${one[@]}" $(printf -- '--set %s ' $set)
		jq -e "(.train_loss - $loss) | fabs < 0.02" layers.run/result.json >/dev/null || { echo "$set: $(res .train_loss), not $loss"; return 1; }
	done
	# A push that could take more than a record is sent as raw values.
	train layers.json --set hidden=20000 --set codec=raw
	loss=$(res .train_loss)
	train layers.json --set hidden=20000 --set deterministic=false --set codec=topk:0.9
	jq -e "(.train_loss - $loss) | fabs < 0.02" layers.run/result.json >/dev/null || { echo "$(res .train_loss), not $loss"; return 1; }
}

@test "lamb: a table that is divided or too large is refused in one sentence, before and while the job runs" {
	lamb_data
	run -78 --separate-stderr ps-ctl run layers.json --set hidden=27000
	[[ $stderr == *'job.optimizer: table "w0" has 270000 values, and lamb acts on tables of at most 262144; '* ]]
	train layers.json --set hidden=27000 --set steps=2 --set rules=w0:optimizer=adam
	train layers.json --set optimizer=adam --set checkpoint_every=3
	cp -r layers.run/checkpoints/step-000000000003 divided
	run -78 --separate-stderr ps-ctl run layers.json --resume divided
	[[ $stderr == *'job.optimizer: table "w0" is divided into 2 partitions, and lamb acts on whole tables'* ]]
	begin layers.json --set deterministic=false --set steps=$ENDLESS --set quota_pushes=80 --set optimizer=adam
	run -78 --separate-stderr ps-ctl set -C "$RUN" optimizer=lamb
	[[ $stderr == *'job.optimizer: table "w0" is divided into 2 partitions, and lamb acts on whole tables'* ]]
	# Small tables are whole in any case, and cannot grow while their rule needs them so.
	run -0 ps-ctl set -C "$RUN" optimizer=lamb rules=w0:optimizer=adam
	steps_on 5
	ps-ctl table add emb --rows 100 --cols 4 -C "$RUN"
	run -78 --separate-stderr ps-ctl table grow emb --rows 200 -C "$RUN"
	[[ $stderr == *'table "emb" cannot grow: its update rule acts on whole tables'* ]]
	run -78 --separate-stderr ps-ctl table add large --rows 100000 --cols 4 -C "$RUN"
	[[ $stderr == *'table "large" has 400000 values, and lamb acts on tables of at most 262144'* ]]
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
}

# The rows of wide_deep in asp; its layers have the sync of the job.
ROWS_ASP="rules=v:sync=asp, wide:sync=asp"

# measured MEMBER NAME: a member of the last line about the cluster in the metrics of NAME.run.
measured() {
	jq -s "map(select(.kind == \"cluster\")) | last | .$1" "$T/$2.run/metrics.jsonl"
}

# bats test_tags=slow
@test "rows on arrival beside layers in bsp: on clicks as good as bsp, by as many steps" {
	need_data criteo-80k/train60k.ffm.zst criteo-80k/test20k.ffm.zst
	cat >clicks.json <<-END
	{ "servers": 2, "workers": 4, "job": { "model": "wide_deep", "data": "$DATA/criteo-80k/train60k.ffm.zst?format=ffm",
	  "eval": "$DATA/criteo-80k/test20k.ffm.zst?format=ffm" } }
	END
	for seed in 1 4 5; do
		train clicks.json --set seed=$seed
		bsp+=" $(res .eval.auc)" steps=$(res .steps)
		train clicks.json --set seed=$seed --set "$ROWS_ASP"
		rows+=" $(res .eval.auc)"
		[ "$(res .steps)" = "$steps" ]
		[ "$(res .examples)" = 60000 ]
		# Both kinds of pushes, and each of them once.
		[ "$(measured pushes_applied clicks)" -gt "$(measured pushes_merged clicks)" ]
		[ "$(measured pushes_merged clicks)" -ge "$steps" ]
		[ "$(measured pushes_late clicks)" = 0 ]
	done
	echo "# bsp:$bsp; rows on arrival:$rows" >&3
	jq -en --arg a "$bsp" --arg b "$rows" '[$a, $b] | map(ltrimstr(" ") | split(" ") | map(tonumber) | add / length) | (.[0] - .[1]) < 0.002'
}

@test "rows on arrival: one worker ends with the same bits with replicas and after a resume" {
	one=(--set workers=1 --set deterministic=false --set "$ROWS_ASP")
	digest_of deep.json "${one[@]}"
	first=$DIGEST
	for set in "replicas=1 servers=1" "replicas=2 servers=3"; do
		digest_of deep.json "${one[@]}" $(printf -- '--set %s ' $set)
		[ "$DIGEST" = "$first" ] || { echo "$set: $DIGEST, not $first"; return 1; }
	done
	# Slow enough for a checkpoint in the middle.
	digest_of deep.json "${one[@]}" --set checkpoint_every=10 --set slow=20ms
	cp -r deep.run/checkpoints/step-000000000010 early
	digest_of deep.json "${one[@]}" --resume early
	[ "$DIGEST" = "$first" ]
}

@test "rows on arrival: gradients of a straggler count for rows when they are late for the layers" {
	straggler=(--set deterministic=false --set workers=3 --set backup=1 --set slow=5ms,worker-2x4)
	train deep.json "${straggler[@]}"
	all_late=$(measured pushes_late deep)
	train deep.json "${straggler[@]}" --set "$ROWS_ASP"
	late=$(measured pushes_late deep)
	# Its pushes to 32 partitions of rows are not among the late ones, those to 4 layers are.
	echo "late: $late, without rows on arrival $all_late"
	[ "$late" -gt 0 ]
	[ $((2 * late)) -lt "$all_late" ]
}

@test "rows on arrival begin and end while the job runs, and what they cannot go with is refused" {
	begin deep.json --set deterministic=false --set steps=$ENDLESS --set quota_pushes=120
	steps_on 5
	ps-ctl set -C "$RUN" "$ROWS_ASP"
	steps_on 5
	wait_for 20 applies_some
	run -78 --separate-stderr ps-ctl set -C "$RUN" sync=asp
	[[ $stderr == *'sync: must be bsp with job.rules v:sync=asp'* ]]
	ps-ctl set -C "$RUN" sync=asp rules=none
	steps_on 5
	ps-ctl set -C "$RUN" sync=bsp "$ROWS_ASP"
	steps_on 5
	ps-ctl checkpoint take -C "$RUN" >/dev/null
	ps-ctl set -C "$RUN" rules=none
	steps_on 5
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
	for set in sync=ssp:2 deterministic=true via=allreduce local_steps=2 "robust=trimmed:1 workers=4"; do
		run -78 --separate-stderr ps-ctl run deep.json --set deterministic=false --set "$ROWS_ASP" $(printf -- '--set %s ' $set)
		[[ $stderr == *": must be "*" with job.rules v:sync=asp"* ]] || { echo "$set: $stderr"; return 1; }
	done
}

# Has a push been applied on arrival?
applies_some() { [ "$(http GET /v1/servers | jq "[.servers[].pushes_applied] | add")" -gt 0 ]; }
