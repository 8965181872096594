# SPDX-License-Identifier: ISC
"""Clusters on links of a given rate and delay, shared by the benches: wire, plan.

A link is a proxy (tests/fault/proxy) between each worker and the server, which lets so
many bytes a second through, each way, and each of them so much later.  Without a rate
there is none, and any number of servers; with one there is one server."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

BIN = os.path.abspath(sys.argv[1])
# Ended from outside, a bench still ends what it has started.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
NAME = os.path.basename(sys.argv[0])
DATA = "/usr/share/datasets/fashion-mnist/"
LOOPBACK = ("loopback", None, 0)
GIGABIT = ("1 Gbit/s", 125_000_000, 0)
SLOW = ("100 Mbit/s, 10 ms", 12_500_000, 5)
LINKS = [LOOPBACK, GIGABIT, SLOW]


def sets(way):
    return [a for s in way for a in ("--set", s)]


def inner(way):
    """Steps of the model to a push."""
    number = {s.split("=")[0]: s.split("=")[1] for s in way}
    return int(number.get("local_steps", 1))


def write(directory, **job):
    """The cluster file of these benches: Fashion-MNIST, mlp 784-256-10."""
    conf = {"servers": 1, "workers": 4, "transport": "tcp",
            "job": {"model": "mlp", "hidden": [256], "data": DATA + "train-images-idx3-ubyte.gz",
                    "eval": DATA + "t10k-images-idx3-ubyte.gz", "batch": 64, "optimizer": "sgd", "lr": 0.1, **job}}
    with open(os.path.join(directory, NAME + ".json"), "w") as f:
        json.dump(conf, f)


def until(true, what):
    end = time.monotonic() + 60
    while not true():
        if time.monotonic() > end:
            sys.exit("%s: waited for %s" % (NAME, what))
        time.sleep(0.005)


class Cluster:
    """Runs until it is left; steps that are as good as without an end, unless `way` ends with others.
    compute: how long each worker takes for a gradient at least (ps-work train --compute)."""

    def __init__(self, directory, way, rate=None, delay=0, workers=4, servers=1, compute=(), zones=()):
        self.directory, self.way, self.rate, self.delay = directory, way, rate, delay
        self.workers, self.servers, self.compute, self.zones = workers, servers, compute, zones
        self.children, self.proxy = [], None

    def log(self, name):
        return os.path.join(self.directory, name + ".log")

    def start(self, name, argv):
        with open(self.log(name), "wb") as log:
            self.children.append(subprocess.Popen([os.path.join(BIN, argv[0]), *argv[1:]], cwd=self.directory,
                                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def get(self, path):
        """An answer of the control plane; {} while there is none."""
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(os.path.join(self.directory, NAME + ".run/ctl.sock"))
                s.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path.encode())
                text = b"".join(iter(lambda: s.recv(65536), b""))
        except OSError:
            return {}
        return json.loads(text.split(b"\r\n\r\n", 1)[1] or b"{}")

    def step(self):
        return self.get("/v1/status").get("step", 0)

    def __enter__(self):
        try:
            return self.begin()
        except BaseException:
            self.__exit__()
            raise

    def begin(self):
        shutil.rmtree(os.path.join(self.directory, NAME + ".run"), ignore_errors=True)
        advertise = []
        if self.rate:
            self.proxy = subprocess.Popen([os.path.join(BIN, "fault/proxy"), "--rate", str(self.rate), "--delay", str(self.delay)],
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            advertise = ["--advertise", self.proxy.stdout.readline().strip()]
        self.start("server", ["ps-serve", NAME + ".json", "--set", "steps=1000000000", *sets(self.way), "--set",
                              "workers=%d" % self.workers, "--set", "servers=%d" % self.servers, *advertise])
        run = os.path.join(self.directory, NAME + ".run")
        until(lambda: os.path.exists(run + "/ctl.sock") and "data plane on" in open(self.log("server")).read(), "the server")
        if self.proxy:
            self.proxy.stdin.write("to %s\n" % re.search(r"data plane on (\S+)", open(self.log("server")).read())[1])
            self.proxy.stdin.flush()
        for i in range(1, self.servers):
            self.start("server-%d" % i, ["ps-serve", "--join", self.invite("server", i)])
        # A relay for each zone; the workers are in the innermost ones by turns.
        for i, zone in enumerate(self.zones):
            self.start("relay-%d" % i, ["ps-serve", "--relay", "--zone", zone, "--join", self.invite("relay", i)])
        until(lambda: len(self.get("/v1/relays").get("relays", [])) == len(self.zones), "the relays")
        inner = [z for z in self.zones if not any(y.startswith(z + "/") for y in self.zones)]
        for rank in range(self.workers):
            slow = ["--compute", self.compute[rank]] if self.compute else []
            near = ["--zone", inner[rank % len(inner)]] if inner else []
            self.start("worker-%d" % rank, ["ps-work", "train", "-C", NAME + ".run", "--rank", str(rank), *slow, *near])
        until(lambda: self.step() >= 5, "five steps")
        return self

    def invite(self, role, i):
        path = os.path.join(self.directory, "%s-%d.join" % (role, i))
        if os.path.exists(path):
            os.unlink(path)
        subprocess.run([os.path.join(BIN, "ps-ctl"), "-C", NAME + ".run", "invite", "--role", role, "-o", path], cwd=self.directory,
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return path

    def __exit__(self, *_):
        for c in reversed(self.children + ([self.proxy] if self.proxy else [])):
            c.send_signal(signal.SIGKILL)
            c.wait()
