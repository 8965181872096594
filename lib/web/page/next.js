// What to do when the coordinator does not answer and others stand by.
//
// The page does not go to the next coordinator by itself. Its session is valid only at the coordinator that opened it, from
// that coordinator's own host, and no page may use a coordinator of another origin. A token is valid at all of them, but the
// page does not send it to an address at which it has not been entered.

const LOOPBACK = /^(127\.|localhost:|\[::1\])/;

// A word of a command for a shell.
const quote = (word) => /^[\w@%+=:,.\/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

// Elements as "a, b or c".
function either(list) {
	return list.flatMap((item, i) => [...(i === 0 ? [] : i + 1 < list.length ? [', '] : [' or ']), item]);
}

// The command that opens a session with the next coordinator, and the hosts on which it works. The run directory may have
// a path of its own on each host.
function nextCommands(standbys) {
	const hosts = new Map();

	for (const s of standbys)
		hosts.set(s.run_dir, (hosts.get(s.run_dir) ?? new Set()).add(s.host));
	return [...hosts].map(([dir, on]) => make('span', {},
		make('code', {}, dir ? `ps-ctl dashboard -C ${quote(dir)}` : 'ps-ctl dashboard'), ` on ${either([...on]).join('')}`));
}

// Links to the pages of the other coordinators, as far as another host may reach them.
function nextPages(standbys) {
	return standbys.flatMap((s) => s.http.split(',')).filter((at) => /^[\w.:[\]-]+:\d+$/.test(at) && !LOOPBACK.test(at))
		.map((at) => make('a', { href: `http://${at}/`, rel: 'noreferrer' }, `http://${at}/`));
}

function showNext(status, scheme) {
	const standbys = status.standbys ?? [];
	const pages = scheme === 'Bearer' ? nextPages(standbys) : [];

	// Stay as it is while it is read.
	if (!$('next').hidden)
		return;
	if (pages.length)
		$('next').replaceChildren('Another coordinator stands by, at which the token is valid, too: enter it at ', ...either(pages), '.');
	else if (standbys.length)
		$('next').replaceChildren('Another coordinator takes over, and needs a session of its own: run ', ...either(nextCommands(standbys)), '.');
	else if (scheme === 'Bearer')
		$('next').replaceChildren('This page goes on when a coordinator answers at its address.');
	else
		$('next').replaceChildren('A coordinator that is started again needs a session of its own: run ', make('code', {}, 'ps-ctl dashboard'), '.');
	show($('next'), true);
}
