// The page: a sign-in form ("door"), and the dashboard.

const board = {};

function showDoor(why) {
	show($('door'), true);
	show($('board'), false);
	show($('nav'), false);
	show($('session'), false);
	show($('badge'), false);
	say($('name'), 'pskit');
	document.title = 'pskit';
	say($('door-why'), why ? sentenceCase(why) : '');
}

function redraw() {
	const servers = board.servers?.rows ?? [], workers = board.workers?.rows ?? [];

	showState(board.status, board.why ?? [], servers, workers);
	showRight(board.status);
}

function take(picture) {
	if (picture.whole)
		for (const key of Object.keys(board))
			delete board[key];
	Object.assign(board, picture);
	show($('door'), false);
	show($('board'), true);
	show($('nav'), true);
	show($('session'), true);
	show($('away'), false);
	show($('next'), false);
	document.body.classList.remove('stale');
	if (picture.curve)
		takeCurve(picture.curve);
	if (picture.status)
		takePoint(board.status);
	redraw();
	drawCharts();
	if (picture.workers)
		showWorkers(board.workers);
	if (picture.servers || picture.status)
		showServers(board.servers, board.status);
	if (picture.relays)
		showRelays(board.relays);
	if (picture.layout)
		showTables(board.layout);
	if (picture.config)
		showConfig(board.config);
	takeEvents(picture.events, picture.whole);
}

// Show the end of the job as the last events tell it: the coordinator is gone.
function showEnd(last) {
	dropSession();
	show($('controls'), false);
	show($('set-form'), false);
	show($('session'), false);
	show($('why-box'), false);
	say($('badge'), last.event);
	$('badge').dataset.mood = last.event === 'failed' ? 'bad' : last.event === 'done' ? 'good' : 'mild';
	say($('sentence'), `${board.status.name}: ${last.text}. The cluster has ended; what is shown is as of ${clock(last.ts)}.`);
	document.title = `${board.status.name}: ${last.event}`;
}

function lost(why, heard, gone) {
	const last = seenEvents.find((e) => OVER.includes(e.event)) ??
		(told.stop ? { event: 'stopped', text: 'the job is stopped: the dashboard', ts: new Date().toISOString() } : null);

	if (gone && board.status && last) {
		showEnd(last);
		return;
	}
	if (!board.status) {
		showDoor(why);
		return;
	}
	document.body.classList.add('stale');
	say($('away'), heard ? `${sentenceCase(why)}, since ${new Date(heard).toLocaleTimeString('en-GB')}. What is shown is as of then.` : `${sentenceCase(why)}.`);
	show($('away'), true);
	if (gone)
		showNext(board.status, session.scheme);
}

const run = () => follow({ take, lost, out: showDoor });

function startDoor() {
	$('token-form').addEventListener('submit', (event) => {
		event.preventDefault();
		Object.assign(session, { read: $('token').value.trim(), change: '', scheme: 'Bearer' });
		keepSession();
		$('token').value = '';
		run();
	});
	$('leave').addEventListener('click', async () => {
		const { read, scheme } = session;

		dropSession();
		showDoor('The session has ended.');
		if (scheme === 'Session')
			await call('POST', '/v1/session/end', read).catch(() => {});
	});
	// The user has opened another address in this tab.
	addEventListener('hashchange', () => hasTicket() && start());
}

async function start() {
	try {
		await enter();
	} catch (e) {
		if (!session.read)
			showDoor(e.status === 401 ? 'this address has been used, or is too old: ps-ctl dashboard gives another' : e.message);
		return;
	}
	if (session.read)
		run();
	else
		showDoor('');
}

startCharts();
startRows();
startChanges();
startDoor();
$('order').addEventListener('change', () => board.workers && showWorkers(board.workers));
start();
