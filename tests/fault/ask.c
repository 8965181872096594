/* SPDX-License-Identifier: ISC */
/* Asks the control plane of a cluster on this host: ask RUN/ctl.sock GET|POST PATH [BODY]
 *
 * Prints the body of the answer, whatever its status is. Tests ask thousands of times, and curl
 * takes four times as much processor time for it. Linked statically, because the dynamic linker
 * would take most of the rest.
 *
 *   -m NAME    print one member of the answer alone, as jq -r .NAME would: a plain word, a whole
 *              number, true, false or null. Exit code 3 if it is anything else, or absent.
 *   -w N       look for the member in the Nth object of kind worker (from 0)
 *   -p STEP    print nothing, and ask until the job is past STEP: ask -p STEP RUN/ctl.sock
 *   -t SECONDS for the request, or for all of -p (10)
 *
 * Exit codes: 0; 1 when the job ended before STEP; 2 wrong use; and those of curl: 7 no
 * connection, 28 time-out, 52 empty answer, 56 broken connection. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PACE_MS 50

enum { CANNOT_CONNECT = 7, TIMED_OUT = 28, EMPTY = 52, BROKEN = 56 };

static double monotonic(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Waits until fd can be read or written. False: the time is over. */
static bool await_fd(int fd, short events, double end)
{
	struct pollfd p = { .fd = fd, .events = events };
	double left = end - monotonic();

	while (left > 0) {
		int n = poll(&p, 1, (int)(left * 1000) + 1);

		if (n > 0)
			return true;
		if (n < 0 && errno != EINTR)
			return false;
		left = end - monotonic();
	}
	return false;
}

/* Returns a connected socket, or -1. */
static int connect_socket(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof a.sun_path)
		return -1;
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int send_request(int fd, const char *method, const char *path, const char *body, double end)
{
	char *text = NULL;
	int n = body
	    ? asprintf(&text,
	          "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept: */*\r\nContent-Type: "
	          "application/json\r\nContent-Length: %zu\r\n\r\n%s",
	          method, path, strlen(body), body)
	    : asprintf(&text,
	          "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept: */*\r\n\r\n", method,
	          path);
	int rc = 0;

	for (int sent = 0; rc == 0 && sent < n;) {
		ssize_t k;

		if (!await_fd(fd, POLLOUT, end)) {
			rc = TIMED_OUT;
			break;
		}
		k = send(fd, text + sent, (size_t)(n - sent), MSG_NOSIGNAL);
		/* A server that refuses a request may answer before it has read all of it. */
		if (k < 0 && errno != EINTR)
			break;
		sent += k > 0 ? (int)k : 0;
	}
	free(text);
	return rc;
}

/* Receives all until the server closes. *text is for the caller to free, and ends with a zero
 * byte. */
static int receive_answer(int fd, char **text, size_t *len, double end)
{
	size_t cap = 0;

	for (*len = 0;;) {
		ssize_t k;

		if (cap - *len < 2) {
			cap = cap ? 2 * cap : 65536;
			*text = realloc(*text, cap);
			if (!*text)
				abort();
		}
		(*text)[*len] = '\0';
		if (!await_fd(fd, POLLIN, end))
			return TIMED_OUT;
		k = recv(fd, *text + *len, cap - *len - 1, 0);
		if (k < 0 && errno == EINTR)
			continue;
		if (k == 0)
			return *len > 0 ? 0 : EMPTY;
		if (k < 0)
			return *len > 0 ? BROKEN : EMPTY;
		*len += (size_t)k;
		(*text)[*len] = '\0';
	}
}

/* Makes one request. *body then points into *text; both are for one free of *text. */
static int request(const char *sock, const char *method, const char *path, const char *content,
    double end, char **text, char **body, size_t *n)
{
	int fd = connect_socket(sock), rc;
	char *declared;
	size_t len;

	*text = *body = NULL;
	if (fd < 0)
		return CANNOT_CONNECT;
	rc = send_request(fd, method, path, content, end);
	if (rc == 0)
		rc = receive_answer(fd, text, &len, end);
	close(fd);
	if (rc != 0)
		return rc;
	*body = strstr(*text, "\r\n\r\n");
	if (strncmp(*text, "HTTP/1.", 7) != 0 || !*body)
		return BROKEN;
	**body = '\0';
	*body += 4;
	*n = len - (size_t)(*body - *text);
	declared = strcasestr(*text, "\r\nContent-Length:");
	return declared && strtoull(declared + 17, NULL, 10) != *n ? BROKEN : 0;
}

/* Finds a member that is plain, and cuts text at its end. NULL: there is none. */
static char *find_member(char *text, const char *name)
{
	size_t n = strlen(name);

	for (char *p = text; (p = strchr(p, '"')) != NULL; p++) {
		char *v = p + n + 3, *end;

		if (strncmp(p + 1, name, n) != 0 || strncmp(p + 1 + n, "\":", 2) != 0)
			continue;
		if (*v == '"') {
			v++;
			end = v + strcspn(v, "\"\\");
			if (*end != '"' || (end[1] != ',' && end[1] != '}'))
				continue;
		} else {
			end = v + strcspn(v, ",}");
			if (*end == '\0' || end == v ||
			    (strspn(v, "-0123456789") != (size_t)(end - v) &&
			        strncmp(v, "true", (size_t)(end - v)) != 0 &&
			        strncmp(v, "false", (size_t)(end - v)) != 0 &&
			        strncmp(v, "null", (size_t)(end - v)) != 0))
				continue;
		}
		*end = '\0';
		return v;
	}
	return NULL;
}

/* Cuts the text to the worker at place n. NULL: there are not as many. */
static char *cut_to_worker(char *text, int n)
{
	static const char kind[] = "\"kind\":\"worker\"";
	char *next;

	for (int i = 0; text && i <= n; i++) {
		text = strstr(text, kind);
		text = text ? text + sizeof kind - 1 : NULL;
	}
	next = text ? strstr(text, kind) : NULL;
	if (next)
		*next = '\0';
	return text;
}

static bool is_final(const char *state)
{
	return !strcmp(state, "done") || !strcmp(state, "failed") || !strcmp(state, "stopped");
}

/* Asks for the status until the job is past a step. */
static int await_step(const char *sock, long long past, double end)
{
	char *text, *body, *copy, *step, *state;
	int rc = TIMED_OUT;
	size_t n;

	while (monotonic() < end) {
		rc = request(sock, "GET", "/v1/status", NULL, end, &text, &body, &n);
		if (rc != 0) {
			free(text);
			return rc;
		}
		copy = strdup(body);
		step = find_member(copy, "step");
		state = find_member(body, "state");
		if (step && atoll(step) > past)
			rc = 0;
		else if (state && is_final(state))
			rc = 1;
		else
			rc = TIMED_OUT;
		free(copy);
		free(text);
		if (rc != TIMED_OUT)
			return rc;
		poll(NULL, 0, PACE_MS);
	}
	return rc;
}

int main(int argc, char **argv)
{
	const char *member = NULL;
	long long past = -1;
	double seconds = 10, end;
	int worker = -1, rc, opt;
	char *text, *body, *found;
	size_t n;

	while ((opt = getopt(argc, argv, "m:w:p:t:")) != -1)
		switch (opt) {
		case 'm':
			member = optarg;
			break;
		case 'w':
			worker = atoi(optarg);
			break;
		case 'p':
			past = atoll(optarg);
			break;
		case 't':
			seconds = atof(optarg);
			break;
		default:
			return 2;
		}
	argc -= optind;
	argv += optind;
	end = monotonic() + seconds;
	if (argc == 1 && past >= 0)
		return await_step(argv[0], past, end);
	if (argc != 3 && argc != 4)
		return 2;
	rc = request(argv[0], argv[1], argv[2], argv[3], end, &text, &body, &n);
	if (rc != 0)
		return rc;
	if (!member) {
		fwrite(body, 1, n, stdout);
		return fflush(stdout) == 0 ? 0 : 23;
	}
	if (worker >= 0)
		body = cut_to_worker(body, worker);
	found = body ? find_member(body, member) : NULL;
	if (!found)
		return 3;
	puts(found);
	return 0;
}
