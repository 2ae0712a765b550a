//! Tokens that have ended, each in another way, and delegated ones that a freeze has reached.

use serde_json::{Value, json};
use svc_core::capability::Capability;
use svc_tests::{World, text};

/// A token that is refused.
pub struct Refused {
    /// Whose it is.
    pub who: &'static str,
    /// Its secret.
    pub token: String,
    /// Whether each request with it leaves a decision.
    pub is_delegated: bool,
}

impl Refused {
    fn own(who: &'static str, token: String) -> Self {
        Self { who, token, is_delegated: false }
    }

    fn delegated(who: &'static str, token: String) -> Self {
        Self { who, token, is_delegated: true }
    }
}

/// Tokens that worked a moment ago and are no credential any more.
pub fn tokens(world: &World) -> Vec<Refused> {
    let mut ended = of_a_deactivated_person(world);
    ended.push(Refused::own("the token of an uninstalled app", of_an_uninstalled_app(world)));
    ended.push(Refused::own("the old secret of a rotated token", rotated(world)));
    ended.push(Refused::delegated("a token of a revoked grant", of_a_revoked_grant(world)));
    ended
}

/// Delegated tokens with every capability, of whom one member is frozen.
pub fn delegated_of_frozen(world: &World) -> Vec<Refused> {
    let every: Vec<&str> = Capability::ALL.iter().map(|capability| capability.name()).collect();
    let frozen = text(&world.call(&world.people.frozen, "whoami", json!({})).output()["member_id"]);
    let admin = world.id("admin").to_string();
    let delegated = |subject: &str, delegate: &str| world.delegated_beyond_grants(subject, delegate, &every);
    vec![
        Refused::delegated("a delegate of a frozen subject", delegated(&frozen, &admin)),
        Refused::delegated("a frozen delegate", delegated(&admin, &frozen)),
    ]
}

fn of_workspace(world: &World, fields: Value) -> Value {
    let mut input = json!({"workspace_id": world.id("workspace")});
    input.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    input
}

/// The person's own token, one by which it acts for another, and one by which another acts for it.
fn of_a_deactivated_person(world: &World) -> Vec<Refused> {
    let scim = |method, path: &str, body: Value| {
        world.rest().send(Some(&world.people.admin), method, path, &[], Some(&body)).output()
    };
    let person = text(&scim("POST", "/scim/v2/Users", json!({"userName": "leaver@corp.example"}))["id"]);
    let mint = of_workspace(world, json!({"member_id": person, "capabilities": ["workspace:read"]}));
    let own = text(&world.admin("mint_token", mint)["secret"]);
    let (admin, agent) = (world.id("admin").to_string(), world.id("agent").to_string());
    let acting = world.exchange(&own, &world.new_grant(&admin, &person, &["workspace:read"]));
    let acted_for =
        world.exchange(&world.people.agent, &world.new_grant(&person, &agent, &["workspace:read"]));
    let leave = json!({"Operations": [{"op": "replace", "path": "active", "value": false}]});
    scim("PATCH", &format!("/scim/v2/Users/{person}"), leave);
    vec![
        Refused::own("the token of a deactivated member", own),
        Refused::delegated("a deactivated delegate", acting),
        Refused::delegated("a delegate of a deactivated subject", acted_for),
    ]
}

fn of_an_uninstalled_app(world: &World) -> String {
    let app = world.admin("create_app", of_workspace(world, json!({"slug": "leaving", "name": "An app"})));
    let install = json!({"app_id": app["id"], "granted_capabilities": ["workspace:read"]});
    let installation = world.admin("install_app", of_workspace(world, install));
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
    let (admin, agent) = (world.id("admin").to_string(), world.id("agent").to_string());
    let grant = world.new_grant(&admin, &agent, &["workspace:read"]);
    let token = world.exchange(&world.people.agent, &grant);
    world.admin("revoke_delegation_grant", of_workspace(world, json!({"grant_id": grant})));
    token
}
