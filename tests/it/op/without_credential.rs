//! Requests without a credential, if the operator has turned authentication off or opened a workspace.

use serde_json::{Value, json};
use svc_core::capability::{Capabilities, Needs};
use svc_core::op::Operation;
use svc_core::{Engine, RateSettings};
use svc_http::HttpSettings;
use svc_tests::client::ws::{Received, Ws, first_frame};
use svc_tests::site::Site;
use svc_tests::{Setup, World, on_both_engines, text};

use crate::store::starting::not_served;

fn with(engine: Engine, http: HttpSettings) -> World {
    World::with(engine, Setup { http, ..Setup::default() })
}

fn without_authentication(engine: Engine) -> World {
    let world = with(engine, HttpSettings { auth_disabled: true, ..HttpSettings::default() });
    // All rows of a world were created at the same moment.
    let first = world.database.id(world.id("workspace"));
    world.database.execute(&format!("update workspaces set created_at = created_at + 1 where id <> {first}"));
    world
}

/// Returns a world whose workspace anyone can read over MCP; ids are the same in every world.
fn open_to_all(engine: Engine) -> World {
    let workspace = World::open(engine).id("workspace").into();
    with(engine, HttpSettings { anonymous_workspace: Some(workspace), ..HttpSettings::default() })
}

#[test]
fn without_authentication_nobody_is_the_first_person() {
    on_both_engines(|world| {
        let world = without_authentication(world.engine());
        let admin = json!(world.id("admin"));
        let whoami = world.operation("whoami");
        for me in [world.rest().call(None, whoami, &json!({})), world.mcp().call(None, whoami, &json!({}))] {
            let me = me.output();
            assert_eq!((&me["member_id"], &me["token_id"]), (&admin, &Value::Null));
            let can = me["capabilities"].as_array().unwrap();
            assert!(can.contains(&json!("approval:grant")) && !can.contains(&json!("operator:global")));
        }
        let lsn = world.lsn();
        let input = json!({"workspace_id": world.id("workspace"), "name": "made-by-nobody"});
        for (number, who) in ["rest", "mcp"].into_iter().enumerate() {
            let mut input = input.clone();
            input["name"] = json!(format!("{who}-{number}"));
            let row = world.operation("create_channel");
            let made = match who {
                "rest" => world.rest().call(None, row, &input),
                _ => world.mcp().call(None, row, &input),
            };
            made.output();
        }
        assert_eq!(world.kinds_after(lsn), ["ChannelCreated", "ChannelCreated"]);
        let audit = json!({"workspace_id": world.id("workspace"), "limit": 1});
        let row = &world.admin("list_audit", audit)["items"][0];
        assert_eq!((&row["actor_id"], &row["metadata"]["surface"]), (&admin, &json!("mcp")));
        let mut frame = first_frame("", world.id("workspace"), Some(lsn));
        frame.as_object_mut().unwrap().remove("token");
        let mut socket = Ws::subscribe(world.address(), &frame);
        assert_eq!(socket.frame()["type"], "subscribe_ack");
        assert_eq!(socket.frame()["kind"], "ChannelCreated");
    });
}

/// A page on any site can make its visitor's browser send requests here; only the names in Host and Origin
/// reveal it.
#[test]
fn without_authentication_a_request_names_this_server_and_a_credential_still_counts() {
    on_both_engines(|world| {
        let world = without_authentication(world.engine());
        let me = |token: Option<&str>, headers: &[(&str, &str)]| {
            world.rest().send(token, "GET", "/me", headers, None)
        };
        let foreign = [("host", "evil.example"), ("origin", "http://evil.example"), ("origin", "null")];
        for header in foreign {
            me(None, &[header]).refused(403, "forbidden");
            let channel = json!({"workspace_id": world.id("workspace"), "name": "evil"});
            let path = format!("/workspaces/{}/channels", world.id("workspace"));
            world.rest().send(None, "POST", &path, &[header], Some(&channel)).refused(403, "forbidden");
            let tools = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
            world.rest().send(None, "POST", "/mcp", &[header], Some(&tools)).refused(403, "forbidden");
            let agent = me(Some(&world.people.agent), &[header]).output();
            assert_eq!(agent["member_id"], json!(world.id("agent")), "a token is no page's");
        }
        for dead in ["svc_unknown", &world.people.revoked] {
            me(Some(dead), &[]).refused(401, "unauthenticated");
        }
        me(None, &[("authorization", "ShareTicket svc_share_unknown")]).refused(401, "unauthenticated");
        assert!(me(None, &[]).is_success(), "the control");
    });
}

#[test]
fn without_authentication_an_empty_database_has_nobody_to_act() {
    on_both_engines(|world| {
        let world = without_authentication(world.engine());
        world.database.execute("update members set kind = 'agent' where kind = 'human'");
        world.rest().send(None, "GET", "/me", &[], None).refused(401, "unauthenticated");
        assert!(world.rest().send(None, "GET", "/health/live", &[], None).is_success());
    });
}

/// An anonymous caller reads public data, and nothing more.
#[test]
fn an_anonymous_caller_reads_public_channels_over_mcp() {
    on_both_engines(|world| {
        let world = open_to_all(world.engine());
        let mcp = world.mcp();
        let lsn = world.lsn();
        let audited = || world.database.number("select count(*) from audit");
        let before = audited();
        let held = Capabilities::for_anonymous();
        let mut read = 0;
        let mut closed = 0;
        for row in world.service.table().operations().filter(|row| !row.http().rest_only) {
            let input = row.docs().example(&world.fixture).unwrap();
            let answer = mcp.call(None, row, &input);
            let found = (answer.status, answer.code());
            if row.access().needs == Needs::Nothing {
                continue;
            }
            if !row.is_open_to_anonymous() {
                assert_eq!(found, (401, "unauthenticated"), "{row:?}: {:#}", answer.body);
                closed += 1;
            } else if !row.access().needs.is_satisfied_by(held) {
                assert_eq!(found, (403, "missing-capability"), "{row:?}: {:#}", answer.body);
            } else {
                assert!(matches!(answer.status, 200 | 401 | 404), "{row:?}: {:#}", answer.body);
                read += u32::from(answer.status == 200);
            }
        }
        assert!(read > 15 && closed > 50, "{read} read, {closed} closed");
        assert_eq!((world.lsn(), audited()), (lsn, before), "an anonymous caller left something behind");
        let threads = |channel: &str| {
            let row = world.operation("list_threads");
            mcp.call(None, row, &json!({"channel_id": world.id(channel)}))
        };
        assert!(threads("channel").is_success());
        threads("private_channel").refused(404, "not-found");
        let hidden = json!({"thread_id": world.people.private_thread_id});
        mcp.call(None, world.operation("get_thread"), &hidden).refused(404, "not-found");
        let outsider = world.call(&world.people.outsider, "whoami", json!({})).output();
        let other = json!({"workspace_id": outsider["workspace_id"]});
        mcp.call(None, world.operation("list_channels"), &other).refused(404, "not-found");
    });
}

#[test]
fn the_workspace_that_is_open_to_all_is_so_only_over_mcp_and_without_a_credential() {
    on_both_engines(|world| {
        let world = open_to_all(world.engine());
        let names = |token: Option<&str>| -> Vec<String> {
            let listed = world.mcp().request(token, "tools/list", json!({}));
            assert_eq!(listed.status, 200, "{:#}", listed.body);
            let tools = listed.body["result"]["tools"].as_array().unwrap().clone();
            tools.iter().map(|tool| text(&tool["name"])).collect()
        };
        let open = names(None);
        let row = |name: &String| -> &Operation { world.operation(name) };
        assert!(open.iter().all(|name| row(name).is_open_to_anonymous()), "{open:?}");
        assert!(open.contains(&"list_channels".to_owned()) && !open.contains(&"whoami".to_owned()));
        let mut all = names(Some(&world.people.admin));
        all.retain(|name| !open.contains(name));
        assert!(all.contains(&"whoami".to_owned()) && all.contains(&"post_message".to_owned()));
        let channels = format!("/workspaces/{}/channels", world.id("workspace"));
        world.rest().send(None, "GET", &channels, &[], None).refused(401, "unauthenticated");
        let mut frame = first_frame("", world.id("workspace"), None);
        frame.as_object_mut().unwrap().remove("token");
        assert_eq!(Ws::subscribe(world.address(), &frame).receive(), Received::Closed(1008));
        let tools = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        for header in [("host", "evil.example"), ("origin", "http://evil.example")] {
            world.rest().send(None, "POST", "/mcp", &[header], Some(&tools)).refused(403, "forbidden");
        }
        let listed = world.mcp().request(Some("svc_unknown"), "tools/list", json!({}));
        assert_eq!(listed.status, 401, "a credential that was sent counts");
    });
}

/// Anonymous callers with different addresses share no limit, and one address has the limit of a client.
#[test]
fn requests_without_a_credential_are_charged_to_their_address() {
    on_both_engines(|world| {
        let rates = RateSettings { per_client: 3, ..RateSettings::default() };
        let http = HttpSettings { auth_disabled: true, trusted_proxy_hops: 1, ..HttpSettings::default() };
        let world = World::with(world.engine(), Setup { rates, http, ..Setup::default() });
        let me = |address: &str| {
            let headers = [("x-forwarded-for", address)];
            world.rest().send(None, "GET", "/me", &headers, None).status
        };
        assert_eq!([0; 4].map(|_| me("192.0.2.1")), [200, 200, 200, 429]);
        // The same address is written in other forms, and other clients of the proxy are not affected.
        for same in ["192.0.2.1:51234", "\"[::ffff:192.0.2.1]:80\"", "6.6.6.6, 192.0.2.1"] {
            assert_eq!(me(same), 429, "{same}");
        }
        for other in ["192.0.2.2", "unknown", "_hidden", "192.0.2.999", "192.0.2.1\u{e9}"] {
            assert_eq!(me(other), 200, "{other}");
        }
    });
}

#[test]
fn authentication_is_turned_off_only_on_purpose_and_not_in_production() {
    let site = Site::found(Engine::Sqlite);
    let both = [("AUTH_DISABLED", "1"), ("SVC_ALLOW_INSECURE_NO_AUTH", "1")];
    let open = ("SVC_DEV_ANONYMOUS_MCP_WORKSPACE", site.founders.workspace_id.as_str());
    not_served(&site, &both[..1], 2, "AUTH_DISABLED needs SVC_ALLOW_INSECURE_NO_AUTH=1");
    let production = ("SVC_ENV", "production");
    for variables in [vec![both[0], both[1], production], vec![open, production]] {
        let name = variables[0].0;
        not_served(&site, &variables, 2, &format!("{name} is not allowed while SVC_ENV is production"));
    }
    let server = site.serve(&both);
    assert!(server.rest.send(None, "GET", "/me", &[], None).is_success());
    server.running.signal("TERM");
    let ended = server.running.ended();
    assert!(ended.err.contains("authentication is off"), "{ended:?}");
}
