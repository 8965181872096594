// Tables: each member has a row, which is updated in place.

const PHASES = ['data', 'compute', 'encode', 'push', 'wait', 'pull'];
// The time of a step is averaged over this many updates.
const WINDOW = 10;
const past = new Map();

// Fill a table's body: cells(row) returns for each cell a text, or a function that updates it.
function fill(table, rows, key, cells) {
	const body = table.tBodies[0];
	const had = new Map([...body.rows].map((tr) => [tr.dataset.key, tr]));
	let at = body.firstElementChild;

	for (const row of rows) {
		const id = String(key(row));
		let tr = had.get(id);

		if (!tr) {
			tr = make('tr');
			tr.dataset.key = id;
			[...table.tHead.rows[0].cells].forEach((th, i) =>
				tr.append(i === 0 ? make('th', { scope: 'row', class: th.className }) : make('td', { class: th.className })));
		}
		had.delete(id);
		if (tr !== at)
			body.insertBefore(tr, at);
		else
			at = at.nextElementSibling;
		cells(row, tr).forEach((v, i) => {
			if (typeof v === 'function')
				v(tr.cells[i]);
			else
				say(tr.cells[i], v);
		});
	}
	for (const tr of had.values())
		tr.remove();
}

const GOOD = ['live', 'active', 'done', 'running', 'finishing'];
const BAD = ['lost', 'failed'];

// A state has a sign besides its colour.
function stateCell(state) {
	return (cell) => {
		say(cell, state);
		cell.dataset.mood = GOOD.includes(state) ? 'good' : BAD.includes(state) ? 'bad' : 'mild';
	};
}

function hostCell(row) {
	return (cell) => {
		const text = row.host ? `${row.host}${row.pid ? ` (${row.pid})` : ''}` : '–';

		say(cell, text);
		cell.title = text;
	};
}

// How the time of recent steps was spent.
function shares(row) {
	const now = PHASES.map((p) => row[`${p}_seconds`]);
	const list = past.get(row.id) ?? [];

	if (!now.some(isNumber))
		return null;
	list.push(now);
	if (list.length > WINDOW)
		list.shift();
	past.set(row.id, list);
	const spent = now.map((v, i) => Math.max(0, (v ?? 0) - (list.length > 1 ? list[0][i] ?? 0 : 0)));
	const sum = spent.reduce((a, b) => a + b, 0);
	if (sum > 0)
		return spent.map((v) => v / sum);
	const all = now.reduce((a, b) => a + (b ?? 0), 0);
	return all > 0 ? now.map((v) => (v ?? 0) / all) : null;
}

function shareCell(row) {
	const part = shares(row);

	return (cell) => {
		let bar = cell.firstElementChild;

		if (!part) {
			say(cell, '–');
			return;
		}
		if (!bar) {
			cell.textContent = '';
			bar = make('div', { class: 'bar', role: 'img' }, ...PHASES.map((p) => make('i', { class: `phase-${p}` })));
			cell.append(bar);
		}
		PHASES.forEach((_, i) => { bar.children[i].style.flexGrow = part[i].toFixed(3); });
		const text = PHASES.map((p, i) => [p, Math.round(part[i] * 100)]).filter(([, n]) => n > 0).map(([p, n]) => `${p} ${n} %`).join(', ');
		if (bar.title !== text) {
			bar.title = text;
			bar.setAttribute('aria-label', text);
		}
	};
}

const ORDERS = {
	number: () => 0,
	behind: (a, b) => (a.step ?? 0) - (b.step ?? 0),
	slow: (a, b) => (a.examples_per_second ?? 0) - (b.examples_per_second ?? 0),
};

function showWorkers({ all, rows }) {
	const here = rows.filter((w) => w.state !== 'empty');
	const first = Math.max(0, ...here.filter((w) => w.state === 'active').map((w) => w.step ?? 0));
	const sorted = here.sort((a, b) => Number(a.id.slice(7)) - Number(b.id.slice(7))).sort(ORDERS[$('order').value]);

	fill($('workers-table'), sorted, (w) => w.id, (w) => [
		w.id,
		(cell) => {
			stateCell(w.state)(cell);
			cell.title = w.doing && w.state === 'active' ? w.doing : '';
		},
		whole(w.step), w.state === 'active' ? whole(first - (w.step ?? 0)) : '–', figure(w.train_loss), count(w.examples_per_second),
		shareCell(w), hostCell(w), w.state === 'done' || w.state === 'left' ? '–' : seen(w.seen_seconds)]);
	for (const id of past.keys())
		if (!here.some((w) => w.id === id))
			past.delete(id);
	const states = Object.entries(Object.groupBy ? Object.groupBy(here, (w) => w.state) : {}).map(([s, l]) => `${whole(l.length)} ${s}`);
	say($('workers-note'), all > rows.length ? `${whole(rows.length)} of ${whole(all)} are shown, those behind first` : states.join(', '));
	show($('workers-table').parentElement, here.length > 0);
	show($('phases'), here.length > 0);
	for (const p of PHASES)
		show($(`phase-${p}`), here.some((w) => isNumber(w[`${p}_seconds`])));
	show($('workers-none'), here.length === 0);
}

function showServers({ rows }, status) {
	fill($('servers-table'), rows, (s) => s.id, (s) => {
		const pushes = (s.pushes_applied ?? 0) + (s.pushes_merged ?? 0);

		return [s.id, stateCell(s.state), whole(s.firsts ?? 0), whole(s.copies ?? 0), bytes(s.parameter_bytes),
			(cell) => {
				say(cell, count(pushes));
				cell.title = `${whole(s.pushes_duplicate)} duplicate, ${whole(s.pushes_late)} late, ${whole(s.pushes_refused)} refused`;
			},
			count(s.pulls), figure(s.staleness_mean), bytes(s.rss_bytes), hostCell(s), s.state === 'absent' ? '–' : seen(s.seen_seconds)];
	});
	if (status)
		say($('servers-note'), `layout epoch ${whole(status.layout_epoch)}, ${plural(status.partitions, 'partition')}, ${status.replicas === 1 ? 'one replica' : `${whole(status.replicas)} replicas`} of each` +
			(status.partitions_moving ? `, ${whole(status.partitions_moving)} moving` : ''));
}

// "0–95: server-0, a replica on server-1".
function tellRun([first, n, chain, joining, leaving]) {
	const where = n === 1 ? `${first}` : `${first}–${first + n - 1}`;
	const names = chain.map((i) => `server-${i}`);

	return `${where}: ${names.length ? names[0] : 'nobody, lost'}` + (names.length > 1 ? `, a replica on ${names.slice(1).join(' and ')}` : '') +
		(joining >= 0 ? `, being copied to server-${joining}` : '') + (leaving >= 0 ? `, server-${leaving} leaves` : '');
}

function showTables(layout) {
	fill($('tables-table'), layout.tables, (t) => t.name, (t) => [
		t.name,
		t.sparse ? `sparse, width ${whole(t.cols)}` : t.cols > 1 ? `${whole(t.rows)} × ${whole(t.cols)}` : whole(t.rows),
		whole(t.partitions),
		(cell) => {
			const list = t.runs.map(tellRun);

			if (t.runs_all > list.length)
				list.push(`and ${whole(t.runs_all - list.length)} more`);
			if (cell.dataset.text !== list.join('\n')) {
				cell.dataset.text = list.join('\n');
				cell.replaceChildren(make('ul', { class: 'runs' }, ...list.map((text) => make('li', {}, text))));
			}
		}]);
	show($('tables-table').parentElement, layout.tables.length > 0);
	show($('tables-none'), layout.tables.length === 0);
}

function showRelays({ rows }) {
	show($('relays'), rows.length > 0);
	fill($('relays-table'), rows, (r) => r.id, (r) => [
		r.id, stateCell(r.state), whole(r.workers), r.upstream ?? 'servers', r.zone || '–', hostCell(r), seen(r.seen_seconds)]);
}

const seenEvents = [];

// Shorten a list of events, the newest first: the oldest event of the most frequent kind goes first, so that evaluations
// do not push out the loss of a worker.
function trimEvents(list, most) {
	while (list.length > most) {
		const count = {};
		for (const e of list)
			count[e.event] = (count[e.event] ?? 0) + 1;
		const frequent = Object.keys(count).reduce((a, b) => count[b] > count[a] ? b : a);
		list.splice(list.findLastIndex((e) => e.event === frequent), 1);
	}
}

function takeEvents(list, anew) {
	if (anew)
		seenEvents.length = 0;
	if (!list.length && !anew)
		return;
	seenEvents.unshift(...list.slice().reverse());
	trimEvents(seenEvents, 200);
	fill($('events-table'), seenEvents, (e) => e.rev, (e) => [
		(cell) => {
			say(cell, clock(e.ts));
			cell.title = e.ts;
		}, e.event, e.text]);
	show($('events-table').parentElement, seenEvents.length > 0);
	show($('events-none'), seenEvents.length === 0);
	showChanges(seenEvents.filter((e) => e.event === 'set'));
}

function showChanges(list) {
	show($('changes-none'), list.length === 0);
	$('changes').replaceChildren(...list.map((e) => make('li', {}, make('time', { datetime: e.ts }, clock(e.ts)), ' ', make('span', {}, e.text))));
}

function flat(object, before = '') {
	return Object.entries(object).flatMap(([k, v]) =>
		v !== null && typeof v === 'object' && !Array.isArray(v) ? flat(v, `${before}${k}.`) : [[before + k, v]]);
}

const tellValue = (v) => v === null ? '' : Array.isArray(v) ? v.join(',') : String(v);

function showConfig(config) {
	const all = flat(config).map(([key, v]) => ({ key, value: tellValue(v) }));

	fill($('settings-table'), all, (s) => s.key, (s, tr) => [s.key, s.value || '–', (cell) => {
		if (!cell.firstElementChild) {
			const button = make('button', { type: 'button', class: 'quiet', 'aria-label': `Change ${s.key}` }, 'Change');

			button.addEventListener('click', () => chooseSetting(s.key, tr.dataset.value));
			cell.append(button);
		}
		tr.dataset.value = s.value;
		show(cell.firstElementChild, mayChange());
	}]);
	if ($('set-keys').children.length !== all.length)
		$('set-keys').replaceChildren(...all.map((s) => make('option', { value: s.key })));
}

function startRows() {
	$('phases').replaceChildren(...PHASES.map((p) => make('li', { id: `phase-${p}` }, make('span', { class: `swatch phase-${p}`, 'aria-hidden': 'true' }), p)));
}
