/* SPDX-License-Identifier: ISC */
#ifndef LAB_GAUGE_H
#define LAB_GAUGE_H

#include "auth/session.h"
#include "codec/codec.h"
#include "conf/conf.h"
#include "worker/job.h"

/* Measures what things cost on this machine, by running the cluster's code and reading the CPU time
 * of the thread that runs it, so that other processes do not count. Each measurement takes some
 * tens of milliseconds. Results are seconds on a core whose neighbours are idle and whose own
 * caches were used for something else before each try, as in a training step, where everything is
 * used once.
 *
 * Functions start and join threads of their own; call them from one thread. They change its CPU
 * affinity and restore it. */

/* Costs of records between two processes of this host; both ends run here. The network's own cost
 * is that of the loopback. */
struct gauge_wire {
	double seal_byte, send_byte; /* large records: sealing; the system calls */
	double take_byte;            /* both, at the receiver */
	double message;              /* a small record at either end, including the wake-up */
	double hop;                  /* elapsed time of a small record beside that, one way */
};
/* transport: "tcp", "unix" or "shm". bytes: size of a burst. ERR_IO, ERR_CONFIG. */
enum err_code gauge_wire(const char *transport, enum suite suite, size_t bytes,
    struct gauge_wire *out, struct err *e);

/* A server's CPU seconds per value: in bsp adding a push to the sum, and the update once a step; in
 * ssp and asp the update at once. answer: copying for a pull. */
struct gauge_store {
	double sum, update, answer;
	double bytes; /* bytes of an encoded value */
};
/* n: values of the model; at most some millions are tried. cols: 0 for dense tables, else the width
 * of rows that are pushed singly. */
enum err_code gauge_store(const struct conf *c, const struct codec_spec *codec, size_t n,
    uint32_t cols, struct gauge_store *out, struct err *e);

/* CPU seconds per value: encoding a gradient as workers do it (feedback: with residuals); encoding
 * and decoding parameters. */
double gauge_encode(const struct codec_spec *codec, bool feedback, size_t n);
void gauge_pull(const struct codec *codec, size_t n, double *encode, double *decode, double *bytes);
/* CPU seconds per value: one step of an update rule; a pass that adds one vector to another. */
double gauge_rule(const struct conf *c, size_t n);
double gauge_copy(size_t n);

/* CPU seconds of a batch of job.batch examples. */
struct gauge_model {
	double gather, gradient; /* copying the batch from the data; its gradient */
	double crowded;          /* factor when all cores do the same */
	size_t ids;              /* sparse: mean number of distinct features of a batch */
};
/* Measures batches of the job. ERR_UNSUPPORTED for model custom; ERR_NOMEM. */
enum err_code gauge_model(const struct job *j, unsigned cores, struct gauge_model *out,
    struct err *e);

/* CPU seconds of this thread so far. */
double gauge_clock(void);
/* Fills the core's own caches with something else. */
void gauge_sweep(void);
/* The median of n numbers, which it sorts; 0 for none. */
double gauge_median(double *v, size_t n);
/* Pins this thread to the i-th (modulo their number) of the cores that it may use. */
void gauge_pin(unsigned i);

#endif
