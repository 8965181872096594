# SPDX-License-Identifier: ISC
"""A hostile peer: usage hostile.py RUN CASE [ATTEMPTS].  Exits with 0 when the server reacted as it must; the
bats file checks the model and the process afterwards."""

import base64
import ctypes
import fcntl
import json
import mmap
import os
import random
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "contrib", "python"))
import psclient as ps  # noqa: E402

DELTA, ROW_IDS, TOUCHING, NO_ROW_IDS = 32, 64, 2048, 26
HELPERS = 4
RUN, CASE = sys.argv[1], sys.argv[2]
CLUSTER = ps.Cluster(RUN)
SERVER = CLUSTER.view["servers"][0]
KEY = base64.b64decode(SERVER["key"])
TABLE = CLUSTER.tables["w"]
EPOCH = {"epoch": CLUSTER.layout["epoch"], "generation": CLUSTER.layout["generation"]}


def connect_to_server():
    host, port = SERVER["tcp"].rsplit(":", 1)
    sock = socket.create_connection((host, int(port)))
    sock.settimeout(8)
    return sock


def open_session(**more):
    return ps.Session(SERVER["tcp"], KEY, CLUSTER.psk, CLUSTER.secret, **more)


def must_close(sock, what):
    """Check that the server closes the connection; it may send a reason before."""
    try:
        while sock.recv(65536):
            pass
    except ConnectionError:
        pass
    except socket.timeout:
        sys.exit(f"{what}: the connection is still open")
    sock.close()


def flip_bit(data, bit):
    out = bytearray(data)
    out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


def send_push(s, **more):
    fields = {"table": TABLE["id"], "part": 1, "examples": 1, **EPOCH, **more}
    return s.encode(ps.PUSH, struct.pack("<4464f", *[1.0] * 4464), **fields)


def run_in_processes(attempts, harm):
    """Call harm(i) for each i, spread over several processes, because most of it is waiting for the server."""
    children = []
    for helper in range(HELPERS):
        pid = os.fork()
        if pid == 0:
            for i in range(helper, attempts, HELPERS):
                harm(i)
            os._exit(0)
        children.append(pid)
    if any([os.waitpid(pid, 0)[1] for pid in children]):
        sys.exit("not all of them were closed")


def case_msg1():
    def harm(bit):
        sock = connect_to_server()
        hello = sock.recv(32, socket.MSG_WAITALL)
        shake = ps.Handshake(hello, CLUSTER.secret, KEY, CLUSTER.psk, 5, 0xFFFFFFFF)
        sock.sendall(flip_bit(shake.message1, bit))
        must_close(sock, f"bit {bit} of msg1")
    run_in_processes(176 * 8, harm)


def case_header():
    def harm(bit):
        s = open_session()
        s.sock.sendall(flip_bit(send_push(s)[:80], bit) + bytes(64))
        must_close(s.sock, f"bit {bit} of a header")
    run_in_processes(80 * 8, harm)


def case_payload():
    def harm(i):
        s = open_session()
        raw = send_push(s)
        s.sock.sendall(flip_bit(raw, random.Random(i).randrange(80 * 8, len(raw) * 8)))
        must_close(s.sock, f"payload flip {i}")
    run_in_processes(int(sys.argv[3]), harm)


def case_order():
    s = open_session()
    first, second = send_push(s), send_push(s)
    s.sock.sendall(second + first)
    must_close(s.sock, "swapped records")
    s = open_session()
    pull = s.encode(ps.PULL, struct.pack("<III", TABLE["id"], 0, 1), flags=ps.NOW)
    s.sock.sendall(pull + pull)
    must_close(s.sock, "a record sent twice")
    s = open_session()
    send_push(s)
    s.sock.sendall(send_push(s))
    must_close(s.sock, "a dropped record")
    s = open_session()
    s.sock.sendall(send_push(s)[:5000])
    s.sock.shutdown(socket.SHUT_WR)
    must_close(s.sock, "a record cut short")
    s = open_session()
    s.send(ps.PULL, struct.pack("<III", TABLE["id"], 0, 1), flags=ps.NOW)
    s.sock.sendall(s.sock.recv(200))
    must_close(s.sock, "reflected bytes")
    sock = connect_to_server()
    hello = sock.recv(32, socket.MSG_WAITALL)
    shake = ps.Handshake(hello, CLUSTER.secret, KEY, CLUSTER.psk, 5, 0xFFFFFFFF)
    sock.sendall(shake.message1)
    again = connect_to_server()
    again.recv(32, socket.MSG_WAITALL)
    again.sendall(shake.message1)
    must_close(again, "a replayed msg1")


def case_strangers():
    socks = []
    for data in (os.urandom(400), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(200), b"\x16\x03\x01\x02\x00" + bytes(300)):
        sock = connect_to_server()
        sock.sendall(data)
        must_close(sock, "a stranger's bytes")
    for data in (b"", b"x"):
        sock = connect_to_server()
        sock.sendall(data)
        socks.append(sock)
    unix = socket.socket(socket.AF_UNIX)
    unix.connect(CLUSTER.coordinator)
    unix.settimeout(8)
    socks.append(unix)
    CLUSTER.pull("w")
    for sock in socks:
        must_close(sock, "a silent stranger")


def expect_refused(what, kind, payload=b"", says=b"", **fields):
    s = open_session()
    s.send(kind, payload, **fields)
    try:
        while True:
            record = s.receive()
            if record.type == ps.NACK and says in record.payload:
                break
            sys.exit(f"{what}: answered by {record.type} {record.payload}")
    except (ps.ProtocolError, ConnectionError):
        pass
    must_close(s.sock, what)


def expect_stale(what, kind, payload=b"", **fields):
    """Send a record of another epoch: it must be refused, and the session goes on."""
    s = open_session()
    for _ in range(2):
        s.send(kind, payload, **fields)
        record = s.receive()
        if record.type != ps.NACK or b"epoch" not in record.payload:
            sys.exit(f"{what}: answered by {record.type}")


def case_records():
    t = TABLE["id"]
    sparse = CLUSTER.tables["s"]["id"]
    floats = struct.pack("<4464f", *[1.0] * 4464)
    good = {"table": t, "part": 1, "examples": 1, **EPOCH}
    expect_refused("no such table", ps.PUSH, floats, **{**good, "table": 999})
    expect_refused("no such partition", ps.PUSH, floats, **{**good, "part": 77})
    expect_refused("a short push", ps.PUSH, floats[:-4], **good)
    expect_refused("an odd length", ps.PUSH, floats[:-3], **good)
    expect_refused("an unknown codec", ps.PUSH, floats, codec=99, **good)
    expect_stale("a stale epoch", ps.PUSH, floats, **{**good, "epoch": good["epoch"] - 1})
    expect_stale("a generation before", ps.PUSH, floats, **{**good, "generation": good["generation"] - 1})
    expect_refused("an unknown type", 200)
    expect_refused("the wrong direction", ps.PULL, struct.pack("<III", t, 0, 1), flags=ps.TO_CLIENT | ps.NOW, **EPOCH)
    expect_refused("a server's answer", ps.RECEIPT, bytes(32))
    expect_refused("a clock without a rank", 14, b"", step=3, **EPOCH)
    expect_refused("partitions past the end", ps.PULL, struct.pack("<III", t, 0, 0xFFFFFFFF), flags=ps.NOW, **EPOCH)
    expect_refused("half a run", ps.PULL, bytes(7), flags=ps.NOW, **EPOCH)
    expect_refused("rows of a dense table", ps.PULL_ROWS, bytes(8), table=t, flags=ps.NOW, **EPOCH)
    expect_refused("a dense push to a sparse table", ps.PUSH, floats, **{**good, "table": sparse})
    expect_refused("more rows than bytes", ps.PUSH_ROWS, struct.pack("<IIQ", 0x40000000, 0, 1), table=sparse, total=16, **EPOCH)
    expect_refused("a piece without a beginning", ps.PUSH_ROWS, bytes(16), table=sparse, offset=64, total=128, **EPOCH)
    expect_refused("a push of 2^60 bytes", ps.PUSH_ROWS, bytes(16), table=sparse, offset=0, total=1 << 60, **EPOCH)
    # One row, with the number of examples that touch it.
    row = struct.pack("<IIQff", 1, 0, 7, 1.0, 1.0)
    for what, count in {"no touching example": 0, "more touching examples than there are": 11, "4 G of them": 0xFFFFFFFF}.items():
        expect_refused(what, ps.PUSH_ROWS, row + struct.pack("<I", count), table=sparse, part=0, total=28, flags=ps.NOW | TOUCHING,
                       examples=10, says=b"a push of 10 examples", **EPOCH)
    expect_refused("a batch in a batch", ps.BATCH, ps.Session.header(ps.BATCH, 0))
    expect_refused("half a header in a batch", ps.BATCH, ps.Session.header(ps.PULL, 0)[:40])
    expect_refused("a batch that claims too much", ps.BATCH, ps.Session.header(ps.PULL, 4096))
    expect_refused("CTL that is not JSON", ps.CTL, b"{" * 1000)
    expect_refused("JSON nested too deep", ps.CTL, b"[" * 100000 + b"]" * 100000)
    expect_refused("JSON too deep to be part of a view", ps.CTL, b'{"op":"watch","x":' + b"[" * 16 + b"]" * 16 + b"}")


def make_block(n, form, data, keep=0):
    return struct.pack("<IBBHII", n, form, keep, 0, len(data), 0) + data + bytes(-len(data) % 8)


def case_keys():
    """Send row ids in blocks: malformed blocks are refused, and an unknown name is answered by NO_ROW_IDS."""
    sparse = CLUSTER.tables["s"]
    fields = {"table": sparse["id"], "part": 0, "flags": ps.NOW | ROW_IDS, **EPOCH}
    ids = bytes([0, 0, 0])
    for what, bad in {
        "no head": bytes(12), "no such form": make_block(3, 9, ids), "more bytes than there are": make_block(3, 1, ids)[:16],
        "more ids than bytes": make_block(4, 1, ids), "fewer ids than bytes": make_block(2, 1, ids), "nobody's keep": make_block(3, 1, ids, 7),
        "a name of 3 bytes": make_block(3, 3, ids), "4 G ids": make_block(0xFFFFFFFF, 1, ids), "4 G ids by name": make_block(0xFFFFFFFF, 3, bytes(16)),
        "what is not zstd": make_block(3, 2, bytes(64)), "ids behind the largest": make_block(2, 1, b"\xff" * 9 + b"\x01\0"),
    }.items():
        expect_refused(what, ps.PULL_ROWS, bad, **fields)
        expect_refused(what + ", pushed", ps.PUSH_ROWS, bad + bytes(24), total=len(bad) + 24, examples=1, **fields)
    expect_refused("bytes behind the block", ps.PULL_ROWS, make_block(3, 1, ids) + bytes(8), **fields)
    expect_refused("rows that are missing", ps.PUSH_ROWS, make_block(3, 1, ids) + bytes(16), total=40, examples=1, **fields)
    expect_refused("a server's NO_ROW_IDS", NO_ROW_IDS, b"", **fields)
    s = open_session()
    for _ in range(3):
        s.send(ps.PULL_ROWS, make_block(3, 3, bytes(16)), seq=9, **fields)
        record = s.receive()
        if record.type != NO_ROW_IDS or record.seq != 9 or record.offset != ps.PULL_ROWS:
            sys.exit(f"an unknown name: answered by {record.type}")
    name = (ctypes.c_uint8 * 16)()
    plain = struct.pack("<3Q", 0, 1, 2)
    ps.SODIUM.crypto_shorthash_siphashx24(name, plain, ctypes.c_ulonglong(24), b"pskit row ids".ljust(16, b"\0"))
    for payload in (make_block(3, 1, ids, 1), make_block(3, 3, bytes(name))):
        s.send(ps.PULL_ROWS, payload, seq=1, **fields)
        record = s.receive()
        if record.type != ps.ROWS or len(record.payload) != 24:
            sys.exit(f"three rows: answered by {record.type}")
    # A session does not know the lists of another one.
    s = open_session()
    s.send(ps.PULL_ROWS, make_block(3, 3, bytes(name)), seq=1, **fields)
    if s.receive().type != NO_ROW_IDS:
        sys.exit("a list of another session is known")
    # A few bytes that announce many rows.
    many = struct.pack("<IBBHII", 524288, 1, 0, 0, 524288, 0) + bytes(524288)
    for what, codec, values in (("topk", 6, bytes(4)), ("randomk", 7, bytes(12)), ("dgc", 8, bytes(4))):
        expect_refused("rows by " + what, ps.PUSH_ROWS, make_block(3, 1, ids) + values, total=24 + len(values), examples=1, codec=codec, **fields)
        expect_refused("many rows by " + what, ps.PUSH_ROWS, many + values, total=len(many) + len(values), examples=1, codec=codec, **fields)
    # Endless blocks to keep must not fill more memory than the limit.
    for i in range(300):
        many = bytearray(100000)
        many[::2] = bytes([0x80 | i & 127]) * 50000
        many[1::2] = bytes(1 + (k + i) % 100 for k in range(100)) * 500
        s.send(ps.PULL_ROWS, make_block(50000, 1, bytes(many), 1), seq=2, **fields)
        record = s.receive()
        if record.type != ps.ROWS:
            sys.exit(f"50000 rows: answered by {record.type}")


def case_changed_rows():
    """Pull changed rows: the versions that the client claims to have must be well-formed, or are refused."""
    fields = {"table": CLUSTER.tables["s"]["id"], "part": 0, **EPOCH}
    delta = {"flags": ps.NOW | DELTA, **fields}
    ids = struct.pack("<3Q", 0, 1, 2)
    had = struct.pack("<QB", 0, 0)
    for what, total, tail in (
            ("ids past the end", 1 << 60, b""), ("ids of 23 bytes", 23, had + bytes([1, 1, 1])), ("no versions", 24, b""),
            ("half a version", 24, bytes(7)), ("versions of two", 24, had + bytes([1, 1])),
            ("versions of four", 24, had + bytes([1] * 4)), ("no such age", 24, had + bytes([1, 66, 1])),
            ("no such form", 24, struct.pack("<QB", 0, 2) + bytes([1, 1, 1])), ("versions alone", 0, had + bytes([1] * 3)),
            ("what is not zstd", 24, struct.pack("<QB", 0, 1) + bytes(64))):
        expect_refused(what, ps.PULL_ROWS, ids + tail, total=total, **delta)
    expect_refused("versions behind a block that is shorter", ps.PULL_ROWS, make_block(3, 1, bytes(3)) + had + bytes([1] * 3), total=32,
            **{**fields, "flags": ps.NOW | DELTA | ROW_IDS})
    s = open_session()
    for payload, total, flags in ((ids, 24, DELTA), (make_block(3, 1, bytes(3)), 24, DELTA | ROW_IDS)):
        # Nothing was pushed: rows that the client has from the beginning are unchanged, the others
        # are sent.
        for tail, size in ((bytes([1, 1, 1]), 8), (bytes([1, 0, 0]), 24), (bytes([0, 0, 0]), 24)):
            s.send(ps.PULL_ROWS, payload + had + tail, total=total, seq=1, **{**fields, "flags": ps.NOW | flags})
            record = s.receive()
            if record.type != ps.ROWS or len(record.payload) != size:
                sys.exit(f"three rows: answered by {record.type} of {len(record.payload)} bytes")
    # A client that claims to have a future version gets the rows.
    s.send(ps.PULL_ROWS, ids + struct.pack("<QB", 1 << 40, 0) + bytes([1] * 3), total=24, **delta)
    if len(s.receive().payload) != 24:
        sys.exit("versions of times to come are believed")


SHARE, RING, SHM = 5, 4 << 20, 4096 + 2 * (4 << 20)


def open_local_session():
    return ps.Session(os.path.join(RUN, SERVER["unix"]), KEY, CLUSTER.psk, CLUSTER.secret)


def make_shared_memory(size=SHM, seals=fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL):
    fd = os.memfd_create("hostile", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def offer_memory(fds):
    """Send SHARE with these descriptors."""
    s = open_local_session()
    socket.send_fds(s.sock, [s.encode(SHARE)], fds)
    return s


class Ring:
    """The client's end of a session with shared memory, by hand (ps-protocol(7), Shared memory)."""

    def __init__(self, *lent):
        fd = make_shared_memory()
        self.session = offer_memory([fd, *lent])
        self.at = mmap.mmap(fd, SHM)
        os.close(fd)
        # The descriptor of the memory that the server shows, if there is one, comes with the answer.
        (_, found, _, _) = self.session.sock.recvmsg(1, socket.CMSG_LEN(4), socket.MSG_PEEK)
        self.shown = [struct.unpack("i", data)[0] for (_, _, data) in found]
        answer = self.session.receive()
        if answer.type != SHARE:
            sys.exit("shared memory is not taken")
        self.lends = bool(answer.flags & LENT)
        self.tail = 0

    def number(self, where, value=None):
        if value is not None:
            self.at[where:where + 8] = struct.pack("<Q", value)
        return struct.unpack("<Q", self.at[where:where + 8])[0]

    def put(self, entry, length=None):
        head = self.number(0)
        self.at[4096 + head % RING:4096 + head % RING + len(entry)] = entry
        self.number(0, head + (len(entry) + 63) // 64 * 64 if length is None else length)
        self.session.sock.send(b"w")

    def answer(self):
        self.session.sock.settimeout(0.01)
        for _ in range(500):
            if self.number(128):
                return self.at[4096 + RING + 5]
            try:
                if not self.session.sock.recv(100):
                    break
            except TimeoutError:
                pass
        sys.exit("no answer by shared memory")


    def statuses(self):
        """The statuses of the receipts that have come since."""
        out = []
        while self.tail < self.number(128):
            at = 4096 + RING + self.tail % RING
            if self.at[at:at + 4] == bytes(4):
                self.tail += RING - self.tail % RING
                continue
            head = ps.Record(self.at[at:at + 64])
            body = self.at[at + 64:at + 64 + head.len]
            if head.type == ps.RECEIPT:
                out += [ps.STATUS[body[k + 2]] for k in range(0, len(body), 32)]
            self.tail += (64 + head.len + 63) // 64 * 64
        self.number(128 + 64, self.tail)
        return out

    def receipts(self, count):
        """Wait for this many receipts; their statuses."""
        out, end = [], time.monotonic() + 60
        while len(out) < count:
            out += self.statuses()
            if time.monotonic() > end:
                sys.exit("no receipt by shared memory")
        return out


def case_shared():
    """Offer shared memory: unsuitable memory is refused, and nothing that we write there does harm."""
    pull = struct.pack("<III", TABLE["id"], 0, 1)
    descriptors = f"/proc/{os.environ['SERVER_PID']}/fd"
    for sock in (open_session(), open_local_session()):
        sock.send(SHARE)
        must_close(sock.sock, "memory that does not come")
    CLUSTER.pull("w")
    before = len(os.listdir(descriptors))
    for what, fd in (("what is no memory", os.open("/dev/null", os.O_RDWR)), ("memory that can be cut", make_shared_memory(seals=0)),
                     ("memory that can grow", make_shared_memory(seals=fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)),
                     ("memory that is too small", make_shared_memory(size=4096)), ("memory that is too large", make_shared_memory(size=SHM + 4096))):
        must_close(offer_memory([fd]).sock, what)
        os.close(fd)
    fd = make_shared_memory()
    many = open_local_session()
    for _ in range(20):
        socket.send_fds(many.sock, [many.encode(ps.PULL, pull, flags=ps.NOW, **EPOCH)], [fd] * 100)
    many.send(SHARE)
    try:
        socket.send_fds(many.sock, [b"x"], [fd] * 100)
    except OSError:
        pass  # the second descriptor is no lent memory, so the session may have ended
    many.sock.close()
    twice = Ring()
    twice.put(ps.Session.header(SHARE, 0))
    must_close(twice.session.sock, "memory offered twice")
    ring = Ring()
    ring.put(ps.Session.header(ps.PULL, 12, flags=ps.NOW, seq=3, **EPOCH) + pull)
    if ring.answer() != 21:
        sys.exit("a pull by shared memory is not answered")
    good = ps.Session.header(ps.PULL, 12, flags=ps.NOW, **EPOCH) + pull
    for what, entry, length in (
            ("a head beyond the ring", good, RING + 64), ("a head that is no multiple", good, 100), ("a head before the tail", good, (1 << 64) - 64),
            ("a record that is not all there", ps.Session.header(ps.PUSH, 1 << 20, **EPOCH), 128),
            ("a payload beyond its limit", ps.Session.header(ps.PUSH, 1 << 30, **EPOCH), None),
            ("an unknown type", ps.Session.header(200, 0), None), ("no magic number", b"\1" * 64, None),
            ("the wrong direction", ps.Session.header(ps.PULL, 12, flags=ps.NOW | ps.TO_CLIENT, **EPOCH) + pull, None),
            ("nothing but an end", bytes(64), None), ("a batch in a batch", ps.Session.header(ps.BATCH, 64) + ps.Session.header(ps.BATCH, 0), None)):
        ring = Ring()
        ring.put(entry, length)
        must_close(ring.session.sock, what)
    # A client that never reads delays nobody, and gets no more than fits.
    full = Ring()
    for _ in range(2000):
        full.put(good)
    full.number(64 + 128, 12345 * 64)
    full.session.sock.send(b"w")
    full.session.sock.close()
    for _ in range(500):
        if len(os.listdir(descriptors)) <= before:
            break
        CLUSTER.pull("w")
    else:
        sys.exit(f"{len(os.listdir(descriptors))} descriptors are open, {before} were before")


BY_REFERENCE, PLACE_BYTES, VALUES_AT = 8192, 266240, 16


def must_fail(what, function, *args):
    try:
        function(*args)
    except OSError:
        return
    sys.exit(f"{what} is permitted")


def case_published():
    """Read parameters from the memory that the server shows, and try to change and to cut it."""
    ring = Ring()
    (fd,) = ring.shown
    ring.put(ps.Session.header(ps.PULL, 12, flags=ps.NOW | BY_REFERENCE, seq=3, **EPOCH) + struct.pack("<III", TABLE["id"], 1, 1))
    ring.answer()
    head = ps.Record(ring.at[4096 + RING:4096 + RING + 64])
    place, size, state = struct.unpack("<IIQ", ring.at[4096 + RING + 64:4096 + RING + 80])
    if head.type != ps.PULLED or not head.flags & BY_REFERENCE or head.len != 16 or size != 4 * 4464 or state % 2:
        sys.exit(f"no place is named: {vars(head)}")
    length = os.fstat(fd).st_size
    shown = mmap.mmap(fd, length, prot=mmap.PROT_READ)
    at = place * PLACE_BYTES
    values = struct.unpack("<4464f", shown[at + VALUES_AT:at + VALUES_AT + size])
    if struct.unpack("<Q", shown[at:at + 8])[0] != state or list(values) != list(CLUSTER.pull("w")[0])[65536:]:
        sys.exit("the place has other values than a pull")
    must_fail("a write", os.write, fd, b"x")
    must_fail("a cut", os.ftruncate, fd, 0)
    must_fail("growth", os.ftruncate, fd, 2 * length)
    must_fail("a writable mapping", mmap.mmap, fd, length)
    must_fail("a writable mapping by another descriptor", lambda: mmap.mmap(os.open(f"/proc/self/fd/{fd}", os.O_RDWR), length))
    must_fail("a seal", fcntl.fcntl, fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    libc, keep_size, punch_hole = ctypes.CDLL(None, use_errno=True), 1, 2
    if libc.fallocate(fd, keep_size | punch_hole, ctypes.c_long(0), ctypes.c_long(length)) == 0:
        sys.exit("a hole is permitted")
    # A key that may not pull gets no descriptor.
    CLUSTER.secret = ps.read_key(RUN, "monitor.key")
    if Ring().shown:
        sys.exit("a monitor is shown the parameters")


LENT, F_SEAL_FUTURE_WRITE, PART = 16384, 16, 4 * 65536
SEALS_OF_LENT = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL | F_SEAL_FUTURE_WRITE


def make_lent_memory(seals=SEALS_OF_LENT, whole=True):
    """The descriptor, and a writable mapping of zeroes."""
    fd = os.memfd_create("hostile", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, PART)
    if whole:
        os.pwrite(fd, bytes(PART), 0)
    at = mmap.mmap(fd, PART)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd, at


def lent_push(offset=0, length=PART, **more):
    fields = {"table": TABLE["id"], "part": 0, "examples": 1, "flags": LENT | ps.NOW, **EPOCH, **more}
    return ps.Session.header(ps.PUSH, length, **fields) + struct.pack("<Q", offset)


def case_lent():
    """Lend memory to the server: what it could be hurt by is refused; values that change while it reads are all
    finite or refused; and a client that stops or dies delays nobody."""
    for what, fd in (("lent memory that is none", os.open("/dev/null", os.O_RDWR)),
                     *((f"lent memory without seal {s}", make_lent_memory(SEALS_OF_LENT & ~s)[0]) for s in (1, 2, 4, F_SEAL_FUTURE_WRITE)),
                     ("lent memory with holes", make_lent_memory(whole=False)[0])):
        must_close(offer_memory([make_shared_memory(), fd]).sock, what)
    fd, at = make_lent_memory()
    for what, entry in (("an offset too large by one", lent_push(1)), ("the largest offset", lent_push((1 << 64) - 1)),
                        ("an offset that wraps around", lent_push((1 << 64) - PART // 2)), ("a payload larger than the memory", lent_push(0, 1 << 20)),
                        ("no place", lent_push()[:64])):
        ring = Ring(fd)
        if not ring.lends:
            sys.exit("lent memory is not taken")
        # Of the last one the end is missing, too.
        ring.put(entry, 64 if len(entry) == 64 else None)
        must_close(ring.session.sock, what)
    ring = Ring()
    if ring.lends:
        sys.exit("memory is taken that was not lent")
    ring.put(lent_push())
    must_close(ring.session.sock, "a place without lent memory")
    # Another process writes NaN into the middle, and zero again, as fast as it can.
    ring, seen, parent = Ring(fd), [], os.getpid()
    writer = os.fork()
    if writer == 0:
        middle, nan, zero = slice(PART // 2, PART // 2 + 4), struct.pack("<f", float("nan")), bytes(4)
        while os.getppid() == parent:
            at[middle] = nan
            at[middle] = zero
        os._exit(1)
    for k in range(20000):
        ring.put(lent_push())
        seen += ring.receipts(1)
        if k > 500 and {"applied", "refused"} <= set(seen):
            break
    os.kill(writer, 9)
    os.waitpid(writer, 0)
    if set(seen) != {"applied", "refused"}:
        sys.exit(f"receipts of changing values: {set(seen)}")
    at[:] = bytes(PART)
    # One client stops, and one dies, before the server has read what they lend.
    for number in (19, 9):
        child = os.fork()
        if child == 0:
            mine = Ring(fd)
            for _ in range(8):
                mine.put(lent_push())
            os.kill(os.getpid(), number)
        os.waitpid(child, os.WUNTRACED)
        CLUSTER.pull("w")
        if number == 19:
            os.kill(child, 9)
            os.waitpid(child, 0)
    ring.put(lent_push())
    if ring.receipts(1) != ["applied"]:
        sys.exit("a push after all of this is not applied")


def case_texts():
    """Send texts that an answer quotes and cuts: wherever it is cut, the answer is valid JSON with a reason."""
    s = open_session()
    for letter in ("\u00e9", "\u20ac", "\U0001f600", "\u0001", "\u007f"):
        for before in range(4):
            for length in (1, 150, 800):
                name = "x" * before + letter * length
                for msg in ({"op": name}, {"op": "table", "tables": [{"name": name}]}, {"op": "table", "tables": [{name: 1}]},
                            {"op": "table", "tables": [{"name": "t", "sparse": True, "cols": 1, "policy": name}]}):
                    s.send(ps.CTL, json.dumps(msg, ensure_ascii=False).encode())
                    answer = s.text()
                    text = answer.get("error", {}).get("message", "")
                    if not text or len(text) >= 600:
                        sys.exit(f"{len(name)} times {letter!r}: answered by {answer}")


def case_nonfinite():
    values, versions = CLUSTER.pull("w")
    for bad in (float("nan"), float("inf"), float("-inf")):
        gradient = [0.0] * len(values)
        gradient[3] = gradient[69999] = bad
        got = CLUSTER.push("w", gradient, versions)
        if got != ["refused", "refused"]:
            sys.exit(f"{bad}: {got}")


globals()[f"case_{CASE}"]()
