/* SPDX-License-Identifier: ISC */
#include "conf/hosts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"

#define FILE_MAX        (1u << 20)
#define NAME_MAX_LENGTH 255
#define HOSTS_MAX       8192u
#define SLOTS_MAX       4096
#define BLANKS          " \t\r"

void hosts_release(struct hosts *h)
{
	for (size_t i = 0; i < h->n; i++)
		free(h->item[i].name);
	free(h->item);
	*h = (struct hosts){ NULL, 0 };
}

/* ---- one line ---- */

static enum err_code report_bad_word(struct err *e, const char *word, size_t n, const char *why)
{
	return err_set(e, ERR_FORMAT,
	    "\"%.*s\" %s: a host is NAME, NAME slots=4, NAME:4, or n[0-3],m1",
	    (int)(n < 80 ? n : 80), word, why);
}

/* Is s a host name? It is passed to a remote shell, so it must not contain shell syntax or begin
 * like an option. */
static bool is_host_name(const char *s, size_t n)
{
	if (n == 0 || n > NAME_MAX_LENGTH || s[0] == '-')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("._-@:%", s[i]))
			return false;
	return true;
}

/* Adds a host. A host that is listed already gets the slots in addition. count 0 means that none
 * was given: the host has one slot then, and no limit. A host that is named several times is
 * limited when any of these entries has a count. ERR_FORMAT. */
static enum err_code add_host(struct hosts *h, const char *name, int64_t count, struct err *e)
{
	bool limited = count > 0;
	int64_t slots = limited ? count : 1;

	if (!is_host_name(name, strlen(name)))
		return report_bad_word(e, name, strlen(name), "is not the name of a host");
	for (size_t i = 0; i < h->n; i++)
		if (strcmp(h->item[i].name, name) == 0) {
			h->item[i].slots += slots;
			h->item[i].limited |= limited;
			return ERR_OK;
		}
	if (h->n == HOSTS_MAX)
		return err_set(e, ERR_FORMAT, "there are more than %u hosts", HOSTS_MAX);
	h->item = mem_regrow(h->item, h->n + 1, sizeof *h->item);
	h->item[h->n++] = (struct hosts_item){ mem_strdup(name), slots, limited };
	return ERR_OK;
}

/* Add the names made of `before`, each element of the first brackets of `rest`, and what follows
 * them (which may have brackets, too). */
static enum err_code expand_brackets(struct hosts *h, const char *before, const char *rest,
    int64_t slots, struct err *e);

/* Expand one element of brackets: "3", or "07-09", whose leading zeroes are kept. */
static enum err_code expand_range(struct hosts *h, const char *before, const char *range,
    const char *after, int64_t slots, struct err *e)
{
	const char *dash = strchr(range, '-');
	char *first = mem_printf("%.*s", (int)strcspn(range, "-"), range), *one;
	enum err_code rc = ERR_OK;
	int64_t from, to;

	if (!num_int(first, 0, 999999999, &from) || (dash && !num_int(dash + 1, 0, 999999999, &to)))
		rc = report_bad_word(e, range, strlen(range),
		    "has neither a number nor a range in its brackets");
	else if (dash && (to < from || to - from >= (int64_t)HOSTS_MAX))
		rc = report_bad_word(e, range, strlen(range), "is not a range from low to high");
	for (int64_t i = rc == ERR_OK ? from : 1, last = rc == ERR_OK ? (dash ? to : from) : 0;
	     rc == ERR_OK && i <= last; i++) {
		one = mem_printf("%s%0*lld", before, (int)strlen(first), (long long)i);
		rc = expand_brackets(h, one, after, slots, e);
		free(one);
	}
	free(first);
	return rc;
}

static enum err_code expand_brackets(struct hosts *h, const char *before, const char *rest,
    int64_t slots, struct err *e)
{
	size_t plain = strcspn(rest, "[");
	char *head = mem_printf("%s%.*s", before, (int)plain, rest);
	const char *open = rest + plain, *close = strchr(open, ']');
	enum err_code rc = ERR_OK;

	if (!*open)
		rc = add_host(h, head, slots, e);
	else if (!close || close == open + 1)
		rc = report_bad_word(e, rest, strlen(rest),
		    close ? "has empty brackets" : "has an unclosed bracket");
	for (const char *at = open + 1; rc == ERR_OK && *open && at < close;
	     at += strcspn(at, ",]") + 1) {
		char *range = mem_printf("%.*s", (int)strcspn(at, ",]"), at);

		rc = expand_range(h, head, range, close + 1, slots, e);
		free(range);
	}
	free(head);
	return rc;
}

size_t hosts_entry_length(const char *list)
{
	size_t i = 0;

	for (int depth = 0; list[i] && (list[i] != ',' || depth > 0); i++)
		depth += list[i] == '[' ? 1 : list[i] == ']' ? -1 : 0;
	return i;
}

/* Read the count of "b:4". A name with more colons is an IPv6 address. */
static bool read_count_suffix(const char *name, int64_t *slots)
{
	const char *colon = strchr(name, ':');

	return colon && !strchr(colon + 1, ':') && num_int(colon + 1, 1, SLOTS_MAX, slots);
}

/* Adds the names of a list whose commas separate only outside of brackets. slots applies to each
 * name that has no ":N" of its own. Names that were added before an error stay in h. ERR_FORMAT. */
static enum err_code add_host_names(struct hosts *h, const char *list, int64_t slots, struct err *e)
{
	enum err_code rc = ERR_OK;
	size_t n = strlen(list);

	for (size_t at = 0; rc == ERR_OK && at <= n; at++) {
		size_t len = hosts_entry_length(list + at);
		char *name = mem_printf("%.*s", (int)len, list + at);
		int64_t count = slots;

		if (read_count_suffix(name, &count))
			*strchr(name, ':') = 0;
		rc = len ? expand_brackets(h, "", name, count, e)
		         : report_bad_word(e, list, n, "has an empty name");
		free(name);
		at += len;
	}
	return rc;
}

/* Read slots=N. max-slots=N, which hostfiles of Open MPI may have, is accepted and ignored. */
static enum err_code parse_slots_option(const char *word, size_t n, int64_t *slots, struct err *e)
{
	char *text = mem_printf("%.*s", (int)n, word);
	const char *is = strchr(text, '=');
	bool counts = strncmp(text, "slots=", 6) == 0,
	     other = strncmp(text, "max-slots=", 10) == 0 || strncmp(text, "max_slots=", 10) == 0;
	int64_t value;
	enum err_code rc = ERR_OK;

	if (!counts && !other)
		rc = report_bad_word(e, word, n, "is not a known option");
	else if (!num_int(is + 1, 1, SLOTS_MAX, &value))
		rc = report_bad_word(e, word, n, "must be a number from 1 to 4096");
	else if (counts)
		*slots = value;
	free(text);
	return rc;
}

static struct hosts copy_hosts(const struct hosts *h)
{
	struct hosts c = { mem_array(h->n + 1, sizeof *c.item), h->n };

	for (size_t i = 0; i < h->n; i++)
		c.item[i] = (struct hosts_item){ mem_strdup(h->item[i].name), h->item[i].slots,
			h->item[i].limited };
	return c;
}

enum err_code hosts_add(struct hosts *h, const char *line, struct err *e)
{
	size_t end = strcspn(line, "#"), names, at;
	struct hosts grown;
	int64_t slots = 0; /* 0: not given */
	char *list;
	enum err_code rc = ERR_OK;

	while (end && strchr(BLANKS, line[end - 1]))
		end--;
	at = strspn(line, BLANKS);
	if (at >= end)
		return ERR_OK;
	line += at;
	end -= at;
	names = strcspn(line, BLANKS);
	names = names < end ? names : end;
	for (at = names; rc == ERR_OK && at < end;) {
		size_t blanks = strspn(line + at, BLANKS),
		       n = strcspn(line + at + blanks, BLANKS "#");

		rc = parse_slots_option(line + at + blanks, n, &slots, e);
		at += blanks + n;
	}
	if (rc != ERR_OK)
		return rc;
	grown = copy_hosts(h);
	list = mem_printf("%.*s", (int)names, line);
	rc = add_host_names(&grown, list, slots, e);
	free(list);
	hosts_release(rc == ERR_OK ? h : &grown);
	if (rc == ERR_OK)
		*h = grown;
	return rc;
}

enum err_code hosts_read(struct hosts *h, const char *path, struct err *e)
{
	struct buf text = BUF_INIT;
	enum err_code rc = file_read(path, FILE_MAX, &text, e);
	char *line = (char *)text.data, *next;

	for (int number = 1; rc == ERR_OK && line && *line; line = next, number++) {
		size_t n = strcspn(line, "\n");

		next = line + n + (line[n] != 0);
		line[n] = 0;
		rc = hosts_add(h, line, e);
		if (rc != ERR_OK)
			err_prefix(e, "%s:%d", path, number);
	}
	if (rc == ERR_OK && !h->n)
		rc = err_set(e, ERR_FORMAT, "%s: names no host", path);
	buf_release(&text);
	return rc;
}

/* ---- placing processes on hosts ---- */

int64_t hosts_slots(const struct hosts *h)
{
	int64_t sum = 0;

	for (size_t i = 0; i < h->n; i++)
		sum += h->item[i].slots;
	return sum;
}

static const char *choose_host(const struct hosts *h, int64_t left, bool unlimited)
{
	for (int64_t round = 0;; round++)
		for (size_t i = 0; i < h->n; i++)
			if (h->item[i].slots > round && !(unlimited && h->item[i].limited) &&
			    left-- == 0)
				return h->item[i].name;
}

const char *hosts_nth(const struct hosts *h, size_t k)
{
	int64_t all = hosts_slots(h), more = 0;

	for (size_t i = 0; i < h->n; i++)
		more += h->item[i].limited ? 0 : h->item[i].slots;
	if ((int64_t)k < all)
		return choose_host(h, (int64_t)k, false);
	return more ? choose_host(h, ((int64_t)k - all) % more, true) : NULL;
}

bool hosts_is_here(const char *name)
{
	char self[NAME_MAX_LENGTH + 1] = "";
	size_t n;

	if (strcmp(name, "localhost") == 0)
		return true;
	gethostname(self, sizeof self - 1);
	n = strcspn(self, ".");
	return n && (strcmp(name, self) == 0 || (strlen(name) == n && strncmp(name, self, n) == 0));
}
