# SPDX-License-Identifier: ISC
"""pskit, a parameter server, for Python: workers and clients by the C library (pskit(3)) and numpy.

    import numpy as np, pskit

    with pskit.connect() as ps:                    # the cluster of PS_CLUSTER
        ps.join("w:784x10,b:10", examples=60000)
        for task in ps.tasks():                    # examples task.begin .. task.end-1
            ps.grad("w")[:] = ...                  # from ps.param("w"), without a copy
            ps.clock(loss)
        ps.finish()

A handle belongs to one thread at a time.  Calls that wait can be interrupted from the keyboard;
then the worker leaves the job when the handle is closed.
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

_OK, _STOPPED, _OVER = 0, 9, 100


class Error(Exception):
    """What the library refuses, or cannot do: a sentence; `code` is a number of pskit.h."""

    def __init__(self, code, message):
        super().__init__(message or lib.ps_strerror(code).decode())
        self.code = code


class Stopped(Error):
    """The job was stopped, this worker asked to leave, or the call cancelled."""


class Task:
    """What is this worker's at a step: examples begin .. end-1 of the data, in pass `epoch` over it."""

    __slots__ = ("step", "epoch", "begin", "end")

    def __init__(self, s):
        self.step, self.epoch, self.begin, self.end = s.step, s.epoch, s.begin, s.end

    def __len__(self):
        return self.end - self.begin

    def __repr__(self):
        return f"Task(step={self.step}, epoch={self.epoch}, begin={self.begin}, end={self.end})"


class Table:
    """A table's name, rows, cols, and whether it is sparse (then rows is about how many there may be)."""

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
        raise ValueError(f"{what}: {n} values are wanted, and there are {a.size}")
    return a


def _pointer(a, kind):
    return a.ctypes.data_as(ctypes.POINTER(kind))


def _listen(heard):
    """A generator: handlers of signals run while it does, and what they raise goes into `heard`; it yields whether there is any.
    A function would be entered before its first `try`, and what is raised there would be lost; this is resumed inside of one."""
    while True:
        try:
            while True:
                yield bool(heard)
        except GeneratorExit:
            return
        except BaseException as e:
            heard.append(e)


class Handle:
    """A connection to a cluster: beside its job, or, after join(), one of its workers."""

    def __init__(self, where=None, name=None, rank=None, zone=None, timeout=30.0, log=None, log_level=2):
        o = _library.Options(size=ctypes.sizeof(_library.Options), name=_bytes(name), rank_wanted=0 if rank is None else rank + 1, zone=_bytes(zone),
                             timeout_ms=max(1, int(timeout * 1000)), log_level=log_level)
        if log is not None:
            o.log = _library.LOG(lambda ctx, level, text: log(level, text.decode(errors="replace")))
        self._options = o                   # its callback stays as long as the handle
        self._p = ctypes.c_void_p()
        self._score = self._failed = None
        self._mine, self._calls, self._scores = threading.RLock(), 0, 0    # calls that are under way, callbacks inside of them
        self._heard = []                    # what signals have raised while a call waited
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
            raise Error(2, "a call of another thread is under way on this handle")
        self._calls += 1
        try:
            if self._calls > self._scores + 1:
                raise Error(2, "a call is under way on this handle, and a signal's handler makes no other")
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
        # The library has few places, and comes back to them.
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
        """Leave the job, if it is in one, and let go of everything.  Arrays of param() and grad() must not be used any more."""
        if not self._mine.acquire(blocking=False):
            self.cancel()                   # another thread's call ends
            self._mine.acquire()
        try:
            if self._calls:
                raise RuntimeError("close: not from a callback of the handle")
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
        """From any thread: what waits, and every later call, raises Stopped."""
        lib.ps_cancel(self._p)

    # ---- a worker

    def set(self, key, value):
        """Before join(): what the job begins with, where the cluster file says nothing: set("optimizer", "adam")."""
        self._call(lib.ps_set, key.encode(), str(value).encode())

    def setting(self, key):
        """What the job goes by now: a text, numbers as in JSON."""
        text = ctypes.create_string_buffer(4096)
        self._call(lib.ps_setting, key.encode(), text, len(text))
        return text.value.decode()

    def begin_with(self, name, values):
        """Before join(): the first parameters of a dense table."""
        a = _floats(values, None, name)
        self._first.append(a)               # it is read by join()
        self._call(lib.ps_begin_with, name.encode(), _pointer(a, ctypes.c_float), a.size)

    def join(self, tables=None, examples=0):
        """Take a rank; returns when the job begins.  tables: as job.tables, where the cluster file names none."""
        try:
            self._call(lib.ps_join, _bytes(tables), examples)
        finally:
            self._first.clear()

    @property
    def rank(self):
        return lib.ps_rank(self._p)

    def tasks(self):
        """This worker's steps, until all are done; clock() ends each."""
        while (task := self.begin()) is not None:
            yield task

    def begin(self):
        """One of them; None: there is no further step."""
        s = _library.Step()
        return Task(s) if self._call(lib.ps_step_begin, ctypes.byref(s), also=(_OVER,)) == _OK else None

    def param(self, name):
        """A dense table's parameters at this step: an array that is not copied, and ends with the step."""
        a = self._view(lib.ps_param, name).view()
        a.flags.writeable = False
        return a

    def grad(self, name):
        """Where a dense table's gradient is to be put, whole: the mean over the step's examples."""
        return self._view(lib.ps_grad, name)

    def clock(self, loss=None):
        """Push what grad() holds, and end the step; loss: the mean over its examples, None where it is not known."""
        self._call(lib.ps_step_end, -math.inf if loss is None else float(loss))

    def on_score(self, score):
        """score(handle) -> {"loss": ..., "accuracy": ..., "examples": ...} is called in one of the workers, with the parameters of
        then in param(): each job.eval_every steps, and at the end, while begin() or finish() waits.  Its keys are metrics of
        ps-metrics(7); others are left out, and the log has a warning."""
        def call(_p, _ctx, out):
            self._scores += 1
            try:
                result = dict(score(self))
                out.contents.examples = int(result.pop("examples", 0))
                if len(result) > len(out.contents.score):
                    raise ValueError(f"{len(result)} scores: at most {len(out.contents.score)} are taken")
                for place, (name, value) in zip(out.contents.score, result.items()):
                    place.name, place.value = name.encode(), float(value)
                out.contents.n = len(result)
                return 0
            except BaseException as e:  # goes on where it was waited
                self._failed = e
                return 1
            finally:
                self._scores -= 1

        self._score = _library.SCORE(call)      # it stays as long as the handle
        self._call(lib.ps_on_score, self._score, None)

    def finish(self, score=None):
        """After the last step, or when this worker has no more to do: until the job is over.  score: as on_score() has it."""
        if score:
            self.on_score(score)
        self._call(lib.ps_finish, _library.SCORE(), None)

    # ---- tables

    def table(self, name):
        t = _library.Shape()
        self._call(lib.ps_describe, name.encode(), ctypes.byref(t))
        return Table(t)

    def create(self, tables):
        """Make tables ("w:784x10,emb:1000000x16:sparse") in a cluster without a job; those that are there so are fine."""
        self._call(lib.ps_create, _bytes(tables))
        self._tables.clear()

    def tables(self):
        t, found = _library.Shape(), []
        while self._call(lib.ps_describe_at, len(found), ctypes.byref(t), also=(4,)) == _OK:
            found.append(Table(t))
        return found

    def pull(self, name, ids=None, out=None):
        """A dense table, or, with ids, rows of a sparse one; into `out` (float32, contiguous) if that is given."""
        t = self._shape(name)
        shape = t.shape if ids is None else (len(ids), t.cols)
        if out is None:
            out = np.empty(shape, np.float32)
        elif out.dtype != np.float32 or not out.flags.c_contiguous or out.size != math.prod(shape):
            raise ValueError(f"out: must be contiguous float32 of {shape}")
        if ids is None:
            self._call(lib.ps_pull, name.encode(), _pointer(out, ctypes.c_float), out.size)
        else:
            ids = np.ascontiguousarray(ids, dtype=np.uint64)
            self._call(lib.ps_pull_rows, name.encode(), _pointer(ids, ctypes.c_uint64), ids.size, _pointer(out, ctypes.c_float))
        return out

    def push(self, name, gradient, ids=None):
        """A gradient of a dense table, or, with ids, of rows of a sparse one."""
        t = self._shape(name)
        if ids is None:
            g = _floats(gradient, None, name)
            self._call(lib.ps_push, name.encode(), _pointer(g, ctypes.c_float), g.size)
        else:
            ids = np.ascontiguousarray(ids, dtype=np.uint64)
            g = _floats(gradient, ids.size * t.cols, name)
            self._call(lib.ps_push_rows, name.encode(), _pointer(ids, ctypes.c_uint64), ids.size, _pointer(g, ctypes.c_float))


def _bytes(s):
    return None if s is None else os.fsencode(s)


def connect(where=None, **options):
    """where: a run directory, a join file, or None for PS_CLUSTER.  Options as of Handle."""
    return Handle(where, **options)
