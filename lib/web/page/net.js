// Our session with the coordinator, and its updates.

const session = { read: '', change: '', lapsed: false, scheme: 'Session', used: 0, idle: 900 };
const KEPT = 'pskit-session';

function keepSession() {
	try {
		if (session.read)
			sessionStorage.setItem(KEPT, JSON.stringify(session));
		else
			sessionStorage.removeItem(KEPT);
	} catch { /* Without storage, a reload needs a new address. */ }
}

function dropSession() {
	Object.assign(session, { read: '', change: '', lapsed: false, scheme: 'Session' });
	keepSession();
}

function dropChange() {
	Object.assign(session, { change: '', lapsed: true });
	keepSession();
}

// The right to change things expires; the coordinator decides in the end.
function mayChange() {
	if (session.change && Date.now() - session.used > session.idle * 1000)
		dropChange();
	return session.change !== '';
}

class Refusal extends Error {
	constructor(status, message, hint) {
		super(hint ? `${message} (${hint})` : message);
		this.status = status;
	}
}

async function call(method, path, secret, { body, scheme = 'Session', seconds = 20 } = {}) {
	const headers = { Authorization: `${scheme} ${secret}` };

	if (body !== undefined)
		headers['Content-Type'] = 'application/json';
	const answer = await fetch(path, {
		method, headers, body: body === undefined ? undefined : JSON.stringify(body),
		cache: 'no-store', credentials: 'omit', redirect: 'error', signal: AbortSignal.timeout(seconds * 1000),
	});
	const text = await answer.text();
	let json = null;
	try {
		json = JSON.parse(text);
	} catch { /* The answer is not from a coordinator. */ }
	if (!answer.ok || json === null) {
		const error = json?.error ?? {};
		throw new Refusal(answer.status, String(error.message ?? `the answer was ${answer.status}`), error.hint ? String(error.hint) : '');
	}
	return json;
}

// Send a change that the user has asked for.
async function change(path, body, seconds) {
	if (!mayChange())
		throw new Refusal(401, 'this session may no longer change things: ps-ctl dashboard begins another');
	try {
		const answer = await call('POST', path, session.change, { body, seconds });

		session.used = Date.now();
		keepSession();
		return answer;
	} catch (e) {
		if (e.status === 401)
			dropChange();
		throw e;
	}
}

// A ticket is in the fragment (#) of the address, which no server and no log sees.
const hasTicket = () => /^#t[\w-]{42}$/.test(location.hash);

async function enter() {
	if (hasTicket()) {
		const ticket = location.hash.slice(1);

		history.replaceState(null, '', location.pathname);
		const got = await call('POST', '/v1/session', ticket);

		Object.assign(session, { read: got.read, change: got.change ?? '', lapsed: false, scheme: 'Session', idle: got.idle_seconds, used: Date.now() });
		keepSession();
		return;
	}
	try {
		Object.assign(session, JSON.parse(sessionStorage.getItem(KEPT) ?? '{}'));
	} catch { /* Treat it as if there was none. */ }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// Get updates, one after the other, while we are signed in. Calls take(picture) for each, lost(why,
// when, gone) without an answer, and out(why) when the session has ended.
async function follow({ take, lost, out }) {
	const mine = session.read;
	let since = 0, events = 0, heard = 0, failures = 0;

	while (session.read === mine) {
		// After a pause the curves have a gap that only the coordinator can fill.
		if (Date.now() - heard > 15000)
			since = 0;
		try {
			// A coordinator answers within about a second. When its host is cut off, no connection is refused.
			const picture = await call('GET', `/v1/feed?since=${since}&events=${events}`, mine, { scheme: session.scheme, seconds: 8 });

			if (session.read !== mine)
				return;
			heard = Date.now();
			since = picture.tick;
			events = picture.events_next;
			failures = 0;
			take(picture);
		} catch (e) {
			if (session.read !== mine)
				return;
			if (e.status === 401 || e.status === 403) {
				dropSession();
				out(e.message);
				return;
			}
			failures++;
			lost(e.status ? e.message : 'the coordinator does not answer', heard, !e.status);
			await pause(Math.min(500 * 2 ** failures, 8000));
		}
		if (document.hidden)
			await Promise.race([pause(10000), new Promise((done) =>
				document.addEventListener('visibilitychange', done, { once: true }))]);
	}
}
