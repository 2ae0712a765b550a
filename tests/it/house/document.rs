//! The OpenAPI document, checked by independent programs.
//!
//! The Python package `openapi-spec-validator` checks that it is OpenAPI 3.1. `schemathesis` checks the
//! service against it: it generates valid and invalid requests from the document and compares each response
//! with it. The service must not fail, must not return a status or body that the document does not name, and
//! must not reject a valid request as malformed. Variables set the duration and the seed of the search.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::config::{OidcConfig, OidcProvider};
use svc_core::op::Fixture;
use svc_core::time::Clock;
use svc_http::HttpSettings;
use svc_tests::database::{engines, skipped};
use svc_tests::process::{RunningProgram, run};
use svc_tests::{Setup, World, in_parallel, text};
use tempfile::TempDir;

/// The variable with the Python that has the outside clients.
const PYTHON: &str = "SVC_TEST_PYTHON";
/// The variable with the seconds of each search.
const SECONDS: &str = "SVC_TEST_FUZZ_SECS";
const SECONDS_DEFAULT: &str = "60";
/// The seconds for a caller who is rejected by its credential.
const SECONDS_OF_NOBODY: &str = "20";
/// The variable with the seed of the requests; `random` is another search each time.
const SEED: &str = "SVC_TEST_FUZZ_SEED";
const SEED_DEFAULT: &str = "1";

/// Seconds that a response may take.
///
/// They exceed the default timeout of a wait, for broken requests that do not set one.
const REQUEST_TIMEOUT: &str = "120";

/// A route whose success is no longer HTTP, so that an HTTP client cannot test it.
const WEBSOCKET: &str = "/ws/subscribe";
/// Streams that do not end.
const STREAMS: [&str; 3] = ["/mcp/notifications", "/mcp/stream", "/mcp/streamable"];
/// Its only valid inputs name the workspace, and would erase the objects of all other requests.
const ERASE: &str = "/workspaces/{workspace_id}/erase";
const PURGE: &str = "/workspaces/{workspace_id}/purge";

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,positive_data_acceptance";

/// The description of the id of an MCP message in the document.
const MCP_ID: &str = "/components/schemas/JsonRpcRequest/properties/id";

/// The ids that requests name, by the kind of object.
struct Ids {
    fixture: Fixture,
    /// A token that no test uses, so that it may be rotated and revoked.
    spare_token: Value,
}

impl Ids {
    fn of(world: &World) -> Self {
        let spare = json!({"workspace_id": world.id("workspace"), "member_id": world.id("agent")});
        Self { fixture: world.fixture.clone(), spare_token: world.admin("mint_token", spare)["id"].clone() }
    }

    /// Returns the ids that a field of this name can mean: samples have descriptive names, such as
    /// `done_thread`.
    fn meant_by(&self, field: &str) -> Value {
        let kinds = ["workspace", "channel", "token", "lease", "message", "thread"];
        let meant = match kinds.into_iter().find(|kind| field.contains(kind)) {
            Some("token") => return json!([self.spare_token]),
            // Relations lead to that message, which no path may name.
            Some(kind) => self.named(|name| name.ends_with(kind) && name != "disputed_message"),
            None if field.contains("depends") || field.contains("parent") => {
                self.named(|name| name.ends_with("thread"))
            }
            None => self.named(|name| ["admin", "agent"].contains(&name)),
        };
        assert!(!meant.is_empty(), "no sample can be meant by {field}");
        json!(meant)
    }

    fn named(&self, wanted: impl Fn(&str) -> bool) -> Vec<Value> {
        self.fixture.names().filter(|name| wanted(name)).map(|name| self.fixture.id(name)).collect()
    }
}

/// Makes the document name objects that exist; otherwise nearly every response would be 404.
///
/// It also adds rules that schemas cannot express: that a time must be in the future, that a wait must be
/// short, that a footprint names its repository unless it has only slots, that a delegation grant and a share
/// ticket end within their limits, that retention is not longer than the instance's, the syntax of filters,
/// and that a sign-in at the mock names a person.
fn made_concrete(document: &mut Value, ids: &Ids) {
    // JSON-RPC wants whole numbers without a fraction, which schemas cannot express.
    *document.pointer_mut(MCP_ID).unwrap() = json!({"type": "string"});
    let named = document["components"].clone();
    let resolve = |value: &mut Value| {
        if let Some(address) = value["$ref"].as_str() {
            *value = named.pointer(address.strip_prefix("#/components").unwrap()).unwrap().clone();
        }
    };
    for item in document["paths"].as_object_mut().unwrap().values_mut() {
        for operation in item.as_object_mut().unwrap().values_mut() {
            let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
            for parameter in parameters.into_iter().flatten() {
                resolve(parameter);
                let name = text(&parameter["name"]);
                limit(&name, &mut parameter["schema"], ids);
                if ["timeout_secs", "sub"].contains(&&*name) {
                    parameter["required"] = json!(true);
                }
                parameter.as_object_mut().unwrap().remove("example");
            }
            for media in ["json", "scim+json"] {
                let content = operation.pointer_mut(&format!("/requestBody/content/application~1{media}"));
                let Some(content) = content else { continue };
                resolve(&mut content["schema"]);
                // No schema expresses when a file is complete.
                if content["schema"]["properties"].is_null() && content["example"].is_object() {
                    content["schema"] = json!({"enum": [content["example"]]});
                }
                let fields = content["schema"]["properties"].as_object_mut();
                fields.into_iter().flatten().for_each(|(name, schema)| limit(name, schema, ids));
                require_with(&mut content["schema"], "items", "repo");
                end_soon(&mut content["schema"]);
                // No schema expresses what a key is and where a browser can be reached.
                for field in ["keys", "endpoint"] {
                    if content["schema"]["properties"][field].is_object() {
                        content["schema"]["properties"][field] = json!({"enum": [content["example"][field]]});
                    }
                }
                let is_mark = name_once(&mut content["schema"]);
                content.as_object_mut().unwrap().remove("example");
                if is_mark {
                    operation["requestBody"]["required"] = json!(true);
                }
            }
        }
    }
}

fn limit(name: &str, schema: &mut Value, ids: &Ids) {
    if name == "target_message_id" {
        // Another message than that of the path.
        *schema = json!({"enum": ids.named(|name| name == "disputed_message")});
    } else if schema["format"] == "uuid" {
        *schema = json!({"enum": ids.meant_by(name)});
    } else if schema["items"]["format"] == "uuid" {
        schema["items"] = json!({"enum": ids.meant_by(name)});
    } else if schema["format"] == "date-time" {
        *schema = json!({"enum": ["2100-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]});
    } else if name == "footprint" {
        let footprint = |repo: Option<&str>, kind: &str| {
            let item = json!({"kind": kind, "value": "src"});
            json!({"repo": repo, "items": [item], "mode": "shared"})
        };
        let paths = footprint(Some("https://host.example/acme/app.git"), "path");
        *schema = json!({"enum": [null, footprint(None, "slot"), paths]});
    } else if ["FootprintItem", "\"lane\""].iter().any(|of| schema["items"].to_string().contains(of)) {
        // No pattern expresses the names of branches, and which characters beyond U+FFFF are visible.
        let items = [
            ("path", "src"),
            ("glob", "docs/*"),
            ("branch", "refs/heads/main"),
            ("lane", "l"),
            ("slot", "gpu"),
        ];
        let items: Vec<Value> =
            items.iter().map(|(kind, value)| json!({"kind": kind, "value": value})).collect();
        schema["items"] = json!({"enum": items});
    } else if name == "repo" {
        // No schema expresses which texts are clone URLs.
        *schema =
            json!({"enum": ["acme/app", "https://host.example/acme/app.git", "git@host:group/sub/app"]});
    } else if name == "slot" {
        *schema = json!({"type": "string", "pattern": "^[a-z][a-z0-9]{0,20}$"});
    } else if name == "timeout_secs" {
        *schema = json!({"enum": [1]});
    } else if let Some(values) = words_of_conversation(name, schema) {
        *schema = json!({"enum": values});
    } else if name == "handle" && schema["type"].to_string().contains("string") {
        // Some letters of some scripts are not allowed in names.
        *schema = json!({"type": "string", "pattern": "^[a-z][a-z0-9]{3,20}$"});
    } else if ["media_days", "media_quota_bytes"].contains(&name) {
        *schema = json!({"enum": [null, 1, 30]});
    } else {
        limit_of_scim(name, schema, ids);
    }
}

/// Returns the rules of notifications, votes and reactions that no schema expresses: a zone has a name, an
/// option exists, an emoji is one.
fn words_of_conversation(name: &str, schema: &Value) -> Option<Value> {
    Some(match name {
        "quiet_hours" => {
            json!([null, {"start": "22:00", "end": "07:00", "time_zone": "Europe/Berlin"}])
        }
        "rules" => json!([[], [{"reason": "mention", "mail": true, "push": false}]]),
        "emoji" => json!(["\u{1f44d}", "tada", "done_1"]),
        "options" if schema["items"]["type"] == "integer" => json!([[], [0]]),
        "options" => json!([["yes", "no"], ["a", "b", "c"]]),
        _ => return None,
    })
}

/// Adds the rules of RFC 7643 and RFC 7644: filters and changes have their own languages.
fn limit_of_scim(name: &str, schema: &mut Value, ids: &Ids) {
    let is_list = schema["items"].is_object();
    match name {
        "id" => *schema = json!({"enum": ids.named(|name| ["person", "scim_group"].contains(&name))}),
        "filter" => *schema = json!({"type": "string", "pattern": format!("^{}$", filters())}),
        "excludedAttributes" => *schema = json!({"enum": [if is_list { json!([]) } else { json!("") }]}),
        "userName" => *schema = json!({"type": "string", "pattern": "^[A-Za-z]{8,20}$"}),
        "displayName" if schema["maxLength"].is_null() => *schema = json!({"enum": [null, "Mary"]}),
        // Only the admin, since no request can delete it: a deleted person can no longer be a member.
        "members" if is_list => {
            let admin = ids.named(|name| name == "admin");
            *schema = json!({"enum": [[], [{"value": admin[0]}]]});
        }
        "Operations" => {
            let value = json!({"type": "string", "pattern": "^[A-Za-z0-9][ -~]{0,90}$"});
            let op = json!({"enum": ["add", "Add", "replace", "Replace"]});
            let of = |fields: &[&str], more: Value| {
                let mut properties = json!({"op": op});
                properties.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                json!({"type": "object", "properties": properties, "required": fields,
                       "additionalProperties": false})
            };
            let paths = json!({"enum": ["externalId", "displayName"]});
            let pathless = json!({"type": "object", "properties": {"externalId": value},
                                  "additionalProperties": false});
            let named = of(&["op", "path", "value"], json!({"path": paths, "value": value}));
            let whole = of(&["op", "value"], json!({"value": pathless}));
            *schema = json!({"type": "array", "items": {"anyOf": [named, whole]}, "maxItems": 5});
        }
        _ => {}
    }
}

/// Returns a pattern of filters for every kind of resource, with any text in them.
fn filters() -> String {
    let text = "\"[ !#-\\[\\]-~]{0,20}\"";
    let compared = format!("(displayName|externalId|id|meta\\.resourceType) (eq|ne|co|sw|ew|gt|le) {text}");
    let term = format!("({compared}|not \\({compared}\\)|(displayName|externalId) pr)");
    format!("{term}( (and|or) {term}){{0,3}}")
}

/// Makes a delegation grant and a share ticket end soon.
fn end_soon(schema: &mut Value) {
    if ["delegate", "artifact_shas"].iter().all(|field| schema["properties"][field].is_null()) {
        return;
    }
    schema["properties"].as_object_mut().unwrap().remove("expires_at");
    schema["properties"]["expires_in_secs"] = json!({"enum": [1, 3600]});
    schema["required"].as_array_mut().unwrap().push(json!("expires_in_secs"));
    schema.as_object_mut().unwrap().remove("allOf");
}

/// Makes a request name items of an inbox in one of the three forms, of which it may have one.
///
/// Returns whether the input names any.
fn name_once(schema: &mut Value) -> bool {
    let Some(fields) = schema["properties"].as_object_mut() else { return false };
    let is_mark = fields.contains_key("up_to_lsn") && fields.remove("lsns").is_some();
    if is_mark {
        fields.remove("target_id");
        schema["properties"]["up_to_lsn"] = json!({"type": "integer", "minimum": 0, "maximum": 1_000_000});
        schema["required"] = json!(["up_to_lsn"]);
    }
    is_mark
}

/// Requires a field of an input, and not null, if the input has the field `with`.
fn require_with(schema: &mut Value, with: &str, field: &str) {
    if schema["properties"][with].is_null() || schema["properties"][field].is_null() {
        return;
    }
    let fields = schema["properties"].as_object_mut().unwrap();
    if fields[field]["type"].is_array() {
        fields[field]["type"] = json!("string");
    }
    match schema["required"].as_array_mut() {
        Some(required) => required.push(json!(field)),
        None => schema["required"] = json!([field]),
    }
}

/// A server, its document in a file, and whether the requests to it are valid.
struct Target {
    world: World,
    folder: TempDir,
    mode: &'static str,
}

impl Target {
    fn new(engine: Engine, mode: &'static str) -> Self {
        let oidc = OidcConfig { provider: OidcProvider::Mock, redirect_uri: None };
        let http = HttpSettings { oidc: Some(oidc), ..HttpSettings::default() };
        let setup = Setup { clock: Clock::system(), http, auto_provision: true, ..Setup::default() };
        let target = Self { world: World::with(engine, setup), folder: tempfile::tempdir().unwrap(), mode };
        let mut document = target.world.rest().send(None, "GET", "/openapi.json", &[], None).output();
        made_concrete(&mut document, &Ids::of(&target.world));
        std::fs::write(target.file(), document.to_string()).unwrap();
        target
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("openapi.json")
    }

    /// Searches for some seconds. Returns what it tried, if it has begun in that time.
    fn search(&self, python: &OsStr, token: Option<&str>, seconds: u32) -> Option<String> {
        let mut command = Command::new(python);
        command.current_dir(self.folder.path()).args(["-m", "schemathesis.cli", "run"]).arg(self.file());
        command.env("SCHEMATHESIS_HOOKS", concat!(env!("CARGO_MANIFEST_DIR"), "/py/fuzz_hooks.py"));
        command.args(["--no-color", "--url", &format!("http://{}", self.world.address())]);
        command.args(["--checks", CHECKS, "--max-time", &seconds.to_string()]);
        if let Some(token) = token {
            command.args(["--header", &format!("Authorization: Bearer {token}")]);
        }
        let left_out = [WEBSOCKET, ERASE, PURGE].into_iter().chain(STREAMS);
        command.args(left_out.flat_map(|path| ["--exclude-path", path]));
        command.args(["--mode", self.mode, "--phases", "coverage,fuzzing"]);
        command.args(["--continue-on-failure", "--suppress-health-check", "all", "--warnings", "off"]);
        command.args(["--generation-database", "none", "--request-timeout", REQUEST_TIMEOUT]);
        let seed = setting(SEED, SEED_DEFAULT);
        if seed != "random" {
            command.args(["--seed", &seed]);
        }
        let outcome = run(&mut command);
        assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.out, outcome.err);
        let mut tried = outcome.out.lines().map(str::trim).filter(|line| line.contains(" generated"));
        tried.find(|line| line.starts_with(|first| ('1'..='9').contains(&first))).map(str::to_owned)
    }
}

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Tests the document as the bearer of the token that `choose` returns, with valid and invalid requests.
///
/// The valid ones go to one engine and the others to the other, if this run can test both, in the order of
/// `turn`. A machine that is too busy to begin in time gets more time.
fn test_document(turn: usize, seconds: &str, choose: fn(&World) -> Option<&str>) {
    let Some(python) = std::env::var_os(PYTHON) else { return skipped("outside clients", PYTHON) };
    let engines = engines();
    let seconds: u32 = setting(SECONDS, seconds).parse().unwrap();
    in_parallel(2, |which| {
        let target = Target::new(engines[(which + turn) % engines.len()], ["positive", "negative"][which]);
        let spans = [1, 2, 4].map(|times| times * seconds);
        let tried = spans.into_iter().find_map(|secs| target.search(&python, choose(&target.world), secs));
        let tried = tried.expect("something is tried");
        println!("{}, {}: {tried}", target.world.engine().name(), target.mode);
    });
}

/// Client generators must accept the document.
///
/// The broken documents are the control: one for each part that is checked.
#[test]
fn the_document_is_valid_openapi() {
    let Some(python) = std::env::var_os(PYTHON) else { return skipped("outside clients", PYTHON) };
    let world = World::open(Engine::Sqlite);
    let document = world.rest().send(None, "GET", "/openapi.json", &[], None).output();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/py/check_openapi.py");
    let mut validator = RunningProgram::start(Command::new(python).arg(script));
    let mut defects = |document: &Value| -> Vec<String> {
        validator.say(&document.to_string());
        serde_json::from_str(&validator.next_line()).unwrap()
    };
    assert_eq!(defects(&document), Vec::<String>::new());

    let nowhere = json!({"$ref": "#/components/schemas/Nothing"});
    // The controls need few paths.
    let mut document = document;
    let needed = ["/channels/{channel_id}", "/channels/{channel_id}/threads"];
    document["paths"].as_object_mut().unwrap().retain(|path, _| needed.contains(&path.as_str()));
    let operation = "/paths/~1channels~1{channel_id}~1threads/post";
    for (place, broken) in [
        ("/parameters/0", json!({"name": "channel_id", "required": true, "schema": {"type": "string"}})),
        ("/parameters/0/name", json!("thread_id")),
        ("/responses/201/content/application~1json/schema", nowhere.clone()),
        ("/requestBody/content/application~1json/schema/properties/title", nowhere),
        ("/requestBody/content/application~1json/schema/properties/title", json!({"type": "words"})),
        ("/responses/201/headers/Svc-Room-LSN/$ref", json!("#/components/headers/Nothing")),
        ("/operationId", json!("get_channel")),
    ] {
        let mut document = document.clone();
        *document.pointer_mut(&format!("{operation}{place}")).unwrap() = broken.clone();
        assert!(!defects(&document).is_empty(), "{broken} at {place} is found valid");
    }
}

#[test]
fn the_document_holds_for_an_administrator() {
    test_document(0, SECONDS_DEFAULT, |world| Some(&world.people.admin));
}

#[test]
fn the_document_holds_for_a_worker() {
    test_document(1, SECONDS_DEFAULT, |world| Some(&world.people.agent));
}

#[test]
fn the_document_holds_for_nobody() {
    test_document(0, SECONDS_OF_NOBODY, |_| None);
}
