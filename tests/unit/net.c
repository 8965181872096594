/* SPDX-License-Identifier: ISC */
/* Listening and connecting: names with several addresses, full backlogs. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "tap.h"
#include "socket/net.h"

static char dir[] = "/tmp/ps-net.XXXXXX";

/* A process that listens and accepts nothing. */
static void full_backlog(void)
{
	char path[64], addr[80], bound[NET_TEXT], again[NET_TEXT];
	int listener, other, fd[64], n = 0;
	struct err e = { 0 };
	int64_t begin = tap_idle_clock();
	enum err_code rc;

	snprintf(path, sizeof path, "%s/sock", dir);
	snprintf(addr, sizeof addr, "unix:%s", path);
	if (net_listen(addr, 1, &listener, bound, &e))
		abort();
	while ((rc = net_connect(addr, &fd[n], &e)) == ERR_OK && n < 63)
		n++;
	ok(n > 0 && n < 63 && rc == ERR_UNREACH && fd[n] == -1,
	    "a socket whose backlog is full is not reached: %s", e.msg);
	ok(net_listen(addr, 1, &other, again, &e) == ERR_EXISTS &&
	        tap_idle_clock() - begin < NSEC_PER_SEC,
	    "and is in use all the same, which is found out without waiting");
	while (n)
		close(fd[--n]);
	close(listener);
	rc = net_listen(addr, 1, &other, again, &e);
	ok(rc == ERR_OK, "the socket of a process that has gone is replaced");
	close(other);
	unlink(path);
}

static void names(void)
{
	char bound[NET_TEXT], addr[NET_TEXT + 16], taken[NET_TEXT];
	struct err e = { 0 };
	int listener, fd, other;

	if (net_listen("127.0.0.1:0", 4, &listener, bound, &e))
		abort();
	snprintf(addr, sizeof addr, "localhost%s", strrchr(bound, ':'));
	ok(net_connect(addr, &fd, &e) == ERR_OK,
	    "a name is reached by whichever of its addresses answers");
	close(fd);
	ok(net_listen(bound, 4, &other, taken, &e) == ERR_EXISTS && strstr(e.msg, "in use"),
	    "a port that is taken: %s", e.msg);
	close(listener);
	ok(net_listen("localhost:0", 4, &listener, bound, &e) == ERR_OK &&
	        net_connect(bound, &fd, &e) == ERR_OK,
	    "a name can be listened on");
	close(fd);
	close(listener);
	ok(net_connect("no-port", &fd, &e) == ERR_CONFIG && fd == -1, "what is no address is none");
}

/* The addresses of a list, with a blank after each. */
static const char *list_all(const char *list)
{
	static char all[200];
	char addr[NET_TEXT];

	all[0] = '\0';
	for (size_t i = 0; net_list_at(list, i, addr); i++)
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s ", addr);
	return all;
}

static void lists(void)
{
	ok(strcmp(list_all("a:1"), "a:1 ") == 0, "one address is a list");
	ok(strcmp(list_all("a:1,[::1]:2,c:3"), "a:1 [::1]:2 c:3 ") == 0, "a list of three");
	ok(strcmp(list_all("unix:/a,b"), "unix:/a,b ") == 0, "a path is not divided");
	ok(!*list_all(NULL) && !*list_all(""), "nothing is an empty list");
}

static int send_room(int fd)
{
	int size = 0;
	socklen_t len = sizeof size;

	return getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &len) == 0 ? size : -1;
}

/* The kernel would let a TCP connection have megabytes, which do not stay in a core's cache. */
static void room_within_host(const char *addr)
{
	enum { MOST = 1 << 20 };
	char bound[NET_TEXT];
	struct err e = { 0 };
	struct pollfd p = { .events = POLLIN };
	int fd, accepted;

	if (net_listen(addr, 4, &p.fd, bound, &e)) {
		printf("# %s\n", e.msg); /* a host without IPv6 */
		return;
	}
	if (net_connect(bound, &fd, &e) || poll(&p, 1, 10000) != 1)
		abort();
	accepted = net_accept(p.fd);
	while (write(fd, bound, sizeof bound) > 0)
		;
	while (write(accepted, bound, sizeof bound) > 0)
		;
	ok(send_room(fd) > 0 && send_room(fd) <= MOST && send_room(accepted) > 0 &&
	        send_room(accepted) <= MOST,
	    "both ends of a connection to %s keep their sending buffers small: %d and %d bytes",
	    addr, send_room(fd), send_room(accepted));
	close(accepted);
	close(fd);
	close(p.fd);
}

int main(void)
{
	if (!mkdtemp(dir))
		abort();
	full_backlog();
	names();
	lists();
	room_within_host("127.0.0.1:0");
	room_within_host("[::1]:0");
	rmdir(dir);
	return tap_done();
}
