//! Removing read items 30 days after they were read, and unread items after 90 days.

use std::time::Duration;

use crate::identity::sessions::ended_rows_chore;
use crate::op::Chore;

const DAY: u64 = 86_400;
/// Time for which an inbox item is kept after its member has read it.
const KEPT_READ: Duration = Duration::from_secs(30 * DAY);
/// Time for which an unread inbox item is kept.
const KEPT_UNREAD: Duration = Duration::from_secs(90 * DAY);

pub(super) fn chore_for_read() -> Chore {
    ended_rows_chore("inbox-read", KEPT_READ, ANY_READ, REMOVE_READ)
}

const ANY_READ: &str = "select 1 from inbox where read_at <= $1 limit 1";

/// SQL statement that removes old read items. It uses the index on read items.
const REMOVE_READ: &str = "
    delete from inbox where (member_id, lsn) in (
        select member_id, lsn from inbox where read_at <= $1 order by read_at limit $2)";

pub(super) fn chore_for_unread() -> Chore {
    ended_rows_chore("inbox-unread", KEPT_UNREAD, ANY_UNREAD, REMOVE_UNREAD)
}

const ANY_UNREAD: &str = "select 1 from inbox where read_at is null and at <= $1 limit 1";

/// SQL statement that removes old unread items. It uses the index on unread items.
const REMOVE_UNREAD: &str = "
    delete from inbox where (member_id, lsn) in (
        select member_id, lsn from inbox where read_at is null and at <= $1 order by at limit $2)";
