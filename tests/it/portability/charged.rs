//! Limits that importing does not multiply: an imported workspace shares those of its importer.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::api::{ImportMode, ImportResult, ImportWorkspace};
use svc_core::id::WorkspaceId;
use svc_core::{Engine, RateSettings, Service};
use svc_tests::client::Answer;
use svc_tests::database::engines;
use svc_tests::{Setup, World, answer_of, call, in_parallel, text};

use crate::portability::origin::{export, failing_to_show};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// A workspace, with the token of its administrator.
struct Team {
    workspace: WorkspaceId,
    token: String,
}

impl Team {
    /// Returns a workspace that the operator has created.
    fn created(world: &World) -> Self {
        let made = world.admin("create_workspace", json!({"name": "Copied", "admin_handle": "ada"}));
        Self::of(&made["workspace"]["id"], &made["token"])
    }

    fn of(workspace: &Value, token: &Value) -> Self {
        Self { workspace: text(workspace).parse().unwrap(), token: text(&token["secret"]) }
    }

    /// Returns a copy of this workspace, which the bearer of `token` has imported.
    fn copied_by(&self, world: &World, token: &str) -> Self {
        let copy = import(world, token, &export(world, self.workspace)).output();
        Self::of(&copy["workspace_id"], &copy["admin_token"])
    }

    /// Returns a copy that the workspace has imported of itself.
    fn copied(&self, world: &World) -> Self {
        self.copied_by(world, &self.token)
    }

    /// Returns the status of a request that changes nothing.
    fn status(&self, world: &World) -> u16 {
        world.call(&self.token, "whoami", json!({})).status
    }

    /// Requests mail codes as `count` new members of the workspace, and returns the statuses.
    fn ask_for_codes(&self, world: &World, handle: &str, count: usize) -> Vec<u16> {
        let tokens = (0..count).map(|number| {
            let new = json!({"workspace_id": self.workspace, "handle": format!("{handle}{number}")});
            text(&world.call(&self.token, "create_agent", new).output()["token"]["secret"])
        });
        let input = json!({"address": "someone@example.com", "mode": "digest"});
        tokens.map(|token| world.call(&token, "set_delivery_address", input.clone()).status).collect()
    }

    fn erase(&self, world: &World) {
        let confirm = json!({"workspace_id": self.workspace, "confirm": "Copied"});
        world.call(&self.token, "erase_workspace", confirm).output();
    }
}

/// Imports a file as a copy.
fn import(world: &World, token: &str, file: &Value) -> Answer {
    import_by(&world.service, token, file)
}

fn import_by(service: &Service, token: &str, file: &Value) -> Answer {
    let input = json!({"mode": "new", "envelope": file, "admin_handle": "ada"});
    answer_of(call(service, Some(token), "import_workspace", &input))
}

/// Asserts that an import is refused for this time.
#[track_caller]
fn refused_for(answer: Answer, span: Duration) {
    let problem = answer.refused(429, "rate-limited");
    assert_eq!(problem["retry_after_secs"], json!(span.as_secs()), "{problem}");
}

fn limited_to(engine: Engine, import_workspaces: u32) -> World {
    World::with(engine, Setup { import_workspaces, ..Setup::default() })
}

#[test]
fn a_copy_and_a_copy_of_it_share_the_rate_limit_of_the_first_importer() {
    for engine in engines() {
        let rates = RateSettings { per_client: 0, per_workspace: 40, window: HOUR };
        let world = World::with(engine, Setup { rates, ..Setup::default() });
        let first = Team::created(&world);
        let second = first.copied(&world);
        let third = second.copied(&world);
        // The control: a copy that the operator has imported has its own limits.
        let own = first.copied_by(&world, &world.people.admin);
        let teams = [&first, &second, &third];
        let statuses: Vec<u16> = (0..15).flat_map(|_| teams.map(|team| team.status(&world))).collect();
        let admitted = statuses.iter().take_while(|status| **status == 200).count();
        assert_eq!(admitted, 38, "two of 40 were imports: {statuses:?}");
        assert!(statuses.iter().skip(admitted).all(|status| *status == 429), "{statuses:?}");
        let alone = (0..41).map(|_| own.status(&world)).filter(|status| *status == 200).count();
        assert_eq!(alone, 40);
    }
}

#[test]
fn a_copy_and_a_copy_of_it_share_the_codes_that_are_mailed() {
    for engine in engines() {
        let world = World::open(engine);
        let first = Team::created(&world);
        let second = first.copied(&world);
        let third = second.copied(&world);
        let own = first.copied_by(&world, &world.people.admin);
        for (team, codes) in [(&first, 8), (&second, 8), (&third, 4)] {
            assert_eq!(team.ask_for_codes(&world, "a", codes), vec![200; codes]);
        }
        for team in [&first, &second, &third] {
            assert_eq!(team.ask_for_codes(&world, "b", 1), [429]);
        }
        assert_eq!(own.ask_for_codes(&world, "b", 20), [200; 20], "the control");
        // A mailed code stays counted when its workspace is erased.
        second.erase(&world);
        world.pass(10 * SECOND);
        assert_eq!(first.ask_for_codes(&world, "c", 1), [429]);
        world.clock.advance(HOUR);
        assert_eq!(first.ask_for_codes(&world, "d", 20), [200; 20]);
        assert_eq!(third.ask_for_codes(&world, "d", 1), [429]);
    }
}

#[test]
fn the_eleventh_import_of_a_workspace_and_its_copies_waits_until_the_first_is_a_day_old() {
    for engine in engines() {
        let world = World::open(engine);
        let first = Team::created(&world);
        let file = export(&world, first.workspace);
        let second = first.copied(&world);
        world.clock.advance(HOUR);
        let third = second.copied(&world);
        // A failure is not counted, nor is the outcome of an earlier import.
        let input = json!({"mode": "new", "envelope": file, "import_id": "once"});
        let once = |created: bool| {
            let imported = world.call(&first.token, "import_workspace", input.clone()).output();
            assert_eq!(imported["created"], json!(created));
        };
        once(true);
        once(false);
        let exists = json!({"mode": "restore", "envelope": file});
        for _ in 0..10 {
            world.call(&first.token, "import_workspace", exists.clone()).refused(409, "workspace-exists");
            import(&world, &first.token, &json!({})).refused(400, "export-invalid");
        }
        for number in 0..7 {
            let team = [&first, &second, &third][number % 3];
            assert_eq!(import(&world, &team.token, &file).status, 201, "{number}");
        }
        for team in [&first, &second, &third] {
            refused_for(import(&world, &team.token, &file), 23 * HOUR);
        }
        once(false);
        // Erasing a copy does not reduce the count.
        second.erase(&world);
        world.pass(10 * SECOND);
        refused_for(import(&world, &third.token, &file), 23 * HOUR - 10 * SECOND);
        world.clock.advance(23 * HOUR - 11 * SECOND);
        refused_for(import(&world, &first.token, &file), SECOND);
        // Other workspaces, and the operator, have not used any of their imports.
        let other = Team::created(&world);
        assert_eq!(import(&world, &other.token, &file).status, 201);
        assert_eq!(import(&world, &world.people.admin, &file).status, 201);
        world.clock.advance(SECOND);
        assert_eq!(import(&world, &third.token, &file).status, 201);
        refused_for(import(&world, &first.token, &file), HOUR);
        world.clock.advance(DAY);
        assert_eq!(import(&world, &first.token, &file).status, 201);
        let left = world.database.number("select count(*) from charged_imports");
        assert_eq!(left, 2, "its own last one, and that of another workspace, are remembered");
    }
}

#[test]
fn a_refused_import_says_over_rest_when_to_retry() {
    for engine in engines() {
        let world = limited_to(engine, 1);
        let first = Team::created(&world);
        let file = export(&world, first.workspace);
        let send = || {
            world.rest().send(
                Some(first.token.as_str()),
                "POST",
                "/workspaces/import?mode=new",
                &[],
                Some(&file),
            )
        };
        assert_eq!(send().status, 201);
        let refused = send();
        assert_eq!(refused.status, 429, "{}", refused.body);
        assert_eq!(refused.headers.get("retry-after").unwrap(), "86400");
        assert_eq!(refused.body["retry_after_secs"], json!(86_400));
    }
}

#[test]
fn parallel_imports_by_two_services_do_not_exceed_the_limit() {
    for engine in engines() {
        let world = World::open(engine);
        let other = world.another_service(2);
        let first = Team::created(&world);
        let second = first.copied(&world);
        let file = export(&world, first.workspace);
        for _ in 0..7 {
            assert_eq!(import(&world, &first.token, &file).status, 201);
        }
        let services = [&world.service, &other];
        let tokens = [&first.token, &second.token];
        let statuses =
            in_parallel(8, |number| import_by(services[number % 2], tokens[number / 2 % 2], &file).status);
        let with = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
        assert_eq!((with(201), with(429)), (2, 6), "{statuses:?}");
        let copies = "select count(*) from workspaces where charged_to is not null and state = 'live'";
        assert_eq!(world.database.number(copies), 10);
        assert_eq!(world.database.number("select count(*) from charged_imports"), 10);
    }
}

/// An import in progress holds a place, so that hidden rows cannot fill the database.
#[test]
fn an_import_in_progress_holds_its_place_until_what_it_has_left_is_removed() {
    for engine in engines() {
        let world = limited_to(engine, 1);
        let first = Team::created(&world);
        let file = export(&world, first.workspace);
        let [fail, let_go] = failing_to_show(engine);
        world.database.execute(&fail);
        assert_eq!(import(&world, &first.token, &file).status, 500);
        world.database.execute(&let_go);
        refused_for(import(&world, &first.token, &file), 10 * SECOND);
        world.pass(60 * SECOND);
        assert_eq!(import(&world, &first.token, &file).status, 201);
        refused_for(import(&world, &first.token, &file), DAY);
    }
}

#[test]
fn imports_of_the_operator_and_without_a_limit_are_not_counted() {
    for engine in engines() {
        let world = limited_to(engine, 1);
        let first = Team::created(&world);
        let file = export(&world, first.workspace);
        let operator = world.new_token(vec!["token:admin", "operator:global"]);
        for _ in 0..3 {
            assert_eq!(import(&world, &operator, &file).status, 201);
            let imported = import_as_instance(&world, &file);
            assert!(imported.created);
        }
        let charged = "select count(*) from workspaces where charged_to is not null";
        assert_eq!(world.database.number(charged), 0);
        assert_eq!(world.database.number("select count(*) from charged_imports"), 0);
        // The control: the same workspace without the capability.
        let plain = world.new_token(vec!["token:admin"]);
        assert_eq!(import(&world, &plain, &file).status, 201);
        refused_for(import(&world, &plain, &file), DAY);
        assert_eq!(world.database.number(charged), 1);

        let world = limited_to(engine, 0);
        let first = Team::created(&world);
        let file = export(&world, first.workspace);
        for _ in 0..12 {
            assert_eq!(import(&world, &first.token, &file).status, 201);
        }
        assert_eq!(world.database.number(charged), 12, "they share its other limits all the same");
    }
}

fn import_as_instance(world: &World, file: &Value) -> ImportResult {
    let file = file.as_object().unwrap().clone();
    let input = ImportWorkspace::new(ImportMode::New, file).admin_handle("ada");
    world.service.call_as_instance(WorkspaceId::INSTANCE, &input).unwrap()
}

#[test]
fn the_administrators_token_allows_no_more_than_the_importers() {
    for engine in engines() {
        let world = World::open(engine);
        let first = Team::created(&world);
        let file = export(&world, first.workspace);
        let own = world.call(&first.token, "whoami", json!({})).output()["capabilities"].clone();
        let granted = |secret: &str| world.call(secret, "whoami", json!({})).output()["capabilities"].clone();
        let by = |token: &str| {
            let copy = import(&world, token, &file).output();
            text(&copy["admin_token"]["secret"])
        };
        for (held, wanted) in [
            (json!(["token:admin"]), json!(["token:admin"])),
            (json!(["workspace:read", "token:admin"]), json!(["workspace:read", "token:admin"])),
            (json!(["token:admin", "operator:global", "audit:read-global"]), json!(["token:admin"])),
            (own.clone(), own.clone()),
        ] {
            let held = held.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
            assert_eq!(granted(&by(&world.new_token(held))), wanted);
        }
        let made = import_as_instance(&world, &file).admin_token.unwrap();
        assert_eq!(granted(&made.secret), own, "the machine's administrator lacks nothing");
        // A quota is passed on, too.
        let input = json!({"workspace_id": first.workspace, "quotas": {"requests": 7},
            "member_id": world.call(&first.token, "whoami", json!({})).output()["member_id"]});
        let limited = world.call(&first.token, "mint_token", input).output();
        let copy = import(&world, &text(&limited["secret"]), &file).output();
        let id: uuid::Uuid = text(&copy["admin_token"]["id"]).parse().unwrap();
        let quota = format!("select coalesce(quota, 0) from tokens where id = {}", world.database.id(id));
        assert_eq!(world.database.number(&quota), 7);
    }
}

/// The importer is charged, whatever the file says and wherever it comes from.
#[test]
fn a_file_does_not_say_to_whom_its_workspace_is_charged() {
    for engine in engines() {
        let world = World::open(engine);
        let first = Team::created(&world);
        let copy = first.copied(&world);
        let mut file = export(&world, copy.workspace);
        let named = |file: &Value| file.to_string().contains("charged_to");
        assert!(!named(&file), "no export names it");
        let elsewhere = crate::portability::origin::elsewhere(engine);
        let other = Team::created(&elsewhere);
        let restore = json!({"mode": "restore", "envelope": file});
        elsewhere.call(&other.token, "import_workspace", restore).output();
        let id = |workspace: WorkspaceId| elsewhere.database.id(workspace);
        let charged = format!(
            "select count(*) from workspaces where id = {} and charged_to = {}",
            id(copy.workspace),
            id(other.workspace)
        );
        assert_eq!(elsewhere.database.number(&charged), 1);
        let records = file["records"].as_array_mut().unwrap();
        let row = records.iter_mut().find(|row| row["record"] == "workspaces").unwrap();
        row["charged_to"] = json!(world.id("workspace"));
        let problem = import(&world, &first.token, &file).refused(400, "export-invalid");
        assert_eq!(problem["reason"], "unknown-field");
    }
}
