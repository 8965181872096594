"""A cluster whose processes are to suffer: what tests/fault/soak and tests/fault/cuts share."""
import ctypes
import json
import os
import re
import signal
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
        self.expected = False           # its death is our doing
        self.wake_at = 0.0              # SIGSTOP until then

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
        """Resident KiB and open descriptors."""
        try:
            with open("/proc/%d/status" % self.child.pid) as f:
                rss = int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])
            return rss, len(os.listdir("/proc/%d/fd" % self.child.pid))
        except (OSError, TypeError):
            return None

    def tail(self, n=12):
        with open(self.log, errors="replace") as f:
            return "".join("  %s| %s" % (self.name, line) for line in f.readlines()[-n:])


def ask(run, what):
    """The coordinator's answer to GET /v1/..., {} when there is none."""
    out = subprocess.run(["curl", "-s", "--max-time", "2", "--unix-socket", os.path.join(run, "ctl.sock"),
                          "http://x/v1/" + what], capture_output=True, text=True).stdout
    return json.loads(out) if out else {}


def mended(run, replicas):
    """Every partition has all its copies."""
    status, layout = ask(run, "status"), ask(run, "layout")
    runs = [x for t in layout.get("tables", []) for x in t["runs"]]
    return (status.get("state") == "running" and status.get("partitions_moving") == 0 and bool(runs) and
            all(len(x[2]) == replicas for x in runs))


def knows(run, processes):
    """The coordinator has heard of the last death of each: it counts on those that run."""
    live = {s["id"]: s["pid"] for s in ask(run, "servers").get("servers", []) if s["state"] == "live"}
    return all(live.get(p.name) == p.child.pid for p in processes)


def book_sizes(books):
    """Bytes that each slot has written: it grows with each step (tests/fault/ledger.h)."""
    size = {}
    for name in os.listdir(books):
        slot = int(name.split("-")[0])
        size[slot] = size.get(slot, 0) + os.stat(os.path.join(books, name)).st_size
    return size


def check_ledger(argv, meanwhile=lambda: None):
    """What `ledger check` counts, and what it complains of: None when no push is
    lost, doubled or torn. Tried three times: a cluster that suffers may not answer.
    meanwhile() is called again and again, and sees to the processes."""
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
