//! The budget of a read: a page ends early and can be continued, and any other read fails, as does a poll of
//! a wait.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use svc_core::capability::Capability::WorkspaceRead;
use svc_core::op::{Feature, LongPoll, Operation, Poll, Read, read, wait};
use svc_core::page::{Cursor, Limit, Page};
use svc_core::{Engine, EventFilter, Result};
use svc_tests::database::engines;
use svc_tests::{Setup, World};

/// Several times the time of one item, and a fraction of that of all items.
const BUDGET: Duration = Duration::from_millis(400);
/// The items of the list.
const ITEMS: i64 = 12;

/// Runs an endless read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Endless {}

svc_core::without_requests! { Endless }

/// Lists numbers, each of which takes a while.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SlowList {
    /// Whether the items are omitted.
    hidden: bool,
    /// The position to continue from.
    cursor: Option<Cursor>,
    limit: Option<Limit>,
}

svc_core::without_requests! { SlowList }

/// Runs a statement that takes as long as it may.
fn endless(cx: &Read<'_>, _: &Endless) -> Result<Value> {
    let engines =
        ["select cast(count(*) as bigint) from generate_series(1, 100) where pg_sleep(1) is null", COUNT];
    let on_postgres = cx.query::<(i64,)>("select 1 where pg_backend_pid() > 0", &[]).is_ok();
    cx.query::<(i64,)>(engines[usize::from(!on_postgres)], &[])?;
    Ok(json!({}))
}

impl LongPoll for Endless {
    fn filter(&self) -> EventFilter {
        EventFilter::on(["ThreadCreated"])
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(30)
    }
}

const COUNT: &str =
    "with recursive c (n) as (select cast(1 as bigint) union all select n + 1 from c) select count(*) from c";

/// Lists numbers, each of which takes a while.
fn slow_list(cx: &Read<'_>, input: &SlowList) -> Result<Page<i64>> {
    let after = Cursor::after(input.cursor);
    let rows = cx.rows::<(i64,)>(NUMBERS, &[&after, &ITEMS])?;
    let page = Page::of(rows.map(|(number,)| number), input.limit, |number| *number);
    page.try_filter_map(|number| {
        std::thread::park_timeout(BUDGET / 4);
        cx.query::<(i64,)>("select cast(1 as bigint)", &[])?;
        Ok((!input.hidden).then_some(number))
    })
}

const NUMBERS: &str = "
    with recursive c (n) as (select cast($1 as bigint) + 1 union all select n + 1 from c where n < $2)
    select n from c where n <= $2";

fn slow_feature() -> Vec<Feature> {
    let operations: Vec<Operation> = vec![
        read("read_endlessly", endless)
            .title("Read endlessly")
            .get("/probes/endless")
            .needs(&[WorkspaceRead])
            .example(|_| json!({})),
        wait("wait_endlessly", |cx: &Read<'_>, input: &mut Endless| endless(cx, input).map(Poll::Ready))
            .title("Wait endlessly")
            .get("/probes/wait")
            .needs(&[WorkspaceRead])
            .example(|_| json!({})),
        read("list_slowly", slow_list)
            .title("List slowly")
            .get("/probes/slow")
            .needs(&[WorkspaceRead])
            .example(|_| json!({"hidden": true})),
    ];
    vec![Feature::new().operations("probes", operations)]
}

fn world(engine: Engine, read_budget: Option<Duration>) -> World {
    World::with(engine, Setup { features: slow_feature, read_budget, ..Setup::default() })
}

/// Runs a function, and returns the diagnostic log that it writes on this thread.
fn logged(run: impl FnOnce()) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    let writer = Arc::new(file.reopen().unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
    tracing::subscriber::with_default(subscriber, run);
    std::fs::read_to_string(file.path()).unwrap()
}

#[test]
fn a_read_without_pages_fails_and_the_next_one_does_not() {
    for engine in engines() {
        let world = world(engine, Some(BUDGET));
        for _ in 0..3 {
            world.call(&world.people.agent, "read_endlessly", json!({})).refused(503, "read-too-expensive");
            world.agent("whoami", json!({}));
        }
    }
}

#[test]
fn the_log_names_the_read_that_was_too_expensive() {
    for engine in engines() {
        let world = world(engine, Some(BUDGET));
        let log = logged(|| {
            world.call(&world.people.agent, "read_endlessly", json!({})).refused(503, "read-too-expensive");
            world.agent("whoami", json!({}));
        });
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("used up its budget")).collect();
        let workspace = format!("workspace={}", world.id("workspace"));
        let [line] = lines[..] else { panic!("{engine:?}: {log}") };
        for part in [" WARN ", "operation=\"read_endlessly\"", &workspace] {
            assert!(line.contains(part), "{engine:?}: {line} lacks {part}");
        }
    }
}

#[test]
fn a_poll_of_a_wait_is_a_read() {
    for engine in engines() {
        let world = world(engine, Some(BUDGET));
        world.call(&world.people.agent, "wait_endlessly", json!({})).refused(503, "read-too-expensive");
        world.agent("whoami", json!({}));
    }
}

#[test]
fn a_page_ends_early_and_its_cursor_moves_on() {
    for engine in engines() {
        let list = |world: &World, hidden: bool| {
            let mut items = Vec::new();
            let mut pages = 0;
            let mut cursor = Value::Null;
            loop {
                let mut input = json!({"hidden": hidden});
                if !cursor.is_null() {
                    input["cursor"] = cursor.clone();
                }
                let page = world.agent("list_slowly", input);
                items.extend(page["items"].as_array().unwrap().iter().filter_map(Value::as_i64));
                pages += 1;
                assert!(pages <= ITEMS, "each page is at least one row further");
                let before = std::mem::replace(&mut cursor, page["next_cursor"].clone());
                if cursor.is_null() {
                    return (items, pages);
                }
                assert_ne!(cursor, before, "each page is at least one row further");
            }
        };
        let limited = world(engine, Some(BUDGET));
        let (items, pages) = list(&limited, false);
        assert_eq!(items, (1..=ITEMS).collect::<Vec<_>>(), "{engine:?}: nothing is left out or repeated");
        assert!(pages > 1, "{engine:?}");
        let (items, pages) = list(&limited, true);
        assert!(items.is_empty() && pages > 1, "{engine:?}: an empty page moves on too");
        let (items, pages) = list(&world(engine, None), false);
        assert_eq!((items.len(), pages), (12, 1), "{engine:?}: without a budget it is one page");
    }
}
