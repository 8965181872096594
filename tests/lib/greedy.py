# SPDX-License-Identifier: ISC
"""A greedy peer: usage greedy.py RUN CASE.

It sends a server far more than the server may store, and reads no answers.  Each case ends when
everything is sent, or when the server has stopped reading from it: not one more byte can be sent
while another, honest session is still served.  Afterwards the bats file compares the server's
memory with the bound that it has printed."""

import base64
import fcntl
import json
import mmap
import os
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "contrib", "python"))
import psclient as ps  # noqa: E402

SHARE, PROBE, CLOCK, CLOCKED, SCAN = 5, 6, 14, 15, 24
MIB = 1 << 20
# Round trips of an honest peer without progress of the greedy one, after which it has stalled.
STALLED = 200
SPARSE = ("rows", "scans", "pieces")
RUN, CASE = sys.argv[1], sys.argv[2]
SERVER_PID = int(os.environ["SERVER_PID"])


def cluster():
    return ps.Cluster(RUN)


def join_workers():
    """Join both workers of the job by hand.  Return (incarnation, control session) of each."""
    tables = [{"name": "w", "rows": 10, "cols": 1}, {"name": "big", "rows": 4096, "cols": 128}]
    if CASE in SPARSE:
        tables.append({"name": "s", "sparse": True, "rows": 100000, "cols": 8})
    psk, server = ps.read_key(RUN, "psk"), ps.read_key(RUN, "coordinator.pub")
    out = []
    for rank in range(2):
        incarnation = 1000 + rank
        control = ps.Session(os.path.join(os.path.abspath(RUN), "coordinator.sock"), server, psk,
                             ps.read_key(RUN, f"worker-{rank}.key"), incarnation=incarnation)
        message = {"op": "worker_join", "rank": rank, "pid": os.getpid(), "host": "greedy", "examples": 100,
                   "tables": tables}
        control.send(ps.CTL, json.dumps(message).encode(), seq=1)
        while "rank" not in (answer := control.text()):
            if "error" in answer:
                sys.exit(f"worker-{rank} cannot join: {answer}")
        out.append((incarnation, control))
    while (found := cluster()).view["phase"] != "running":
        time.sleep(0.02)
    return found, out


def session(found, key="admin", **more):
    server = found.view["servers"][0]
    return ps.Session(server["tcp"], base64.b64decode(server["key"]), found.psk, ps.read_key(RUN, f"{key}.key"), **more)


def batch(kind, count, payload=b"", **fields):
    """Make the payload of a BATCH of count equal records."""
    one = ps.Session.header(kind, len(payload), **fields) + payload + bytes(-len(payload) % 8)
    return one * min(count, MIB // len(one))


def pull_once(found, honest):
    honest.send(ps.PULL, struct.pack("<III", found.tables["w"]["id"], 0, 1), flags=ps.NOW, seq=1, **found.era())
    honest.expect(ps.PULLED)


def flood(found, greedy, records):
    """Send all records without reading.  True when the server takes no more."""
    greedy.sock.setblocking(False)
    honest = session(found)
    for raw in records:
        sent = idle = 0
        while sent < len(raw):
            try:
                sent += greedy.sock.send(memoryview(raw)[sent:])
                idle = 0
                continue
            except BlockingIOError:
                idle += 1
            except (ConnectionError, BrokenPipeError):
                return False
            # The honest peer was just served, so the I/O thread has had time for the greedy one,
            # too.
            pull_once(found, honest)
            if idle == STALLED:
                return True
    # Let the server read the bytes on their way: nothing that an honest peer sends later is before
    # them.
    for _ in range(STALLED):
        pull_once(found, honest)
    return False


def repeat(greedy, count, kind, payload, **fields):
    for _ in range(count):
        yield greedy.encode(kind, payload, **fields)


def must(condition, what):
    if not condition:
        sys.exit(what)


# ---- answers that are never read ----------------------------------------------------


def case_refusals(found, workers):
    """Send requests of another epoch, each of which is refused with a message."""
    greedy = session(found)
    era = {**found.era(), "epoch": found.era()["epoch"] - 1}
    body = batch(ps.PULL, 20000, struct.pack("<III", found.tables["w"]["id"], 0, 1), flags=ps.NOW, **era)
    flood(found, greedy, repeat(greedy, 100, ps.BATCH, body))


def case_pulls(found, workers):
    greedy = session(found)
    table = found.tables["big"]
    body = batch(ps.PULL, 1000, struct.pack("<III", table["id"], 0, sum(run[1] for run in table["runs"])), flags=ps.NOW, **found.era())
    flood(found, greedy, repeat(greedy, 400, ps.BATCH, body))


def case_rows(found, workers):
    greedy = session(found)
    ids = struct.pack("<4096Q", *range(4096))
    body = batch(ps.PULL_ROWS, 31, ids, flags=ps.NOW, table=found.tables["s"]["id"], part=0, **found.era())
    flood(found, greedy, repeat(greedy, 400, ps.BATCH, body))


def case_scans(found, workers):
    greedy = session(found)
    body = batch(SCAN, 10000, table=found.tables["s"]["id"], part=0, **found.era())
    flood(found, greedy, repeat(greedy, 100, ps.BATCH, body))


def case_messages(found, workers):
    """Send requests to the coordinator, each of which is refused."""
    greedy = session(found)
    body = batch(ps.CTL, 10000, b'{"op":"gibberish"}')
    must(flood(found, greedy, repeat(greedy, 200, ps.BATCH, body)), "the server reads on though nobody reads its answers")


def case_shared(found, workers):
    """Send pulls through shared memory (ps-protocol(7), Shared memory)."""
    ring, entry = 4 << 20, 64 << 10
    # All entries have one size, and the size of the ring is a multiple of it.
    text = b'{"op":"gibberish"}'
    body = batch(ps.CTL, (entry - 64) // 88, text)
    must(len(body) == entry - 64, "the entries do not fit the ring")
    server = found.view["servers"][0]
    greedy = ps.Session(os.path.join(RUN, server["unix"]), base64.b64decode(server["key"]), found.psk, found.secret)
    fd = os.memfd_create("greedy", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 4096 + 2 * ring)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    socket.send_fds(greedy.sock, [greedy.encode(SHARE)], [fd])
    must(greedy.receive().type == SHARE, "shared memory is not taken")
    memory = mmap.mmap(fd, 4096 + 2 * ring)
    honest = session(found)
    head = idle = 0
    for _ in range(5000):
        while head - struct.unpack("<Q", memory[64:72])[0] > ring - entry:
            pull_once(found, honest)
            idle += 1
            if idle == STALLED:
                return
        idle = 0
        at = 4096 + head % ring
        memory[at:at + entry] = ps.Session.header(ps.BATCH, len(body)) + body
        head += entry
        memory[0:8] = struct.pack("<Q", head)
        greedy.sock.send(b"w")
    sys.exit("the server reads on though nobody reads what it writes to shared memory")


def case_probes(found, workers):
    greedy = session(found)
    flood(found, greedy, repeat(greedy, 2000, PROBE, b"", total=256 << 10, seq=1))


def case_clocks(found, workers):
    """Send CLOCKs, which are acknowledged at once."""
    greedy = session(found, "worker-0", incarnation=workers[0][0], rank=0)
    body = batch(CLOCK, 20000, examples=1, step=0, **found.era())
    must(flood(found, greedy, repeat(greedy, 120, ps.BATCH, body)), "the server reads on though nobody reads that it has the clocks")


def case_announcements(found, workers):
    """Announce each partition thousands of times: such a CLOCK would occupy the I/O thread for seconds."""
    greedy = session(found, "worker-0", incarnation=workers[0][0], rank=0)
    tables = [(table["id"], sum(run[1] for run in table["runs"])) for table in found.tables.values()]
    once = b"".join(struct.pack("<III", number, 0, count) for number, count in tables)
    greedy.send(CLOCK, once * 2, examples=1, step=0, **found.era())
    greedy.expect(CLOCKED)
    greedy.send(CLOCK, once * (MIB // len(once)), examples=1, step=0, **found.era())
    record = greedy.receive()
    must(record.type == ps.NACK and b"announces" in record.payload, f"answered by {record.type} {record.payload}")


# ---- what waits for others ------------------------------------------------------------


def worker_push(found, workers, step, count):
    greedy = session(found, "worker-0", incarnation=workers[0][0], rank=0)
    payload = struct.pack("<10f", *[1.0] * 10)
    body = batch(ps.PUSH, 20000, payload, table=found.tables["w"]["id"], part=0, examples=1, step=step, **found.era())
    return flood(found, greedy, repeat(greedy, count, ps.BATCH, body))


def case_repeats(found, workers):
    """Repeat a push of the open step.  Its receipt is due only when the other worker has pushed."""
    must(not worker_push(found, workers, 0, 300), "repeated pushes are not taken")


def case_ahead(found, workers):
    """Push to a step that is not open yet: the push waits in the server, and all later ones in the socket."""
    must(worker_push(found, workers, 1, 100), "the server reads on behind a push of a step to come")


def case_later(found, workers):
    """Pull at a step that never comes."""
    for _ in range(20):
        greedy = session(found, "worker-0", incarnation=workers[0][0], rank=0)
        body = batch(ps.PULL, 20000, struct.pack("<III", found.tables["big"]["id"], 0, 1), step=7, **found.era())
        flood(found, greedy, repeat(greedy, 40, ps.BATCH, body))
        greedy.sock.close()


def case_guests(found, workers):
    """Push from outside of the job, and read no receipts."""
    greedy = session(found)
    payload = struct.pack("<10f", *[1e-9] * 10)
    body = batch(ps.PUSH, 20000, payload, table=found.tables["w"]["id"], part=0, examples=1, **found.era())
    must(flood(found, greedy, repeat(greedy, 180, ps.BATCH, body)), "the server reads on though nobody reads its receipts")


def case_pieces(found, workers):
    """Begin a push that never ends on each of many sessions."""
    for rank in range(2):
        greedy = session(found, f"worker-{rank}", incarnation=workers[rank][0], rank=rank)
        fields = {"table": found.tables["s"]["id"], "part": 0, "examples": 1, "total": 16 << 20, **found.era()}
        flood(found, greedy, [greedy.encode(ps.PUSH_ROWS, bytes(MIB), offset=i * MIB, **fields) for i in range(15)])
        workers.append(greedy)


# ---- strangers --------------------------------------------------------------------------


def case_strangers(found, workers):
    """Open connections that send nothing, or half of a handshake."""
    host, port = found.view["servers"][0]["tcp"].rsplit(":", 1)
    kept = []
    for i in range(3000):
        try:
            sock = socket.create_connection((host, int(port)), timeout=10)
            sock.sendall(os.urandom(i % 170))
            kept.append(sock)
        except ConnectionError:
            pass
        kept = kept[-400:]
    found.pull("w")


def peak():
    with open(f"/proc/{SERVER_PID}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


found, workers = join_workers()
globals()[f"case_{CASE}"](found, workers)
print(peak())
