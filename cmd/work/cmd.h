/* SPDX-License-Identifier: ISC */
#ifndef CMD_WORK_CMD_H
#define CMD_WORK_CMD_H

/* The commands of ps-work. Each parses its options, checks them and makes one call. argv[0] is
 * the command's name. Returns the exit code. */
int cmd_train(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_predict(int argc, char **argv);
int cmd_words(int argc, char **argv);
int cmd_nearest(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_pull(int argc, char **argv);
int cmd_push(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_floats(int argc, char **argv);

#endif
