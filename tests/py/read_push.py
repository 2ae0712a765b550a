"""Reads notifications as browsers and push services do, by packages that are not ours.

    python3 read_push.py

Each line of standard input is an object: the `headers` of a request to a push service, its `body` in base64, and
the `private` key and the `auth` secret of the browser in base64url. For each it prints an object: the `payload`
that http-ece decrypts, whether py-vapid `verified` the token, and the `claims` and the `key` of that.
"""

import base64
import json
import sys

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from py_vapid import Vapid02


def unbase(text):
    """Bytes out of base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def read(push):
    """What is in a request."""
    number = int.from_bytes(unbase(push["private"]), "big")
    private = ec.derive_private_key(number, ec.SECP256R1())
    payload = http_ece.decrypt(
        base64.b64decode(push["body"]),
        private_key=private,
        auth_secret=unbase(push["auth"]),
        version=push["headers"]["content-encoding"],
    )
    authorization = push["headers"]["authorization"]
    token, key = (part.split("=", 1)[1] for part in authorization.split(" ", 1)[1].split(","))
    header, claims, _ = token.split(".")
    return {
        "payload": json.loads(payload),
        "verified": Vapid02.verify(authorization),
        "header": json.loads(unbase(header)),
        "claims": json.loads(unbase(claims)),
        "key": key,
    }


for line in sys.stdin:
    print(json.dumps(read(json.loads(line))), flush=True)
