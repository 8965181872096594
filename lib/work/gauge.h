#ifndef WORK_GAUGE_H
#define WORK_GAUGE_H

#include "auth/session.h"
#include "codec/codec.h"
#include "conf/conf.h"
#include "work/job.h"

/* What things cost on this machine: the code that a cluster runs, timed by the CPU
 * time of the thread that runs it, so that other processes lengthen nothing.  Each
 * takes some tens of milliseconds.  Figures are seconds on a core whose neighbours
 * are idle, and whose own caches have been used for something else before each try:
 * in a step everything is used once, and then all the others' work comes. */

/* Records between two processes of this host, both ends of which run here.  The
 * network's own cost is the system's for the loopback. */
struct gauge_wire {
	double seal_byte, send_byte;    /* large records: the tag, or the cipher; the system's part */
	double take_byte;               /* both, at the other end */
	double message;                 /* a small record at either end, with waking up for it */
	double hop;                     /* time that a small record needs beside that, one way */
};
/* transport: "tcp", "unix" or "shm".  bytes: of what is sent in one go.  ERR_IO. */
enum err_code gauge_wire(const char *transport, enum suite suite, size_t bytes, struct gauge_wire *out, struct err *e);

/* A server's work for each value: of a push in bsp its sum, and the update once a
 * step; in ssp and asp the update at once.  What is pulled is copied. */
struct gauge_store {
	double sum, update, answer;
	double bytes;                   /* of an encoded value */
};
/* n: values of the model, of which some millions at most are tried.  cols: 0 for
 * dense tables, else the width of rows that are pushed singly. */
enum err_code gauge_store(const struct conf *c, const struct codec_spec *codec, size_t n, uint32_t cols, struct gauge_store *out,
    struct err *e);

/* Of a value: a gradient to bytes, as workers do it (feedback: with what was left out);
 * parameters to bytes, and back. */
double gauge_encode(const struct codec_spec *codec, bool feedback, size_t n);
void gauge_pull(const struct codec *codec, size_t n, double *encode, double *decode, double *bytes);
/* Of a value: one step of an update rule, and a pass that copies. */
double gauge_rule(const struct conf *c, size_t n);
double gauge_copy(size_t n);

/* A batch of job.batch examples. */
struct gauge_model {
	double gather, gradient;        /* the batch made of the data; its gradient */
	double crowded;                 /* times as long when all cores do the same */
	size_t ids;                     /* sparse: distinct features of a batch, on the mean */
};
enum err_code gauge_model(const struct job *j, unsigned cores, struct gauge_model *out, struct err *e);

/* CPU seconds of this thread so far. */
double gauge_clock(void);
/* Use the caches that are the core's own for something else. */
void gauge_sweep(void);
/* Of n numbers, which are sorted. */
double gauge_median(double *v, size_t n);
/* Run this thread on the i-th of the cores that it may run on, in a circle. */
void gauge_pin(unsigned i);

#endif
