/* SPDX-License-Identifier: ISC */
#include "emit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/hosts.h"
#include "core/file.h"
#include "core/mem.h"
#include "rundir/rundir.h"
#include "supervisor/daemon.h"
#include "supervisor/rsh.h"

static int64_t count_ranks(const struct conf *c)
{
	return c->servers + (conf_trains(c) ? c->workers.max : 0);
}

typedef void quote(const char *text, struct buf *out);

/* Appends an option on a line of its own, unless its value is NULL. */
static void put_launch_option(struct buf *out, quote *as, const char *name, const char *value)
{
	if (!value)
		return;
	buf_printf(out, " \\\n    %s ", name);
	as(value, out);
}

/* Appends the options of ps-ctl start that the emitted command must repeat. */
static void put_launch_options(const struct emit *m, quote *as, struct buf *out)
{
	put_launch_option(out, as, "--bind", m->place->bind);
	put_launch_option(out, as, "--iface", m->place->iface);
	for (size_t i = 0; i < m->set->n; i++)
		put_launch_option(out, as, "--set", m->set->item[i]);
	buf_puts(out, "\n");
}

/* Appends the command that every rank runs; each of its options has a line of its own. */
static void put_launch_line(const struct emit *m, struct buf *out)
{
	rsh_quote(m->program, out);
	buf_printf(out, " launch --servers %lld --resume auto --file ",
	    (long long)m->conf->servers);
	rsh_quote(m->file, out);
	put_launch_options(m, rsh_quote, out);
}

static void put_change_directory(const struct emit *m, struct buf *out)
{
	buf_puts(out, "cd ");
	rsh_quote(m->here, out);
	buf_puts(out, " || exit\n");
}

/* ---- Slurm ---- */

/* Appends the options of a component of the job, which has this number of ranks. */
static void put_component(int64_t ranks, struct buf *out)
{
	buf_printf(out,
	    "#SBATCH --ntasks=%lld\n#SBATCH --requeue\n"
	    "# One minute before the time limit: a checkpoint, and exit code 75.\n"
	    "#SBATCH --signal=TERM@60\n",
	    (long long)ranks);
}

/* Appends the commands of the batch script. step: options of srun. */
static void put_batch_commands(const struct emit *m, const char *step, struct buf *out)
{
	put_change_directory(m, out);
	buf_printf(out,
	    "# The cluster handles a lost worker: srun must not end the other processes.\n"
	    "srun -K0 -W0%s ",
	    step);
	put_launch_line(m, out);
	buf_puts(out,
	    "code=$?\n# Queue the job again: it resumes from its checkpoint.\n"
	    "[ $code -ne 75 ] || scontrol requeue \"$SLURM_JOB_ID\"\nexit $code\n");
}

static void put_batch_head(const struct emit *m, struct buf *out)
{
	buf_printf(out,
	    "#!/bin/sh\n#SBATCH --job-name=%s\n#SBATCH --output=%s-%%j.log\n"
	    "#SBATCH --open-mode=append\n",
	    m->conf->name, m->conf->name);
}

static enum err_code put_sbatch(const struct emit *m, struct buf *out, struct err *e)
{
	(void)e;
	put_batch_head(m, out);
	put_component(count_ranks(m->conf), out);
	put_batch_commands(m, "", out);
	return ERR_OK;
}

/* A heterogeneous job, whose first component has the servers, and whose second one the workers. They
 * run one step, in which ranks count over both. */
static enum err_code put_sbatch_het(const struct emit *m, struct buf *out, struct err *e)
{
	if (!conf_trains(m->conf))
		return err_set(e, ERR_CONFIG,
		    "--emit sbatch-het: the cluster has no job, and so no workers for a second "
		    "component; use --emit sbatch");
	put_batch_head(m, out);
	buf_puts(out,
	    "# The nodes of the servers; add options, as --mem, --constraint or --nodes.\n");
	put_component(m->conf->servers, out);
	buf_puts(out, "#SBATCH hetjob\n# The nodes of the workers.\n");
	put_component(count_ranks(m->conf) - m->conf->servers, out);
	put_batch_commands(m, " --het-group=0,1", out);
	return ERR_OK;
}

/* ---- MPI ---- */

static enum err_code put_mpirun(const struct emit *m, struct buf *out, struct err *e)
{
	struct hosts hosts = { NULL, 0 };

	(void)e;
	for (size_t i = 0; i < m->conf->hosts.n; i++)
		hosts_add(&hosts, m->conf->hosts.item[i], NULL);
	buf_puts(out, "#!/bin/sh\n");
	put_change_directory(m, out);
	buf_printf(out, "exec mpirun -n %lld", (long long)count_ranks(m->conf));
	for (size_t i = 0; i < hosts.n; i++)
		buf_printf(out, "%s%s:%lld", i ? "," : " --host ", hosts.item[i].name,
		    (long long)hosts.item[i].slots);
	buf_puts(out, " ");
	put_launch_line(m, out);
	hosts_release(&hosts);
	return ERR_OK;
}

/* ---- systemd ---- */

static bool is_control(char c)
{
	return (unsigned char)c < ' ' || c == 0x7f;
}

/* Appends an argument, quoted as systemd.syntax(7) and systemd.service(5) demand: quotes,
 * backslashes, specifiers (%), variables ($) and control characters, of which a newline would end
 * the setting. */
static void put_unit_quoted(const char *text, struct buf *out)
{
	buf_puts(out, "\"");
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buf_puts(out, "\\");
		else if (*text == '%' || *text == '$')
			buf_append(out, text, 1);
		if (is_control(*text))
			buf_printf(out, "\\x%02x", (unsigned)(unsigned char)*text);
		else
			buf_append(out, text, 1);
	}
	buf_puts(out, "\"");
}

/* Appends the path of a WorkingDirectory=, where systemd takes no quotes but expands specifiers. */
static void put_unit_path(struct buf *out, const char *path)
{
	for (; *path; path++) {
		if (*path == '%')
			buf_puts(out, "%");
		buf_append(out, path, 1);
	}
}

/* WorkingDirectory= takes no quotes and no escapes: a newline in the path would begin another
 * setting. */
static enum err_code check_unit_path(const char *path, struct err *e)
{
	for (const char *p = path; *p; p++)
		if (is_control(*p))
			return err_set(e, ERR_CONFIG,
			    "--emit systemd: the current directory has the control character \\x%02x "
			    "in its name, which a unit cannot contain; rename it",
			    (unsigned)(unsigned char)*p);
	return ERR_OK;
}

/* The unit resumes by itself: it restarts after a failure, but not for a wrong use (2), a missing
 * thing (4) or a bad configuration (78), which a second try would not mend. */
static enum err_code put_systemd(const struct emit *m, struct buf *out, struct err *e)
{
	enum err_code rc = check_unit_path(m->here, e);
	char *hostfile;

	if (rc)
		return rc;
	hostfile = m->place->hostfile ? path_absolute(m->place->hostfile) : NULL;
	buf_printf(out,
	    "[Unit]\nDescription=pskit cluster %s\nWants=network-online.target\nAfter=network-online.target\n\n",
	    m->conf->name);
	buf_puts(out, "[Service]\nType=exec\nWorkingDirectory=");
	put_unit_path(out, m->here);
	buf_puts(out, "\nExecStart=");
	put_unit_quoted(m->program, out);
	buf_puts(out, " run --resume auto ");
	put_unit_quoted(m->file, out);
	put_launch_option(out, put_unit_quoted, "--hostfile", hostfile);
	put_launch_option(out, put_unit_quoted, "--advertise", m->place->advertise);
	put_launch_options(m, put_unit_quoted, out);
	buf_puts(out,
	    "# A stop with a checkpoint is not a failure. Errors of the cluster file are not retried.\n"
	    "SuccessExitStatus=75\nRestart=on-failure\nRestartSec=5\nRestartPreventExitStatus=2 4 78\n"
	    "# Send SIGTERM only to ps-ctl, which ends the other processes.\nKillMode=mixed\nTimeoutStopSec=60\n\n"
	    "[Install]\nWantedBy=multi-user.target\n");
	free(hostfile);
	return ERR_OK;
}

/* The unit of a coordinator that stands by, on another host with the same run directory. It waits for that
 * directory, which the first coordinator makes. */
static enum err_code put_systemd_standby(const struct emit *m, struct buf *out, struct err *e)
{
	char *run = rundir_name_for(m->file, m->conf->name), *bin = path_dirname(m->program),
	     *program = path_join(bin, "ps-serve");

	(void)e;
	buf_printf(out,
	    "[Unit]\nDescription=pskit cluster %s, a coordinator that stands by\n"
	    "Wants=network-online.target\nAfter=network-online.target\n"
	    "StartLimitIntervalSec=0\n\n[Service]\nType=exec\nExecStart=",
	    m->conf->name);
	put_unit_quoted(program, out);
	buf_puts(out, " --standby --no-store --returns -C ");
	put_unit_quoted(run, out);
	put_launch_option(out, put_unit_quoted, "--iface", m->place->iface);
	put_launch_option(out, put_unit_quoted, "--advertise", m->place->advertise);
	buf_puts(out,
	    "\n# It ends with 0 when the cluster has ended. Until the run directory exists, it is tried again.\n"
	    "Restart=on-failure\nRestartSec=5\nRestartPreventExitStatus=2 78\n\n"
	    "[Install]\nWantedBy=multi-user.target\n");
	free(run);
	free(bin);
	free(program);
	return ERR_OK;
}

/* ---------------------------------------------------------------------------------------- */

/* Appends the file of a form. ERR_CONFIG: the form cannot express this cluster. */
typedef enum err_code emit_fn(const struct emit *m, struct buf *out, struct err *e);

static const struct form {
	const char *name;
	emit_fn *put;
	emit_fn *put_standby; /* with a coordinator that stands by; NULL: the form has none */
} forms[] = {
	{ "sbatch", put_sbatch, NULL },
	{ "sbatch-het", put_sbatch_het, NULL },
	{ "systemd", put_systemd, put_systemd_standby },
	{ "k8s", emit_k8s_jobs, emit_k8s_jobs },
	{ "k8s-sets", emit_k8s_sets, emit_k8s_sets },
	{ "mpirun", put_mpirun, NULL },
};

/* The form of this name, which the option parser has checked. */
static const struct form *find_form(const char *name)
{
	size_t i = 0;

	while (strcmp(forms[i].name, name) != 0)
		i++;
	return &forms[i];
}

bool emit_has_standby(const char *form)
{
	return find_form(form)->put_standby != NULL;
}

/* "dir/demo.json" -> "dir/demo.k8s-key" */
static char *name_key_file(const char *path)
{
	const char *dot = strrchr(path, '.');
	size_t n = dot && !strchr(dot, '/') ? (size_t)(dot - path) : strlen(path);

	return mem_printf("%.*s.k8s-key", (int)n, path);
}

/* All paths become absolute, since the file is used from other directories and hosts. Nothing is
 * started or written but out. */
enum err_code emit(const char *form, const struct conf *conf, const char *file,
    const struct opt_list *set, const struct local_place *place, const struct emit_k8s_options *k8s,
    struct buf *out, struct err *e)
{
	const struct form *as = find_form(form);
	char *path = conf_file(file), *bin = path_self_dir(e), *keys = name_key_file(path);
	struct emit_k8s_options full = *k8s;
	struct emit m = { .conf = conf,
		.set = set,
		.place = place,
		.k8s = &full,
		.file = path_absolute(path),
		.here = getcwd(NULL, 0) };
	enum err_code rc = bin ? ERR_OK : e->code;

	if (rc == ERR_OK && !m.here)
		rc = err_sys(e, ERR_IO, "the current directory");
	if (rc == ERR_OK)
		m.program = path_join(bin, "ps-ctl");
	full.keys = k8s->keys ? k8s->keys : keys;
	if (rc == ERR_OK)
		rc = (full.standby ? as->put_standby : as->put)(&m, out, e);
	free(m.program);
	free(m.file);
	free(m.here);
	free(keys);
	free(path);
	free(bin);
	return rc;
}
