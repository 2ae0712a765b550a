//! Presence: the members that are connected to this process, by a parked wait or an open subscription.
//!
//! A member that waits cannot report its presence, so the process reports the member: immediately when a
//! member connects that was not reported recently, and then with one statement per beat for all members that
//! are still connected. The feature that stores presence defines the statement. A failed write is only
//! logged, because the next beat writes again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use uuid::Uuid;

use super::Dispatch;
use super::context::Write;
use crate::id::MemberId;
use crate::limits::PRESENCE_HEARTBEAT_INTERVAL;
use crate::op::call::caller::Surface;
use crate::op::run::ServiceWork;
use crate::sync::lock;
use crate::time::Monotonic;

/// The connected members of one process.
#[derive(Default)]
pub(crate) struct ConnectedMembers {
    state: Mutex<State>,
}

/// The connected members, and the progress of reporting them.
#[derive(Default)]
struct State {
    members: HashMap<MemberId, ConnectedMember>,
    /// Whether a statement that reports members is running.
    is_writing: bool,
    /// Whether the next beat is scheduled.
    is_beat_scheduled: bool,
}

/// A member that is connected now or was connected recently.
#[derive(Default)]
struct ConnectedMember {
    /// Number of open connections of the member.
    connections: usize,
    /// Time at which the member was last reported as online.
    reported_at: Option<Monotonic>,
}

/// A connection of a member. Dropping this value ends the connection.
#[must_use = "dropping it ends the connection"]
pub(crate) struct MemberConnection {
    presence: Arc<ConnectedMembers>,
    member: MemberId,
}

impl Drop for MemberConnection {
    fn drop(&mut self) {
        if let Some(member) = lock(&self.presence.state).members.get_mut(&self.member) {
            member.connections = member.connections.saturating_sub(1);
        }
    }
}

impl ConnectedMembers {
    /// Begins a connection of a member. The member stays online until the returned value is dropped.
    pub fn connect(dispatch: &Arc<Dispatch>, member: MemberId) -> MemberConnection {
        let presence = Arc::clone(&dispatch.presence);
        let mut state = lock(&presence.state);
        let known = state.members.entry(member).or_default();
        known.connections = known.connections.saturating_add(1);
        let begins = !std::mem::replace(&mut state.is_beat_scheduled, true);
        drop(state);
        if begins {
            schedule_beat(dispatch);
        }
        report_online(dispatch, false);
        MemberConnection { presence, member }
    }
}

impl State {
    /// Returns the members to report as online, and marks them as reported: every connected member if `all`
    /// is set, otherwise the connected members that were not reported within a beat.
    fn take_members_to_report(&mut self, now: Monotonic, all: bool) -> Vec<Uuid> {
        if self.is_writing {
            return Vec::new();
        }
        let connected = self.members.iter_mut().filter(|(_, member)| member.connections > 0);
        let due: Vec<Uuid> = connected
            .filter(|(_, member)| all || member.is_report_due(now))
            .map(|(id, member)| {
                member.reported_at = Some(now);
                id.uuid()
            })
            .collect();
        self.is_writing = !due.is_empty();
        due
    }
}

impl ConnectedMember {
    /// Returns whether a beat has passed since the member was last reported as online.
    fn is_report_due(&self, now: Monotonic) -> bool {
        self.reported_at.is_none_or(|at| at.plus(PRESENCE_HEARTBEAT_INTERVAL) <= now)
    }
}

/// Reports connected members as online: all of them, or only those that were not reported within a beat.
fn report_online(dispatch: &Arc<Dispatch>, all: bool) {
    let now = dispatch.clock.monotonic();
    let members = lock(&dispatch.presence.state).take_members_to_report(now, all);
    if members.is_empty() {
        return;
    }
    let weak = Arc::downgrade(dispatch);
    let keep = dispatch.table.keep_members_online();
    let run = move |cx: &mut Write<'_>| keep.map_or(Ok(()), |keep| keep(cx, &members));
    dispatch.submit_change_as_instance(ServiceWork::INSTANCE, Surface::System, run, move |outcome| {
        if let Err(error) = outcome {
            tracing::warn!(%error, cause = ?error.cause(), "presence was not written");
        }
        let Some(dispatch) = weak.upgrade() else { return };
        lock(&dispatch.presence.state).is_writing = false;
        // Reports members that connected while the statement ran.
        report_online(&dispatch, false);
    });
}

/// Waits for one beat, and then reports all members that are still connected as online.
fn schedule_beat(dispatch: &Arc<Dispatch>) {
    let weak = Arc::downgrade(dispatch);
    dispatch.timers.after(PRESENCE_HEARTBEAT_INTERVAL, move || {
        let Some(dispatch) = weak.upgrade() else { return };
        let now = dispatch.clock.monotonic();
        let mut state = lock(&dispatch.presence.state);
        state.members.retain(|_, member| member.connections > 0 || !member.is_report_due(now));
        state.is_beat_scheduled = !state.members.is_empty();
        let goes_on = state.is_beat_scheduled;
        drop(state);
        if goes_on {
            schedule_beat(&dispatch);
            report_online(&dispatch, true);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_is_said_of_each_member_at_once_and_of_all_with_each_beat() {
        let [one, other] = [1, 2].map(Uuid::from_u128);
        let mut state = State::default();
        let at = |secs| Monotonic::default().plus(Duration::from_secs(secs));
        let connect = |state: &mut State, id: Uuid| {
            state.members.entry(id.into()).or_default().connections += 1;
        };
        let written = |state: &mut State, secs, all| {
            let due = state.take_members_to_report(at(secs), all);
            state.is_writing = false;
            due
        };
        connect(&mut state, one);
        assert_eq!(written(&mut state, 1, false), [one]);
        connect(&mut state, one);
        assert!(written(&mut state, 2, false).is_empty(), "it was said a moment ago");
        connect(&mut state, other);
        assert_eq!(state.take_members_to_report(at(3), false), [other]);
        assert!(state.take_members_to_report(at(30), true).is_empty(), "one statement at a time");
        state.is_writing = false;
        let mut all = written(&mut state, 4, true);
        all.sort_unstable();
        assert_eq!(all, [one, other]);
        state.members.get_mut(&one.into()).unwrap().connections = 0;
        assert_eq!(written(&mut state, 14, true), [other]);
        connect(&mut state, one);
        assert_eq!(written(&mut state, 14, false), [one]);
    }
}
