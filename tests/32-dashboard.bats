#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The dashboard: who is let in, what the page shows, and what it can change.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training
load lib/dashboard

setup() { setup_training; }
teardown() {
	stop_browser
	teardown_dir
}

pid_of() { cat "$RUN/$1.pid"; }

# job NAME [members]: one that goes on until it is stopped.
job() {
	[ -e train.csv ] || write_csv train.csv
	cat >"$1.json" <<-END
	{ "servers": 2, "workers": 3, "replicas": 2, "sync": "ssp:2", "quota_pushes": 200 ${2:-},
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "eval": "train.csv?label=y&scale=none", "eval_every": 300,
	           "steps": $ENDLESS, "batch": 16, "lr": 0.001 } }
	END
}

# A fresh address in $address; its parts in $at and $ticket.
address() {
	address=$(ps-ctl dashboard -C "$RUN" "$@" 2>err)
	at=${address%/#*} ticket=${address##*#}
}

# code [curl options] URL: the status alone; the body is in out.
code() { curl -s --max-time 20 -o out -w '%{http_code}' "$@"; }
post() { code -X POST -H "Authorization: Session $1" -H 'Content-Type: application/json' --data "$3" "$at$2"; }

@test "an address works once, and what it opens can do what it is for" {
	job one
	begin one.json
	address
	[[ $address =~ ^http://127\.0\.0\.1:[0-9]+/#t[A-Za-z0-9_-]{42}$ ]]
	[[ $(cat err) == *"the address works once, within 120 s"* ]]
	[ "$(code -X POST -H "Authorization: Session $ticket" "$at/v1/session")" = 200 ]
	read=$(jq -r .read out) change=$(jq -r .change out)
	[ "$(code -X POST -H "Authorization: Session $ticket" "$at/v1/session")" = 401 ]
	[[ $(jq -r .error.message out) == *"not known here, or has ended"* ]]
	# A ticket opens nothing but a session.
	address
	[ "$(code -H "Authorization: Session $ticket" "$at/v1/status")" = 403 ]
	# To read, and to change; secrets only on the Unix socket.
	[ "$(code -H "Authorization: Session $read" "$at/v1/status")" = 200 ]
	[ "$(post "$read" /v1/pause '{"paused":true}')" = 403 ]
	[ "$(post "$change" /v1/set '{"set":{"codec":"int8"}}')" = 200 ]
	[ "$(post "$change" /v1/set '{"set":{"codec":"nonsense"}}')" = 400 ]
	[[ $(jq -r .error.message out) == *nonsense* ]]
	[ "$(post "$change" /v1/invite '{"role":"admin"}')" = 403 ]
	[ "$(post "$change" /v1/dashboard '{}')" = 403 ]
	ps-ctl events -C "$RUN" set | grep 'codec=int8, by dashboard'
	# Ended, both secrets are void.
	[ "$(post "$read" /v1/session/end '{}')" = 200 ]
	[ "$(post "$change" /v1/pause '{"paused":true}')" = 401 ]
	# To read alone.
	address --read-only
	[ "$(code -X POST -H "Authorization: Session $ticket" "$at/v1/session")" = 200 ]
	[ "$(jq .change out)" = null ]
	# Wrong ones, but for many of them, do no harm.
	address
	for i in $(seq 15); do
		[ "$(post "t$(printf '%042d' "$i")" /v1/session '{}')" = 401 ]
	done
	[ "$(code -X POST -H "Authorization: Session $ticket" "$at/v1/session")" = 200 ]
	address
	for i in $(seq 16); do
		[ "$(post "t$(printf '%042d' "$i")" /v1/session '{}')" = 401 ]
	done
	[ "$(code -X POST -H "Authorization: Session $ticket" "$at/v1/session")" = 401 ]
	run -4 ps-ctl dashboard -C "$T/none.run"
}

@test "the past of the curves outlives the coordinator" {
	job past ', "lease": "2s"'
	begin past.json --max-restarts 9
	wait_for 20 eval '[ "$(wc -l <"$RUN/metrics.jsonl")" -ge 4 ]'
	was=$(http GET /v1/feed | jq '.curve.points | length')
	[ "$was" -ge 3 ]
	tick=$(http GET /v1/feed | jq .tick)
	kill -9 "$(pid_of coordinator)"
	wait_for 30 eval '[ "$(ps-ctl events -C "$RUN" recovered | wc -l)" -eq 1 ] && [ "$(status .state)" = running ]'
	http GET /v1/feed >feed
	jq -e --argjson was "$was" '(.curve.points | length >= $was and .[0][0] < 3) and .curve.columns[0] == "seconds"' feed
	# Who has a picture of the one before gets everything that has changed since.
	http GET "/v1/feed?since=$tick" | jq -e '.status.state == "running" and (.workers.rows | length) == 3'
}

@test "strangers see a page without data; other pages, names and hosts nothing" {
	job two ', "http": "0.0.0.0:0"'
	begin two.json
	address
	port=${at##*:}
	code -X POST -H "Authorization: Session $ticket" "$at/v1/session"
	read=$(jq -r .read out)
	auth=(-H "Authorization: Session $read")
	for path in / /app.js /app.css /icon.svg; do
		[ "$(code -D head "$at$path")" = 200 ]
		grep -qi "^content-security-policy: default-src 'none'; script-src 'self'; .*frame-ancestors 'none'" head
		grep -qi '^x-content-type-options: nosniff' head
		cp out plain
		[ "$(code -D head --compressed "$at$path")" = 200 ]
		grep -qi '^content-encoding: gzip' head
		cmp out plain
	done
	grep -q 'without limitation the' plain || code "$at/app.js" && grep -q 'Dan Vanderkam' out
	for path in /v1/feed /v1/status /v1/config /v1/events /metrics; do
		[ "$(code "$at$path")" = 401 ]
		[ "$(code -H 'Authorization: Session' "$at$path")" = 401 ]
		[ "$(code -H 'Authorization: Session ' "$at$path")" = 401 ]
		[ "$(code -H "Authorization: session $read" "$at$path")" = 401 ]
		[ "$(code -H "Authorization: Bearer $read" "$at$path")" = 401 ]
		[ "$(code "${auth[@]}" -H "Authorization: Session $read" "$at$path")" = 400 ]
	done
	[ "$(code "${auth[@]}" "$at/v1/feed")" = 200 ]
	jq -e '.whole and .role == "monitor" and (.workers.rows | length) == 3 and (.curve.points | type) == "array"' out
	# A name that is made to point here; a page of another origin, or of another site.
	for host in evil.example "evil.example:$port" "127.0.0.1:1" "127.0.0.1:$port.evil.example"; do
		[ "$(code -H "Host: $host" "$at/")" = 400 ]
		[ "$(code "${auth[@]}" -H "Host: $host" "$at/v1/feed")" = 400 ]
	done
	for origin in http://evil.example null "https://127.0.0.1:$port" "http://127.0.0.1:$port.evil.example"; do
		[ "$(code "${auth[@]}" -H "Origin: $origin" "$at/v1/feed")" = 403 ]
	done
	for site in cross-site same-site; do
		[ "$(code "${auth[@]}" -H "Sec-Fetch-Site: $site" "$at/v1/feed")" = 403 ]
		[ "$(code "${auth[@]}" -H "Sec-Fetch-Site: $site" -H 'Sec-Fetch-Mode: navigate' "$at/v1/feed")" = 403 ]
		[ "$(code -H "Sec-Fetch-Site: $site" "$at/app.js")" = 403 ]
		[ "$(code -H "Sec-Fetch-Site: $site" "$at/")" = 403 ]
		[ "$(code -H "Sec-Fetch-Site: $site" -H 'Sec-Fetch-Mode: navigate' "$at/")" = 200 ]
	done
	# A body that is too large; one of a stranger, which is not read.
	head -c 70000 /dev/zero | tr '\0' a >large
	[ "$(post "$read" /v1/session/end @large)" = 413 ]
	[ "$(post nobody /v1/session @large)" = 401 ]
	# From another address of this host: it is not loopback.
	far=$(ip -4 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
	if [ -n "$far" ]; then
		[ "$(code "${auth[@]}" "http://$far:$port/v1/feed")" = 403 ]
		address
		[ "$(code -X POST -H "Authorization: Session $ticket" "http://$far:$port/v1/session")" = 403 ]
		token=$(ps-ctl invite -C "$RUN" --role monitor | jq -r .token)
		[ "$(code -H "Authorization: Bearer $token" "http://$far:$port/v1/feed")" = 200 ]
		[ "$(code -X POST -H "Authorization: Bearer $token" -H 'Content-Type: application/json' --data '{}' "http://$far:$port/v1/stop")" = 403 ]
	fi
	ps-ctl stop -C "$RUN" >/dev/null
	job away ", \"http\": \"${far:-127.0.0.1}:0\""
	begin away.json
	[ -z "$far" ] || run -1 ps-ctl dashboard -C "$RUN"
	[ -z "$far" ] || [[ $output == *"listens on $far:"*"--role monitor"* ]]
}

@test "a hundred readers, and slow ones, cost one picture a second and no memory" {
	job many
	begin many.json
	address
	code -X POST -H "Authorization: Session $ticket" "$at/v1/session"
	run /usr/bin/python3 "$LIB/dashboard_readers.py" "${at#http://}" "$(jq -r .read out)" "$(pid_of coordinator)"
	echo "$output"
	[ "$status" -eq 0 ]
	figure "${lines[-1]}"
}

@test "in a browser: it moves, settings change, a server that is killed is seen" {
	job web
	begin web.json --max-restarts 0
	start_browser
	web light
	web size 1280 900
	# The browser is started with a file, which others cannot read; the address is in no list of arguments.
	printf '#!/bin/sh\necho "$@" >%q/opened\n' "$T" >fake-browser
	chmod +x fake-browser
	command -v xdg-open >/dev/null || skip "xdg-utils is not installed"
	BROWSER=$T/fake-browser DISPLAY= ps-ctl dashboard -C "$RUN" --open >/dev/null
	[ "$(cat opened)" = "$RUN/dashboard.html" ]
	[ "$(stat -c %a "$RUN/dashboard.html")" = 600 ]
	web "open file://$RUN/dashboard.html"
	web "until !document.getElementById('board').hidden"
	web "js document.getElementById('leave').click()"
	says '#door' 'The session has ended'
	web "open about:blank"
	# An address that was used before.
	web "open $(sed -n 's/.*url=\([^"]*\)".*/\1/p' "$RUN/dashboard.html")"
	says '#door-why' 'has been used'
	web errors
	# Without a session there is a door; the console has the refusal of nobody.
	address
	web "open $at/"
	says '#door' 'ps-ctl dashboard'
	picture door
	no_errors
	web "open $address"
	web "until location.hash === '' && !document.getElementById('board').hidden"
	says '#sentence' '^web is running: 2 servers and 3 workers'
	[ "$(text '#badge')" = running ]
	# Curves: each has a canvas, words for it, and moves.
	web "until document.querySelectorAll('.plot canvas').length >= 8"
	[[ $(web "js document.querySelector('.plot').ariaLabel") == *"Loss, "*"training: "*" at first, "*" now, between "* ]]
	was=$(web "js document.querySelector('.plot').ariaLabel")
	web "until document.querySelector('.plot').ariaLabel !== $was"
	says '#workers-table tbody tr:nth-child(3)' 'worker-2.*active'
	web "until /(data|compute|push|wait|pull) [0-9]+ %/.test(document.querySelector('#workers-table .bar')?.ariaLabel)"
	says '#tables-table' 'server-0, a replica on server-1|server-1, a replica on server-0'
	# By keyboard: to the key of a setting, its value, and the button.
	web "js document.getElementById('set-key').focus()"
	web keys codec Tab int8 Enter
	says '#set-told' 'codec is set'
	says '#changes' 'codec=int8, by dashboard'
	[ "$(http GET /v1/config | jq -r .codec)" = int8 ]
	web "js document.getElementById('set-key').select()"
	web "js document.getElementById('set-value').value = ''"
	web "js document.getElementById('set-key').value = 'job.model'"
	web "js document.getElementById('set-value').focus()"
	web keys mlp Enter
	says '#set-told' 'job.model'
	web "js document.getElementById('pause').focus()"
	web keys Enter
	says '#sentence' 'paused, by dashboard'
	web "until document.getElementById('pause').innerText === 'Go on'"
	web keys Space
	says '#sentence' '^web is running'
	picture light
	web dark
	kill -9 "$(pid_of server-1)"
	says '#sentence' 'server-1 is lost'
	says '#servers-table tbody tr:nth-child(2)' 'server-1.*lost'
	says '#events-table' 'server_lost'
	[ "$(text '#servers-table tbody tr:nth-child(1) td:nth-child(3)')" -gt 0 ]
	picture dark-lost
	# Stopped, but not without being asked: Escape goes on.
	web "js document.getElementById('stop').focus()"
	web keys Enter
	web "until document.getElementById('stop-dialog').open"
	web keys Escape
	says '#told' 'It goes on'
	[ "$(status .state)" = running ]
	no_errors '/v1/set .*400'
	web keys Enter
	web "until document.getElementById('stop-dialog').open"
	web keys Tab Enter
	says '#sentence' '^web: the job is stopped: the dashboard. The cluster has ended'
	[ "$(web "js sessionStorage.length")" = 0 ]
	picture ended
	no_errors 'ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|401|Failed to load|Cross-Origin-Opener-Policy'
	wait_for 20 none_left "$T"
	[ "$(jq -r .state "$RUN/result.json")" = stopped ]
}

@test "what its button to stop does leaves the checkpoint and the model, under start and under run" {
	for how in start run; do
		job "$how"
		if [ $how = start ]; then
			begin start.json
		else
			RUN=$T/run.run
			background ps-ctl run run.json
			wait_for 20 ps-ctl -C "$RUN" wait --for step=1 --timeout 10s
		fi
		address
		[ "$(code -X POST -H "Authorization: Session $ticket" "$at/v1/session")" = 200 ]
		change=$(jq -r .change out)
		[ "$(post "$change" /v1/checkpoints '{}')" = 200 ]
		checkpoint=$(jq -r .path out)
		[ "$(post "$change" /v1/stop '{"why":"the dashboard"}')" = 200 ]
		wait_for 20 test -s "$RUN/result.json"
		[ "$(jq -r '"\(.state) (\(.reason))"' "$RUN/result.json")" = "stopped (the dashboard)" ]
		ps-ctl export all -C "$checkpoint" -o text >of-checkpoint 2>/dev/null
		# The processes may still be ending.
		ps-ctl export all -C "$RUN" -o text 2>/dev/null | cmp of-checkpoint -
		[ -s "$RUN/model.safetensors" ]
		wait_for 20 none_left "$T"
	done
	# Without a checkpoint there is nothing to save.
	job bare
	begin bare.json
	address
	[ "$(code -X POST -H "Authorization: Session $ticket" "$at/v1/session")" = 200 ]
	[ "$(post "$(jq -r .change out)" /v1/stop '{"why":"the dashboard"}')" = 200 ]
	wait_for 20 test -s "$RUN/result.json"
	wait_for 20 none_left "$T"
	[ ! -e "$RUN/model.safetensors" ]
}

# coordinate K OPTIONS...: start coordinator K, which listens on 127.0.0.K.
coordinate() {
	ps-serve "${@:2}" --listen "127.0.0.$1:0" 2>>"c.$1" 3>&- &
	coordinator[$1]=$!
	pids+=($!)
}

@test "in a browser: the coordinator is killed, and the page names the command for the next one" {
	job next ', "http": "0.0.0.0:0"'
	need_browser
	RUN="$T/the next.run"
	coordinate 1 next.json --no-store --set servers=1 --set replicas=1 --set workers=1 -C "$RUN"
	wait_for 20 test -S "$RUN/ctl.sock"
	ps-ctl invite -C "$RUN" --role server --name s -o s.join 2>/dev/null
	ps-ctl invite -C "$RUN" --role worker --name w -o w.join 2>/dev/null
	ps-serve --join s.join 2>s 3>&- &
	pids+=($!)
	ps-work train --join w.join --data 'train.csv?label=y&scale=none' 2>w 3>&- &
	pids+=($!)
	coordinate 2 -C "$RUN" --standby
	wait_for 20 grep -q 'a coordinator stands by at 127.0.0.2' c.1
	wait_for 20 eval 'http GET /v1/feed | jq -e ".status.standbys[0].shares"'
	start_browser
	address
	web "open $address"
	says '#sentence' '^next is running'
	[ "$(web "js document.getElementById('next').hidden")" = true ]
	kill -9 "${coordinator[1]}"
	says '#away' '^The coordinator does not answer, since '
	says '#next' "^Another coordinator takes over, and needs a session of its own: run ps-ctl dashboard -C .* on $(hostname)[.]$"
	picture away
	# Its command works as it is.
	command=$(text '#next code')
	[ "$command" = "ps-ctl dashboard -C '$RUN'" ]
	wait_for 30 eval '[ "$(status .state)" = running ]'
	at=$(eval "$command" 2>/dev/null)
	[[ $at == http://127.0.0.1:*/#t* ]]
	[ "${at%/#*}" != "${address%/#*}" ]
	web "open $at"
	says '#sentence' '^next is running'
	[ "$(web "js document.getElementById('next').hidden && document.getElementById('away').hidden")" = true ]
	no_errors 'ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|Failed to load|Cross-Origin-Opener-Policy'
}

@test "in a browser: a monitor's page shows where its token is valid when the coordinator is gone" {
	far=$(ip -4 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
	[ -n "$far" ] || skip "this host has only loopback addresses"
	job wall ", \"http\": \"$far:0\""
	need_browser
	RUN=$T/wall.run
	coordinate 1 wall.json --no-store -C "$RUN"
	wait_for 20 test -S "$RUN/ctl.sock"
	coordinate 2 -C "$RUN" --standby
	wait_for 20 grep -q 'a coordinator stands by at 127.0.0.2' c.1
	token=$(ps-ctl invite -C "$RUN" --role monitor | jq -r .token)
	here=$(http GET /v1/prometheus/targets | jq -r '.[0].targets[0]')
	wait_for 20 eval 'http GET /v1/feed | jq -e ".status.standbys[0].shares"'
	there=$(http GET /v1/feed | jq -r '.status.standbys[0].http')
	start_browser
	web "open http://$here/"
	web "until !document.getElementById('door').hidden"
	web "js document.getElementById('token').value = '$token'"
	web "js document.getElementById('token').focus()"
	web keys Enter
	says '#sentence' '^wall is forming'
	kill -9 "${coordinator[1]}"
	says '#next' 'the token is valid, too: enter it at http'
	[ "$(web "js document.querySelector('#next a').href" | jq -r .)" = "http://$there/" ]
	wait_for 30 eval '[ "$(status .state)" = forming ]'
	# The link leads to a door, which has no data and not the token.
	web "js document.querySelector('#next a').click()"
	web "until location.host === '$there' && !document.getElementById('door').hidden"
	[ "$(web "js document.getElementById('token').value === '' && sessionStorage.length === 0")" = true ]
	web "js document.getElementById('token').value = '$token'"
	web "js document.getElementById('token').focus()"
	web keys Enter
	says '#sentence' '^wall is forming'
	no_errors 'ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|Failed to load|Cross-Origin-Opener-Policy'
}

# bats test_tags=slow
@test "for the keyboard and for readers of the screen" {
	job access
	begin access.json
	start_browser
	address --read-only
	web size 1280 900
	web "open $address"
	web "until document.querySelectorAll('#workers-table tbody tr').length === 3"
	# Nothing to change in a session that is to read.
	[ "$(web "js document.getElementById('controls').hidden && document.getElementById('set-form').hidden")" = true ]
	[ "$(web "js document.documentElement.lang !== '' && document.querySelectorAll('main, header, footer, nav[aria-label]').length === 4")" = true ]
	[ "$(web "js document.getElementById('sentence').getAttribute('aria-live')")" = '"polite"' ]
	[ "$(web "js [...document.querySelectorAll('th')].filter((th) => !th.scope).length")" = 0 ]
	[ "$(web "js [...document.querySelectorAll('table')].filter((t) => !t.caption).length")" = 0 ]
	[ "$(web "js [...document.querySelectorAll('input, select')].filter((i) => i.checkVisibility() && !i.labels.length).length")" = 0 ]
	[ "$(web "js [...document.querySelectorAll('[role=img]')].filter((i) => !i.ariaLabel).length")" = 0 ]
	# Tab reaches all that can be used, and each shows that it has the focus.
	web "js document.activeElement.blur()"
	web keys Tab
	[ "$(web "js document.activeElement.className")" = '"skip"' ]
	seen=
	for i in $(seq 40); do
		web keys Tab >/dev/null
		[ "$(web "js document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle !== 'none'")" = true ]
		seen+=$(web "js document.activeElement.id || document.activeElement.name || document.activeElement.ariaLabel || document.activeElement.innerText")
	done
	for what in Curves leave over log 'As numbers' order 'Workers, table' 'Servers, table' 'All settings' 'Events, table'; do
		[[ $seen == *"$what"* ]] || { echo "the Tab key does not reach $what: $seen"; false; }
	done
	# Text has the contrast of WCAG AA, in light and dark.
	for scheme in light dark; do
		web $scheme
		web "js $(cat "$LIB/dashboard_contrast.js" | tr '\n\t' '  ')"
		[ "$answer" = '[]' ]
	done
	no_errors
}

@test "what names and texts of peers hold is text" {
	unshare -u true 2>/dev/null || skip "no host name of its own can be had here"
	job evil ', "on_worker_loss": "fail"'
	# A host name has 64 bytes at the most.
	unshare -u /usr/bin/python3 -c 'import os, socket, sys
socket.sethostname("<img src=x onerror=document.title=1>")
os.execvp(sys.argv[1], sys.argv[1:])' ps-ctl start evil.json --max-restarts 0 >start.log 2>&1 || {
		cat start.log
		false
	}
	RUN=$T/evil.run
	start_browser
	address
	web "open $address"
	says '#workers-table tbody tr' '<img src=x onerror=document.title=1>'
	says '#events-table' 'joined from <img src=x'
	web "js document.getElementById('set-key').value = 'codec'"
	web "js document.getElementById('set-value').value = '<b onclick=1>x'"
	web "js document.getElementById('set-value').focus()"
	web keys Enter
	says '#set-told' '<b onclick=1>x'
	# And one that has failed says so, and why.
	kill -9 "$(pid_of worker-1)"
	says '#sentence' 'has failed: '
	[ "$(text '#badge')" = failed ]
	[ "$(web "js document.querySelectorAll('main img, main b[onclick], main script').length")" = 0 ]
	[ "$(web "js document.title")" = '"evil: failed"' ]
	picture failed
	no_errors '/v1/set .*400'
}
