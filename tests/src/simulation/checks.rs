//! Compares the results of all reads with the model.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use svc_core::time::Time;

use super::Simulation;
use super::model::{Conflicts, Footprint, LIMITS, MEMBERS, RecordedEvent};
use crate::witness;
use crate::world::text;

/// Returns the conflicts that an answer lists, in the form of the model.
pub(super) fn listed(conflicts: &Value) -> Conflicts {
    let item = |conflict: &Value| match &conflict["item"] {
        Value::Null => String::new(),
        item => format!("{} {}", text(&item["kind"]), text(&item["value"])),
    };
    let found = conflicts.as_array().unwrap_or_else(|| panic!("no list of conflicts: {conflicts:#}")).iter();
    found
        .map(|conflict| {
            (text(&conflict["reason"]), item(conflict), conflict["thread_id"].as_str().map(str::to_owned))
        })
        .collect()
}

/// Returns the names in a list.
pub(super) fn words(list: &Value) -> String {
    let names: Vec<&str> = list.as_array().unwrap().iter().flat_map(Value::as_str).collect();
    names.join(" ")
}

impl Simulation<'_> {
    /// Returns the time at which the model's clock shows `secs`.
    pub(super) fn time(&self, secs: i64) -> Time {
        self.start.shifted(secs * 1_000_000)
    }

    pub(super) fn check_everything(&mut self) {
        self.check_waiting();
        self.check_a_reason();
        self.check_claims();
        self.check_slots();
        self.check_work();
        self.check_budgets();
        self.check_log();
    }

    /// Checks the conflicts of a random footprint.
    pub(super) fn check_footprint(&mut self) {
        let member = self.random.below(MEMBERS);
        let footprint = Footprint::random(&mut self.random);
        let input = json!({"workspace_id": self.workspace(), "footprint": footprint.json()});
        let found = self.ask(member, "check_footprint", &input).output();
        let wanted = self.seen_by(member, self.model.conflicts(&footprint, None));
        assert_eq!(listed(&found["conflicts"]), wanted, "what is in the way of {footprint:?}");
    }

    /// Returns the items of a list that fits on a page.
    pub(super) fn list(&mut self, operation: &str, reason: Option<&str>) -> Vec<Value> {
        let mut input = json!({"workspace_id": self.workspace(), "limit": 500});
        input.as_object_mut().unwrap().extend(reason.map(|reason| ("reason".to_owned(), json!(reason))));
        let page = self.admin(operation, &input);
        page["items"].as_array().unwrap().clone()
    }

    fn check_waiting(&mut self) {
        let deferred = self.list("list_deferred_threads", None);
        let found: BTreeMap<String, Conflicts> = deferred
            .iter()
            .map(|thread| (text(&thread["thread_id"]), listed(&thread["obstacles"])))
            .collect();
        let waiting = self.model.threads.iter().filter(|(number, _)| self.model.is_to_do(**number));
        let wanted: BTreeMap<String, Conflicts> = waiting
            .map(|(_, thread)| (thread.id.clone(), self.model.conflicts(&thread.footprint, None)))
            .filter(|(_, conflicts)| !conflicts.is_empty())
            .collect();
        assert_eq!(found, wanted, "the deferred threads");
    }

    /// Checks the threads that are listed as waiting for a reason other than footprints.
    fn check_a_reason(&mut self) {
        let reason = self.random.of(&["budget", "dead-letter", "dependencies"]);
        let listed = self.list("list_deferred_threads", Some(reason));
        let waits = |row: &&Value| {
            row["obstacles"].as_array().unwrap().iter().any(|found| found["reason"] == json!(reason))
        };
        let found: BTreeSet<String> =
            listed.iter().filter(waits).map(|row| text(&row["thread_id"])).collect();
        let to_do = self.model.threads.iter().filter(|(number, _)| self.model.is_to_do(**number));
        let wanted = to_do.filter(|(_, thread)| {
            let found = thread.without_lapsed_claim(self.model.now);
            match reason {
                "budget" => !found.exceeded(self.model.now).is_empty(),
                "dead-letter" => found.dead,
                _ => self.model.is_blocked(thread),
            }
        });
        let wanted = wanted.map(|(_, thread)| thread.id.clone()).collect();
        assert_eq!(found, wanted, "the threads that wait for {reason}");
    }

    fn check_claims(&mut self) {
        let claims = self.list("list_active_claims", None);
        let found: BTreeSet<(String, String, String, String)> = claims
            .iter()
            .map(|claim| {
                let member = |name: &str| text(&claim[name]);
                (member("thread_id"), member("holder"), member("claim_lease_id"), member("lease_expires_at"))
            })
            .collect();
        let live = self.model.live().filter_map(|(_, thread)| Some((thread, thread.claim.as_ref()?)));
        let wanted: BTreeSet<(String, String, String, String)> = live
            .map(|(thread, claim)| {
                let until = self.time(claim.until).to_string();
                (thread.id.clone(), self.ids[claim.member].clone(), claim.lease.clone(), until)
            })
            .collect();
        assert_eq!(found, wanted, "the live claims");
    }

    fn check_slots(&mut self) {
        let input = json!({"workspace_id": self.workspace()});
        let slots = self.admin("list_slots", &input);
        let slots = slots["items"].as_array().unwrap();
        let gpu = slots.iter().find(|slot| text(&slot["slot"]).eq_ignore_ascii_case("gpu"));
        let found = gpu.map(|slot| (slot["capacity"].as_u64(), slot["used"].as_u64().unwrap()));
        let used = self.model.live().filter(|(_, thread)| thread.footprint.uses_the_slot()).count();
        let capacity = self.model.capacity.map(|capacity| u64::try_from(capacity).unwrap());
        let wanted = (capacity.is_some() || used > 0).then(|| (capacity, u64::try_from(used).unwrap()));
        assert_eq!(found, wanted, "the slot");
    }

    /// Checks that worked time is charged once, however a claim has ended.
    fn check_work(&mut self) {
        let rows = self.world.database.rows("select id, worked_micros from threads where worked_micros > 0");
        let found: BTreeMap<&str, i64> =
            rows.iter().map(|row| (row[0].as_str().unwrap(), row[1].as_i64().unwrap())).collect();
        for thread in self.model.threads.values() {
            let micros = found.get(thread.id.replace('-', "").as_str()).copied().unwrap_or(0);
            assert_eq!(micros, thread.worked * 1_000_000, "the time worked on {}", thread.id);
        }
    }

    /// Compares the events since the last comparison, in any order.
    fn check_log(&mut self) {
        let events = self.events_after(self.compared);
        self.compared = events.last().map_or(self.compared, |event| event["lsn"].as_i64().unwrap());
        let mut found: Vec<RecordedEvent> = events.iter().filter_map(|event| self.recorded(event)).collect();
        let mut wanted = std::mem::take(&mut self.model.log);
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "the log");
    }

    /// Returns the content of an event, if the model follows its kind.
    fn recorded(&self, event: &Value) -> Option<RecordedEvent> {
        let payload = &event["payload"];
        let number = |id: &Value| self.ids.iter().position(|known| json!(known) == *id);
        let member = |name: &str| number(&payload[name]).map_or_else(String::new, |at| at.to_string());
        let (kind, says) = match event["kind"].as_str()? {
            "ThreadCreated" => ("ThreadCreated", String::new()),
            "ThreadCancelled" => ("ThreadCancelled", String::new()),
            "ThreadFootprintChanged" => ("ThreadFootprintChanged", String::new()),
            "ThreadPriorityChanged" => ("ThreadPriorityChanged", String::new()),
            "ClaimExpired" => ("ClaimExpired", member("member_id")),
            "ClaimRenewed" => ("ClaimRenewed", member("member_id")),
            "ThreadResultSet" => ("ThreadResultSet", member("produced_by")),
            "ThreadAssignmentChanged" => {
                let about =
                    if payload["assignee_id"].is_null() { "previous_assignee_id" } else { "assignee_id" };
                ("ThreadAssignmentChanged", format!("{} {}", text(&payload["reason"]), member(about)))
            }
            "SlotCapacitySet" => ("SlotCapacitySet", payload["capacity"].to_string()),
            "SlotCapacityCleared" => ("SlotCapacityCleared", String::new()),
            "MemberFrozen" => {
                ("MemberFrozen", format!("{} {}", member("member_id"), payload["claims_released"]))
            }
            "MemberUnfrozen" => ("MemberUnfrozen", member("member_id")),
            "RepoPaused" => ("RepoPaused", text(&payload["repo"])),
            "RepoResumed" => ("RepoResumed", text(&payload["repo"])),
            "ThreadBudgetSet" => ("ThreadBudgetSet", json!(LIMITS.map(|limit| &payload[limit])).to_string()),
            "UsageReported" => ("UsageReported", text(&payload["report_id"])),
            "ClaimFailed" => {
                ("ClaimFailed", format!("{} {}", member("member_id"), words(&payload["exceeded"])))
            }
            "DeadLetterRequeued" => ("DeadLetterRequeued", String::new()),
            "ThreadNotice" if payload["notice"] == "budget_low" => {
                ("ThreadNotice", text(&payload["data"]["limit"]))
            }
            "SpawnBudgetSet" => ("SpawnBudgetSet", String::new()),
            "ThreadSpawnDenied" => {
                ("ThreadSpawnDenied", format!("{} {}", text(&payload["limit"]), payload["allowed"]))
            }
            _ => return None,
        };
        Some((kind, payload["$chain"]["thread_id"].as_str().unwrap_or_default().to_owned(), says))
    }

    /// Returns the events of the workspace after a position.
    pub(super) fn events_after(&mut self, lsn: i64) -> Vec<Value> {
        let service = &self.services[self.random.below(self.services.len())];
        witness::events(service, &self.members[0], &self.workspace(), lsn)
    }
}
