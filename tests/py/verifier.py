"""Verifies the log of a workspace by the formats that svc-log(7) describes, and by nothing else.

    python3 verifier.py database WORKSPACE FILE...
    python3 verifier.py catch-up FILE...

The first reads SQLite databases, which nothing may write to meanwhile. The second reads pages of
`catch_up_events`, one on a line, that begin where the log does. Only the standard library of Python is used.

Prints one object for each file: whether the log is `valid`, its `floor`, the number of `events`, the `lsn` and
`hash` of the last one and the `root` of the Merkle tree over all events; or where it is `broken`.
"""

import hashlib
import json
import sqlite3
import sys
import uuid

GENESIS = hashlib.sha256(b"svc.event-log.genesis/1").digest()
COLUMNS = "lsn, kind, at, channel_id, thread_id, member_id, prev_hash, content_hash, payload"


class Broken(Exception):
    """The log is broken at a position."""


def text(digest):
    return "sha256:" + digest.hex()


def digest(value):
    if not value.startswith("sha256:") or len(value) != 71:
        raise ValueError(value)
    return bytes.fromhex(value[7:])


class Tree:
    """The Merkle tree of RFC 6962, of which only the frontier is kept."""

    def __init__(self, size=0, frontier=()):
        self.size, self.frontier = size, list(frontier)

    def push(self, content_hash):
        root = hashlib.sha256(b"\0" + content_hash).digest()
        size = self.size
        while size & 1:
            root = hashlib.sha256(b"\1" + self.frontier.pop() + root).digest()
            size >>= 1
        self.frontier.append(root)
        self.size += 1

    def root(self):
        if not self.frontier:
            return hashlib.sha256(b"").digest()
        root = self.frontier[-1]
        for left in reversed(self.frontier[:-1]):
            root = hashlib.sha256(b"\1" + left + root).digest()
        return root


def declared(payload):
    """What an EventsPruned says: the floor, what it links to, and the tree over what is gone."""
    event = json.loads(payload)
    floor, frontier = event["floor"], [digest(each) for each in event["frontier"]]
    if (floor - 1).bit_count() != len(frontier):
        raise ValueError("frontier")
    return floor, digest(event["prev_hash"]), frontier


def verify(rows, workspace, head, newest):
    """Verifies rows (lsn, columns, prev_hash, content_hash, payload) up to `head` (lsn, hash, floor,
    pruned_at, words_floor, at), of which the last two are None where they are not known.

    `newest` is the payload of the event that declares the floor, if the log was pruned.
    """
    lsn, previous, began, seen, links, events, at, words = 0, GENESIS, 0, 0, {}, 0, None, None
    tree, floor = Tree(), head[2] if head else 1
    prune = None
    if newest is not None:
        try:
            prune = declared(newest)
        except (ValueError, KeyError, TypeError):
            prune = (0, b"", [])
    for number, (found, columns, prev_hash, content_hash, payload) in enumerate(rows):
        if number == 0 and isinstance(found, int) and found > 1:
            if found > floor:
                raise Broken(max(floor, 1))
            lsn = began = found - 1
            previous = prev_hash if isinstance(prev_hash, bytes) else b""
            tree = Tree(prune[0] - 1, prune[2]) if prune else Tree()
        lsn += 1
        if found != lsn:
            raise Broken(found if isinstance(found, int) and found < lsn else lsn)
        kinds = (str, int, (bytes, type(None)), (bytes, type(None)), (bytes, type(None)))
        if not all(isinstance(value, kind) for value, kind in zip(columns, kinds)):
            raise Broken(lsn)
        if not all(isinstance(each, bytes) and len(each) == 32 for each in (prev_hash, content_hash)):
            raise Broken(lsn)
        if not isinstance(payload, str) or not payload.startswith(prefix(workspace, lsn, columns, prev_hash)):
            raise Broken(lsn)
        if hashlib.sha256(payload.encode()).digest() != content_hash or prev_hash != previous:
            raise Broken(lsn)
        previous = content_hash
        links[lsn] = prev_hash
        events += 1
        at = columns[1]
        if columns[0] == "EventsPruned":
            seen = lsn
        if columns[0] == "MessagesPruned":
            words = (lsn, json.loads(payload)["up_to_lsn"])
        if lsn == tree.size + 1:
            tree.push(content_hash)
    if head is None or head[0] > lsn:
        raise Broken(lsn + 1 if head else max(lsn, 1))
    if (head[0], head[1]) != (lsn, previous) or head[5] not in (None, at):
        raise Broken(lsn)
    check_floor(head, seen, prune, began, links)
    if head[4] is not None and not (head[4] == words[1] if words else 0 <= head[4] < max(began, 1)):
        raise Broken(words[0] if words else lsn)
    return {"valid": True, "floor": floor, "events": events, "lsn": lsn, "hash": text(previous),
            "root": tree.root().hex()}


def prefix(workspace, lsn, columns, prev_hash):
    kind, at, channel, thread, member = columns
    link = {"at": at, "channel_id": channel, "kind": kind, "lsn": lsn, "member_id": member,
            "prev_hash": text(prev_hash), "thread_id": thread, "workspace_id": workspace}
    ids = {name: str(uuid.UUID(bytes=value)) for name, value in link.items()
           if isinstance(value, bytes) and len(value) == 16}
    chain = json.dumps({**link, **ids}, separators=(",", ":"), ensure_ascii=False)
    return '{"$chain":' + chain + ',"$type":"svc.event.' + kind + '/1"'


def check_floor(head, seen, prune, began, links):
    """The head, the newest declaration and what is there agree on where the log begins."""
    lsn, _, floor, pruned_at, *_ = head
    if pruned_at != seen:
        raise Broken(max(pruned_at, seen))
    if pruned_at == 0:
        if floor != 1 or began:
            raise Broken(lsn)
    elif prune is None or prune[0] != floor or not began < floor <= pruned_at or links[floor] != prune[1]:
        raise Broken(pruned_at)


def of_database(path, workspace):
    data = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    key = uuid.UUID(workspace).bytes
    columns = "lsn, hash, floor, pruned_at, words_floor, at"
    head = data.execute(f"select {columns} from heads where workspace_id = ?", [key]).fetchone()
    newest = data.execute("select payload from events where workspace_id = ? and lsn = ?",
                          [key, head[3] if head else 0]).fetchone()
    rows = data.execute(f"select {COLUMNS} from events where workspace_id = ? order by lsn", [key])
    rows = ((row[0], row[1:6], row[6], row[7], row[8]) for row in rows)
    return verify(rows, key, head, newest[0] if newest and head[3] else None)


def of_catch_up(lines):
    pages = [json.loads(line) for line in lines]
    events, newest = [event for page in pages for event in page["items"]], None
    rows = []
    for event in events:
        chain = event["payload"]["$chain"]
        names = ("channel_id", "thread_id", "member_id")
        ids = (chain[name] and uuid.UUID(chain[name]).bytes for name in names)
        payload = json.dumps(event["payload"], separators=(",", ":"), ensure_ascii=False)
        if event["kind"] == "EventsPruned":
            newest = event
        rows.append((event["lsn"], (event["kind"], chain["at"], *ids), digest(event["prev_hash"]),
                     digest(event["content_hash"]), payload))
    last = rows[-1]
    if last[0] != pages[-1]["room_lsn"]:
        raise Broken(last[0] + 1)
    head = (last[0], last[3], pages[-1]["floor"], newest["lsn"] if newest else 0, None, None)
    workspace = uuid.UUID(pages[0]["workspace_id"]).bytes
    declaration = json.dumps(newest["payload"]) if newest else None
    return verify(rows, workspace, head, declaration)


def verified(file, workspace):
    try:
        if workspace:
            return of_database(file, workspace)
        with open(file, encoding="utf-8") as lines:
            return of_catch_up(lines)
    except Broken as broken:
        return {"valid": False, "broken": broken.args[0]}


def main(how, *arguments):
    workspace, files = (arguments[0], arguments[1:]) if how == "database" else (None, arguments)
    for file in files:
        print(json.dumps(verified(file, workspace)))


if __name__ == "__main__":
    main(*sys.argv[1:])
