/* SPDX-License-Identifier: ISC */
/* Reading the coordinator's log of leases (coordinator/lease_log.h): torn, with old lines behind the new
 * ones, and with gaps. */
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "coord_fixture.h"
#include "coordinator/coordinator.h"
#include "coordinator/lease_log.h"
#include "state/state_store.h"
#include "core/file.h"
#include "core/mem.h"

enum { LEASES = 8, SAVED = 5 };

/* The log's line of a change, as lease_log_add writes it. */
static void print_line(FILE *f, const struct logged *l)
{
	static const char letter[] = {
		[LEASE_GIVEN] = 'L',
		[LEASE_DONE] = 'D',
		[LEASE_ADVANCED] = 'H',
	};
	char text[256];

	snprintf(text, sizeof text, "%llu %c %llu %u %llu %llu %llu %lld []",
	    (unsigned long long)l->number, letter[l->change.event],
	    (unsigned long long)l->change.id, l->change.worker, (unsigned long long)l->change.from,
	    (unsigned long long)l->change.step, (unsigned long long)l->change.batch,
	    (long long)l->change.place);
	fprintf(f, "%08x %s\n", (unsigned)crc32(0, (const Bytef *)text, (uInt)strlen(text)), text);
}

/* A job of LEASES leases by one worker, none of which is done, and its state after SAVED of them. */
static json_t *lease_all(struct scene *s)
{
	json_t *state = NULL;

	scene_open(s, 1, 4);
	s->cfg.lockstep = false;
	s->cfg.epochs = 3;
	scene_run(s);
	for (int i = 0; i < LEASES; i++) {
		say(s, &s->worker[i / 2], "{\"op\":\"lease\",\"more\":true}");
		if (i == SAVED - 1)
			state = saved_state(s->c);
	}
	return state;
}

/* A state that names the log. */
static void write_root(const char *dir)
{
	char *path = mem_printf("%s/state.json", dir);
	const char *text = "{\"lease_log\":\"log\"}";

	if (file_replace(path, text, strlen(text), 0600, NULL))
		abort();
	free(path);
}

/* Replays a log of the changes with these indices, the last one torn or whole, after the saved state.
 * *leases: changes that the coordinator has then. */
static enum err_code replay(const int *index, size_t n, bool torn, uint64_t *leases)
{
	struct scene s;
	json_t *json = lease_all(&s);
	char dir[] = "/tmp/pskit-lease-log.XXXXXX", path[64];
	const struct state_store_config place = { .run_dir = dir };
	struct state_values former;
	struct server server = { 0 };
	struct coordinator owner = { .server = &server };
	struct err e = { 0 };
	enum err_code rc;
	FILE *f;

	if (s.nlogged != LEASES || !mkdtemp(dir))
		abort();
	snprintf(path, sizeof path, "%s/log", dir);
	f = fopen(path, "w");
	for (size_t i = 0; i < n; i++)
		print_line(f, &s.logged[index[i]]);
	fclose(f);
	if (torn) {
		f = fopen(path, "r+");
		fseek(f, -7, SEEK_END);
		if (ftruncate(fileno(f), ftell(f)))
			abort();
		fclose(f);
	}
	write_root(dir);
	if (!scene_again_from(&s, json))
		abort();
	owner.coord = s.c;
	server.state_store = state_store_open(&place);
	if (state_store_read(server.state_store, &former, &e))
		abort();
	state_values_release(&former);
	rc = lease_log_replay(&owner, &e);
	*leases = coord_lease_changes(s.c);
	state_store_close(server.state_store);
	file_remove_tree(dir, NULL);
	json_decref(json);
	scene_close(&s);
	return rc;
}

#define REPLAY(torn, leases, ...) \
	replay((const int[]){ __VA_ARGS__ }, sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int), \
	    torn, leases)

int main(void)
{
	enum err_code rc;
	uint64_t n;

	rc = REPLAY(false, &n, 0, 1, 2, 3, 4, 5, 6, 7);
	ok(!rc && n == 8, "a log from the first change on gives all of them back: %d", (int)n);
	rc = REPLAY(false, &n, 6, 7);
	ok(rc == ERR_FORMAT, "a change that the state and the log lack is noticed: %d", (int)n);
	rc = REPLAY(true, &n, 3, 4, 5, 6, 7);
	ok(!rc && n == 7, "reading ends at a torn line: %d", (int)n);
	rc = REPLAY(false, &n, 5, 6, 0, 1, 2);
	ok(!rc && n == 7, "and at lines that are older than the one before: %d", (int)n);
	rc = REPLAY(false, &n, 0, 1, 5, 6, 7);
	ok(!rc && n == 8, "the log may lack changes that the state has: %d", (int)n);
	rc = REPLAY(false, &n, 0, 1, 2, 3, 4, 5, 7);
	ok(rc == ERR_FORMAT, "but no others: %d", (int)n);
	return tap_done();
}
