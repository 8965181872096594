/* SPDX-License-Identifier: ISC */
#ifndef SIM_CALLS_H
#define SIM_CALLS_H

/* The simulated calls have the types of the real ones. */

#include <curl/curl.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sodium.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define CALL(name) extern __typeof__(name) sim_##name;
#include "tests/sim/calls.def"
#undef CALL

/* An assertion of a program does not hold. */
void sim___assert_fail(const char *what, const char *file, unsigned line, const char *fn)
    __attribute__((noreturn));

#endif
