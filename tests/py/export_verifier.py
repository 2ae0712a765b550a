"""Verifies exports of workspaces by the format that svc-log(7) describes, and by nothing else.

    python3 export_verifier.py KEY FILE...

KEY is the public key that must have signed them, as 64 hexadecimal digits. Only the standard library of Python
is used. Prints one object for each file: whether it is `valid`, and what verifier.py says of its log.
"""

import base64
import datetime
import hashlib
import json
import sys
import uuid

from verifier import Broken, digest, text, verify

TYPE = "svc.workspace.export/1"
EPOCH = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
MEMBERS = ["header", "manifest", "records", "signature", "type"]

# Ed25519 (RFC 8032), in affine coordinates.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def add(left, right):
    (x1, y1), (x2, y2) = left, right
    product = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P
    return x, (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P


def times(number, point):
    sum_of_them = (0, 1)
    while number:
        if number & 1:
            sum_of_them = add(sum_of_them, point)
        point, number = add(point, point), number >> 1
    return sum_of_them


def point_of(data):
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square or y >= P:
        raise ValueError("no point")
    return (x if x & 1 == sign else P - x), y


BASE = point_of(b"\x58" + b"\x66" * 31)


def is_signed(key, message, signature):
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    hashed = int.from_bytes(hashlib.sha512(r + key + message).digest(), "little") % ORDER
    return s < ORDER and times(s, BASE) == add(point_of(r), times(hashed, point_of(key)))


def canonical(value):
    """RFC 8785, for what exports hold: no fractions, and names in ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def once(pairs):
    """An object whose members have one value each."""
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a member twice")
    return dict(pairs)


def check_signature(export, key):
    workspace, signature = export["header"]["workspace_id"], export["signature"]
    signed = canonical({"header": export["header"], "manifest": export["manifest"]})
    note = f"{TYPE}\n{workspace}\n{text(hashlib.sha256(signed.encode()).digest())}\n"
    name = f"svc/{workspace}"
    key_id = hashlib.sha256(f"{name}\n".encode() + b"\x01" + key).digest()[:4]
    before, _, last = signature.removesuffix("\n").rpartition("\n")
    dash, named, encoded = last.split(" ")
    decoded = base64.b64decode(encoded, validate=True)
    if (before, dash, named, decoded[:4]) != (note, "\u2014", name, key_id) or not signature.endswith("\n"):
        raise ValueError("signature")
    if len(decoded) != 68 or not is_signed(key, note.encode(), decoded[4:]):
        raise ValueError("signature")


def check_manifest(export):
    """The records are next to each other by kind, and are those of the manifest."""
    found = []
    for record in export["records"]:
        if not found or found[-1][0] != record["record"]:
            found.append([record["record"], 0, hashlib.sha256()])
        found[-1][1] += 1
        found[-1][2].update(canonical(record).encode() + b"\n")
    sections = [{"record": kind, "count": count, "sha256": text(whole.digest())} for kind, count, whole in found]
    if sections != [section for section in export["manifest"]["sections"] if section["count"]]:
        raise ValueError("manifest")


def event_of(payload):
    chain = json.loads(payload)["$chain"]
    ids = (chain[name] and uuid.UUID(chain[name]).bytes for name in ("channel_id", "thread_id", "member_id"))
    content_hash = hashlib.sha256(payload.encode()).digest()
    return chain["lsn"], (chain["kind"], chain["at"], *ids), digest(chain["prev_hash"]), content_hash, payload


def of_export(path, key):
    with open(path, encoding="utf-8") as file:
        export = json.load(file, object_pairs_hook=once)
    if sorted(export) != MEMBERS or export["type"] != TYPE:
        raise ValueError("members")
    check_signature(export, key)
    check_manifest(export)
    events = [event_of(record["payload"]) for record in export["records"] if record["record"] == "events"]
    header = export["header"]
    at = (datetime.datetime.fromisoformat(header["head"]["at"]) - EPOCH) // datetime.timedelta(microseconds=1)
    head = (header["head"]["lsn"], digest(header["head"]["content_hash"]), header["floor"], header["pruned_at"],
            header["words_floor"], at)
    newest = next((payload for lsn, *_, payload in events if lsn == header["pruned_at"]), None)
    return verify(events, uuid.UUID(header["workspace_id"]).bytes, head, newest)


def verified(path, key):
    try:
        return of_export(path, key)
    except Broken as broken:
        return {"valid": False, "broken": broken.args[0]}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {"valid": False}


def main(key, *files):
    for file in files:
        print(json.dumps(verified(file, bytes.fromhex(key))))


if __name__ == "__main__":
    main(*sys.argv[1:])
