//! Removing items a month after they were read, and unread items after three months.

use std::time::Duration;

use crate::identity::sessions::ended_rows;
use crate::op::Chore;

const DAY: u64 = 86_400;
/// Time for which an item is kept after it is read.
const KEPT_READ: Duration = Duration::from_secs(30 * DAY);
/// Time for which an unread item is kept.
const KEPT_UNREAD: Duration = Duration::from_secs(90 * DAY);

pub(super) fn of_read() -> Chore {
    ended_rows("inbox-read", KEPT_READ, ANY_READ, REMOVE_READ)
}

const ANY_READ: &str = "select 1 from inbox where read_at <= $1 limit 1";

/// SQL statement that removes old read items, using their index.
const REMOVE_READ: &str = "
    delete from inbox where (member_id, lsn) in (
        select member_id, lsn from inbox where read_at <= $1 order by read_at limit $2)";

pub(super) fn of_unread() -> Chore {
    ended_rows("inbox-unread", KEPT_UNREAD, ANY_UNREAD, REMOVE_UNREAD)
}

const ANY_UNREAD: &str = "select 1 from inbox where read_at is null and at <= $1 limit 1";

/// SQL statement that removes old unread items, using their index.
const REMOVE_UNREAD: &str = "
    delete from inbox where (member_id, lsn) in (
        select member_id, lsn from inbox where read_at is null and at <= $1 order by at limit $2)";
