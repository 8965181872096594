// The state of the job, in a sentence and in figures.

const OVER = ['done', 'failed', 'stopped'];

function members(status) {
	const servers = status.servers === status.servers_wanted ? plural(status.servers, 'server') : `${whole(status.servers)} of ${plural(status.servers_wanted, 'server')}`;

	return status.workers_wanted ? `${servers} and ${plural(status.workers, 'worker')}` : servers;
}

// Without changing figures: screen readers read it aloud when it changes.
function sentence(status, why, servers, workers) {
	const name = status.name || 'The cluster';
	const lost = [...servers, ...workers].filter((r) => r.state === 'lost').map((r) => r.id);
	const paused = why.find((w) => w.for === 'ps-ctl resume');
	let text;

	if (status.state === 'forming')
		text = `${name} is forming${status.waiting_for ? `: it waits for ${status.waiting_for}` : ''}.`;
	else if (status.state === 'failed' || status.state === 'stopped')
		text = `${name} ${status.state === 'failed' ? 'has failed' : 'is stopped'}${status.reason ? `: ${status.reason}` : ''}.`;
	else if (status.state === 'done')
		text = `${name} is done.`;
	else if (status.paused)
		text = `${paused ? sentenceCase(paused.because) : 'The job is paused'}: ${whole(status.resting)} of ${plural(status.workers, 'worker')} rest.`;
	else
		text = `${name} is ${status.state}: ${members(status)}.`;
	if (!OVER.includes(status.state)) {
		if (lost.length)
			text += ` ${lost.slice(0, 4).join(', ')}${lost.length > 4 ? ` and ${lost.length - 4} more` : ''} ${lost.length === 1 ? 'is' : 'are'} lost.`;
		if (status.scaling)
			text += ' Partitions are being moved.';
		if (status.settings && status.settings_step === null)
			text += ' A setting that was changed is on its way to the workers.';
	}
	if (isNumber(status.overfits_since))
		text += ` The model overfits since step ${whole(status.overfits_since)}.`;
	if (status.eval?.constant)
		text += ' The model is no better than the constant prediction: ps-ctl doctor has advice.';
	if (isNumber(status.first_loss) && status.train_loss > status.first_loss + 2 * Math.abs(status.first_loss))
		text += ' The training loss is above that of the start: lower the learning rate.';
	if (status.data_lost)
		text += ' The last replica of some partitions is lost.';
	return text;
}

function mood(status, servers, workers) {
	if (status.state === 'failed' || status.data_lost)
		return 'bad';
	if (!OVER.includes(status.state) && [...servers, ...workers].some((r) => r.state === 'lost'))
		return 'bad';
	return ['running', 'done'].includes(status.state) && !status.paused ? 'good' : 'mild';
}

function figures(status) {
	const score = scoreOf(status.eval);
	const list = [['Step', status.steps_total ? `${whole(status.step)} of ${whole(status.steps_total)}` : whole(status.step)],
		['Training loss', figure(status.train_loss)]];

	if (isNumber(status.eval?.loss))
		list.push(['Evaluation loss', figure(status.eval.loss)]);
	if (score)
		list.push([titleOf(score), figure(status.eval[score])]);
	if (status.best_eval)
		list.push([`Best ${status.best_eval.metric}`, `${figure(status.best_eval.value)} at step ${whole(status.best_eval.step)}`]);
	if (status.steps_total > status.step && status.step && status.state === 'running')
		list.push(['Time left', duration(status.seconds * (status.steps_total - status.step) / status.step)]);
	list.push(['Examples', count(status.examples)], ['Examples/s', OVER.includes(status.state) ? '–' : count(status.examples_per_second)],
		['Pushed', bytes(status.pushed_bytes)], ['Pulled', bytes(status.pulled_bytes)], ['Time', duration(status.seconds)],
		['Mode', status.sync || '–'], ['Model', status.model || '–'], ['Layout epoch', whole(status.layout_epoch)]);
	return list;
}

function showFigures(status) {
	const list = figures(status), box = $('figures');

	while (box.children.length > list.length)
		box.lastElementChild.remove();
	list.forEach(([name, value], i) => {
		if (!box.children[i])
			box.append(make('div', {}, make('dt'), make('dd')));
		say(box.children[i].children[0], name);
		say(box.children[i].children[1], value);
	});
}

function showProgress(status) {
	const share = status.steps_total > 0 ? Math.min(1, status.step / status.steps_total) : null;

	show($('progress'), share !== null);
	if (share === null)
		return;
	const percent = (100 * share).toFixed(share < 1 && share > 0 ? 1 : 0);
	$('progress').setAttribute('aria-valuenow', percent);
	$('progress').setAttribute('aria-valuetext', `step ${whole(status.step)} of ${whole(status.steps_total)}`);
	$('progress-bar').style.width = `${percent}%`;
}

// Shorter waits are normal in a step, and would only flicker.
const WORTH_A_LINE = 1;

function showWhy(list, status) {
	const waits = list.filter((w) => w.for !== 'ps-ctl resume' && (!/^worker-/.test(w.id) || w.since_seconds >= WORTH_A_LINE));
	const box = $('why');

	show($('why-box'), waits.length > 0 || status.state === 'running');
	show($('why-none'), waits.length === 0);
	while (box.children.length > Math.min(waits.length, 8))
		box.lastElementChild.remove();
	waits.slice(0, 8).forEach((w, i) => {
		if (!box.children[i])
			box.append(make('li', {}, make('span'), make('span', { class: 'remedy' })));
		say(box.children[i].children[0], `${sentenceCase(w.id)} ${/replicas$/.test(w.id) ? 'wait' : 'waits'} for ${w.for}${isNumber(w.step) ? ` at step ${whole(w.step)}` : ''}: ${w.because}.`);
		say(box.children[i].children[1], w.remedy);
	});
}

function showState(status, why, servers, workers) {
	const badge = $('badge');

	say($('name'), status.name || 'pskit');
	document.title = `${status.name || 'pskit'}: ${status.paused ? 'paused' : status.state}`;
	say(badge, status.paused && status.state === 'running' ? 'paused' : status.state);
	badge.dataset.mood = mood(status, servers, workers);
	show(badge, true);
	say($('sentence'), sentence(status, why, servers, workers));
	showFigures(status);
	showProgress(status);
	showWhy(why, status);
}
