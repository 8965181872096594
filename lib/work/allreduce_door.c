#include "work/allreduce_door.h"

#include <string.h>
#include <unistd.h>

#include "launch/rundir.h"
#include "wire/choose.h"

/* On the coordinator's host where the servers listen, else at the address by which that host is
 * reached. */
enum err_code door_listen(const struct allreduce_config *cfg, char out[static NET_TEXT], struct err *e)
{
	const char *servers = cfg->job->conf.listen, *why;
	char here[NET_TEXT];
	const struct choice choice = { cfg->listen, cfg->iface, cfg->id->run_dir ? NULL : cfg->id->data, here };

	choose_with_port(choose_is_any(servers) ? "127.0.0.1:0" : servers, ":0", here);
	return choose_listen(&choice, out, &why, e);
}

/* The path is the slot's, where it is known and free: what a killed worker leaves behind
 * is replaced. */
void door_local(const struct allreduce_config *cfg, bool by_slot, char out[static NET_TEXT])
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
