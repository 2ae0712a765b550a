//! Removing read items 30 days after they were read, and unread items after 90 days.

use std::time::Duration;

use crate::identity::sessions::ended_rows_chore;
use crate::op::Chore;

const SECS_PER_DAY: u64 = 86_400;
/// Time for which an inbox item is kept after its member has read it.
const READ_RETENTION: Duration = Duration::from_secs(30 * SECS_PER_DAY);
/// Time for which an unread inbox item is kept.
const UNREAD_RETENTION: Duration = Duration::from_secs(90 * SECS_PER_DAY);

/// Returns the chore that removes old read items.
pub(super) fn read_items_chore() -> Chore {
    ended_rows_chore("inbox-read", READ_RETENTION, FIND_OLD_READ, REMOVE_READ)
}

const FIND_OLD_READ: &str = "select 1 from inbox where read_at <= $1 limit 1";

/// SQL statement that removes old read items. It uses the index on read items.
const REMOVE_READ: &str = "
    delete from inbox where (member_id, lsn) in (
        select member_id, lsn from inbox where read_at <= $1 order by read_at limit $2)";

/// Returns the chore that removes old unread items.
pub(super) fn unread_items_chore() -> Chore {
    ended_rows_chore("inbox-unread", UNREAD_RETENTION, FIND_OLD_UNREAD, REMOVE_UNREAD)
}

const FIND_OLD_UNREAD: &str = "select 1 from inbox where read_at is null and at <= $1 limit 1";

/// SQL statement that removes old unread items. It uses the index on unread items.
const REMOVE_UNREAD: &str = "
    delete from inbox where (member_id, lsn) in (
        select member_id, lsn from inbox where read_at is null and at <= $1 order by at limit $2)";
