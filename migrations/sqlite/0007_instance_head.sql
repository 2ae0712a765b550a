-- The instance's own log has a head from the beginning, so that a missing head is always a defect. An empty log ends
-- with the hash that its first event links to.
insert into heads (workspace_id, lsn, hash, at, audit_seq, epoch) values (zeroblob(16), 0, x'e826b243eb4338f04a2320083c5870a47d8814e02869bb305777062f32343ce6', 0, 0, 0)
on conflict (workspace_id) do nothing;
