/* SPDX-License-Identifier: ISC */
#include "worker/allreduce_listen.h"

#include <string.h>
#include <unistd.h>

#include "rundir/rundir.h"
#include "socket/listen_address.h"

/* On the coordinator's host: where the servers listen. Elsewhere: at the address of the interface
 * that reaches the coordinator. */
enum err_code allreduce_listen_address(const struct allreduce_config *cfg,
    char out[static NET_TEXT], struct err *e)
{
	const char *servers = cfg->job->conf.listen, *why;
	char here[NET_TEXT];
	const struct choice choice = { cfg->listen, cfg->iface,
		cfg->id->run_dir ? NULL : cfg->id->data, here };

	listen_address_with_port(listen_address_is_any(servers) ? "127.0.0.1:0" : servers, ":0",
	    here);
	return listen_address_choose(&choice, out, &why, e);
}

/* The rank's path is preferred where it is known and free: the socket of a killed worker is then
 * replaced. */
void allreduce_listen_socket(const struct allreduce_config *cfg, bool by_slot,
    char out[static NET_TEXT])
{
	char name[40], *path;

	if (!cfg->id->run_dir)
		return;
	if (by_slot)
		snprintf(name, sizeof name, "ring-%d.sock", cfg->slot);
	else
		snprintf(name, sizeof name, "ring-p%d.sock", (int)getpid());
	path = rundir_path(cfg->id->run_dir, name);
	if (strlen(path) < NET_TEXT)
		snprintf(out, NET_TEXT, "%s", path);
	free(path);
}
