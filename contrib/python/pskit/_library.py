# SPDX-License-Identifier: ISC
"""Declarations of pskit.h for ctypes."""

import ctypes
import ctypes.util
import os
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

FLOATS = POINTER(c_float)
LOG = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("rank_wanted", c_int), ("zone", c_char_p), ("timeout_ms", c_int64), ("log", LOG),
                ("ctx", c_void_p), ("log_level", c_int)]


class Shape(ctypes.Structure):
    _fields_ = [("name", c_char * 64), ("rows", c_uint64), ("cols", c_uint32), ("sparse", c_int)]


class Step(ctypes.Structure):
    _fields_ = [("step", c_uint64), ("epoch", c_uint64), ("begin", c_uint64), ("end", c_uint64)]


class Rows(ctypes.Structure):
    _fields_ = [("table", c_char_p), ("ids", c_void_p), ("nids", c_size_t), ("values", c_void_p)]


class Score(ctypes.Structure):
    _fields_ = [("name", c_char * 32), ("value", c_double)]


class Scores(ctypes.Structure):
    _fields_ = [("examples", c_uint64), ("n", c_size_t), ("score", Score * 32)]


ASKED = ctypes.CFUNCTYPE(c_int, c_void_p)
EACH = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_uint64), POINTER(c_float), c_size_t)
SCORE = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(Scores))


def _load():
    """Load the library that PSKIT_LIBRARY names, or else that of the system."""
    given = os.environ.get("PSKIT_LIBRARY")
    for path in [given] if given else ["libpskit.so.0", ctypes.util.find_library("pskit"), "/usr/local/lib/libpskit.so.0"]:
        try:
            if path:
                return ctypes.CDLL(path)
        except OSError as e:
            why = e
    raise ImportError(f"cannot load libpskit.so.0 ({why}); run make install and ldconfig, or set PSKIT_LIBRARY to build/libpskit.so.0")


lib = _load()

for _name, _result, _args in (
    ("ps_version", c_char_p, []),
    ("ps_strerror", c_char_p, [c_int]),
    ("ps_open", c_int, [c_char_p, POINTER(Options), POINTER(c_void_p)]),
    ("ps_message", c_char_p, [c_void_p]),
    ("ps_close", None, [c_void_p]),
    ("ps_cancel", None, [c_void_p]),
    ("ps_on_interrupt", c_int, [c_void_p, ASKED, c_void_p]),
    ("ps_on_score", c_int, [c_void_p, SCORE, c_void_p]),
    ("ps_set", c_int, [c_void_p, c_char_p, c_char_p]),
    ("ps_setting", c_int, [c_void_p, c_char_p, c_char_p, c_size_t]),
    ("ps_begin_with", c_int, [c_void_p, c_char_p, POINTER(c_float), c_size_t]),
    ("ps_join", c_int, [c_void_p, c_char_p, c_uint64]),
    ("ps_rank", c_uint32, [c_void_p]),
    ("ps_step_begin", c_int, [c_void_p, POINTER(Step)]),
    ("ps_step_next", c_int, [c_void_p, POINTER(Step)]),
    ("ps_param", c_void_p, [c_void_p, c_char_p, POINTER(c_size_t)]),
    ("ps_grad", c_void_p, [c_void_p, c_char_p, POINTER(c_size_t)]),
    ("ps_step_end", c_int, [c_void_p, c_double]),
    ("ps_finish", c_int, [c_void_p, SCORE, c_void_p]),
    ("ps_create", c_int, [c_void_p, c_char_p]),
    ("ps_describe", c_int, [c_void_p, c_char_p, POINTER(Shape)]),
    ("ps_describe_at", c_int, [c_void_p, c_size_t, POINTER(Shape)]),
    ("ps_pull", c_int, [c_void_p, c_char_p, POINTER(c_float), c_size_t]),
    ("ps_push", c_int, [c_void_p, c_char_p, POINTER(c_float), c_size_t]),
    ("ps_pull_rows", c_int, [c_void_p, c_char_p, POINTER(c_uint64), c_size_t, POINTER(c_float)]),
    ("ps_push_rows", c_int, [c_void_p, c_char_p, POINTER(c_uint64), c_size_t, POINTER(c_float)]),
    ("ps_pull_many", c_int, [c_void_p, POINTER(Rows), c_size_t]),
    ("ps_push_many", c_int, [c_void_p, POINTER(Rows), c_size_t]),
    ("ps_prefetch_rows", c_int, [c_void_p, POINTER(Rows), c_size_t]),
    ("ps_scan_rows", c_int, [c_void_p, c_char_p, EACH, c_void_p]),
):
    _f = getattr(lib, _name)
    _f.restype, _f.argtypes = _result, _args
