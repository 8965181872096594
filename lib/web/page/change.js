// The controls of a session that may change things.

let paused = false;
// A request after which the coordinator may be gone before it answers.
const told = { stop: false };

function tell(where, text, bad) {
	where.classList.toggle('bad', !!bad);
	say(where, text);
}

// Run one action at a time, and show its outcome beside the buttons.
async function act(button, doing, task) {
	if (button.getAttribute('aria-disabled') === 'true')
		return;
	button.setAttribute('aria-disabled', 'true');
	tell($('told'), doing);
	try {
		tell($('told'), await task());
	} catch (e) {
		tell($('told'), sentenceCase(e.message), true);
	}
	button.removeAttribute('aria-disabled');
	showRight();
}

const saved = (done) => `A checkpoint of step ${whole(done.step)} is on the disk: ${done.path}`;

const checkpoint = async () => saved(await change('/v1/checkpoints', {}, 300));

function askToStop() {
	const over = OVER.includes(board.status?.state);
	const dialog = $('stop-dialog');

	say($('stop-text'), over ? 'The job is over; its servers and workers, which are still there, end.'
		: `The job of ${$('name').textContent} ends where it is, and all servers and workers with it. It can be gone on with from a checkpoint alone.`);
	show($('stop-save').parentElement.parentElement, !over);
	dialog.returnValue = '';
	dialog.showModal();
	return new Promise((done) => dialog.addEventListener('close', () => done(dialog.returnValue === 'yes'), { once: true }));
}

async function stop() {
	if (!await askToStop())
		return 'It goes on.';
	// With its checkpoint the job ends at one step, and the processes stay until they are told to end, too.
	if ($('stop-save').checked && !OVER.includes(board.status?.state)) {
		const done = await change('/v1/stop', { why: 'the dashboard', save: true, seconds: 240 }, 300);

		tell($('told'), `${saved(done)}; stopping …`);
	}
	// Before the answer, which may be lost: the coordinator ends soon after it has got the order.
	told.stop = true;
	try {
		await change('/v1/stop', { why: 'the dashboard' });
	} catch (e) {
		told.stop = !e.status;
		throw e;
	}
	return 'It is told to stop.';
}

function chooseSetting(key, value) {
	$('set-key').value = key;
	$('set-value').value = value ?? '';
	$('set-value').focus();
	$('set-value').select();
}

async function set(event) {
	const key = $('set-key').value.trim();

	event.preventDefault();
	tell($('set-told'), 'Setting it …');
	try {
		await change('/v1/set', { set: { [key]: $('set-value').value } });
		tell($('set-told'), `${key} is set; the state above says when all workers go by it.`);
	} catch (e) {
		tell($('set-told'), sentenceCase(e.message), true);
	}
	showRight();
}

// Show the controls that the session and the state of the job permit.
function showRight(status) {
	const may = mayChange();
	const alive = !status || !OVER.includes(status.state);

	show($('controls'), may);
	show($('set-form'), may);
	for (const button of document.querySelectorAll('#settings-table button'))
		show(button, may);
	say($('right'), may ? 'May change things; ends after 15 minutes without a change'
		: session.lapsed ? 'Reading; the right to change has ended' : 'Reading');
	if (!status)
		return;
	paused = !!status.paused;
	say($('pause'), paused ? 'Go on' : 'Pause');
	show($('pause'), alive);
	show($('checkpoint'), alive);
}

function startChanges() {
	$('pause').addEventListener('click', () => act($('pause'), paused ? 'Going on …' : 'Pausing …', async () => {
		await change('/v1/pause', { paused: !paused });
		return paused ? 'The workers go on.' : 'The workers rest before their next step.';
	}));
	$('checkpoint').addEventListener('click', () => act($('checkpoint'), 'Taking a checkpoint …', checkpoint));
	$('stop').addEventListener('click', () => act($('stop'), '', stop));
	$('set-form').addEventListener('submit', set);
}
