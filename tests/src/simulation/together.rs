//! Calls that are queued at once, so that most of them share a commit: each gets the answer of its turn.
//!
//! The first begins while the others are queued. Their order is that in which they were queued, so the
//! expected results do not depend on which of them share a commit.

use std::sync::mpsc;

use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::op::{Request, Surface};

use super::model::Claim;
use super::{LEASE_SECS, Simulation};
use crate::client::Answer;
use crate::refusals;
use crate::world::{answer_of, text};

/// Maximum calls that are queued at once.
const CALLS_MAX: usize = 16;

/// A call that is queued with others.
enum QueuedCall {
    /// A member claims the next thread of a channel, or of the workspace.
    Next { member: usize, channel: Option<usize>, repo: Option<&'static str> },
    /// A member claims a thread.
    Claim { member: usize, number: usize },
    /// A holder ends its claim. An earlier call may have ended it.
    End { number: usize, claim: Claim, is_result: bool },
    /// A thread gets another priority.
    Prioritise { number: usize, priority: i64 },
}

impl Simulation<'_> {
    /// Queues calls of one of the services at once.
    pub(super) fn act_together(&mut self) {
        let count = 2 + self.random.below(CALLS_MAX - 1);
        let acts: Vec<QueuedCall> = (0..count).map(|_| self.any_act()).collect();
        let calls: Vec<_> = acts.iter().map(|act| self.call_of(act)).collect();
        let answers = self.ask_together(&calls);
        acts.into_iter().zip(answers).for_each(|(act, answer)| self.judge(act, answer));
    }

    fn any_act(&mut self) -> QueuedCall {
        let drawn = match self.random.below(8) {
            0..=1 => {
                let member = self.random.below(self.members.len());
                self.any_thread().map(|number| QueuedCall::Claim { member, number })
            }
            2..=3 => {
                let is_result = self.random.once_in(3);
                self.any_held().map(|(number, claim, _)| QueuedCall::End { number, claim, is_result })
            }
            4 => {
                let priority = self.random.of(&[0, 5, -5, 7]);
                self.any_thread().map(|number| QueuedCall::Prioritise { number, priority })
            }
            _ => None,
        };
        drawn.unwrap_or_else(|| {
            let (member, channel) = self.any_place();
            QueuedCall::Next { member, channel, repo: self.random.once_in(4).then_some("acme/app") }
        })
    }

    /// Returns the caller, the operation and the input of an act.
    fn call_of(&self, act: &QueuedCall) -> (usize, &'static str, Value) {
        let id = |number: &usize| self.model.threads[number].id.clone();
        match act {
            QueuedCall::Next { member, channel, repo } => {
                let (operation, input) = self.call_of_next(*channel, *repo);
                (*member, operation, input)
            }
            QueuedCall::Claim { member, number } => {
                (*member, "claim_thread", json!({"thread_id": id(number), "lease_secs": LEASE_SECS}))
            }
            QueuedCall::End { number, claim, is_result } => {
                let mut input = json!({"thread_id": id(number), "claim_lease_id": claim.lease});
                if !is_result {
                    return (claim.member, "release_claim", input);
                }
                input["result"] = json!({"done": true});
                (claim.member, "set_thread_result", input)
            }
            QueuedCall::Prioritise { number, priority } => {
                (0, "set_thread_priority", json!({"thread_id": id(number), "priority": priority}))
            }
        }
    }

    fn ask_together(&mut self, calls: &[(usize, &'static str, Value)]) -> Vec<Answer> {
        let service = &self.services[self.random.below(self.services.len())];
        let (sender, receiver) = mpsc::channel();
        let submit = |(place, (member, operation, input)): (usize, &(usize, &'static str, Value))| {
            let token = SecretString::from(&*self.members[*member]);
            let request = Request::json(Surface::Rest, Some(token), input.to_string());
            let sender = sender.clone();
            let done = move |reply| sender.send((place, answer_of(reply))).unwrap();
            service.submit(service.operation(operation).unwrap(), request, done)
        };
        let tickets: Vec<_> = calls.iter().enumerate().map(submit).collect();
        let mut answers: Vec<_> = receiver.iter().take(calls.len()).collect();
        drop(tickets);
        answers.sort_by_key(|(place, _)| *place);
        let checked = |((_, answer), (_, operation, _)): ((usize, Answer), &(usize, &'static str, Value))| {
            refusals::check(self.world.operation(operation), answer)
        };
        answers.into_iter().zip(calls).map(checked).collect()
    }

    fn judge(&mut self, act: QueuedCall, answer: Answer) {
        match act {
            QueuedCall::Next { member, channel, repo } => {
                self.model.expire();
                let wanted = self.model.next(member, channel, repo);
                let expected = wanted.map(|number| self.model.threads[&number].id.clone());
                let claimed = answer.output();
                let given = claimed["id"].as_str().map(str::to_owned);
                assert_eq!(given, expected, "member {member} of {channel:?}, repo {repo:?}, among others");
                if let Some(number) = wanted {
                    self.claimed(number, member, text(&claimed["claim_lease_id"]), "claimed");
                }
            }
            QueuedCall::Claim { member, number } => {
                if let Some(claimed) = self.may_claim(number, member, answer) {
                    self.claimed(number, member, text(&claimed["claim_lease_id"]), "claimed");
                }
            }
            QueuedCall::End { number, claim, is_result } => {
                let held = self.model.threads[&number].claim.as_ref();
                if held.is_some_and(|held| held.lease == claim.lease) {
                    self.ended(number, &claim, is_result, &answer.output());
                } else {
                    answer.refused(409, "stale-claim");
                }
            }
            QueuedCall::Prioritise { number, priority } => {
                answer.output();
                self.prioritised(number, priority);
            }
        }
    }
}
