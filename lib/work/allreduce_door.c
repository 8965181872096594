#include "work/allreduce_door.h"

#include <string.h>
#include <unistd.h>

#include "launch/rundir.h"

/* At this host alone where the coordinator is on it, else at the address by which it is
 * reached. */
enum err_code door_listen(const struct allreduce_config *cfg, char out[static NET_TEXT], struct err *e)
{
	if (cfg->listen) {
		snprintf(out, NET_TEXT, "%s", cfg->listen);
		return ERR_OK;
	}
	if (cfg->id->run_dir || !cfg->id->data) {
		snprintf(out, NET_TEXT, "127.0.0.1:0");
		return ERR_OK;
	}
	return net_source(cfg->id->data, out, e);
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
