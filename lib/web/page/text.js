// Formatting. All text from the cluster goes through say(), and is never markup.

const $ = (id) => document.getElementById(id);

function say(element, text) {
	if (element.textContent !== text)
		element.textContent = text;
}

function show(element, yes) {
	if (element.hidden === yes)
		element.hidden = !yes;
}

// A new element with text or children.
function make(tag, about, ...children) {
	const e = document.createElement(tag);

	for (const [name, value] of Object.entries(about || {}))
		e.setAttribute(name, value);
	e.append(...children);
	return e;
}

const isNumber = (v) => typeof v === 'number' && Number.isFinite(v);

// 1234567 is "1.23M": at least three digits.
function count(v) {
	const units = ['', 'k', 'M', 'G', 'T', 'P'];
	let i = 0;

	if (!isNumber(v))
		return '–';
	for (; Math.abs(v) >= 999.5 && i + 1 < units.length; i++)
		v /= 1000;
	return (i === 0 && Number.isInteger(v) ? String(v) : String(Number(v.toPrecision(3)))) + units[i];
}

const whole = (v) => isNumber(v) ? v.toLocaleString('en-US', { maximumFractionDigits: 0 }) : '–';

// A loss or an accuracy: four significant digits.
function figure(v) {
	if (!isNumber(v))
		return '–';
	return Math.abs(v) >= 1e6 || (v !== 0 && Math.abs(v) < 1e-4) ? v.toExponential(2) : String(Number(v.toPrecision(4)));
}

function bytes(v) {
	const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
	let i = 0;

	if (!isNumber(v))
		return '–';
	for (; v >= 999.5 && i + 1 < units.length; i++)
		v /= 1000;
	return `${Number(v.toPrecision(3))} ${units[i]}`;
}

// 75 is "1:15", 4000 "1:06:40".
function duration(s) {
	const two = (n) => String(n).padStart(2, '0');

	if (!isNumber(s))
		return '–';
	s = Math.floor(s);
	if (s >= 3600)
		return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
	return `${Math.floor(s / 60)}:${two(s % 60)}`;
}

function seen(s) {
	if (!isNumber(s))
		return '–';
	return s < 2 ? 'now' : s < 100 ? `${Math.round(s)} s` : duration(s);
}

function clock(ts) {
	const t = new Date(ts);

	return Number.isNaN(t.getTime()) ? String(ts) : t.toLocaleTimeString('en-GB');
}

const plural = (n, word) => `${whole(n)} ${word}${n === 1 ? '' : 's'}`;
// Begin with a capital, unless it begins with an identifier, as "job.lr: ...".
const sentenceCase = (s) => /^[a-z]+[ ,.]/.test(s) && !/^\S*[.:]\S/.test(s) ? s[0].toUpperCase() + s.slice(1) : s;
