#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# What is left of runs: listed, compared, and as a page for a browser.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() { setup_training; }
teardown() { teardown_dir; }

# A job of 260 steps that takes more than a second on any machine, so that its curves have some points.
write_second() {
	write_cluster 20
	sed -i 's/"servers": 1,/"servers": 1, "quota_pushes": 200,/' lin.json
}

# Is page $1 well-formed, with nothing to load and nothing that runs?  Prints its text.
page_text() {
	/usr/bin/python3 - "$1" <<-'END'
	import html.parser, re, sys, xml.etree.ElementTree
	text = open(sys.argv[1], encoding='utf-8').read()
	void = {'meta', 'br', 'link', 'img', 'input', 'hr', 'base'}
	class Page(html.parser.HTMLParser):
	    open_tags, words = [], []
	    def handle_starttag(self, tag, attrs):
	        assert tag not in ('script', 'link', 'img', 'iframe', 'base', 'object', 'a'), tag
	        for name, value in attrs:
	            assert not name.startswith('on') and name not in ('src', 'href', 'style'), (tag, name)
	        if tag not in void:
	            self.open_tags.append(tag)
	    def handle_startendtag(self, tag, attrs):
	        pass
	    def handle_endtag(self, tag):
	        assert self.open_tags.pop() == tag, tag
	    def handle_data(self, data):
	        if 'style' not in self.open_tags:
	            self.words.append(data)
	page = Page()
	page.feed(text)
	page.close()
	assert not page.open_tags, page.open_tags
	assert 'http:' not in text and 'https:' not in text and 'url(' not in text and '@import' not in text
	for svg in re.findall(r'<svg.*?</svg>', text, re.S):
	    xml.etree.ElementTree.fromstring(svg)
	print('\n'.join(page.words))
	END
}

@test "runs and compare: settings that differ, results, curves at steps that all have reached" {
	write_second
	train lin.json --set eval_every=50
	train lin.json --set eval_every=50 --set lr=0.05 --set sync=ssp:3
	run -0 ps-ctl runs
	[ "${#lines[@]}" -eq 3 ]
	[[ ${lines[0]} == *"sync"*"job.lr" ]]
	[[ ${lines[1]} =~ ^lin.run.1\ +done\ .*\ bsp\ +0.3$ ]]
	[[ ${lines[2]} =~ ^lin.run\ +done\ .*\ ssp:3\ +0.05$ ]]
	ps-ctl runs --json >list
	[ "$(jq -r .run list | xargs)" = "lin.run.1 lin.run" ]
	[ "$(jq -c .differing list | sort -u)" = '["sync","job.lr"]' ]
	[ "$(sed -n 2p list | jq .result.eval.loss)" = "$(res .eval.loss)" ]
	[ "$(sed -n 1p list | jq -r '.kind, .settings["job.lr"], (.ended > .began)' | xargs)" = "run 0.3 true" ]

	run -0 ps-ctl compare lin.run.1 lin
	[[ $output == *"sync "*bsp*ssp:3* ]]
	[[ $output == *"steps "*"$(res .steps)"* ]]
	[[ $output == *"train_loss at step"* && $output == *"eval.loss at step"* ]]
	[ "${#lines[@]}" -le 45 ]
	# The best first, whatever the order in which they began.
	[ "$(ps-ctl runs --sort loss --json | jq -s 'map(.result.eval.loss) | . == sort')" = true ]
	[ "$(ps-ctl runs --sort seconds --json | jq -s 'map(.result.seconds) | . == sort')" = true ]
	run -2 ps-ctl runs --sort acuracy
	[[ $output == *'did you mean "accuracy"'* ]]
	# A run has one colour, beside other runs and alone, and another one than its neighbour.
	ps-ctl compare lin.run.1 lin -o plot.svg >/dev/null
	[ "$(grep -o 'path.class=c[01].{stroke:#[0-9a-f]*' plot.svg | cut -d: -f2 | sort -u | wc -l)" -eq 2 ]
	hue=$(grep -o 'path.class=c1.{stroke:#[0-9a-f]*' plot.svg | cut -d: -f2)
	ps-ctl report lin >page
	grep -q "^:root{--c0:$hue;" page
	ps-ctl compare lin.run.1 lin --json >diff
	[ "$(jq -c 'select(.kind == "setting") | [.name, .values]' diff)" = '["sync",["bsp","ssp:3"]]'$'\n''["job.lr",[0.3,0.05]]' ]
	[ "$(jq -c 'select(.kind == "figure" and .name == "steps").values' diff)" = "$(jq -sc 'map(.result.steps)' list)" ]
	jq -es 'map(select(.kind == "curve" and .name == "train_loss")) | length > 0 and all(.values | all(type == "number"))' diff
	# The same run has nothing that differs, and equal curves.
	run -0 ps-ctl compare lin lin --json
	[ -z "$(jq 'select(.kind == "setting")' <<<"$output")" ]
	jq -es 'map(select(.kind != "setting")) | all(.values[0] == .values[1])' <<<"$output"
}

@test "a run that lives, one that has crashed, and none" {
	endless
	begin lin.json
	run -0 ps-ctl runs --json
	[ "$(jq -r '.state, .ended' <<<"$output" | xargs)" = "running null" ]
	ps-ctl report lin.run >page
	page_text page | grep -qx running
	RUN=lin.run wait_for 20 step_is_past 100
	wait_for 20 ps-ctl compare lin lin --across steps --metric train_loss --json >plot
	[ "$(jq -r .state plot | xargs)" = "running running" ]
	ps-ctl status -C "$RUN" --json >status.json
	supervisor=$(sed -n 1p "$RUN/lock")
	kill -9 "$supervisor"
	wait_for 10 none_left "$RUN"
	run -0 ps-ctl runs
	[[ ${lines[1]} =~ ^lin.run\ +crashed ]]
	ps-ctl report lin >page
	page_text page | grep -q 'ended without a result'
	run -4 ps-ctl report nothing
	[[ $output == *'"nothing" is not a run directory'* ]]
	run -4 ps-ctl compare lin nothing
	run -4 ps-ctl runs nothing
	run -2 ps-ctl compare lin
	mkdir empty
	run -0 --separate-stderr ps-ctl runs empty
	[ -z "$output" ]
	[[ $stderr == *"no runs in empty"* ]]
}

@test "a page: result, curves, settings, events; and what files say is only text" {
	write_second
	train lin.json --set eval_every=50
	ps-ctl report lin >page
	text=$(page_text page)
	[[ $text == *"Settings that differ"*job.lr*0.3*0.1* ]]
	[[ $text == *"worker-0 joined from"* ]]
	[[ $text == *"$(res .model_digest)"* ]]
	for title in Loss "Evaluation: rmse" "Examples a second" "Bytes a second, of all workers"; do
		grep -q "<figcaption>$title" page
	done
	run ! grep -q 'nan\|inf' <(grep -o 'd="[^"]*"' page)
	# Whoever can write there cannot make a browser run anything.
	evil='</style></title><script>alert(1)</script><img src=x onerror=alert(1)>"'"'"
	jq -c --arg evil "$evil" '.name = $evil | .[$evil] = $evil' lin.run/cluster.json >c && mv c lin.run/cluster.json
	jq -c --arg evil "$evil" '.event = $evil | .text = $evil | .ts = $evil' lin.run/events.jsonl >c && mv c lin.run/events.jsonl
	jq -c --arg evil "$evil" '.model_digest = $evil | .state = $evil | .reason = $evil | .eval[$evil] = 1' lin.run/result.json >c && mv c lin.run/result.json
	jq -c --arg evil "$evil" '.eval[$evil] = 0.5 | .eval_step = .step' lin.run/metrics.jsonl >c && mv c lin.run/metrics.jsonl
	ps-ctl report lin >page
	[[ $(page_text page) == *"<script>alert(1)</script>"* ]]
	# Nor can it steer a terminal.
	jq -c '.lr = "\u001b[2Jgone"' lin.run/cluster.json >c && mv c lin.run/cluster.json
	cp -r lin.run two.run
	jq -c '.lr = "other"' lin.run/cluster.json >c && mv c lin.run/cluster.json
	ps-ctl runs >list
	grep -q '?\[2Jgone' list
	run ! grep -q $'\033' list
	# Torn, empty and strange files are no reason to fail.
	printf '{"ts":"2026-' >>lin.run/metrics.jsonl
	printf '[1]\nnull\n{}\n{"ts":5,"step":"x"}\n' >lin.run/events.jsonl
	ps-ctl report lin >page
	page_text page >/dev/null
	printf nonsense >lin.run/cluster.json
	: >lin.run/metrics.jsonl
	rm lin.run/result.json
	ps-ctl report lin >page
	page_text page | grep -q 'There are no curves'
}

# A run directory NAME.run with a cluster file, and samples "STEP SECONDS BYTES LOSS [AUC]" from standard input.
write_run() {
	mkdir "$1.run"
	printf '{"name":"%s","by_default":["%s"],"workers":1,"sync":"%s","job":{"model":"logistic","lr":%s}}' \
		"$1" "$1" "$2" "$3" >"$1.run/cluster.json"
	awk '{
		printf "{\"ts\":\"2026-01-02T03:04:%06.3fZ\",\"step\":%d,\"seconds\":%s,\"pushed_bytes\":%d,\"pulled_bytes\":%d,", $2, $1, $2, $3, $3
		printf "\"examples\":%d,\"train_loss\":%s", 10 * $1, $4
		if (NF > 4) printf ",\"eval_step\":%d,\"eval\":{\"loss\":%s,\"auc\":%s}", $1, $4, $5
		print "}"
	}' >"$1.run/metrics.jsonl"
}

write_three_runs() {
	printf '%s\n' "0 0 0 null" "10 1 100 0.7 0.6" "20 2 200 0.5 0.8" "30 3 300 0.4 0.85" | write_run a bsp 0.1
	printf '%s\n' "10 2 50 0.6 0.7" "20 4 100 0.3 0.9" | write_run b ssp:3 0.1
	# This one has not been evaluated yet.
	printf '%s\n' "5 1 10 0.9" | write_run c bsp 0.3
}

@test "one plot of several runs, and what each took to a target" {
	write_three_runs
	run -0 --separate-stderr ps-ctl compare a b c --across seconds --metric auc
	[[ $stderr == "c.run (crashed) has no sample with auc" ]]
	[[ $output == *"a  sync=bsp lr=0.1"*"b  sync=ssp:3 lr=0.1"*"c  sync=bsp lr=0.3"* ]]
	[[ $output == *"until auc >= 0.85, the worst of the runs' best values"* ]]
	[[ $output =~ a\ +a.run\ +bsp\ +0.1\ +crashed\ +0.85\ +30\ +3\ +600\ +300 ]]
	[[ $output =~ b\ +b.run\ +ssp:3\ +0.1\ +crashed\ +0.9\ +20\ +4\ +200\ +200 ]]
	[[ $output =~ c\ +c.run\ +bsp\ +0.3\ +crashed\ +-\ +-\ +-\ +-\ +- ]]
	# Lower is better, and the target may be given.
	ps-ctl compare a b --metric loss --target 0.5 --json >target
	[ "$(jq -c '[.kind, .metric, .target, .best, .steps, (.seconds | floor), .bytes, .examples]' target)" = \
		'["target","loss",0.5,0.4,20,2,400,200]'$'\n''["target","loss",0.5,0.3,20,4,200,200]' ]
	[ "$(jq -c .settings target)" = '{"sync":"bsp"}'$'\n''{"sync":"ssp:3"}' ]
	# Nobody gets there.
	[ "$(ps-ctl compare a b --metric loss --target 0.1 --json | jq -c .steps | xargs)" = "null null" ]
	# Without evaluations of all it is the training loss; a run of one sample is one point.
	ps-ctl compare a b c -x steps --json >target
	[ "$(jq -r .metric target | sort -u)" = train_loss ]
	[ "$(jq -c '[.best, .best_step]' target | xargs)" = "[0.4,30] [0.3,20] [0.9,5]" ]
	LC_ALL=C ps-ctl compare c c -x steps >plot
	run ! grep -qP '[^\x00-\x7f]' plot
	# Files cannot steer the terminal.
	jq -c '."\u001b[2Jkey" = "\u001b[2Jvalue"' b.run/cluster.json >x && mv x b.run/cluster.json
	ps-ctl compare a b -x steps >plot
	grep -q 'key=?\[2Jvalue' plot
	run ! grep -q $'\033' plot
}

@test "bytes of an all-reduce count for a plot, and are a row of the comparison" {
	write_three_runs
	run -0 ps-ctl compare a b
	[[ $output != *ring_bytes* ]]
	# Half as many bytes through the servers, and three times as many between the workers.
	jq -c '.ring_bytes = 3 * .pushed_bytes' b.run/metrics.jsonl >m && mv m b.run/metrics.jsonl
	[ "$(ps-ctl compare a b --metric loss --target 0.6 --json | jq -c .bytes | xargs)" = "400 250" ]
	run -0 ps-ctl compare a b
	[[ $output =~ ring_bytes\ +-\ +300 ]]
}

@test "a plot as a file: well-formed, with names as text, or a table of points" {
	write_three_runs
	evil='</style></text><script>alert(1)</script>"'"'"'&'
	jq -c --arg evil "$evil" '.sync = $evil' b.run/cluster.json >c && mv c b.run/cluster.json
	for axis in steps seconds bytes examples; do
		run -0 ps-ctl compare a b c --across $axis -o plot.svg
		[[ $output == *"until train_loss <= 0.9"* ]]
		/usr/bin/python3 - plot.svg <<-'END'
		import sys, xml.etree.ElementTree as tree
		root = tree.parse(sys.argv[1]).getroot()
		svg = '{http://www.w3.org/2000/svg}'
		assert root.tag == svg + 'svg', root.tag
		kinds = {e.tag for e in root.iter()}
		assert kinds <= {svg + k for k in ('svg', 'title', 'style', 'rect', 'text', 'g', 'line', 'path', 'circle')}, kinds
		texts = [e.text for e in root.iter(svg + 'text')]
		assert any(t and '<script>' in t for t in texts), texts
		assert 'sync=bsp lr=0.1' in texts, texts
		for path in root.iter(svg + 'path'):
		    assert 'nan' not in path.get('d') and 'inf' not in path.get('d'), path.get('d')
		assert len(list(root.iter(svg + 'circle'))) == 6
		END
		! command -v xmllint || xmllint --noout plot.svg
	done
	ps-ctl compare a b --metric auc -o plot.html >/dev/null
	[[ $(page_text plot.html) == *"auc across steps"*"Until auc >= 0.85"*"<script>"*"0.9"* ]]
	ps-ctl compare a b --metric auc -o plot.tsv >/dev/null
	[ "$(head -n 2 plot.tsv)" = "$(printf 'run\tsettings\tsteps\tseconds\tbytes\texamples\tauc\na.run\tsync=bsp\t10\t1\t200\t100\t0.6')" ]
	[ "$(awk -F '\t' 'NF == 7' plot.tsv | wc -l)" -eq 6 ]
}

@test "a plot that cannot be drawn is one sentence" {
	write_three_runs
	run -4 ps-ctl compare a b --metric rmse -o plot.svg
	[ "$output" = "ps-ctl: no sample of the runs has rmse; they have train_loss, eval.loss, auc" ]
	[ ! -e plot.svg ]
	run -2 ps-ctl compare a b --metric acu
	[[ $output == *'unknown metric "acu"; did you mean "auc"?' ]]
	run -2 ps-ctl compare a b -o plot.png
	[[ $output == *".svg, .html or .tsv"* ]]
	run -2 ps-ctl compare a b --target high
	run -2 ps-ctl compare a b --across epochs
	run -4 ps-ctl compare a nothing --across steps
	run -1 ps-ctl compare a b -o nowhere/plot.svg
	[ "${#lines[@]}" -eq 1 ]
	# Torn and strange samples are left out.
	printf '{"ts":"2026-01-02T03:04:05Z","step":"x"}\n[]\n{"ts":"2026-01-02T03:04:06Z","step":1,"train_loss":null}\n{"ts":"20' >>a.run/metrics.jsonl
	run -0 ps-ctl compare a b --metric auc --json
	[ "$(jq -c .best <<<"$output" | xargs)" = "0.85 0.9" ]
}

@test "emulated slow workers take their time, and are told of wherever the result is" {
	write_cluster 1
	train lin.json --set epochs=0 --set steps=10 --set slow=20ms,worker-1x3
	has .emulated job.slow=20ms,worker-1x3
	# Ten steps of 60 ms in lockstep, and the same model as without.
	at_least .seconds 0.6
	run ps-ctl status -C lin.run
	[[ $output == *"; emulated (job.slow=20ms,worker-1x3)"* && $output != *"one process"* ]]
	slow=$(res .model_digest)
	train lin.json --set epochs=0 --set steps=10
	has .emulated null
	has .model_digest "$slow"
	ps-ctl report lin.run.1 >page
	page_text page | grep -q 'slowed down by job.slow=20ms,worker-1x3'
	ps-ctl report lin.run >page
	run ! grep -q 'slowed down' page
	run -0 ps-ctl compare lin.run.1 lin.run
	[[ $output =~ emulated\ +job.slow=20ms,worker-1x3\ +- ]]
	run -0 ps-ctl compare lin.run.1 lin.run -x seconds
	[[ $output == *"a  slow=20ms,worker-1x3"*"b  slow=none"*"run a is emulated: job.slow=20ms,worker-1x3"* ]]
	run -0 ps-ctl sweep lin.json --grid lr=0.1 --set slow=1ms -x steps
	[[ $output == *"all points are emulated: job.slow=1ms"*"run a is emulated: job.slow=1ms"* ]]
	run -78 ps-ctl run lin.json --set slow=worker-2x3
	[[ $output == *"job.slow: there is no worker-2, because workers is 2"* ]]
	run -78 ps-ctl run lin.json --set slow=3x
	[[ $output == *"job.slow: must be none, or parts such as"* ]]
}

@test "an emulated link between servers delays the receipts of pushes, and is told of in the result" {
	write_cluster 1
	# The worker waits for each receipt: a record takes 20 ms to the replica, and its acknowledgement as long.
	local more=(--set servers=2 --set replicas=2 --set workers=1 --set sync=asp --set epochs=0 --set steps=25)
	train lin.json "${more[@]}" --set net=servers:40ms
	has .emulated net=servers:40ms
	at_least .seconds 1
	emulated=$(res .model_digest)
	train lin.json "${more[@]}"
	has .emulated null
	has .model_digest "$emulated"
	ps-ctl start lin.json "${more[@]}" --set steps="$ENDLESS" --set net=servers:40ms >/dev/null
	ps-ctl wait -C lin.run --for step=10 --timeout 60s
	ps-stat -C lin.run workers -wH >histograms
	cat histograms
	# No receipt within 17 ms, and there are ten.
	[ "$(awk '$2 == "push_latency" && $3 != "inf" && $3 < 0.03 { n += $4 } END { print n + 0 }' histograms)" -eq 0 ]
	[ "$(awk '$2 == "push_latency" { n += $4 } END { print (n >= 10) }' histograms)" -eq 1 ]
}

@test "an emulated link takes its time, trains the same model, and is told of wherever the result is" {
	write_cluster 1
	# Each of ten steps takes two round trips at least: parameters and the receipt of a push.
	train lin.json --set epochs=0 --set steps=10 --set net=10M,worker-1:40ms
	has .emulated net=10M,worker-1:40ms
	at_least .seconds 0.4
	emulated=$(res .model_digest)
	train lin.json --set epochs=0 --set steps=10
	has .emulated null
	has .model_digest "$emulated"
	run -0 ps-ctl compare lin.run.1 lin.run -x seconds
	[[ $output == *"a  net=10M,worker-1:40ms"*"b  net=none"*"run a is emulated: net=10M,worker-1:40ms"* ]]
	run -0 ps-ctl sweep lin.json --grid net=1G,100M --set slow=1ms -x steps
	[[ $output == *"run a is emulated: job.slow=1ms net=1"* ]]
	while read -r text error; do
		run -78 ps-ctl run lin.json --set slow=none --set "net=10M" --set "$text"
		[[ $output == *"$error"* ]] || { echo "$text: $output"; false; }
	done <<-END
	net=worker-2:1M net: there is no worker-2, because workers is 2
	net=server-1:1M net: there is no server-1, because servers is 1
	net=fast net: must be none, or parts such as 100M
	via=allreduce net: links between workers are not emulated
	transport=shm net: emulated links use TCP; transport must be auto or tcp
	END
}
