// The curves: the history that the coordinator has stored, then a point with each update.

const POINTS_MAX = 3000;
const points = [];
let scoreName = null, over = 'time', logLoss = false;

// We make the legend: the library's would insert markup.
Dygraph.PLUGINS = Dygraph.PLUGINS.slice(1);

// The title of a metric: short names are abbreviations, as AUC.
const titleOf = (metric) => metric.length <= 4 ? metric.toUpperCase() : metric[0].toUpperCase() + metric.slice(1).replaceAll('_', ' ');
const NO_SCORE = ['loss', 'step', 'examples', 'seconds'];

// The metric behind the loss of an evaluation, the first in its order; undefined: there is none.
function scoreOf(evaluation) {
	return Object.keys(evaluation ?? {}).find((k) => !NO_SCORE.includes(k) && isNumber(evaluation[k]));
}

// Each chart computes its values from a point and the one before.
const CHARTS = [
	{ id: 'loss', title: 'Loss', series: ['training', 'evaluation'], tell: figure,
	  values: (p, before) => [p.train_loss, fresh(p, before) ? p.eval_loss : null] },
	{ id: 'score', title: 'Score', series: ['evaluation'], tell: figure, none: 'No evaluation yet: see job.eval and job.eval_every.',
	  values: (p, before) => [fresh(p, before) ? p.eval_score : null] },
	{ id: 'speed', title: 'Examples a second', series: ['all workers'], tell: count, zero: true,
	  values: (p) => [p.examples_per_second] },
	{ id: 'bytes', title: 'Bytes a second', series: ['pushed', 'pulled'], tell: (v) => `${bytes(v)}/s`, zero: true,
	  values: (p, before) => [rate(p, before, 'pushed_bytes'), rate(p, before, 'pulled_bytes')] },
];

// Show an evaluation once, at the point where it appeared.
function fresh(p, before) {
	return isNumber(p.eval_loss) && (!before || p.eval_step !== before.eval_step);
}

// Points can be milliseconds apart, while the counters in them are some tenths of a second old. A rate over less
// than this many seconds would show the age of the counters.
const RATE_SECONDS = 0.15;

function rate(p, before, key) {
	if (!before || !(p.seconds - before.seconds >= RATE_SECONDS) || !(p[key] >= before[key]))
		return null;
	return (p[key] - before[key]) / (p.seconds - before.seconds);
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colours = (n) => ['--line-1', '--line-2'].slice(0, n).map(css);

// All curves have the colour of the run, by which it is known in reports and comparisons, too; the second one is dashed.
function setColour(number) {
	for (const line of ['--line-1', '--line-2'])
		document.documentElement.style.setProperty(line, `var(--run-${number})`);
}

function makeChart(c) {
	c.figure = make('figure', { class: 'card chart', 'aria-labelledby': `${c.id}-title` });
	c.heading = make('h3', { id: `${c.id}-title` }, c.title);
	c.legend = make('p', { class: 'key' });
	c.keys = c.series.map((name, i) => {
		const value = make('b');

		c.legend.append(make('span', {}, make('span', { class: `swatch line-${i + 1}`, 'aria-hidden': 'true' }), `${name} `, value, ' '));
		return value;
	});
	c.at = make('span', { class: 'at' });
	c.legend.append(c.at);
	c.plot = make('div', { class: 'plot', role: 'img', 'aria-label': `${c.title}: nothing yet` });
	c.empty = make('p', { class: 'empty' }, c.none ?? 'Nothing yet.');
	c.numbers = make('tbody');
	c.head = make('tr');
	const table = make('table', {}, make('caption', { class: 'unseen' }, `${c.title}, some points`), make('thead', {}, c.head), c.numbers);
	c.details = make('details', {}, make('summary', {}, 'As numbers'), make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `${c.title}, table` }, table));
	c.details.addEventListener('toggle', () => tellNumbers(c));
	c.figure.append(make('div', { class: 'chart-head' }, c.heading, c.legend), c.plot, c.empty, c.details);
	$('charts').append(c.figure);
}

function xOf(p) {
	return over === 'time' ? p.seconds : p.step;
}

const tellX = (x) => over === 'time' ? duration(x) : `step ${whole(x)}`;

function rowsOf(c) {
	const rows = [];
	let last = -Infinity;

	points.forEach((p, i) => {
		const x = xOf(p);

		// Steps do not advance while no worker trains.
		if (!isNumber(x) || x <= last)
			return;
		last = x;
		rows.push([x, ...c.values(p, points[i - 1]).map((v) => isNumber(v) ? v : null)]);
	});
	return rows;
}

// Ticks at round times or numbers, as many as there is room for.
const ROUND_TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400];

function ticks(from, to, pixels) {
	const most = Math.max(2, Math.floor(pixels / 68)), least = (to - from) / most;
	const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
	const decimal = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least);
	const step = Math.max(1, over === 'time' ? ROUND_TIMES.find((s) => s >= least) ?? decimal : decimal);
	const list = [];

	// No tick in the corner, where the other axis has one.
	for (let v = Math.ceil((from + (to - from) / 25) / step) * step; v <= to; v += step)
		list.push({ v, label: over === 'time' ? duration(v) : count(v) });
	return list;
}

const column = (c, i) => c.rows.map((r) => r[i + 1]).filter(isNumber);

function plotOptions(c) {
	const log = c.id === 'loss' && logLoss && column(c, 0).every((v) => v > 0);
	const ink = css('--grid');

	return {
		labels: ['x', ...c.series], colors: colours(c.series.length), logscale: log,
		gridLineColor: ink, axisLineColor: ink, includeZero: !!c.zero,
		axes: { x: { ticker: ticks, drawGrid: false },
		        y: { axisLabelFormatter: (v) => c.tell(v), axisLabelWidth: 62, pixelsPerLabel: 34 } },
	};
}

function drawChart(c) {
	c.rows = rowsOf(c);
	const any = c.series.some((_, i) => column(c, i).length > 0);

	show(c.plot, any);
	show(c.legend, any);
	show(c.details, any);
	show(c.empty, !any);
	if (!any)
		return;
	c.keys.forEach((key, i) => show(key.parentElement, column(c, i).length > 0));
	if (!c.graph) {
		const { mousedown, mousemove, mouseup, dblclick, mouseout } = Dygraph.defaultInteractionModel;
		const mouse = { mousedown, mousemove, mouseup, dblclick, mouseout };

		// Leave touches to the page, for scrolling.
		for (const name of Object.keys(mouse))
			if (!mouse[name])
				delete mouse[name];
		c.graph = new Dygraph(c.plot, c.rows, {
			...plotOptions(c), axisLabelFontSize: 11, strokeWidth: 1.75, connectSeparatedPoints: true, drawPoints: false,
			drawIsolatedPoints: true, pointSize: 2.5, highlightCircleSize: 4, rightGap: 8, xRangePad: 4, interactionModel: mouse,
			series: { pulled: { strokePattern: [5, 4] },
			          evaluation: { drawPoints: true, pointSize: 2.5, strokePattern: c.id === 'loss' ? [5, 4] : null } },
			highlightCallback: (_, x, at, row) => tellValues(c, c.rows[row] ?? null, x),
			unhighlightCallback: () => { c.held = false; tellValues(c, null); },
		});
	} else {
		c.graph.updateOptions({ file: c.rows, ...plotOptions(c) });
	}
	if (!c.held)
		tellValues(c, null);
	tellAlternative(c);
	if (c.details.open)
		tellNumbers(c);
}

// Show the values in the legend: those under the mouse, else the last ones.
function tellValues(c, row, x) {
	c.held = row !== null;
	c.keys.forEach((key, i) => say(key, c.tell(row ? row[i + 1] : column(c, i).at(-1))));
	say(c.at, row ? `at ${tellX(x)}` : '');
}

// Describe the curve in words, for screen readers.
function tellAlternative(c) {
	const parts = c.series.map((name, i) => {
		const v = column(c, i);

		if (!v.length)
			return `${name}: nothing yet`;
		return `${name}: ${c.tell(v[0])} at first, ${c.tell(v.at(-1))} now, between ${c.tell(Math.min(...v))} and ${c.tell(Math.max(...v))}`;
	});
	const text = `${c.heading.textContent}, ${tellX(c.rows[0][0])} to ${tellX(c.rows.at(-1)[0])}. ${parts.join('. ')}.`;

	if (c.plot.getAttribute('aria-label') !== text)
		c.plot.setAttribute('aria-label', text);
}

// Show some points as a table, which is accessible and can be copied.
function tellNumbers(c) {
	if (!c.details.open || !c.rows?.length)
		return;
	const n = Math.min(c.rows.length, 12);
	const some = Array.from({ length: n }, (_, i) => c.rows[n === 1 ? 0 : Math.round(i * (c.rows.length - 1) / (n - 1))]);

	c.head.replaceChildren(make('th', { scope: 'col' }, over === 'time' ? 'Time' : 'Step'), ...c.series.map((s) => make('th', { scope: 'col', class: 'num' }, s)));
	c.numbers.replaceChildren(...some.map((r) => make('tr', {},
		make('th', { scope: 'row' }, over === 'time' ? duration(r[0]) : whole(r[0])),
		...r.slice(1).map((v) => make('td', { class: 'num' }, v === null ? '–' : c.tell(v))))));
}

function drawCharts() {
	for (const c of CHARTS)
		drawChart(c);
}

function setScore(name) {
	const c = CHARTS[1];

	scoreName = name ?? scoreName;
	c.title = scoreName ? titleOf(scoreName) : 'Score';
	say(c.heading, c.title);
}

// Take over the history from the coordinator.
function takeCurve(curve) {
	points.length = 0;
	for (const row of curve.points)
		points.push(Object.fromEntries(curve.columns.map((name, i) => [name, row[i]])));
	setScore(curve.score);
	setColour(curve.colour ?? 0);
}

function takePoint(status) {
	const last = points.at(-1);
	const evaluation = status.eval ?? {};

	if (!scoreName && scoreOf(evaluation))
		setScore(scoreOf(evaluation));
	if (!(status.seconds > 0) || (last && status.seconds <= last.seconds))
		return;
	points.push({ ...status, eval_loss: evaluation.loss, eval_score: evaluation[scoreName] });
	if (points.length > POINTS_MAX)
		points.splice(0, points.length, ...points.filter((_, i) => i % 2 === 1));
}

function startCharts() {
	CHARTS.forEach(makeChart);
	for (const radio of document.querySelectorAll('input[name=over]'))
		radio.addEventListener('change', () => {
			over = radio.value;
			for (const c of CHARTS)
				c.graph?.resetZoom();
			drawCharts();
		});
	$('log').addEventListener('change', () => {
		logLoss = $('log').checked;
		drawChart(CHARTS[0]);
	});
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawCharts);
}
