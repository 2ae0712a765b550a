//! Workspaces share the places of each delivery channel: the due batches of one do not delay those of others.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use svc_core::op::{DeliveryBatch, DeliveryChannel, DeliveryResult};
use svc_core::ops::{PushNotification, WEB_PUSH};
use svc_core::{MAIL, PlaceGuard};
use svc_tests::push_service::subscription;
use svc_tests::{MAIL_DELAY, World, on_both_engines, runtime, text};

/// Maximum batches of one channel that are sent at once, which one workspace may have if no other wants any.
const ALL: usize = 16;
const ALONE: usize = 12;

/// A batch that is being sent.
type BatchInProgress<T> = (DeliveryBatch<T>, PlaceGuard);

/// A workspace whose members get notifications.
struct Team<'w> {
    world: &'w World,
    name: &'static str,
    id: String,
    admin: String,
    thread: String,
    /// The tokens of the members, by their handles.
    members: BTreeMap<String, String>,
}

impl<'w> Team<'w> {
    fn new(world: &'w World, name: &'static str, members: usize) -> Self {
        let made = world.admin("create_workspace", json!({"name": name, "admin_handle": "ada"}));
        let id = text(&made["workspace"]["id"]);
        let admin = text(&made["token"]["secret"]);
        let call = |operation, input| world.call(&admin, operation, input).output();
        let channel = call("create_channel", json!({"workspace_id": id, "name": "talk"}));
        let thread = call("create_thread", json!({"channel_id": channel["id"], "title": "The lexer"}));
        let member = |number| {
            let handle = format!("member{number}");
            let input = json!({"workspace_id": id, "handle": handle, "display_name": handle});
            let token = text(&call("create_agent", input)["token"]["secret"]);
            (handle, token)
        };
        let members = (0..members).map(member).collect();
        Self { world, name, thread: text(&thread["id"]), members, id, admin }
    }

    /// Returns a team whose members each have a browser.
    fn pushed(world: &'w World, name: &'static str, members: usize) -> Self {
        let team = Self::new(world, name, members);
        for (handle, token) in &team.members {
            let browser = subscription(&format!("https://push.example/{name}/{handle}"));
            world.call(token, "register_web_push", browser).output();
        }
        team
    }

    /// Returns a team whose members each have a confirmed address.
    fn mailed(world: &'w World, name: &'static str, members: usize) -> Self {
        let team = Self::new(world, name, members);
        team.set_addresses();
        world.database.execute(&format!(
            "update delivery_addresses
             set address = pending, confirmed_at = 1, pending = null, code_due = null
             where workspace_id = {}",
            team.row()
        ));
        team
    }

    fn set_addresses(&self) {
        for (handle, token) in &self.members {
            let address = json!({"address": format!("{handle}@example.com"), "mode": "immediate"});
            self.world.call(token, "set_delivery_address", address).output();
        }
    }

    /// Mentions each member as the administrator.
    fn speak(&self) {
        let names: Vec<String> = self.members.keys().map(|handle| format!("@{handle}")).collect();
        let message = json!({"thread_id": self.thread, "body": names.join(" ")});
        self.world.call(&self.admin, "post_message", message).output();
    }

    /// Gives the first member many items that have long been due on both channels.
    fn pile_up(&self, items: i64) {
        let due = self.world.database.number("select max(lsn) from inbox").saturating_add(1);
        self.world.database.insert_many(
            items,
            &format!(
                "insert into inbox (workspace_id, member_id, lsn, reasons, channel_id, at, mail_due, push_due)
                 select t.workspace_id, m.id, {due} + i, 1, t.channel_id, 1, 1, 1
                 from n, members m, threads t
                 where m.workspace_id = {0} and m.handle = 'member0' and t.id = {1}",
                self.row(),
                self.world.database.id(self.thread.parse::<uuid::Uuid>().unwrap())
            ),
        );
    }

    /// Charges the team as if another one had imported it.
    fn charge_to(&self, other: &Self) {
        let sql = format!("update workspaces set charged_to = {} where id = {}", other.row(), self.row());
        self.world.database.execute(&sql);
    }

    /// Returns its id in SQL.
    fn row(&self) -> String {
        self.world.database.id(self.id.parse::<uuid::Uuid>().unwrap())
    }
}

/// Takes the due batches of a channel at once.
fn take<T: Send + Sync + 'static>(
    world: &World,
    way: &'static DeliveryChannel<T>,
) -> Vec<BatchInProgress<T>> {
    runtime().block_on(world.service.take_batches(way)).unwrap()
}

fn settle<T: Send + Sync + 'static>(world: &World, (batch, place): BatchInProgress<T>) {
    let results = vec![DeliveryResult::Accepted; batch.count()];
    runtime().block_on(world.service.settle(batch, results)).unwrap();
    drop(place);
}

/// Returns how many batches each team has.
fn of_each<T>(taken: &[BatchInProgress<T>], teams: &[&Team<'_>]) -> Vec<(&'static str, usize)> {
    let count = |team: &&Team<'_>| {
        let own = taken.iter().filter(|(batch, _)| batch.workspace_id().to_string() == team.id);
        (team.name, own.count())
    };
    let counts: Vec<_> = teams.iter().map(count).collect();
    assert_eq!(counts.iter().map(|(_, count)| count).sum::<usize>(), taken.len(), "of these teams only");
    counts
}

#[test]
fn slow_pushes_of_one_workspace_leave_places_to_another() {
    on_both_engines(|world| {
        let slow = Team::pushed(world, "Slow", 14);
        let quick = Team::pushed(world, "Quick", 2);
        let copy = Team::pushed(world, "Copy", 2);
        copy.charge_to(&slow);
        slow.speak();
        let mut held = take(world, &WEB_PUSH);
        assert_eq!(held.len(), ALONE, "three quarters for one alone");
        assert!(take(world, &WEB_PUSH).is_empty(), "and no more");
        copy.speak();
        quick.speak();
        let teams = [&slow, &quick, &copy];
        let taken = take(world, &WEB_PUSH);
        assert_eq!(of_each(&taken, &teams), [("Slow", 0), ("Quick", 2), ("Copy", 0)]);
        // Sent batches free places for all the others, since the other workspace wants no more.
        held.drain(..6).for_each(|taken| settle(world, taken));
        let rest = take(world, &WEB_PUSH);
        assert_eq!(of_each(&rest, &teams), [("Slow", 2), ("Quick", 0), ("Copy", 2)]);
    });
}

#[test]
fn workspaces_that_push_much_at_the_same_time_have_half_of_the_places_each() {
    on_both_engines(|world| {
        let one = Team::pushed(world, "One", 10);
        let two = Team::pushed(world, "Two", 10);
        one.speak();
        let first = take(world, &WEB_PUSH);
        assert_eq!(first.len(), 10);
        two.speak();
        one.speak();
        let second = take(world, &WEB_PUSH);
        assert_eq!(of_each(&second, &[&one, &two]), [("One", 0), ("Two", ALL - 10)]);
        drop((first, second));
        let third = take(world, &WEB_PUSH);
        assert_eq!(of_each(&third, &[&one, &two]), [("One", 8), ("Two", 4)], "those that are left");
    });
}

#[test]
fn much_that_is_due_in_one_workspace_hides_nothing_of_another() {
    on_both_engines(|world| {
        let full = Team::pushed(world, "Full", 1);
        let other = Team::pushed(world, "Other", 1);
        full.speak();
        full.pile_up(3000);
        other.speak();
        let taken = take(world, &WEB_PUSH);
        assert_eq!(of_each(&taken, &[&full, &other]), [("Full", 1), ("Other", 1)]);
        let full = Team::mailed(world, "Full of mail", 1);
        let other = Team::mailed(world, "Other mail", 1);
        full.speak();
        full.pile_up(3000);
        other.speak();
        world.clock.advance(MAIL_DELAY);
        let taken = take(world, &MAIL);
        assert_eq!(of_each(&taken, &[&full, &other]), [("Full of mail", 1), ("Other mail", 1)]);
    });
}

#[test]
fn workspaces_take_turns_where_places_are_few() {
    on_both_engines(|world| {
        let busy = Team::pushed(world, "Busy", 12);
        busy.speak();
        let held = take(world, &WEB_PUSH);
        assert_eq!(held.len(), ALONE);
        let teams = ["One", "Two", "Three"].map(|name| Team::pushed(world, name, 6));
        teams.iter().for_each(Team::speak);
        let looks = [0, 1, 2].map(|_| {
            let taken = take(world, &WEB_PUSH);
            assert_eq!(taken.len(), ALL - ALONE);
            of_each(&taken, &teams.each_ref())
        });
        let in_all = |team: usize| looks.iter().map(|look| look[team].1).sum::<usize>();
        assert_eq!([0, 1, 2].map(in_all), [4, 4, 4], "{looks:?}");
    });
}

/// Letters with codes are due at once, and their members have no other due items.
#[test]
fn letters_about_addresses_of_one_workspace_leave_places_to_another() {
    on_both_engines(|world| {
        let slow = Team::new(world, "Slow", 14);
        let quick = Team::new(world, "Quick", 1);
        slow.set_addresses();
        let held = take(world, &MAIL);
        assert_eq!(held.len(), ALONE);
        quick.set_addresses();
        let taken = take(world, &MAIL);
        assert_eq!(of_each(&taken, &[&slow, &quick]), [("Slow", 0), ("Quick", 1)]);
        held.into_iter().for_each(|taken| settle(world, taken));
        assert_eq!(of_each(&take(world, &MAIL), &[&slow, &quick]), [("Slow", 2), ("Quick", 0)]);
    });
}

#[test]
fn members_that_have_waited_longest_come_first() {
    on_both_engines(|world| {
        let team = Team::pushed(world, "Queue", 14);
        let speak = |handle: &str| -> Value {
            let message = json!({"thread_id": team.thread, "body": format!("@{handle}")});
            world.call(&team.admin, "post_message", message).output()
        };
        for number in (0..14).rev() {
            speak(&format!("member{number}"));
            world.clock.advance(std::time::Duration::from_millis(1));
        }
        let names = |taken: Vec<BatchInProgress<PushNotification>>| -> Vec<String> {
            let name = |(batch, _): &BatchInProgress<PushNotification>| {
                let id = world.database.id(batch.member_id().uuid());
                text(&world.database.rows(&format!("select handle from members where id = {id}"))[0][0])
            };
            taken.iter().map(name).collect()
        };
        let wanted = |numbers: std::ops::Range<usize>| -> Vec<String> {
            numbers.rev().map(|number| format!("member{number}")).collect()
        };
        assert_eq!(names(take(world, &WEB_PUSH)), wanted(2..14));
        assert_eq!(names(take(world, &WEB_PUSH)), wanted(0..2));
    });
}

/// Four places are left for four payers, one of which pays for two workspaces.
#[test]
fn workspaces_that_are_charged_to_the_same_one_take_turns() {
    on_both_engines(|world| {
        let busy = Team::pushed(world, "Busy", 12);
        busy.speak();
        let held = take(world, &WEB_PUSH);
        assert_eq!(held.len(), ALONE);
        // Their ids are in the order in which they were created.
        let teams = ["One", "Copy", "Two", "Three", "Four"].map(|name| {
            world.clock.advance(std::time::Duration::from_millis(2));
            Team::pushed(world, name, 8)
        });
        teams[1].charge_to(&teams[0]);
        teams.iter().for_each(Team::speak);
        let looks: Vec<_> = (0..6)
            .map(|_| {
                let taken = take(world, &WEB_PUSH);
                assert_eq!(taken.len(), ALL - ALONE);
                of_each(&taken, &teams.each_ref())
            })
            .collect();
        let in_all = |team: usize| looks.iter().map(|look| look[team].1).sum::<usize>();
        let all = [0, 1, 2, 3, 4].map(in_all);
        assert!(all.iter().all(|count| *count > 0), "Copy gets nothing while One has something due: {all:?}");
    });
}

/// The payer has one place left, although more are free.
#[test]
fn workspaces_take_turns_for_the_last_place_of_the_one_that_they_are_charged_to() {
    on_both_engines(|world| {
        let payer = Team::pushed(world, "Payer", ALONE - 1);
        payer.speak();
        let held = take(world, &WEB_PUSH);
        assert_eq!(held.len(), ALONE - 1);
        let copies = ["One", "Two", "Three", "Four"].map(|name| {
            world.clock.advance(std::time::Duration::from_millis(2));
            Team::pushed(world, name, 8)
        });
        copies.iter().for_each(|copy| copy.charge_to(&payer));
        copies.iter().for_each(Team::speak);
        let looks = [0; 8].map(|_| of_each(&take(world, &WEB_PUSH), &copies.each_ref()));
        let in_all = |team: usize| looks.iter().map(|look| look[team].1).sum::<usize>();
        assert_eq!([0, 1, 2, 3].map(in_all), [2, 2, 2, 2], "{looks:?}");
    });
}

/// A workspace whose only member holds its share gets nothing, and the others have their turns.
#[test]
fn a_member_that_gets_no_place_holds_up_no_other_workspace() {
    on_both_engines(|world| {
        let tick = || world.clock.advance(std::time::Duration::from_millis(2));
        let busy = Team::pushed(world, "Busy", ALONE);
        busy.speak();
        let _busy = take(world, &WEB_PUSH);
        tick();
        let stuck = Team::pushed(world, "Stuck", 1);
        tick();
        let other = Team::pushed(world, "Other", 1);
        stuck.speak();
        stuck.pile_up(3000);
        let held: Vec<_> = (0..3).flat_map(|_| take(world, &WEB_PUSH)).collect();
        assert_eq!(held.len(), 3, "one place is left, and Stuck cannot have it");
        assert!(take(world, &WEB_PUSH).is_empty());
        other.speak();
        let taken: Vec<_> = (0..3).flat_map(|_| take(world, &WEB_PUSH)).collect();
        assert_eq!(of_each(&taken, &[&stuck, &other]), [("Stuck", 0), ("Other", 1)]);
    });
}

#[test]
fn a_workspace_with_half_of_the_places_leaves_turns_to_all_others() {
    on_both_engines(|world| {
        let half = Team::pushed(world, "Half", 14);
        half.speak();
        let mut held = take(world, &WEB_PUSH);
        held.truncate(ALL / 2);
        let teams = ["A", "B", "C", "D", "E", "F", "G", "H"].map(|name| {
            world.clock.advance(std::time::Duration::from_millis(2));
            Team::pushed(world, name, 8)
        });
        teams.iter().for_each(Team::speak);
        drop(take(world, &WEB_PUSH));
        let looks: Vec<_> = (0..3).map(|_| of_each(&take(world, &WEB_PUSH), &teams.each_ref())).collect();
        for team in 0..teams.len() {
            assert!(looks.iter().any(|look| look[team].1 > 0), "{}: {looks:?}", teams[team].name);
        }
    });
}

/// The payer has one place left, which is sometimes taken at the turn of a workspace.
#[test]
fn a_workspace_that_was_passed_over_keeps_its_turn() {
    on_both_engines(|world| {
        let payer = Team::pushed(world, "Payer", ALONE - 1);
        payer.speak();
        let _held = take(world, &WEB_PUSH);
        let [one, two, other] = [("One", 8), ("Two", 8), ("Other", 1)].map(|(name, members)| {
            world.clock.advance(std::time::Duration::from_millis(2));
            Team::pushed(world, name, members)
        });
        one.charge_to(&payer);
        two.charge_to(&payer);
        one.speak();
        two.speak();
        let mut looks = Vec::new();
        for _ in 0..4 {
            let first = take(world, &WEB_PUSH);
            other.speak();
            let second = take(world, &WEB_PUSH);
            looks.extend([first, second].map(|taken| of_each(&taken, &[&one, &two, &other])));
        }
        let in_all = |team: usize| looks.iter().map(|look| look[team].1).sum::<usize>();
        assert_eq!([0, 1, 2].map(in_all), [2, 2, 4], "{looks:?}");
    });
}
