// A store that speaks S3 (npm's s3rver) on a free port of this host, with buckets "bkt" and "bucket".
//   node s3.js DIRECTORY [KEY CERT]
// The first line of standard output is its port.  Each file DIRECTORY/faults/NAME.TIMES is a fault:
// {"method", "path": expression, "do": "503" | "code" | "break" | "lie" | "swap" | "stall", ...}.
// It is injected TIMES times.  DIRECTORY/requests gets a line for each request, with the fault that
// was injected into it.
'use strict';
const crypto = require('crypto'), fs = require('fs'), path = require('path'), S3rver = require('s3rver');
const [directory, key, cert] = process.argv.slice(2);
const faults = path.join(directory, 'faults'), log = path.join(directory, 'requests');
fs.mkdirSync(faults, { recursive: true });

function fault(method, url) {
	for (const name of fs.readdirSync(faults).sort()) {
		const file = path.join(faults, name), f = JSON.parse(fs.readFileSync(file)), left = Number(name.split('.').pop());
		if ((f.method || method) !== method || !new RegExp(f.path || '').test(url))
			continue;
		left > 1 ? fs.renameSync(file, path.join(faults, `${name.split('.')[0]}.${left - 1}`)) : fs.rmSync(file);
		return f;
	}
	return {};
}

// Send the first bytes of the answer, and then nothing.
function cut(ctx, bytes, end) {
	const { res } = ctx, write = res.write;
	let left = bytes;
	res.write = res.end = function (data, ...rest) {
		if (!data || typeof data === 'function' || left <= 0)
			return true;
		const piece = Buffer.from(data).subarray(0, left);
		left -= piece.length;
		write.call(res, piece, () => left <= 0 && end(res));
		return true;
	};
}

// Checks the signature as "Authenticating Requests: Using the Authorization Header" of the S3
// manual describes it, with the key S3RVER and the secret not-to-be-seen.  s3rver itself does not
// check it.
function isSigned({ method, url, headers }) {
	const [, scope, names, signature] = /^AWS4-HMAC-SHA256 Credential=S3RVER\/([^,]*), ?SignedHeaders=([^,]*), ?Signature=(.*)$/
		.exec(headers.authorization || '') || [];
	if (!scope)
		return false;
	const [target, query = ''] = url.split('?'), hash = (x) => crypto.createHash('sha256').update(x).digest('hex');
	const text = [method, target, query.split('&').sort().join('&'),
		...names.split(';').map((n) => `${n}:${headers[n].trim().replace(/ +/g, ' ')}`), '', names,
		headers['x-amz-content-sha256']].join('\n');
	const to = ['AWS4-HMAC-SHA256', headers['x-amz-date'], scope, hash(text)].join('\n');
	const key = scope.split('/').reduce((k, part) => crypto.createHmac('sha256', k).update(part).digest(), 'AWS4not-to-be-seen');
	return names.includes('host') && names.includes('x-amz-content-sha256') &&
		crypto.createHmac('sha256', key).update(to).digest('hex') === signature;
}

function refuse(ctx, status, code, more = '') {
	ctx.status = status;
	ctx.set('Connection', 'close');
	ctx.body = `<Error><Code>${code}</Code>${more}</Error>`;
}

const server = new S3rver({
	directory: path.join(directory, 'data'), address: '127.0.0.1', port: 0, silent: true,
	configureBuckets: [{ name: 'bkt', configs: [] }, { name: 'bucket', configs: [] }],
	...key && { key: fs.readFileSync(key), cert: fs.readFileSync(cert) },
});
server.middleware.unshift(async (ctx, next) => {
	const f = fault(ctx.method, ctx.url);
	fs.appendFileSync(log, `${ctx.method} ${ctx.url} ${ctx.get('range') || '-'} ${f.do || '-'}\n`);
	if (f.do === '503')
		return refuse(ctx, 503, 'SlowDown');
	if (f.do === 'code')
		return refuse(ctx, f.status, f.code, f.more);
	if (!isSigned(ctx.req) && !ctx.url.startsWith('/bkt/public/'))
		return refuse(ctx, 403, 'SignatureDoesNotMatch');
	if (f.do === 'break')
		cut(ctx, f.bytes, (res) => res.socket.destroy());
	if (f.do === 'stall' && ctx.method === 'PUT')
		return new Promise(() => {});
	if (f.do === 'stall')
		cut(ctx, f.bytes, () => {});
	await next();
	if (f.do === 'swap') {
		ctx.status = 200;
		ctx.set('ETag', '"another"');
		ctx.body = f.with;
	}
	if (f.do === 'lie')
		ctx.body = Buffer.alloc(Number(ctx.response.length), 'x');
});
server.run((error, address) => {
	if (error)
		throw error;
	console.log(address.port);
});
