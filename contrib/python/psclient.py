#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""A second client of pskit's data plane, independent of the C library.

Written from ps-protocol(7): Python's standard library, and libsodium through
ctypes for X25519, ChaCha20-Poly1305 and AES-256-GCM.  It shows that the page
is enough, and tests use it as an honest or a hostile peer.

    psclient.py -C RUN tables
    psclient.py -C RUN pull TABLE            floats, one a line
    psclient.py -C RUN push TABLE VALUE      a gradient of VALUE everywhere
"""

import argparse
import base64
import ctypes
import ctypes.util
import hashlib
import hmac
import json
import os
import socket
import struct
import sys
import time

SODIUM = ctypes.CDLL(ctypes.util.find_library("sodium") or "libsodium.so.23")
SODIUM.sodium_init()

PROTOCOL_NAME = b"Noise_IKpsk2_25519_ChaChaPoly_SHA256"
HEADER = struct.Struct("<4sBBHIHHIIIIQQQQ")
RECORDS_A_KEY = 1 << 16
CHACHA, AES, POLY1305 = 1, 2, 3

BYE, CTL, NACK, BATCH = 1, 2, 3, 4
PUSH, PUSH_ROWS, RECEIPT = 10, 11, 12
PULL, PULLED, PULL_ROWS, ROWS = 20, 21, 22, 23
TO_CLIENT, LAST, NOW, REPLY = 1, 2, 4, 8
STATUS = {1: "applied", 2: "merged", 3: "duplicate", 4: "late", 5: "refused", 6: "split"}


class ProtocolError(Exception):
    """The peer closed, refused, or sent what does not verify."""


# ---- primitives ---------------------------------------------------------------


def x25519(secret, public):
    out = ctypes.create_string_buffer(32)
    if SODIUM.crypto_scalarmult(out, secret, public):
        raise ProtocolError("a point of low order")
    return out.raw


def x25519_public(secret):
    out = ctypes.create_string_buffer(32)
    SODIUM.crypto_scalarmult_base(out, secret)
    return out.raw


def _aead(name, key, nonce, ad, text):
    long = ctypes.c_ulonglong
    call = getattr(SODIUM, name)
    seal = name.endswith("encrypt")
    out = ctypes.create_string_buffer(len(text) + 16 if seal else max(1, len(text) - 16))
    size = long()
    nonce = bytes(4) + struct.pack("<Q", nonce)
    if seal:
        rc = call(out, ctypes.byref(size), text, long(len(text)), ad, long(len(ad)), None, nonce, key)
    else:
        rc = call(out, ctypes.byref(size), None, text, long(len(text)), ad, long(len(ad)), nonce, key)
    if rc:
        raise ProtocolError("a tag does not verify")
    return out.raw[: size.value]


def seal(key, nonce, ad, text, suite=CHACHA):
    kind = "aes256gcm" if suite == AES else "chacha20poly1305_ietf"
    return _aead(f"crypto_aead_{kind}_encrypt", key, nonce, ad, text)


def unseal(key, nonce, ad, text, suite=CHACHA):
    kind = "aes256gcm" if suite == AES else "chacha20poly1305_ietf"
    return _aead(f"crypto_aead_{kind}_decrypt", key, nonce, ad, text)


def blake2b(size, data, key=b"", **more):
    return hashlib.blake2b(data, digest_size=size, key=key, **more).digest()


def hkdf(chain, secret, n):
    """Noise's HKDF: n outputs of HMAC-SHA256."""
    temp = hmac.new(chain, secret, "sha256").digest()
    out, last = [], b""
    for i in range(1, n + 1):
        last = hmac.new(temp, last + bytes([i]), "sha256").digest()
        out.append(last)
    return out


# ---- handshake -------------------------------------------------------------------


class Direction:
    """One way of a session: chain key, record key, nonce counter."""

    def __init__(self, chain):
        self.chain, self.nonce = chain, 0
        self.next_key()

    def _derive(self, number):
        salt = struct.pack("<Q", number) + bytes(8)
        return blake2b(32, b"", self.chain, salt=salt, person=b"psrecord" + bytes(8))

    def next_key(self):
        self.key, self.chain, self.records = self._derive(1), self._derive(2), 0

    def record_done(self):
        self.records += 1
        if self.records == RECORDS_A_KEY:
            self.next_key()

    def take(self):
        self.nonce += 1
        return self.nonce - 1


class Handshake:
    """Noise IKpsk2 as initiator, wrapped in challenge and mac1."""

    def __init__(self, hello, secret, server, psk, incarnation, rank, suite=None, role=1):
        if len(hello) != 32 or hello[:4] != b"PSS1" or hello[4] != 1:
            raise ProtocolError("not a pskit server")
        self.psk, self.secret = psk, secret
        self.suite = suite or next(i for i in range(8) if hello[5] >> i & 1)
        head = b"PSC1" + bytes([1, self.suite, 0, 0])
        self.h = self.ck = hashlib.sha256(PROTOCOL_NAME).digest()
        self.mix_hash(hello + head)
        self.mix_hash(server)
        self.e = os.urandom(32)
        e_public = x25519_public(self.e)
        self.mix_hash(e_public)
        key = self.mix_key(e_public)
        key = self.mix_key(x25519(self.e, server))
        sealed_static = self.encrypt(key, x25519_public(secret))
        key = self.mix_key(x25519(secret, server))
        cluster = blake2b(16, b"pskit-cluster-id", psk)
        info = cluster + struct.pack("<QIB", incarnation, rank, role) + bytes(27)
        message = head + e_public + sealed_static + self.encrypt(key, info)
        mac_key = blake2b(32, b"ps-mac1" + psk + server)
        self.message1 = message + blake2b(16, hello + message, mac_key)

    def mix_hash(self, data):
        self.h = hashlib.sha256(self.h + data).digest()

    def mix_key(self, secret):
        self.ck, key = hkdf(self.ck, secret, 2)
        return key

    def encrypt(self, key, text):
        out = seal(key, 0, self.h, text)
        self.mix_hash(out)
        return out

    def finish(self, message2):
        """The two directions (ours first), and what the server said."""
        if message2[:4] != b"PSS2":
            raise ProtocolError("not an answer to the handshake")
        self.mix_hash(message2[:8])
        e_server = message2[8:40]
        self.mix_hash(e_server)
        self.mix_key(e_server)
        self.mix_key(x25519(self.e, e_server))
        self.mix_key(x25519(self.secret, e_server))
        self.ck, temp, key = hkdf(self.ck, self.psk, 3)
        self.mix_hash(temp)
        info = unseal(key, 0, self.h, message2[40:])
        if message2[5]:
            raise ProtocolError(f"refused with status {message2[5]}")
        tx, rx = hkdf(self.ck, b"", 2)
        return Direction(tx), Direction(rx), struct.unpack("<QIIIIQQ", info)


# ---- session -----------------------------------------------------------------------


class Record:
    FIELDS = "type flags len table codec part epoch generation examples step seq offset total".split()

    def __init__(self, header, payload=b""):
        values = HEADER.unpack(header)
        if values[0] != b"PSR1" or values[1] != 1:
            raise ProtocolError("not a record")
        for name, value in zip(self.FIELDS, values[2:]):
            setattr(self, name, value)
        self.payload = payload


class Session:
    """Records to and from one server process."""

    def __init__(self, address, server, psk, secret, rank=0xFFFFFFFF, suite=None, timeout=10,
                 incarnation=None):
        if address.startswith("/"):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(address)
        else:
            host, port = address.rsplit(":", 1)
            self.sock = socket.create_connection((host, int(port)))
        self.sock.settimeout(timeout)
        if incarnation is None:
            incarnation = int.from_bytes(os.urandom(8), "little") >> 1
        hello = self.read(32)
        shake = Handshake(hello, secret, server, psk, incarnation, rank, suite)
        self.suite = shake.suite
        self.sock.sendall(shake.message1)
        self.tx, self.rx, self.server_info = shake.finish(self.read(96))
        self.queue = []

    def read(self, n):
        out = bytearray()
        while len(out) < n:
            piece = self.sock.recv(n - len(out))
            if not piece:
                raise ProtocolError("the server closed the connection")
            out += piece
        return bytes(out)

    @staticmethod
    def header(kind, length, flags=0, table=0, codec=0, part=0, epoch=0, generation=0, examples=0, step=0, seq=0,
               offset=0, total=0):
        return HEADER.pack(b"PSR1", 1, kind, flags, length, table, codec, part, epoch, generation, examples, step,
                           seq, offset, total)

    def encode(self, kind, payload=b"", **fields):
        """The bytes of one record; the counters move on."""
        head = self.header(kind, len(payload), **fields)
        out = head + seal(self.tx.key, self.tx.take(), head, b"", self.suite)
        if payload and self.suite == POLY1305:
            out += payload + seal(self.tx.key, self.tx.take(), payload, b"")
        elif payload:
            out += seal(self.tx.key, self.tx.take(), b"", payload, self.suite)
        self.tx.record_done()
        return out

    def send(self, kind, payload=b"", **fields):
        self.sock.sendall(self.encode(kind, payload, **fields))

    def _receive(self):
        head = self.read(64)
        unseal(self.rx.key, self.rx.take(), head, self.read(16), self.suite)
        record = Record(head)
        if record.len:
            text, tag = self.read(record.len), self.read(16)
            if self.suite == POLY1305:
                unseal(self.rx.key, self.rx.take(), text, tag)
                record.payload = text
            else:
                record.payload = unseal(self.rx.key, self.rx.take(), b"", text + tag, self.suite)
        self.rx.record_done()
        return record

    def receive(self):
        """The next record; batches are taken apart."""
        while not self.queue:
            record = self._receive()
            if record.type != BATCH:
                return record
            at, body = 0, record.payload
            while at < len(body):
                sub = Record(body[at : at + 64])
                sub.payload = body[at + 64 : at + 64 + sub.len]
                self.queue.append(sub)
                at += 64 + (sub.len + 7 & ~7)
        return self.queue.pop(0)

    def expect(self, kind):
        record = self.receive()
        if record.type == NACK:
            raise ProtocolError(f"refused: {record.payload[4:].decode(errors='replace')}")
        if record.type != kind:
            raise ProtocolError(f"record of type {record.type}, not {kind}")
        return record

    def text(self):
        """The next CTL message; long ones come in pieces."""
        record = self.expect(CTL)
        out = record.payload
        while len(out) < record.total:
            out += self.expect(CTL).payload
        return json.loads(out)

    def close(self):
        self.send(BYE)
        self.sock.close()


# ---- a cluster -----------------------------------------------------------------------


def read_key(run, name):
    with open(os.path.join(run, "keys", name), encoding="ascii") as f:
        return base64.b64decode(f.read().split()[-1])


def is_alive(run):
    """Does the process live that started the run? It starts a coordinator again that has died."""
    try:
        with open(os.path.join(run, "lock"), encoding="ascii") as f:
            os.kill(int(f.readline()), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


class Cluster:
    """The coordinator's view, and sessions with the servers as needed.

    A coordinator that is being started again is waited for, for `patience` seconds at most."""

    def __init__(self, run, name="admin", patience=15):
        self.psk, self.secret = read_key(run, "psk"), read_key(run, f"{name}.key")
        self.coordinator_key = read_key(run, "coordinator.pub")
        self.coordinator = os.path.join(os.path.abspath(run), "coordinator.sock")
        self.sessions = {}
        self.view = self.await_view(run, time.monotonic() + patience)
        self.layout = self.view["layout"]
        self.tables = {t["name"]: t for t in self.layout["tables"] if not t.get("dropped")}

    def await_view(self, run, end):
        """The first view; an error at the time `end`, or when nobody would start the coordinator again."""
        while True:
            try:
                return self.request_view()
            except (ConnectionError, FileNotFoundError):
                if time.monotonic() > end or not is_alive(run):
                    raise
                time.sleep(0.1)

    def request_view(self):
        session = Session(self.coordinator, self.coordinator_key, self.psk, self.secret)
        try:
            session.send(CTL, json.dumps({"op": "watch"}).encode(), seq=1)
            view = {}
            while view.get("op") != "view":
                view = session.text()
        finally:
            session.close()
        return view

    def session(self, index):
        if index not in self.sessions:
            server = self.view["servers"][index]
            self.sessions[index] = Session(server["tcp"], base64.b64decode(server["key"]), self.psk, self.secret)
        return self.sessions[index]

    def era(self):
        """What every record of the data plane says of the layout that it was made for."""
        return {"epoch": self.layout["epoch"], "generation": self.layout["generation"]}

    def pull(self, name):
        """(values, version of each partition) of a dense table."""
        table, out, versions = self.tables[name], b"", []
        for first, count, chain, *_ in table["runs"]:
            session = self.session(chain[-1])
            session.send(PULL, struct.pack("<III", table["id"], first, count), flags=NOW, seq=1, **self.era())
            for _ in range(count):
                record = session.expect(PULLED)
                out += record.payload
                versions.append(record.total)
        return struct.unpack(f"<{len(out) // 4}f", out), versions

    def pull_rows(self, name, part, owner, ids):
        """Rows of one partition of a sparse table, in the order of ids."""
        table, session = self.tables[name], self.session(owner)
        session.send(PULL_ROWS, struct.pack(f"<{len(ids)}Q", *ids), flags=NOW, seq=1, table=table["id"], part=part,
                     **self.era())
        values = session.expect(ROWS).payload
        return struct.unpack(f"<{len(values) // 4}f", values)

    def push(self, name, gradient, versions):
        """Push a gradient outside of the job; the names of the receipts' statuses."""
        table, out, at = self.tables[name], [], 0
        # One that has grown is cut anew from some partitions on.
        ends = {part - 1: element for part, element in table.get("pieces", [])}
        elements = table["rows"] * table["cols"]
        for first, count, chain, *_ in table["runs"]:
            session = self.session(chain[0])
            for part in range(first, first + count):
                n = min(65536, ends.get(part, elements) - at)
                payload = struct.pack(f"<{n}f", *gradient[at : at + n])
                session.send(PUSH, payload, table=table["id"], part=part, epoch=self.layout["epoch"],
                             generation=self.layout["generation"], examples=1, seq=versions[part])
                body = session.expect(RECEIPT).payload
                _, status, _, got, _, _, _, _ = struct.unpack("<HBBIQQII", body)
                if got != part:
                    raise ProtocolError("a receipt of another partition")
                out.append(STATUS[status])
                at += n
        return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-C", dest="run", required=True, metavar="RUN", help="the cluster's run directory")
    parser.add_argument("command", choices=["tables", "pull", "push"])
    parser.add_argument("table", nargs="?")
    parser.add_argument("value", nargs="?", type=float)
    args = parser.parse_args()
    cluster = Cluster(args.run)
    if args.command == "tables":
        for name, table in sorted(cluster.tables.items()):
            print(name, "sparse" if table["sparse"] else "dense", table["rows"], table["cols"], sep="\t")
        return 0
    if args.table not in cluster.tables:
        parser.error(f"there is no table {args.table!r}")
    values, versions = cluster.pull(args.table)
    if args.command == "pull":
        for value in values:
            print(f"{value:.9g}")
        return 0
    if args.value is None:
        parser.error("push needs a VALUE")
    print(*cluster.push(args.table, [args.value] * len(values), versions))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ProtocolError, OSError) as fault:
        sys.exit(f"psclient: {fault}")
