# SPDX-License-Identifier: ISC
"""A cluster whose processes are killed or cut off: shared by tests/fault/soak, cuts and failover."""
import ctypes
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time


class Wrong(Exception):
    pass


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Process:
    """One place in the cluster, and the process that holds it at present."""

    def __init__(self, directory, kind, name, argv):
        self.dir, self.kind, self.name, self.argv = directory, kind, name, argv
        self.log = os.path.join(directory, name + ".log")
        self.child = None
        self.armed = False
        self.restart_at = 0.0
        self.expected = False           # we killed it
        self.wake_at = 0.0              # stopped (SIGSTOP) until then

    def start(self, point=None):
        env = dict(os.environ)
        env.pop("PS_FAIL", None)
        self.armed = point is not None
        if point:
            env["PS_FAIL"] = point
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                                          cwd=self.dir, preexec_fn=die_with_parent)
        self.expected = False
        self.wake_at = 0.0
        self.began = time.monotonic()

    def alive(self):
        return self.child is not None and self.child.poll() is None

    def kill(self):
        self.expected = True
        if self.alive():
            self.child.kill()
            self.child.wait()

    def usage(self):
        """Return resident KiB and the number of open descriptors, or None."""
        try:
            with open("/proc/%d/status" % self.child.pid) as f:
                rss = int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])
            return rss, len(os.listdir("/proc/%d/fd" % self.child.pid))
        except (OSError, TypeError):
            return None

    def mark(self):
        """Return the present end of the log, for since()."""
        return os.path.getsize(self.log)

    def since(self, mark):
        """Return what has been logged since mark()."""
        with open(self.log, errors="replace") as f:
            f.seek(mark)
            return f.read()

    def tail(self, n=12):
        with open(self.log, errors="replace") as f:
            return "".join("  %s| %s" % (self.name, line) for line in f.readlines()[-n:])


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("x", timeout=2)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(run, what):
    """Return the coordinator's answer to GET /v1/..., or {} when there is none."""
    c = UnixConnection(os.path.join(run, "ctl.sock"))
    try:
        c.request("GET", "/v1/" + what)
        return json.loads(c.getresponse().read() or b"{}")
    except (OSError, ValueError, http.client.HTTPException):
        return {}
    finally:
        c.close()


def has_all_replicas(run, replicas):
    """True when every partition has all its replicas."""
    status, layout = ask(run, "status"), ask(run, "layout")
    runs = [x for t in layout.get("tables", []) for x in t["runs"]]
    return (status.get("state") == "running" and status.get("partitions_moving") == 0 and bool(runs) and
            all(len(x[2]) == replicas for x in runs))


def knows_processes(run, processes):
    """True when the coordinator knows the present process of each of these servers, and so the death of the last one."""
    live = {s["id"]: s["pid"] for s in ask(run, "servers").get("servers", []) if s["state"] == "live"}
    return all(live.get(p.name) == p.child.pid for p in processes)


def has_members(run, processes):
    """True when each of these workers takes part in the job by its present process."""
    active = {w["id"]: w.get("pid") for w in ask(run, "workers").get("workers", []) if w["state"] == "active"}
    return all(active.get(p.name) == p.child.pid for p in processes)


def book_sizes(books):
    """Return the bytes that each rank has written, which grow with each step (tests/fault/ledger.h)."""
    size = {}
    for name in os.listdir(books):
        rank = int(name.split("-")[0])
        size[rank] = size.get(rank, 0) + os.stat(os.path.join(books, name)).st_size
    return size


def check_ledger(argv, meanwhile=lambda: None):
    """Run `ledger check`. Return its counts, and its complaints, or None when no push is lost,
    doubled or torn. It is tried three times, because a cluster under faults may not answer.
    meanwhile() is called repeatedly while it runs, to look after the processes."""
    for _ in range(3):
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while child.poll() is None:
            meanwhile()
            time.sleep(0.02)
        out, err = child.communicate()
        m = re.findall(r"(\w+) (\d+)", out)
        if m:
            return {k: int(v) for k, v in m}, (out + err if child.returncode else None)
    raise Wrong("the check failed: " + err)
