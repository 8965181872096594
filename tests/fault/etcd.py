# SPDX-License-Identifier: ISC
"""An etcd of three members, which can be killed and stopped: shared by tests/fault/hostcut and owners."""
import base64
import json
import os
import shutil
import subprocess

from victims import Process

MEMBERS = 3


def is_missing():
    return None if shutil.which("etcd") else "etcd-server is not installed"


class Etcd:
    """address: of each member, "HOST:PORT" for clients and for other members. inside: the words that run a program on the host of a
    member."""

    def __init__(self, directory, clients, peers, inside=lambda i, argv: argv):
        self.clients, self.inside = clients, inside
        everybody = ",".join("m%d=http://%s" % x for x in enumerate(peers))
        self.member = []
        for i, (client, peer) in enumerate(zip(clients, peers)):
            argv = ["env", "GOMAXPROCS=1", "etcd", "--name", "m%d" % i, "--data-dir", os.path.join(directory, "etcd-%d" % i),
                    "--initial-cluster", everybody, "--listen-client-urls", "http://" + client,
                    "--advertise-client-urls", "http://" + client, "--listen-peer-urls", "http://" + peer,
                    "--initial-advertise-peer-urls", "http://" + peer, "--logger", "zap", "--log-level", "warn", "--unsafe-no-fsync"]
            self.member.append(Process(directory, "etcd", "etcd-%d" % i, inside(i, argv)))
        for m in self.member:
            m.start()

    def ask(self, i, method, body, seconds=1):
        """Return the answer of member i, or {} when there is none."""
        argv = ["curl", "-s", "--max-time", str(seconds), "-d", json.dumps(body), "http://%s/v3/%s" % (self.clients[i], method)]
        out = subprocess.run(self.inside(i, argv), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        try:
            return json.loads(out)
        except ValueError:
            return {}

    def answers(self):
        return all("header" in self.ask(i, "kv/range", {"key": "AA=="}) for i in range(MEMBERS))

    def leader(self):
        """Return the number of the member that leads; None: not known now."""
        for i in range(MEMBERS):
            said = self.ask(i, "maintenance/status", {})
            if said.get("leader") and said["leader"] == said["header"]["member_id"]:
                return i
        return None

    def get(self, key):
        """Return the document of a key, from the first member that answers; None: there is none."""
        for i in range(MEMBERS):
            said = self.ask(i, "kv/range", {"key": base64.b64encode(key.encode()).decode()})
            if said:
                kvs = said.get("kvs")
                return json.loads(base64.b64decode(kvs[0]["value"])) if kvs else None
        return None
