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
	ps-ctl status -C "$RUN" --json >status.json
	supervisor=$(tr -d ' ' <"$RUN/lock")
	kill -9 "$supervisor"
	wait_for 10 none_left "$RUN"
	run -0 ps-ctl runs
	[[ ${lines[1]} =~ ^lin.run\ +crashed ]]
	ps-ctl report lin >page
	page_text page | grep -q 'ended without a result'
	run -4 ps-ctl report nothing
	[[ $output == *'"nothing" is no run directory'* ]]
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
