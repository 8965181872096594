/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/keyring.h"
#include "core/mem.h"
#include "ctl.h"

struct options {
	const char *role, *name, *file;
};

static const struct opt opts[] = {
	{ "role", 'r', OPT_CHOICE, offsetof(struct options, role), "ROLE", "the role of the key",
	    CTL_ROLES, 0, 0 },
	{ "name", 0, OPT_STR, offsetof(struct options, name), "NAME", "the name of the key's owner",
	    NULL, 0, 0 },
	{ "output", 'o', OPT_STR, offsetof(struct options, file), "FILE",
	    "the file for the secret key (NAME.key)", NULL, 0, 0 },
};

/* Refuses an entry that authorized_keys cannot hold, before any file is written. */
static enum err_code check_entry(const struct keyring_entry *entry, struct err *e)
{
	struct keyring *ring = keyring_new();
	enum err_code rc = keyring_add(ring, entry, e);

	keyring_free(ring);
	if (rc == ERR_OK)
		return ERR_OK;
	err_prefix(e, "--name");
	return e->code = ERR_USAGE;
}

/* The secret goes to the file, which must not exist yet; the public line goes to stdout, to be
 * appended to authorized_keys. Returns the exit code. */
static int generate_key(const struct options *o)
{
	struct keyring_entry entry = { 0 };
	struct buf line = BUF_INIT;
	struct err e = { 0 };
	struct key_pair key;
	enum err_code rc;
	char *file = o->file ? mem_strdup(o->file) : mem_printf("%s.key", o->name);

	role_parse(o->role, &entry.role);
	snprintf(entry.name, sizeof entry.name, "%s", o->name);
	/* snprintf() may have cut the name: refuse it. */
	if (strlen(o->name) > KEYRING_NAME_MAX)
		rc = err_set(&e, ERR_USAGE, "--name: must be at most %d characters",
		    KEYRING_NAME_MAX);
	else
		rc = check_entry(&entry, &e);
	if (rc == ERR_OK)
		rc = key_pair_create(file, &key, &e);
	if (rc == ERR_OK) {
		memcpy(entry.pk, key.pk, sizeof entry.pk);
		keyring_line(&entry, &line);
		fputs((char *)line.data, stdout);
		key_pair_wipe(&key);
	}
	buf_release(&line);
	free(file);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

static int run_keygen(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	if (!o.role)
		return ctl_report_misuse(self, "--role is required: one of %s", CTL_ROLES);
	if (!o.name)
		return ctl_report_misuse(self,
		    "--name is missing: give the name of the key's owner");
	return generate_key(&o);
}

const struct ctl_cmd ctl_cmd_keygen = {
	"keygen",
	{
	    .prog = "ps-ctl keygen",
	    .args = NULL,
	    .about = "generate a secret key, and print its line for authorized_keys",
	    .more =
	        "The secret key is written to a new file of mode 0600, and the line, which is not secret, to\n"
	        "standard output. Append the line to RUN/keys/authorized_keys to admit the key.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .examples =
	        "  ps-ctl keygen --role worker --name w7 >> fashion.run/keys/authorized_keys\n",
	},
	run_keygen,
};
