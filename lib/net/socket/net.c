/* SPDX-License-Identifier: ISC */
#include "socket/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"

/* Room for records at full speed. The kernel doubles the number, and caps it at its own limit. */
#define SOCKET_BUFFER (2 << 20)
/* Room of a TCP connection within one host, which the kernel doubles: the bytes on their way should
 * stay in a second-level cache (1 MB is common). The kernel itself would let it grow to megabytes,
 * which have left the cache when they are read. With less than three segments of 64 KB the sender
 * would wait for acknowledgements that the receiver delays. */
#define HOST_BUFFER      (512 << 10)
#define SILENT_TRIES     3
#define SILENT_MS        1500
#define SILENT_IN_FLIGHT (4 * NSEC_PER_SEC)
/* Connections that wait for a control listener while a flood of silent ones is closed. */
#define CONTROL_BACKLOG 512
/* Milliseconds for each address but the last of a name. */
#define ADDRESS_WAIT 1000

enum err_code net_unix_path(const char *path, char name[static NET_UNIX_PATH], int *dirfd,
    struct err *e)
{
	char *dir;
	int fd, n;

	*dirfd = -1;
	if (path[0] != '\0' && strlen(path) < NET_UNIX_PATH) {
		snprintf(name, NET_UNIX_PATH, "%s", path);
		return ERR_OK;
	}
	if (path_basename(path)[0] == '\0')
		return err_set(e, ERR_CONFIG, "\"%s\" names no socket file", path);
	dir = path_dirname(path);
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	free(dir);
	if (fd < 0)
		return err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO,
		    "cannot open the directory of %s", path);
	n = snprintf(name, NET_UNIX_PATH, "/proc/self/fd/%d/%s", fd, path_basename(path));
	if (n < 0 || n >= NET_UNIX_PATH) {
		close(fd);
		return err_set(e, ERR_CONFIG,
		    "the name of the socket %s is too long: it must have at most 80 characters",
		    path);
	}
	*dirfd = fd;
	return ERR_OK;
}

/* Fill in the address of a Unix socket. Close *dirfd, unless it is -1, after bind or connect. */
static enum err_code unix_address(const char *path, struct sockaddr_un *un, int *dirfd,
    struct err *e)
{
	memset(un, 0, sizeof *un);
	un->sun_family = AF_UNIX;
	return net_unix_path(path, un->sun_path, dirfd, e);
}

bool net_list_at(const char *list, size_t i, char out[static NET_TEXT])
{
	const char *at = list ? list : "";
	bool local = strncmp(at, "unix:", 5) == 0;
	size_t n;

	for (; i && *at; i--) {
		at += local ? strlen(at) : strcspn(at, ",");
		at += *at == ',';
	}
	n = local ? strlen(at) : strcspn(at, ",");
	snprintf(out, NET_TEXT, "%.*s", (int)(n < NET_TEXT ? n : NET_TEXT - 1), at);
	return n > 0;
}

/* "host:port" -> addrinfo list; the host may be in brackets. */
static enum err_code resolve_address(const char *addr, bool passive, struct addrinfo **out,
    struct err *e)
{
	struct addrinfo hint = { .ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0) };
	char host[NET_TEXT];
	const char *colon = strrchr(addr, ':');
	size_t n = colon ? (size_t)(colon - addr) : 0;
	int rc;

	if (!colon || n == 0 || n >= sizeof host)
		return err_set(e, ERR_CONFIG,
		    "\"%s\" is not an address: use HOST:PORT, [IPV6]:PORT or unix:PATH", addr);
	memcpy(host, addr, n);
	host[n] = 0;
	if (host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = 0;
		memmove(host, host + 1, n - 1);
	}
	rc = getaddrinfo(host, colon + 1, &hint, out);
	if (rc)
		return err_because(e, ERR_UNREACH, CAUSE_NAME, "cannot resolve \"%s\": %s", addr,
		    gai_strerror(rc));
	return ERR_OK;
}

static void format_bound_address(int fd, const char *addr, char out[static NET_TEXT])
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	char ip[INET6_ADDRSTRLEN] = "";

	if (getsockname(fd, (struct sockaddr *)&ss, &len) == 0 && ss.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)&ss;

		inet_ntop(AF_INET, &in->sin_addr, ip, sizeof ip);
		snprintf(out, NET_TEXT, "%s:%u", ip, ntohs(in->sin_port));
	} else if (ss.ss_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const void *)&ss;

		inet_ntop(AF_INET6, &in->sin6_addr, ip, sizeof ip);
		snprintf(out, NET_TEXT, "[%s]:%u", ip, ntohs(in->sin6_port));
	} else {
		snprintf(out, NET_TEXT, "%s", addr);
	}
}

enum err_code net_source(const char *addr, char out[static NET_TEXT], struct err *e)
{
	struct addrinfo *list;
	enum err_code rc = resolve_address(addr, false, &list, e);
	int fd;

	if (rc)
		return rc;
	/* connect on a datagram socket only looks up the route, and sends nothing. */
	fd = socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, list->ai_addr, list->ai_addrlen))
		rc = err_sys(e, ERR_UNREACH, "there is no route to \"%s\"", addr);
	if (!rc) {
		format_bound_address(fd, addr, out);
		snprintf(strrchr(out, ':'), 3, ":0");
	}
	if (fd >= 0)
		close(fd);
	freeaddrinfo(list);
	return rc;
}

/* ---- listening ---- */

/* How to listen: for records, or for the control plane. */
struct listen_how {
	int backlog;
	/* Unix: the socket is for this user alone, in a directory that nobody else may write to.
	 * TCP: [::] does not take IPv4 as well. */
	bool control;
	bool reserve; /* TCP: bind only */
};

/* Opens and locks the socket's directory, and checks that no other user may put a socket there. The
 * lock keeps two starting processes from removing each other's socket. */
static enum err_code lock_private_directory(const char *path, int *out, struct err *e)
{
	char *dir = path_dirname(path);
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum err_code rc = ERR_OK;
	struct stat st;

	if (fd < 0)
		rc = err_sys(e, ERR_CONFIG, "cannot open %s, the directory of the control socket",
		    dir);
	else if (fstat(fd, &st) != 0)
		rc = err_sys(e, ERR_IO, "cannot stat %s", dir);
	else if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 022) != 0)
		rc = err_because(e, ERR_CONFIG, CAUSE_FILE_MODE,
		    "other users can write to %s, so a control socket in it is not safe: chmod "
		    "700 it, or choose another directory",
		    dir);
	else if (flock(fd, LOCK_EX) != 0)
		rc = err_sys(e, ERR_IO, "cannot lock %s", dir);
	if (rc && fd >= 0)
		close(fd);
	*out = rc ? -1 : fd;
	free(dir);
	return rc;
}

/* Removes the file of a Unix socket on which no process listens any more. */
static enum err_code remove_stale_socket(const char *path, const struct sockaddr_un *un,
    struct err *e)
{
	struct stat st;
	int fd, why;

	if (lstat(path, &st) != 0)
		return errno == ENOENT ? ERR_OK : err_sys(e, ERR_IO, "cannot stat \"%s\"", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, ERR_EXISTS, "\"%s\" exists and is not a socket: move it away",
		    path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot make a socket");
	/* EAGAIN: a process listens, with a full backlog. */
	why = connect(fd, (const struct sockaddr *)un, sizeof *un) == 0 ? 0 : errno;
	close(fd);
	if (why != ECONNREFUSED && why != ENOENT)
		return err_because(e, ERR_EXISTS, CAUSE_PORT_TAKEN,
		    "\"%s\" is in use by another process: stop it first, or use another path",
		    path);
	if (unlink(path) != 0 && errno != ENOENT)
		return err_sys(e, ERR_IO, "cannot remove the stale socket \"%s\"", path);
	return ERR_OK;
}

/* The name of a socket that does not listen yet: ~ in the place of the last character, so that it
 * is no longer than an address may be. */
static void make_new_name(char *path)
{
	path[strlen(path) - 1] = '~';
}

/* Binds *fd to `un`, the address of `path`, and listens. The file gets its name when the socket
 * listens: a process that waits for the file can connect at once. */
static enum err_code listen_at_path(const char *path, const struct sockaddr_un *un,
    const struct listen_how *how, int *fd, struct err *e)
{
	struct sockaddr_un at = *un;
	char *made = mem_strdup(path);
	enum err_code rc = remove_stale_socket(path, un, e);
	bool bound = false;

	make_new_name(made);
	make_new_name(at.sun_path);
	if (!rc)
		rc = remove_stale_socket(made, &at, e);
	*fd = rc ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (!rc && *fd < 0)
		rc = err_sys(e, ERR_IO, "cannot make a socket");
	if (!rc) {
		bound = bind(*fd, (const struct sockaddr *)&at, sizeof at) == 0;
		if (!bound || (how->control && chmod(made, 0600) != 0) ||
		    listen(*fd, how->backlog) != 0 || rename(made, path) != 0)
			rc = err_sys(e, ERR_IO, "cannot listen on \"%s\"", path);
	}
	if (rc && bound)
		unlink(made);
	if (rc && *fd >= 0)
		close(*fd);
	free(made);
	return rc;
}

static enum err_code listen_unix(const char *path, const struct listen_how *how, int *fd,
    struct err *e)
{
	struct sockaddr_un un;
	int dirfd = -1, lock = -1;
	enum err_code rc = how->control ? lock_private_directory(path, &lock, e) : ERR_OK;

	if (!rc)
		rc = unix_address(path, &un, &dirfd, e);
	if (!rc)
		rc = listen_at_path(path, &un, how, fd, e);
	if (dirfd >= 0)
		close(dirfd);
	if (lock >= 0)
		close(lock);
	return rc;
}

/* A listening socket, or -1 with errno. */
static int listen_at(const struct addrinfo *at, const struct listen_how *how)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1, why;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (how->control && at->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
	if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 &&
	    (how->reserve || listen(fd, how->backlog) == 0))
		return fd;
	why = errno;
	close(fd);
	errno = why;
	return -1;
}

static enum err_code listen_tcp(const char *addr, const struct listen_how *how, int *fd,
    struct err *e)
{
	struct addrinfo *list;
	enum err_code rc = resolve_address(addr, true, &list, e);
	int why;

	if (rc)
		return rc;
	*fd = -1;
	errno = 0;
	/* Stop at a port that is in use: listening on it in another family alone would mislead. */
	for (const struct addrinfo *at = list; at && *fd < 0 && errno != EADDRINUSE;
	     at = at->ai_next)
		*fd = listen_at(at, how);
	why = errno;
	freeaddrinfo(list);
	errno = why;
	if (*fd >= 0)
		return ERR_OK;
	if (why == EADDRINUSE)
		return err_because(e, ERR_EXISTS, CAUSE_PORT_TAKEN,
		    "%s is in use by another process: choose another port, "
		    "or port 0 to let the system choose",
		    addr);
	if (why == EADDRNOTAVAIL)
		return err_because(e, ERR_CONFIG, CAUSE_ADDRESS,
		    "%s is not an address of this host: listen on one of "
		    "those that `ip addr` shows, or on 127.0.0.1",
		    addr);
	return err_sys(e, ERR_IO, "cannot listen on %s", addr);
}

static enum err_code listen_anywhere(const char *addr, const struct listen_how *how, int *fd,
    struct err *e)
{
	return strncmp(addr, "unix:", 5) == 0 ? listen_unix(addr + 5, how, fd, e)
	                                      : listen_tcp(addr, how, fd, e);
}

enum err_code net_listen(const char *addr, int backlog, int *fd, char bound[static NET_TEXT],
    struct err *e)
{
	enum err_code rc = listen_anywhere(addr, &(struct listen_how){ .backlog = backlog }, fd, e);

	if (!rc)
		format_bound_address(*fd, addr, bound);
	return rc;
}

enum err_code net_reserve(const char *addr, int *fd, char bound[static NET_TEXT], struct err *e)
{
	enum err_code rc = listen_anywhere(addr, &(struct listen_how){ .reserve = true }, fd, e);

	if (!rc)
		format_bound_address(*fd, addr, bound);
	return rc;
}

enum err_code net_listen_reserved(int fd, int backlog, struct err *e)
{
	char bound[NET_TEXT];

	if (listen(fd, backlog ? backlog : CONTROL_BACKLOG) == 0)
		return ERR_OK;
	net_bound(fd, bound);
	if (errno == EADDRINUSE)
		return err_because(e, ERR_EXISTS, CAUSE_PORT_TAKEN,
		    "%s is in use by another process", bound);
	return err_sys(e, ERR_IO, "cannot listen on %s", bound);
}

enum err_code net_listen_control(const char *addr, int *fd, struct err *e)
{
	const struct listen_how how = { .backlog = CONTROL_BACKLOG, .control = true };

	return listen_anywhere(addr, &how, fd, e);
}

void net_bound(int fd, char bound[static NET_TEXT])
{
	format_bound_address(fd, "?", bound);
}

/* Does this TCP socket connect to its own host? It does if both of its ends have one address. */
static bool is_within_host(int fd, const struct sockaddr *peer)
{
	struct sockaddr_storage own;
	socklen_t len = sizeof own;

	if (getsockname(fd, (struct sockaddr *)&own, &len) || own.ss_family != peer->sa_family)
		return false;
	if (peer->sa_family == AF_INET)
		return ((const struct sockaddr_in *)&own)->sin_addr.s_addr ==
		    ((const struct sockaddr_in *)(const void *)peer)->sin_addr.s_addr;
	return peer->sa_family == AF_INET6 &&
	    memcmp(&((const struct sockaddr_in6 *)&own)->sin6_addr,
	        &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr,
	        sizeof(struct in6_addr)) == 0;
}

/* Sets the options that depend on where the other end is. */
static void tune_for_peer(int fd, const struct sockaddr *peer)
{
	int size = HOST_BUFFER;

	if (is_within_host(fd, peer))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

/* A socket that is connected or connecting, or -1 with errno. */
static int connect_at(int family, const struct sockaddr *sa, socklen_t len)
{
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), why;

	if (fd < 0)
		return -1;
	net_tune(fd);
	if (connect(fd, sa, len) == 0 || errno == EINPROGRESS) {
		tune_for_peer(fd, sa);
		return fd;
	}
	why = errno;
	close(fd);
	errno = why;
	return -1;
}

/* Wait until the socket is connected, at most ADDRESS_WAIT. False with errno. */
static bool await_connection(int fd)
{
	struct pollfd p = { fd, POLLOUT, 0 };
	socklen_t len = sizeof errno;

	if (poll(&p, 1, ADDRESS_WAIT) <= 0) {
		errno = ETIMEDOUT;
		return false;
	}
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &errno, &len) == 0 && errno == 0;
}

/* Connect to the first address that answers. The last one may still be connecting. -1 with
 * errno. */
static int connect_first(const struct addrinfo *at)
{
	for (; at; at = at->ai_next) {
		int fd = connect_at(at->ai_family, at->ai_addr, at->ai_addrlen), why;

		if (fd >= 0 && (!at->ai_next || await_connection(fd)))
			return fd;
		if (fd < 0)
			continue;
		why = errno;
		close(fd);
		errno = why;
	}
	return -1;
}

enum err_code net_connect(const char *addr, int *fd, struct err *e)
{
	struct addrinfo *list = NULL;
	struct sockaddr_un un;
	enum err_code rc;
	int why, dirfd;

	*fd = -1;
	if (strncmp(addr, "unix:", 5) == 0) {
		rc = unix_address(addr + 5, &un, &dirfd, e);
		if (rc)
			return rc;
		/* It fails with EAGAIN when the listener's backlog is full. */
		*fd = connect_at(AF_UNIX, (const struct sockaddr *)&un, sizeof un);
		why = errno;
		if (dirfd >= 0)
			close(dirfd);
		errno = why;
	} else {
		rc = resolve_address(addr, false, &list, e);
		if (rc)
			return rc;
		*fd = connect_first(list);
		why = errno;
		freeaddrinfo(list);
		errno = why;
	}
	return *fd >= 0 ? ERR_OK : err_sys(e, ERR_UNREACH, "cannot reach %s", addr);
}

enum err_code net_connected(int fd, const char *addr, struct err *e)
{
	int why = 0;
	socklen_t len = sizeof why;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len) == 0 && why == 0)
		return ERR_OK;
	errno = why;
	return err_sys(e, ERR_UNREACH, "cannot reach %s", addr);
}

int net_accept(int listener)
{
	struct sockaddr_storage peer = { 0 };
	socklen_t len = sizeof peer;
	int fd = accept4(listener, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		net_tune(fd);
		tune_for_peer(fd, (const struct sockaddr *)&peer);
	}
	return fd;
}

void net_tune(int fd)
{
	int one = 1, probes = 2, size = SOCKET_BUFFER, domain = 0;
	socklen_t len = sizeof domain;

	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
	if (domain != AF_UNIX) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof one);
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof one);
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
		return; /* TCP sizes its buffers itself, better than we can */
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
}

bool net_is_silent(int fd, int64_t now, int64_t *in_flight)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof info;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
		return false;
	if (!info.tcpi_unacked)
		*in_flight = 0;
	else if (!*in_flight || now - (int64_t)info.tcpi_last_ack_recv * NSEC_PER_MSEC > *in_flight)
		*in_flight = now;
	if (*in_flight && now - *in_flight >= SILENT_IN_FLIGHT)
		return true;
	return info.tcpi_retransmits + info.tcpi_probes >= SILENT_TRIES &&
	    info.tcpi_last_ack_recv >= SILENT_MS;
}

bool net_is_line_error(int why)
{
	return why == ETIMEDOUT || why == EHOSTUNREACH || why == ENETUNREACH || why == EHOSTDOWN ||
	    why == ENETDOWN || why == ENONET;
}

bool net_is_unix(int fd)
{
	int domain = 0;
	socklen_t len = sizeof domain;

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_UNIX;
}

void net_peer_address(int fd, uint8_t out[static 16])
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof ss;

	memset(out, 0, 16);
	if (getpeername(fd, (struct sockaddr *)&ss, &len))
		return;
	if (ss.ss_family == AF_INET6) {
		memcpy(out, &((const struct sockaddr_in6 *)&ss)->sin6_addr, 16);
	} else if (ss.ss_family == AF_INET) {
		out[10] = out[11] = 0xff;
		memcpy(out + 12, &((const struct sockaddr_in *)&ss)->sin_addr, 4);
	}
}

bool net_peer_is_local(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;

	if (getpeername(fd, (struct sockaddr *)&ss, &len))
		return false;
	if (ss.ss_family == AF_UNIX)
		return true;
	if (ss.ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)&ss)->sin_addr.s_addr) >> 24 == 127;
	return ss.ss_family == AF_INET6 &&
	    IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&ss)->sin6_addr);
}

void net_peer_text(int fd, char out[static NET_TEXT])
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof ss;
	char host[64], port[16];

	if (getpeername(fd, (struct sockaddr *)&ss, &len) == 0 && ss.ss_family != AF_UNIX &&
	    getnameinfo((struct sockaddr *)&ss, len, host, sizeof host, port, sizeof port,
	        NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(out, NET_TEXT, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
	else
		snprintf(out, NET_TEXT, "unix");
}
