"""A mail server that is not ours: the Python package `aiosmtpd`.

    mail_server.py PORT [CERTIFICATE KEY NAME PASSWORD]

With a certificate it takes nothing before STARTTLS and a login. The first line on standard output is
{"port": ...}. Each line on standard input says how mail is answered from then on, and is repeated as
{"answers": ...}: `take`, a reply to each receiver such as `451 later`, or `hang`, which takes a mail and never
says so. A JSON object has replies by receiver instead: each a command, MAIL, RCPT or DATA, and the reply to it,
which is sent in Latin-1; what is to all receivers is under `*`. Then one line is printed for each mail:

    {"mail": {...}}           it was taken
    {"refused": RECEIVER}     it was not
    {"hung": {...}}           it was taken, and nobody will know
"""

import asyncio
import email
import email.policy
import json
import ssl
import sys

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

answers = "take"


def say(value):
    print(json.dumps(value), flush=True)


def read(envelope, session):
    mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
    parts = {part.get_content_type(): part.get_content() for part in mail.walk() if not part.is_multipart()}
    return {
        "from": envelope.mail_from,
        "to": envelope.rcpt_tos,
        "headers": [[name, str(value)] for name, value in mail.items()],
        "type": mail.get_content_type(),
        "parts": parts,
        "defects": [str(defect) for defect in mail.defects],
        "longest": max(len(line) for line in envelope.content.splitlines()),
        "encrypted": session.ssl is not None,
        "authenticated": session.authenticated,
    }


def refusal(command, receiver):
    if answers[0].isdigit():
        return answers if command == "RCPT" else None
    if not answers.startswith("{"):
        return None
    replies = json.loads(answers)
    of, reply = replies.get(receiver) or replies.get("*") or (None, None)
    return reply.encode("latin-1") if of == command else None


class Handler:
    async def handle_MAIL(self, server, session, envelope, address, options):
        reply = refusal("MAIL", "*")
        if reply is None:
            envelope.mail_from = address
        return reply or "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, options):
        reply = refusal("RCPT", address)
        if reply and reply[:1] not in ("2", b"2"):
            say({"refused": address})
            return reply
        envelope.rcpt_tos.append(address)
        return reply or "250 OK"

    async def handle_DATA(self, server, session, envelope):
        reply = refusal("DATA", envelope.rcpt_tos[0])
        if reply:
            say({"refused": envelope.rcpt_tos[0]})
            return reply
        mail = read(envelope, session)
        if answers == "hang":
            say({"hung": mail})
            await asyncio.sleep(3600)
        say({"mail": mail})
        return "250 OK"


def settings(certificate, key, name, password):
    def authenticate(server, session, envelope, mechanism, data):
        known = LoginPassword(name.encode(), password.encode())
        return AuthResult(success=isinstance(data, LoginPassword) and data == known)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return {
        "tls_context": context,
        "require_starttls": True,
        "authenticator": authenticate,
        "auth_required": True,
        "auth_require_tls": True,
    }


def main():
    global answers
    port, rest = int(sys.argv[1]), sys.argv[2:]
    controller = Controller(Handler(), hostname="127.0.0.1", port=port, **(settings(*rest) if rest else {}))
    controller.start()
    say({"port": port})
    for line in sys.stdin:
        answers = line.strip()
        say({"answers": answers})


if __name__ == "__main__":
    main()
