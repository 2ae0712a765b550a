//! The callers: every kind of credential, and its outcome by a row's declaration.
//!
//! The kinds that have ended were valid just before.

use serde_json::{Value, json};
use svc_core::capability::{Capabilities, Capability, CapabilitySet, Needs, Right, Rights};
use svc_core::op::{AcceptedCredentials, Frame, Operation};
use svc_tests::client::Answer;
use svc_tests::{World, session_key, text};

/// A way to call a row.
#[derive(Clone, Copy, Debug)]
pub enum CallPath {
    Rest(&'static str),
    Mcp,
}

impl CallPath {
    /// Returns all ways to call it.
    pub fn of(row: &Operation) -> Vec<CallPath> {
        let mcp = (!row.http().rest_only).then_some(CallPath::Mcp);
        row.http().paths().map(CallPath::Rest).chain(mcp).collect()
    }

    /// Calls it.
    pub fn call(self, world: &World, token: Option<&str>, row: &Operation, input: &Value) -> Answer {
        self.call_by(world, token, &[], row, input)
    }

    fn call_by(
        self,
        world: &World,
        token: Option<&str>,
        headers: &[(&str, &str)],
        row: &Operation,
        input: &Value,
    ) -> Answer {
        match self {
            Self::Rest(path) => world.rest().call_by(token, headers, row, path, input),
            Self::Mcp => world.mcp().call_by(token, headers, row, input),
        }
    }

    /// Returns the credentials that are accepted.
    fn takes(self, row: &Operation) -> AcceptedCredentials {
        match self {
            Self::Rest(_) => row.http().frame.map_or(AcceptedCredentials::All, Frame::accepted_credentials),
            Self::Mcp => AcceptedCredentials::Authorization,
        }
    }
}

/// The credentials of a request.
#[derive(Clone, Copy)]
enum BroughtCredentials {
    /// No credential, or one that has ended.
    Nothing,
    /// A token with these capabilities.
    Bearer(Capabilities),
    /// The session of a browser with these capabilities, and no token.
    Session(Capabilities),
    /// Such a token beside the session of another member: invalid, unless only the token is checked.
    Contradiction(Capabilities),
    /// A share ticket.
    Ticket,
}

/// A kind of caller.
pub struct Kind {
    /// Its name.
    pub who: &'static str,
    token: Option<String>,
    headers: Vec<(&'static str, String)>,
    brings: BroughtCredentials,
    is_delegated: bool,
    is_frozen: bool,
}

/// The expected outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The row needs no credential, and ignores one.
    Unasked,
    /// It is refused with this status and code.
    Refused(u16, &'static str),
    /// It reaches the row.
    Admitted,
}

const UNAUTHENTICATED: Outcome = Outcome::Refused(401, "unauthenticated");

impl Kind {
    fn new(who: &'static str, brings: BroughtCredentials) -> Self {
        Self { who, token: None, headers: Vec::new(), brings, is_delegated: false, is_frozen: false }
    }

    fn bearer(who: &'static str, token: &str, can: Capabilities) -> Self {
        Self::new(who, BroughtCredentials::Bearer(can)).with_token(token)
    }

    /// Returns a kind with a token that has ended.
    fn ended(who: &'static str, token: &str) -> Self {
        Self::new(who, BroughtCredentials::Nothing).with_token(token)
    }

    fn cookie(who: &'static str, value: &str, brings: BroughtCredentials) -> Self {
        Self::new(who, brings).with("cookie", format!("svc_session={value}"))
    }

    fn with_token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn delegated(self) -> Self {
        Self { is_delegated: true, ..self }
    }

    fn frozen(self) -> Self {
        Self { is_frozen: true, ..self }
    }

    /// Returns its token, if it has one, for places other than a header.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Calls a row.
    pub fn call(&self, world: &World, way: CallPath, row: &Operation, input: &Value) -> Answer {
        let headers: Vec<(&str, &str)> = self.headers.iter().map(|(name, value)| (*name, &**value)).collect();
        way.call_by(world, self.token(), &headers, row, input)
    }

    /// Calls a row from the same page, without a credential.
    pub fn call_without(&self, world: &World, way: CallPath, row: &Operation, input: &Value) -> Answer {
        let page = self.headers.iter().filter(|(name, _)| !["cookie", "authorization"].contains(name));
        let page: Vec<(&str, &str)> = page.map(|(name, value)| (*name, &**value)).collect();
        way.call_by(world, None, &page, row, input)
    }

    /// Returns the outcome by the declaration of a row.
    pub fn outcome(&self, row: &Operation, way: CallPath) -> Outcome {
        let access = row.access();
        let takes = way.takes(row);
        if access.needs == Needs::Nothing || takes == AcceptedCredentials::Nothing {
            return Outcome::Unasked;
        }
        let rights = match (self.brings, takes) {
            (BroughtCredentials::Ticket, _) if access.needs.names(Right::Ticket) => return Outcome::Admitted,
            (BroughtCredentials::Nothing | BroughtCredentials::Ticket, _) => return UNAUTHENTICATED,
            (BroughtCredentials::Session(can), AcceptedCredentials::All) => {
                Rights::from(can).with(Right::Session)
            }
            (BroughtCredentials::Session(_), _)
            | (BroughtCredentials::Contradiction(_), AcceptedCredentials::All) => return UNAUTHENTICATED,
            (BroughtCredentials::Bearer(can) | BroughtCredentials::Contradiction(can), _) => {
                Rights::from(can)
            }
        };
        let is_change = !row.effect().is_read_only();
        if !access.needs.is_satisfied_by(rights) && !access.needs.is_satisfied_by_a_capability() {
            UNAUTHENTICATED
        } else if !access.needs.is_satisfied_by(rights) {
            Outcome::Refused(403, "missing-capability")
        } else if access.personal && self.is_delegated {
            Outcome::Refused(403, "forbidden")
        } else if is_change && self.is_frozen && !access.open_to_frozen {
            Outcome::Refused(403, "member-frozen")
        } else {
            Outcome::Admitted
        }
    }

    /// Returns how many decisions a request leaves that needs its credential.
    pub fn decisions(&self) -> i64 {
        i64::from(self.is_delegated)
    }

    /// Returns the status of a sign-in with its token.
    pub fn signs_in(&self) -> u16 {
        if matches!(self.brings, BroughtCredentials::Nothing) { 401 } else { 200 }
    }
}

/// Returns one caller of each kind. Those that can do something can do everything, as far as such a
/// credential can.
pub fn all(world: &World) -> Vec<Kind> {
    let mut kinds = live(world);
    kinds.extend(ended(world));
    kinds.extend(no_cookies(world));
    kinds
}

fn live(world: &World) -> Vec<Kind> {
    let every = Capabilities::all();
    let worker = CapabilitySet::AgentWorker.capabilities();
    let reads: Capabilities = std::iter::once(Capability::WorkspaceRead).collect();
    let people = &world.people;
    let cookie = |secret: &str| session_key().cookie(world.sign_in(secret));
    let of_provider = session_key().cookie(world.new_session(None));
    let (app, of_app) = an_app(world);
    let frozen = text(&world.call(&people.frozen, "whoami", json!({})).output()["member_id"]);
    let [admin, agent] = ["admin", "agent"].map(|sample| world.id(sample).to_string());
    let delegate = |who, subject: &str, delegate: &str| {
        let names: Vec<&str> = every.iter().map(Capability::name).collect();
        Kind::bearer(who, &world.delegated_beyond_grants(subject, delegate, &names), every).delegated()
    };
    let own = cookie(&people.bystander);
    let reader = cookie(&people.reader);
    vec![
        Kind::bearer("a token", &people.bystander, every),
        delegate("a delegate", &admin, &agent),
        Kind::bearer("the token of an app", &app, of_app),
        Kind::cookie("a session of the provider's", &of_provider, BroughtCredentials::Session(worker)),
        Kind::cookie("the session of a token", &own, BroughtCredentials::Session(every)),
        Kind::cookie("the session of a token that reads", &reader, BroughtCredentials::Session(reads)),
        Kind::cookie("a token beside its member's session", &own, BroughtCredentials::Bearer(every))
            .with_token(&people.bystander),
        Kind::cookie("a token beside the session of another", &own, BroughtCredentials::Contradiction(reads))
            .with_token(&people.reader),
        Kind::new("a share ticket", BroughtCredentials::Ticket).with("authorization", a_ticket(world)),
        Kind::bearer("a frozen member", &people.frozen, every).frozen(),
        Kind::cookie(
            "the session of a frozen member",
            &cookie(&people.frozen),
            BroughtCredentials::Session(every),
        )
        .frozen(),
        delegate("a delegate of a frozen subject", &frozen, &admin).frozen(),
        delegate("a frozen delegate", &admin, &frozen).frozen(),
    ]
}

/// Returns invalid credentials, and some that were valid just before.
fn ended(world: &World) -> Vec<Kind> {
    let mut ended = of_a_deactivated_person(world);
    let out = session_key().cookie(signed_out(world));
    ended.extend([
        Kind::new("nobody", BroughtCredentials::Nothing),
        Kind::ended("an unknown token", "svc_unknown"),
        Kind::ended("a revoked token", &world.people.revoked),
        Kind::ended("the token of an uninstalled app", &of_an_uninstalled_app(world)),
        Kind::ended("the old secret of a rotated token", &rotated(world)),
        Kind::ended("a token of a revoked grant", &of_a_revoked_grant(world)).delegated(),
        Kind::cookie("a session that was signed out", &out, BroughtCredentials::Nothing),
    ]);
    ended
}

/// Returns cookies that no page of this service sends, or that this service has not signed.
fn no_cookies(world: &World) -> Vec<Kind> {
    let session = world.sign_in(&world.people.bystander);
    let good = session_key().cookie(session);
    let (_, signature) = good.rsplit_once('.').unwrap();
    let of_another = format!("v1.{}.{signature}", world.id("workspace"));
    let cookie = |who, value: &str| Kind::cookie(who, value, BroughtCredentials::Nothing);
    vec![
        cookie("the bare id of a session", &session.to_string()),
        cookie("a tampered cookie", &of_another),
        cookie("a page of another port", &good).with("origin", "http://localhost:3000"),
        cookie("a page of another site", &good).with("sec-fetch-site", "cross-site"),
    ]
}

fn of_workspace(world: &World, fields: Value) -> Value {
    let mut input = json!({"workspace_id": world.id("workspace")});
    input.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    input
}

fn a_ticket(world: &World) -> String {
    let shared = json!({"channel_id": world.id("channel"), "expires_in_secs": 3600});
    let ticket = world.admin("create_share_ticket", of_workspace(world, shared));
    format!("ShareTicket {}", text(&ticket["secret"]))
}

/// Returns the token that an app has requested with its secret, and its capabilities: no app grants an
/// approval.
fn an_app(world: &World) -> (String, Capabilities) {
    let can = Capabilities::all().without(Capability::ApprovalGrant);
    let made = installed(world, "asking", &json!(can));
    let id = text(&made["client_id"]);
    let secret = text(&made["client_secret"]);
    let form = format!("grant_type=client_credentials&client_id={id}&client_secret={secret}");
    (text(&world.rest().send_form("/oauth/app/token", &[], &form).output()["access_token"]), can)
}

fn installed(world: &World, slug: &str, capabilities: &Value) -> Value {
    let app = world.admin("create_app", of_workspace(world, json!({"slug": slug, "name": "An app"})));
    let install = json!({"app_id": app["id"], "granted_capabilities": capabilities});
    world.admin("install_app", of_workspace(world, install))
}

/// Returns the person's own token and its session, a token by which it acts for another, and one by which
/// another acts for it.
fn of_a_deactivated_person(world: &World) -> Vec<Kind> {
    let scim = |method, path: &str, body: Value| {
        world.rest().send(Some(&world.people.admin), method, path, &[], Some(&body)).output()
    };
    let person = text(&scim("POST", "/scim/v2/Users", json!({"userName": "leaver@corp.example"}))["id"]);
    let mint = of_workspace(world, json!({"member_id": person, "capabilities": ["workspace:read"]}));
    let own = text(&world.admin("mint_token", mint)["secret"]);
    let session = session_key().cookie(world.sign_in(&own));
    let admin = world.id("admin").to_string();
    let agent = world.id("agent").to_string();
    let acting = world.exchange(&own, &world.new_grant(&admin, &person, &["workspace:read"]));
    let acted_for =
        world.exchange(&world.people.agent, &world.new_grant(&person, &agent, &["workspace:read"]));
    let leave = json!({"Operations": [{"op": "replace", "path": "active", "value": false}]});
    scim("PATCH", &format!("/scim/v2/Users/{person}"), leave);
    vec![
        Kind::ended("the token of a deactivated member", &own),
        Kind::cookie("the session of a deactivated member", &session, BroughtCredentials::Nothing),
        Kind::ended("a deactivated delegate", &acting).delegated(),
        Kind::ended("a delegate of a deactivated subject", &acted_for).delegated(),
    ]
}

fn of_an_uninstalled_app(world: &World) -> String {
    let installation = installed(world, "leaving", &json!(["workspace:read"]));
    let of = |more: Value| {
        let mut input = of_workspace(world, more);
        input["installation_id"] = installation["id"].clone();
        input
    };
    let token = world.admin("mint_app_token", of(json!({"label": "x", "capabilities": ["workspace:read"]})));
    world.admin("revoke_app_installation", of(json!({})));
    text(&token["secret"])
}

fn rotated(world: &World) -> String {
    let agent = json!({"member_id": world.id("agent"), "capabilities": ["workspace:read"]});
    let token = world.admin("mint_token", of_workspace(world, agent));
    world.admin("rotate_token", json!({"token_id": token["id"]}));
    text(&token["secret"])
}

fn of_a_revoked_grant(world: &World) -> String {
    let admin = world.id("admin").to_string();
    let agent = world.id("agent").to_string();
    let grant = world.new_grant(&admin, &agent, &["workspace:read"]);
    let token = world.exchange(&world.people.agent, &grant);
    world.admin("revoke_delegation_grant", of_workspace(world, json!({"grant_id": grant})));
    token
}

fn signed_out(world: &World) -> svc_core::id::SessionId {
    let session = world.sign_in(&world.people.bystander);
    world.call_by(svc_core::op::Credential::Session(session), "end_session", &json!({})).output();
    session
}
