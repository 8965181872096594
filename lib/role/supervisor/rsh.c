/* SPDX-License-Identifier: ISC */
#include "supervisor/rsh.h"

#include <ctype.h>
#include <string.h>

/* The local shell splits $PS_RSH at blanks and honours its quotes, as git and rsync do with
 * theirs. */
#define LOCAL "exec ${PS_RSH:-ssh -o BatchMode=yes} \"$@\""

/* The script for /bin/sh on the other host. It has no single quotes and no characters special to
 * csh or fish, so that any login shell passes it on unchanged. */
#define THERE \
	"PATH=$1:$PATH; command -v ps-ctl >/dev/null || { echo \"ps-ctl: there is no pskit on $(uname -n)," \
	" neither in $1 nor in PATH\" >&2; exit 127; }; shift; exec ps-ctl remote \"$@\""

void rsh_quote(const char *word, struct buf *out)
{
	size_t plain = 0;

	while (isalnum((unsigned char)word[plain]) ||
	    (word[plain] && strchr("_-+=./:,@%", word[plain])))
		plain++;
	if (plain && !word[plain]) {
		buf_puts(out, word);
		return;
	}
	buf_puts(out, "'");
	for (; *word; word++) {
		if (*word == '\'')
			buf_puts(out, "'\\''");
		else
			buf_append(out, word, 1);
	}
	buf_puts(out, "'");
}

void rsh_command(const char *bin, const char *const *args, struct buf *out)
{
	buf_puts(out, "exec /bin/sh -c ");
	rsh_quote(THERE, out);
	buf_puts(out, " ps-ctl ");
	rsh_quote(bin, out);
	for (; *args; args++) {
		buf_puts(out, " ");
		rsh_quote(*args, out);
	}
}

void rsh_argv(const char *host, const char *command, const char *argv[static RSH_ARGV])
{
	const char *const all[RSH_ARGV] = { "/bin/sh", "-c", LOCAL, "PS_RSH", host, command, NULL };

	memcpy(argv, all, sizeof all);
}
