# SPDX-License-Identifier: ISC
"""pskit, a parameter server, for Python: workers and clients that use the C library (pskit(3)) and numpy.

    import numpy as np, pskit

    with pskit.connect() as ps:                    # the cluster of PS_CLUSTER
        ps.join("w:784x10,b:10", examples=60000)
        for task in ps.tasks():                    # examples task.begin .. task.end-1
            ps.grad("w")[:] = ...                  # from ps.param("w"), without a copy
            ps.clock(loss)
        ps.finish()

Only one thread may use a handle at a time.  Calls that wait can be interrupted from the keyboard;
the worker then leaves the job when the handle is closed.
"""

import contextlib
import ctypes
import math
import os
import threading

import numpy as np

from . import _library
from ._library import lib

__all__ = ["connect", "Handle", "Task", "Table", "Error", "Stopped", "version"]

_OK, _NOTFOUND, _STOPPED, _OVER = 0, 4, 9, 100


class Error(Exception):
    """An error of the library.  The message is a sentence, and `code` is an error number of pskit.h."""

    def __init__(self, code, message):
        super().__init__(message or lib.ps_strerror(code).decode())
        self.code = code


class Stopped(Error):
    """The job was stopped, this worker was asked to leave, or the call was cancelled."""


class Task:
    """A step of this worker: the examples begin .. end-1 of the data, in epoch number `epoch`."""

    __slots__ = ("step", "epoch", "begin", "end")

    def __init__(self, s):
        self.step, self.epoch, self.begin, self.end = s.step, s.epoch, s.begin, s.end

    def __len__(self):
        return self.end - self.begin

    def __repr__(self):
        return f"Task(step={self.step}, epoch={self.epoch}, begin={self.begin}, end={self.end})"


class Table:
    """A table's name, rows, cols, and whether it is sparse.  For a sparse table rows is an estimate of its largest number."""

    __slots__ = ("name", "rows", "cols", "sparse")

    def __init__(self, t):
        self.name, self.rows, self.cols, self.sparse = t.name.decode(), t.rows, t.cols, bool(t.sparse)

    @property
    def shape(self):
        return (self.rows, self.cols) if self.cols > 1 else (self.rows,)

    def __repr__(self):
        return f"Table({self.name!r}, {self.rows} x {self.cols}{', sparse' if self.sparse else ''})"


def version():
    return lib.ps_version().decode()


def _floats(array, n, what):
    a = np.ascontiguousarray(array, dtype=np.float32)
    if n is not None and a.size != n:
        raise ValueError(f"{what}: must have {n} values, got {a.size}")
    return a


def _pointer(a, kind):
    return a.ctypes.data_as(ctypes.POINTER(kind))


def _listen(heard):
    """A generator that lets Python run the handlers of signals, and appends the exceptions that they raise to `heard`.  It yields
    whether there are any.  In a function, a handler could run before the first `try`, and its exception would be lost; a
    generator is resumed inside the `try`."""
    while True:
        try:
            while True:
                yield bool(heard)
        except GeneratorExit:
            return
        except BaseException as e:
            heard.append(e)


class Handle:
    """A connection to a cluster.  After join() it is one of the workers of the job."""

    def __init__(self, where=None, name=None, rank=None, zone=None, timeout=30.0, log=None, log_level=2):
        o = _library.Options(size=ctypes.sizeof(_library.Options), name=_bytes(name), rank_wanted=0 if rank is None else rank + 1, zone=_bytes(zone),
                             timeout_ms=max(1, int(timeout * 1000)), log_level=log_level)
        if log is not None:
            o.log = _library.LOG(lambda ctx, level, text: log(level, text.decode(errors="replace")))
        self._options = o                   # keeps the callback alive as long as the handle
        self._p = ctypes.c_void_p()
        self._score = self._failed = None
        self._mine, self._calls, self._scores = threading.RLock(), 0, 0    # calls that are under way, and callbacks inside them
        self._heard = []                    # exceptions of signal handlers that ran while a call waited
        listener = _listen(self._heard)
        next(listener)
        self._asked = _library.ASKED(listener.send)
        self._tables, self._views, self._first = {}, {}, []
        rc = lib.ps_open(_bytes(where), ctypes.byref(o), ctypes.byref(self._p))
        if rc:
            error = self._error(rc)
            self.close()
            raise error
        lib.ps_on_interrupt(self._p, self._asked, None)

    # ---- inside

    def _error(self, rc):
        message = lib.ps_message(self._p).decode(errors="replace") if self._p else ""
        return (Stopped if rc == _STOPPED else Error)(rc, message)

    def _call(self, fn, *args, also=()):
        if not self._mine.acquire(blocking=False):
            raise Error(2, "another thread is using this handle")
        self._calls += 1
        try:
            if self._calls > self._scores + 1:
                raise Error(2, "a call is under way on this handle, so a signal handler cannot use it")
            if not self._p:
                raise ValueError("the handle is closed")
            rc = fn(self._p, *args)
            if self._heard:
                raise self._heard.pop(0)
            if rc and rc not in also:
                failed, self._failed = self._failed, None
                raise failed or self._error(rc)
            return rc
        finally:
            self._calls -= 1
            self._mine.release()

    def _shape(self, name):
        if name not in self._tables:
            self._tables[name] = self.table(name)
        return self._tables[name]

    def _view(self, fn, name):
        if not self._p:
            raise ValueError("the handle is closed")
        address = fn(self._p, name.encode(), None)
        if not address:
            raise self._error(4)
        # The library uses few addresses again and again.
        view = self._views.get((name, address))
        if view is None:
            view = np.ctypeslib.as_array(ctypes.cast(address, _library.FLOATS), self._shape(name).shape)
            self._views[name, address] = view
        return view

    # ---- life

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        """Leave the job, if this is a worker, and release everything.  Arrays of param() and grad() must not be used afterwards."""
        if not self._mine.acquire(blocking=False):
            self.cancel()                   # ends the call of another thread
            self._mine.acquire()
        try:
            if self._calls:
                raise RuntimeError("close: a callback of the handle cannot close it")
            self._views.clear()
            if self._p:
                lib.ps_on_interrupt(self._p, _library.ASKED(), None)
                lib.ps_close(self._p)
                self._p = ctypes.c_void_p()
        finally:
            self._mine.release()

    def __del__(self):
        with contextlib.suppress(Exception):
            self.close()

    def cancel(self):
        """Make the call that is under way, and all later ones, raise Stopped.  Any thread may call this."""
        lib.ps_cancel(self._p)

    # ---- a worker

    def set(self, key, value):
        """Give a setting of the job that the cluster file does not have, before join(): set("optimizer", "adam")."""
        self._call(lib.ps_set, key.encode(), str(value).encode())

    def setting(self, key):
        """The present value of a setting as text; numbers are written as in JSON."""
        text = ctypes.create_string_buffer(4096)
        self._call(lib.ps_setting, key.encode(), text, len(text))
        return text.value.decode()

    def begin_with(self, name, values):
        """Give the initial parameters of a dense table, before join()."""
        a = _floats(values, None, name)
        self._first.append(a)               # join() reads it
        self._call(lib.ps_begin_with, name.encode(), _pointer(a, ctypes.c_float), a.size)

    def join(self, tables=None, examples=0):
        """Become a worker, and return when the job begins.  tables: as job.tables, if the cluster file has none."""
        try:
            self._call(lib.ps_join, _bytes(tables), examples)
        finally:
            self._first.clear()

    @property
    def rank(self):
        return lib.ps_rank(self._p)

    def tasks(self):
        """Iterate over the steps of this worker until all are done.  Call clock() at the end of each."""
        while (task := self.begin()) is not None:
            yield task

    def begin(self):
        """Begin the next step.  None: there is no further one."""
        s = _library.Step()
        return Task(s) if self._call(lib.ps_step_begin, ctypes.byref(s), also=(_OVER,)) == _OK else None

    def next(self):
        """In a step, the task that the next step will have if nothing changes.  None: there is no further one, or its examples are
        leased (ssp and asp) and not known yet."""
        s = _library.Step()
        return Task(s) if self._call(lib.ps_step_next, ctypes.byref(s), also=(_NOTFOUND,)) == _OK else None

    def param(self, name):
        """The parameters of a dense table at this step, without a copy.  The array is valid until the step ends."""
        a = self._view(lib.ps_param, name).view()
        a.flags.writeable = False
        return a

    def grad(self, name):
        """The array for the gradient of a dense table, all of which must be written: the mean over the examples of the step."""
        return self._view(lib.ps_grad, name)

    def clock(self, loss=None):
        """Push the gradients that are in grad(), and end the step.  loss: the mean over its examples; None: not known."""
        self._call(lib.ps_step_end, -math.inf if loss is None else float(loss))

    def on_score(self, score):
        """Let one of the workers call score(handle) -> {"loss": ..., "accuracy": ..., "examples": ...} every job.eval_every steps
        and at the end, during begin() or finish().  param() then has the parameters to evaluate.  The keys are metrics of
        ps-metrics(7); others are ignored with a warning in the log."""
        def call(_p, _ctx, out):
            self._scores += 1
            try:
                result = dict(score(self))
                out.contents.examples = int(result.pop("examples", 0))
                if len(result) > len(out.contents.score):
                    raise ValueError(f"score: at most {len(out.contents.score)} metrics are supported, got {len(result)}")
                for place, (name, value) in zip(out.contents.score, result.items()):
                    place.name, place.value = name.encode(), float(value)
                out.contents.n = len(result)
                return 0
            except BaseException as e:  # the call that waits raises it
                self._failed = e
                return 1
            finally:
                self._scores -= 1

        self._score = _library.SCORE(call)      # lives as long as the handle
        self._call(lib.ps_on_score, self._score, None)

    def finish(self, score=None):
        """Tell that this worker has finished, and wait until the job is over.  score: as of on_score()."""
        if score:
            self.on_score(score)
        self._call(lib.ps_finish, _library.SCORE(), None)

    # ---- tables

    def table(self, name):
        t = _library.Shape()
        self._call(lib.ps_describe, name.encode(), ctypes.byref(t))
        return Table(t)

    def create(self, tables):
        """Create tables ("w:784x10,emb:1000000x16:sparse") in a cluster without a job.  Equal tables may exist already."""
        self._call(lib.ps_create, _bytes(tables))
        self._tables.clear()

    def tables(self):
        t, found = _library.Shape(), []
        while self._call(lib.ps_describe_at, len(found), ctypes.byref(t), also=(4,)) == _OK:
            found.append(Table(t))
        return found

    def pull(self, name, ids=None, out=None):
        """Pull a dense table, or the rows `ids` of a sparse one, into `out` (float32, contiguous) or a new array."""
        t = self._shape(name)
        shape = t.shape if ids is None else (len(ids), t.cols)
        if out is None:
            out = np.empty(shape, np.float32)
        elif out.dtype != np.float32 or not out.flags.c_contiguous or out.size != math.prod(shape):
            raise ValueError(f"out: must be a contiguous float32 array of shape {shape}")
        if ids is None:
            self._call(lib.ps_pull, name.encode(), _pointer(out, ctypes.c_float), out.size)
        else:
            ids = np.ascontiguousarray(ids, dtype=np.uint64)
            self._call(lib.ps_pull_rows, name.encode(), _pointer(ids, ctypes.c_uint64), ids.size, _pointer(out, ctypes.c_float))
        return out

    def push(self, name, gradient, ids=None):
        """Push a gradient of a dense table, or of the rows `ids` of a sparse one."""
        t = self._shape(name)
        if ids is None:
            g = _floats(gradient, None, name)
            self._call(lib.ps_push, name.encode(), _pointer(g, ctypes.c_float), g.size)
        else:
            ids = np.ascontiguousarray(ids, dtype=np.uint64)
            g = _floats(gradient, ids.size * t.cols, name)
            self._call(lib.ps_push_rows, name.encode(), _pointer(ids, ctypes.c_uint64), ids.size, _pointer(g, ctypes.c_float))

    def _lists(self, items):
        """The struct ps_rows of (table, ids, values) triples; values may be None.  Returns it with what must stay alive."""
        lists, kept = (_library.Rows * len(items))(), []
        for to, (name, ids, values) in zip(lists, items):
            ids = np.ascontiguousarray(ids, dtype=np.uint64) if ids.dtype != np.int64 else np.ascontiguousarray(ids)
            if values is not None and (values.dtype != np.float32 or not values.flags.c_contiguous or
                                       values.size != ids.size * self._shape(name).cols):
                raise ValueError(f"{name}: values must be a contiguous float32 array of shape {(ids.size, self._shape(name).cols)}")
            to.table, to.ids, to.nids, to.values = name.encode(), ids.ctypes.data, ids.size, None if values is None else values.ctypes.data
            kept.append((ids, values))
        return lists, kept

    def pull_many(self, items):
        """Pull rows of several sparse tables in one round trip: (table, ids, values) triples, whose float32 arrays `values` of shape
        (len(ids), cols) are filled.  ids are uint64, or int64 of the same bits."""
        lists, _kept = self._lists(items)
        self._call(lib.ps_pull_many, lists, len(items))

    def push_many(self, items):
        """Push gradients of rows of several sparse tables: (table, ids, values) triples as of pull_many()."""
        lists, _kept = self._lists(items)
        self._call(lib.ps_push_many, lists, len(items))

    def prefetch(self, items):
        """In a step, name the rows that the next one will pull: (table, ids) pairs.  begin() then brings them together with the dense
        tables, as of the step that it begins, and pull() and pull_many() of exactly these ids need no round trip.  With the setting
        pull_delta they travel at once, and later only those that have changed."""
        lists, _kept = self._lists([(name, ids, None) for name, ids in items])
        self._call(lib.ps_prefetch_rows, lists, len(items))

    def scan(self, name):
        """All rows of a sparse table that exist, as they are now: their ids (uint64, ascending) and values."""
        t, ids, rows, failed = self._shape(name), [], [], []

        def take(_ctx, i, r, n):
            try:
                ids.append(np.ctypeslib.as_array(i, (n,)).copy())
                rows.append(np.ctypeslib.as_array(r, (n, t.cols)).copy())
                return 0
            except BaseException as e:
                failed.append(e)
                return 1
        try:
            self._call(lib.ps_scan_rows, name.encode(), _library.EACH(take), None)
        except Error:
            if failed:
                raise failed[0] from None
            raise
        if not ids:
            return np.empty(0, np.uint64), np.empty((0, t.cols), np.float32)
        ids, rows = np.concatenate(ids), np.concatenate(rows)
        order = np.argsort(ids)
        return ids[order], rows[order]


def _bytes(s):
    return None if s is None else os.fsencode(s)


def connect(where=None, **options):
    """Connect to the cluster of a run directory or a join file; None: that of PS_CLUSTER.  The options are those of Handle."""
    return Handle(where, **options)
