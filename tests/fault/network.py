# SPDX-License-Identifier: ISC
"""Hosts that are network namespaces, with links that can be cut (tests/fault/switch.c): shared by tests/fault/cuts and hostcut."""
import os
import socket
import subprocess

from victims import Wrong, die_with_parent


def listens(path):
    """Does somebody listen on this Unix socket?  Its file is there a moment earlier."""
    with socket.socket(socket.AF_UNIX) as s:
        return s.connect_ex(path) == 0


class Forbidden(Exception):
    """Network namespaces are not permitted here."""


class Network:
    """The switch's process. It has a high priority: a real network is not slow because processors are busy."""

    def __init__(self, binaries, hosts, base):
        self.hosts = hosts
        self.child = subprocess.Popen([os.path.join(binaries, "fault", "switch"), *hosts], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      preexec_fn=lambda: (die_with_parent(), os.nice(-15)))
        self.address, self.space = {}, {}
        for _ in hosts:
            word = self.child.stdout.readline().split()
            if not word:
                raise Forbidden(self.child.stderr.read().strip())
            self.address[word[0]], self.space[word[0]] = word[1:]
        self.tell("base %d" % base)

    def tell(self, *commands):
        self.child.stdin.write("".join(c + "\n" for c in commands))
        self.child.stdin.flush()
        for c in commands:
            if self.child.stdout.readline() != "ok\n":
                raise Wrong("the switch does not understand \"%s\"" % c)

    def cut(self, links):
        self.tell(*("cut %s %s" % link for link in sorted(links)))

    def restore(self, links):
        self.tell(*("pass %s %s" % link for link in sorted(links)))

    def heal(self):
        self.tell("pass")

    def lost_bytes(self, links):
        """Bytes of TCP's payload that the links have lost so far."""
        n = 0
        for a, b in sorted(links):
            self.child.stdin.write("count %s %s\n" % (a, b))
            self.child.stdin.flush()
            n += int(self.child.stdout.readline().split()[5])
            self.child.stdout.readline()
        return n

    def inside(self, host, argv):
        return ["nsenter", "--net=" + self.space[host], *argv]

    def remove(self):
        self.child.kill()
        self.child.wait()
