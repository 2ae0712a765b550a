//! Quotas of tokens: who can set them, and that a token and all derived from it stay within them.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::{Engine, RateSettings};
use svc_tests::client::Answer;
use svc_tests::database::engines;
use svc_tests::{Setup, World, answer_of, call, on_both_engines, text};

/// The rate window of a world.
const WINDOW: Duration = Duration::from_secs(60);

fn mint(world: &World, quotas: Value) -> Value {
    let input =
        json!({"workspace_id": world.id("workspace"), "member_id": world.id("agent"), "quotas": quotas});
    world.admin("mint_token", input)
}

fn attenuate(world: &World, token: &str, quotas: Value) -> Answer {
    world.call(token, "attenuate_token", json!({"capabilities": ["workspace:read"], "quotas": quotas}))
}

fn secret(token: &Value) -> String {
    text(&token["secret"])
}

/// Returns how many of this many requests are admitted.
fn admitted(world: &World, token: &str, tries: usize) -> usize {
    (0..tries).filter(|_| world.call(token, "whoami", json!({})).status == 200).count()
}

#[test]
fn a_token_makes_as_many_requests_as_its_quota_in_a_window() {
    on_both_engines(|world| {
        let minted = mint(world, json!({"requests": 5}));
        assert_eq!(minted["quotas"], json!({"requests": 5}));
        let token = secret(&minted);
        assert_eq!(admitted(world, &token, 7), 5);
        let refused = world.call(&token, "whoami", json!({})).refused(429, "rate-limited");
        assert_eq!(refused["retry_after_secs"], 13);
        assert_eq!(admitted(world, &secret(&mint(world, json!(null))), 7), 7, "one without a quota");
        world.clock.advance(WINDOW);
        let rotated = world.call(&token, "rotate_token", json!({})).output();
        assert_eq!(rotated["quotas"], json!({"requests": 5}));
        assert_eq!(admitted(world, &secret(&rotated), 7), 4, "another secret is no other token");
    });
}

#[test]
fn a_limited_administrator_mints_nothing_less_limited() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let admin = world.id("admin");
        let of_admin =
            |quotas: Value| json!({"workspace_id": workspace, "member_id": admin, "quotas": quotas});
        let limited = secret(&world.admin("mint_token", of_admin(json!({"requests": 9}))));
        let mint = |quotas: Value| world.call(&limited, "mint_token", of_admin(quotas));
        mint(json!({"requests": 10})).refused(403, "forbidden");
        assert_eq!(mint(json!({"requests": 2})).output()["quotas"], json!({"requests": 2}));
        assert_eq!(mint(json!(null)).output()["quotas"], json!({"requests": 9}));
    });
}

/// A token that is created for or handed over to a limited caller is limited at least as much.
#[test]
fn no_way_to_another_token_leads_around_a_quota() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let admin = world.id("admin");
        let of_admin =
            |quotas: Value| json!({"workspace_id": workspace, "member_id": admin, "quotas": quotas});
        let limited = secret(&world.admin("mint_token", of_admin(json!({"requests": 50}))));
        let by_limited = |operation: &str, input: Value| world.call(&limited, operation, input);
        let quota = json!({"requests": 50});

        let agent = json!({"workspace_id": workspace, "handle": "limited.agent"});
        assert_eq!(by_limited("create_agent", agent).output()["token"]["quotas"], quota);
        let app = world.id("installation");
        let of_app =
            |quotas: Value| json!({"workspace_id": workspace, "installation_id": app, "quotas": quotas});
        by_limited("mint_app_token", of_app(json!({"requests": 51}))).refused(403, "forbidden");
        assert_eq!(by_limited("mint_app_token", of_app(json!(null))).output()["quotas"], quota);

        for (quotas, code) in [(json!(null), 403), (json!({"requests": 51}), 403), (quota.clone(), 200)] {
            let other = world.admin("mint_token", of_admin(quotas.clone()));
            let taken = by_limited("rotate_token", json!({"token_id": other["id"]}));
            assert_eq!(taken.status, code, "{quotas}: {}", taken.body);
        }

        // The member who installed an app determines the quota of its client credentials.
        let app = json!({"workspace_id": workspace, "slug": "limited", "name": "Limited"});
        let app = world.admin("create_app", app)["id"].clone();
        let install = json!({"workspace_id": workspace, "app_id": app,
                             "granted_capabilities": ["workspace:read"]});
        let installed = by_limited("install_app", install).output();
        let get_token = || {
            let form = json!({"grant_type": "client_credentials", "client_id": installed["client_id"],
                              "client_secret": installed["client_secret"]});
            let answer = world.rest().send(None, "POST", "/oauth/app/token", &[], Some(&form));
            text(&answer.output()["access_token"])
        };
        let tokens = [get_token(), get_token()];
        assert_eq!(admitted(world, &tokens[0], 60) + admitted(world, &tokens[1], 60), 50, "together");
        let listed = world.admin("list_app_installations", json!({"workspace_id": workspace}));
        let quotas = listed["items"].as_array().unwrap().iter().map(|one| &one["quotas"]);
        assert_eq!(quotas.collect::<Vec<_>>(), [&json!(null), &json!(null), &quota]);
        let minted = json!({"workspace_id": workspace, "installation_id": installed["id"],
                            "quotas": {"requests": 51}});
        world.call(&world.people.admin, "mint_app_token", minted).refused(403, "forbidden");
    });
}

#[test]
fn what_is_derived_counts_towards_the_quota_that_it_comes_from() {
    on_both_engines(|world| {
        let root = secret(&mint(world, json!({"requests": 12})));
        attenuate(world, &root, json!({"requests": 13})).refused(403, "forbidden");
        let same = attenuate(world, &root, json!(null)).output();
        assert_eq!(same["quotas"], json!({"requests": 12}));
        let narrow = attenuate(world, &secret(&same), json!({"requests": 3})).output();
        attenuate(world, &secret(&narrow), json!({"requests": 4})).refused(403, "forbidden");
        // Three derivations and two refusals have counted, the narrow one's towards all quotas.
        assert_eq!(admitted(world, &secret(&narrow), 5), 2);
        assert_eq!(admitted(world, &secret(&same), 9), 6);
        assert_eq!(admitted(world, &root, 1), 0);
        let listed = world.admin(
            "list_tokens",
            json!({"workspace_id": world.id("workspace"), "member_id": world.id("agent"), "limit": 200}),
        );
        let of = |id: &Value| {
            let items = listed["items"].as_array().unwrap();
            items.iter().find(|token| token["id"] == *id).unwrap()["quotas"].clone()
        };
        assert_eq!((of(&narrow["id"]), of(&same["id"])), (json!({"requests": 3}), json!({"requests": 12})));
    });
}

#[test]
fn a_delegate_has_the_quota_of_the_token_that_it_exchanges() {
    on_both_engines(|world| {
        let (subject, _) = world.new_agent("quota.subject");
        let grant = world.new_grant(&subject, &world.id("agent").to_string(), &["workspace:read"]);
        let own = secret(&mint(world, json!({"requests": 6})));
        let exchange =
            |quotas: Value| world.call(&own, "delegate_token", json!({"grant_id": grant, "quotas": quotas}));
        exchange(json!({"requests": 7})).refused(403, "forbidden");
        let lent = exchange(json!({"requests": 2})).output();
        assert_eq!(admitted(world, &secret(&lent), 4), 2);
        assert_eq!(admitted(world, &own, 4), 2, "it has made two itself");
    });
}

/// Mints a token for the installed app.
fn of_app(world: &World, quotas: Value) -> Value {
    let input = json!({
        "workspace_id": world.id("workspace"), "installation_id": world.id("installation"), "quotas": quotas,
    });
    world.admin("mint_app_token", input)
}

#[test]
fn a_token_of_an_app_has_its_quota() {
    on_both_engines(|world| {
        let minted = of_app(world, json!({"requests": 3}));
        assert_eq!(minted["quotas"], json!({"requests": 3}));
        assert_eq!(admitted(world, &secret(&minted), 5), 3);
        assert_eq!(admitted(world, &secret(&of_app(world, json!(null))), 5), 5);
    });
}

/// Otherwise an app could request another token whenever it reaches its limit.
#[test]
fn the_tokens_of_an_app_are_one_client() {
    for engine in engines() {
        let rates = RateSettings { per_client: 6, per_workspace: 0, window: WINDOW };
        let world = World::with(engine, Setup { rates, ..Setup::default() });
        let tokens = [(); 2].map(|()| secret(&of_app(&world, json!(null))));
        assert_eq!(admitted(&world, &tokens[0], 4), 4);
        assert_eq!(admitted(&world, &tokens[1], 4), 2);
    }
}

#[test]
fn servers_share_a_quota() {
    on_both_engines(|world| {
        let other = world.another_service(2);
        let token = secret(&mint(world, json!({"requests": 10})));
        let ask = || answer_of(call(&other, Some(&token), "whoami", &json!({}))).status == 200;
        let mut total = 0;
        for _ in 0..12 {
            total += admitted(world, &token, 1) + usize::from(ask());
        }
        // Each request is reported, since a twentieth of ten is less than one.
        let wanted = if world.engine() == Engine::Postgres { 10 } else { 20 };
        assert_eq!(total, wanted);
    });
}
