"""Proves from the events of a workspace alone that its claims kept the rules.

    python3 witness.py [--steady] FILE

Each line of the file is an event as `list_events` returns it, in the order of the log. Nothing but these is
known, and nothing of the service is used: only the standard library of Python. The events must be all of the
workspace; those of a reader who does not see every channel prove nothing of the others.

What is proved, at each event: a thread has one holder, under a lease that was never used before; what claims
touch does not overlap, unless both share it; no claim begins on a full slot or in a paused repository; only
the holder acts; a claim lapses when its lease has ended, not before. With `--steady` also that nobody acts
under a lease that has ended: that holds only where no clock was set back, since the times of a log never go
back.

Prints one object: the numbers of `events` and `claims`, and the `faults`, each with the position of its event.
"""

import json
import sys
from datetime import datetime, timedelta, timezone

WILDCARDS = "*?[{"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def micros(text):
    """A time of a payload, in microseconds since the epoch."""
    return (datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH) // timedelta(microseconds=1)


def prefix(kind, value):
    """What everything begins with that a path or a glob touches."""
    wildcards = [value.index(character) for character in WILDCARDS if character in value]
    if kind == "glob" and wildcards:
        return value[: min(wildcards)]
    return "" if value == "." else value + "/"


def same(one, other):
    """Whether two items of one repository touch the same."""
    if one["kind"] in ("path", "glob") and other["kind"] in ("path", "glob"):
        a, b = prefix(**one), prefix(**other)
        return a.startswith(b) or b.startswith(a)
    return one == other


def repository(footprint):
    return (footprint.get("repo") or "").lower()


def slots(footprint):
    return {item["value"].lower() for item in footprint["items"] if item["kind"] == "slot"}


def overlap(one, other):
    """The first item that two footprints touch and do not share."""
    if repository(one) != repository(other):
        return None
    is_shared = one["mode"] == other["mode"] == "shared"
    for item in one["items"]:
        if item["kind"] == "slot" or (is_shared and item["kind"] != "branch"):
            continue
        if any(same(item, theirs) for theirs in other["items"] if theirs["kind"] != "slot"):
            return item
    return None


class Witness:
    def __init__(self, steady):
        self.steady = steady
        self.lsn = self.at = self.events = self.claims = 0
        self.faults = []
        self.footprints = {}  # by thread
        self.held = {}  # by thread: holder, lease and its end
        self.leases = set()
        self.capacities = {}  # by slot
        self.paused = set()

    def fault(self, what):
        self.faults.append({"lsn": self.lsn, "fault": what})

    def take(self, event):
        payload = event["payload"]
        chain = payload["$chain"]
        self.events += 1
        if event["lsn"] != self.lsn + 1:
            self.fault(f"the events between {self.lsn} and {event['lsn']} are missing")
        self.lsn, self.at = event["lsn"], chain["at"]
        by_kind = getattr(self, event["kind"], None)
        if by_kind:
            by_kind(chain["thread_id"], payload)

    def ThreadCreated(self, thread, payload):
        self.footprints[thread] = payload.get("footprint")

    def ThreadFootprintChanged(self, thread, payload):
        self.footprints[thread] = payload["footprint"]
        if thread in self.held:
            self.check_free(thread)

    def SlotCapacitySet(self, _, payload):
        self.capacities[payload["slot"].lower()] = payload["capacity"]

    def SlotCapacityCleared(self, _, payload):
        self.capacities.pop(payload["slot"].lower(), None)

    def RepoPaused(self, _, payload):
        self.paused.add(payload["repo"].lower())

    def RepoResumed(self, _, payload):
        self.paused.discard(payload["repo"].lower())

    def ThreadAssignmentChanged(self, thread, payload):
        before, after = payload["previous_assignee_id"], payload["assignee_id"]
        if payload["reason"] == "handed_off":
            self.check_held(thread, before)
        held = self.held.pop(thread, None)
        holder = held[0] if held else None
        if holder != before:
            self.fault(f"{thread} passes from {before}, and {holder} holds it")
        if after is None:
            return
        lease, until = payload["claim_lease_id"], micros(payload["expires_at"])
        if lease in self.leases:
            self.fault(f"the lease {lease} was used before")
        if held and payload["reason"] != "handed_off":
            self.fault(f"{thread} is claimed by {after} while {holder} holds it")
        self.leases.add(lease)
        self.claims += 1
        self.held[thread] = (after, lease, until)
        if payload["reason"] != "handed_off":
            self.check_free(thread)

    def ClaimRenewed(self, thread, payload):
        if self.check_held(thread, payload["member_id"], payload["claim_lease_id"]):
            self.held[thread] = (*self.held[thread][:2], micros(payload["expires_at"]))

    def ClaimAcknowledged(self, thread, payload):
        self.check_held(thread, payload["member_id"], payload["claim_lease_id"])

    def ThreadResultSet(self, thread, payload):
        self.check_held(thread, payload["produced_by"])

    def ClaimExpired(self, thread, payload):
        if self.check_named(thread, payload["member_id"], payload["claim_lease_id"]):
            until = self.held[thread][2]
            if micros(payload["expired_at"]) != until or until > self.at:
                self.fault(f"the claim on {thread} lapses before its lease has ended")

    def check_named(self, thread, member, lease=None):
        """Whether an event names the claim on its thread."""
        holder, live, _ = self.held.get(thread, (None, None, None))
        if member != holder or lease not in (None, live):
            self.fault(f"{member} acts on {thread}, which {holder} holds")
            return False
        return True

    def check_held(self, thread, member, lease=None):
        """Whether whoever acts holds the claim on the thread."""
        if not self.check_named(thread, member, lease):
            return False
        if self.steady and self.held[thread][2] <= self.at:
            self.fault(f"{member} acts on {thread} under a lease that has ended")
        return True

    def check_free(self, thread):
        footprint = self.footprints.get(thread)
        if not footprint or not footprint["items"]:
            return
        others = {
            other: self.footprints[other]
            for other in self.held
            if other != thread and self.footprints.get(other)
        }
        for other, theirs in others.items():
            item = overlap(footprint, theirs)
            if item:
                self.fault(f"{thread} and {other} are claimed and both touch {item['kind']} {item['value']}")
        for slot in slots(footprint):
            used = sum(slot in slots(theirs) for theirs in others.values())
            if slot in self.capacities and used >= self.capacities[slot]:
                self.fault(f"{thread} is claimed with the slot {slot}, of which {used} are used")
        if footprint.get("repo") and repository(footprint) in self.paused:
            self.fault(f"{thread} is claimed in {repository(footprint)}, which is paused")


def main():
    witness = Witness("--steady" in sys.argv[1:-1])
    with open(sys.argv[-1], encoding="utf-8") as lines:
        for line in lines:
            witness.take(json.loads(line))
    print(json.dumps({"events": witness.events, "claims": witness.claims, "faults": witness.faults}))


if __name__ == "__main__":
    main()
