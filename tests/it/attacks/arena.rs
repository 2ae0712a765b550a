//! A world with two more workspaces: one attacks, and the other must not notice.

use std::sync::Arc;

use serde_json::Value;
use svc_http::HttpSettings;
use svc_tests::attacks::ground::{AttackGround, AttackSize, OutcomeTally};
use svc_tests::attacks::{AttackHandle, AttackNeeds, RunningAttack, prepare};
use svc_tests::client::Answer;
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::{Setup, World};

/// Number of polls without a change after which an attack counts as settled.
const SETTLED: usize = 60;

/// A world under attack.
pub struct Arena {
    pub ground: Arc<AttackGround>,
    pub world: World,
}

/// Runs `test` on each engine, with these settings of the server.
pub fn on_each_engine(needs: AttackNeeds, size: AttackSize, http: &HttpSettings, test: impl Fn(&Arena)) {
    svc_http::raise_descriptor_limit();
    for engine in engines() {
        let world = World::with(engine, Setup { http: http.clone(), ..Setup::default() });
        let mut ground = prepare(&world.service, &world.people.admin, needs, size);
        ground.addresses.push(world.address());
        test(&Arena { ground: Arc::new(ground), world });
    }
}

impl Arena {
    /// Starts an attack, which ends when the returned value is dropped.
    pub fn attack(
        &self,
        run: impl FnOnce(Arc<AttackGround>, Arc<OutcomeTally>) -> RunningAttack,
    ) -> AttackHandle {
        AttackHandle::new(run, &self.ground)
    }

    /// Makes each of the victim's requests, and checks the health of the service.
    pub fn serves_the_victim(&self) {
        for wanted in self.ground.victim.requests() {
            let token = &wanted.token;
            let method = wanted.method.as_str();
            let target = &wanted.target;
            let answer = self.world.rest().send(Some(token), method, target, &[], wanted.body.as_ref());
            assert!(answer.is_success(), "{}: {} {:#}", wanted.name, answer.status, answer.body);
        }
        let health = self.world.rest().send(None, "GET", "/health", &[], None);
        assert_eq!(health.status, 200, "{:#}", health.body);
    }

    /// Sends a request as the victim's administrator.
    pub fn victim(&self, method: &str, target: &str, body: Option<&Value>) -> Answer {
        self.world.rest().send(Some(&self.ground.victim.admin), method, target, &[], body)
    }
}

/// Waits until an attack occupies no more of a resource, and returns how much it occupies.
pub fn settled(what: &str, count: impl Fn() -> usize) -> usize {
    let mut last = 0;
    let mut unchanged = 0;
    until(what, || {
        let now = count();
        unchanged = if now == last && now > 0 { unchanged + 1 } else { 0 };
        last = now;
        unchanged >= SETTLED
    });
    last
}
