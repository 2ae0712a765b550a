//! The parts of the claim engine that a test can leave out, one at a time, to see that each would be missed.
//!
//! The name of a part stands in [`Settings::left_out`](crate::op::Settings::left_out), and the code of the
//! part asks `Read::leaves_out`. A build for release leaves nothing out.

/// What has no part of its own.
pub(super) const NOTHING: &str = "";

/// A thread that somebody works on is not claimed.
pub(super) const UNCLAIMED: &str = "rule: unclaimed";
/// Only an open thread is claimed.
pub(super) const OPEN: &str = "rule: open";
/// A thread with a result is not claimed.
pub(super) const NO_RESULT: &str = "rule: no result";
/// A thread that nothing is left for is neither claimed nor handed off.
pub(super) const BUDGET: &str = "rule: budget";
/// A thread with a dead letter is not claimed.
pub(super) const DEAD_LETTER: &str = "rule: dead letter";
/// A thread that waits for others is not claimed.
pub(super) const DEPENDENCIES: &str = "rule: dependencies";
/// Nobody hands a claim to itself.
pub(super) const NO_HOLDER: &str = "rule: no holder";
/// A frozen member receives no claim, nor does one of another workspace.
pub(super) const UNFROZEN: &str = "rule: unfrozen";
/// A worker has the skills that are required.
pub(super) const SKILLS: &str = "rule: skills";
/// A worker sees the channel.
pub(super) const CHANNEL: &str = "rule: channel";
/// A thread of an archived channel is not claimed.
pub(super) const IN_USE: &str = "rule: in use";
/// A thread of a paused repository is not claimed.
pub(super) const PAUSES: &str = "rule: repo-paused";
/// A thread that needs a full slot is not claimed.
pub(super) const SLOTS: &str = "rule: slot-full";
/// A thread whose footprint overlaps that of a live claim is not claimed.
pub(super) const OVERLAP: &str = "rule: overlap";

/// A thread that nothing is left for is not in the queue.
pub(super) const NOT_EXHAUSTED: &str = "queue: not exhausted";
/// A thread with a dead letter is not in the queue.
pub(super) const NOT_DEAD: &str = "queue: not dead";

/// A hand-off changes who holds the claim.
pub(super) const HAND_OVER: &str = "end: handed off";
/// What begins a claim, or sets a footprint, first ends those that have lapsed.
pub(super) const EXPIRE: &str = "end: expired";
/// A claim that ends without a result is an attempt.
pub(super) const ATTEMPT: &str = "budget: attempt counted";
/// A hand-off begins a time of its own: what was worked before it is charged there.
pub(super) const CHARGED_ONCE: &str = "budget: wall time charged once";
/// A claim that nothing is left for is not renewed.
pub(super) const RENEWED_WITHIN: &str = "budget: renewed within";
/// A thread whose claim has failed leaves the queue.
pub(super) const FAILED_LEAVES: &str = "budget: failed claim leaves the queue";

/// What follows from a free obstacle follows when the first has left the queue.
pub(super) const FREES_NEXT: &str = "free: next";
/// Another footprint of a live claim frees what only the old one touched.
pub(super) const FREES_FOOTPRINT: &str = "free: footprint";
/// Another capacity frees what waits for the slot.
pub(super) const FREES_CAPACITY: &str = "free: capacity";
/// A slot without a capacity frees what waits for it.
pub(super) const FREES_NO_CAPACITY: &str = "free: no capacity";
/// A resumed repository frees what waits for it.
pub(super) const FREES_RESUME: &str = "free: resume";

/// The end of a claim, and what it frees, by how the claim ends.
pub(super) const RELEASED: [&str; 2] = ["end: released", "free: released"];
pub(super) const RESULT: [&str; 2] = ["end: result", "free: result"];
pub(super) const CLOSED: [&str; 2] = ["end: closed", "free: closed"];
pub(super) const CANCELLED: [&str; 2] = ["end: cancelled", "free: cancelled"];
pub(super) const FROZEN: [&str; 2] = ["end: frozen", "free: frozen"];
pub(super) const DEACTIVATED: [&str; 2] = ["end: deactivated", "free: deactivated"];
/// The reaper would never be done if what it ends did not end: [`EXPIRE`] has that part.
pub(super) const EXPIRED: [&str; 2] = [NOTHING, "free: expired"];

/// The names of all parts.
pub fn parts() -> Vec<&'static str> {
    let rules = [
        UNCLAIMED,
        OPEN,
        NO_RESULT,
        BUDGET,
        DEAD_LETTER,
        DEPENDENCIES,
        NO_HOLDER,
        UNFROZEN,
        SKILLS,
        CHANNEL,
        IN_USE,
        PAUSES,
        SLOTS,
        OVERLAP,
    ];
    let frees = [FREES_NEXT, FREES_FOOTPRINT, FREES_CAPACITY, FREES_NO_CAPACITY, FREES_RESUME];
    let ends = [RELEASED, RESULT, CLOSED, CANCELLED, FROZEN, DEACTIVATED, EXPIRED].concat();
    let budgets = [ATTEMPT, CHARGED_ONCE, RENEWED_WITHIN, FAILED_LEAVES];
    let queue = [NOT_EXHAUSTED, NOT_DEAD];
    let all =
        rules.into_iter().chain([HAND_OVER, EXPIRE]).chain(ends).chain(frees).chain(budgets).chain(queue);
    all.filter(|part| *part != NOTHING).collect()
}
