//! The statements that a message costs: a post without mentions, and a read of messages without marks, pay
//! nothing for these features.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::{Database, Engine, RateSettings, Service};
use svc_tests::database::engines;
use svc_tests::ordeal::proxy::Proxy;
use svc_tests::process::until;
use svc_tests::{Setup, World, answer_of, call};

/// A service on the world's database whose statements are observed.
struct WatchedService<'w> {
    world: &'w World,
    service: Service,
    proxy: Proxy,
}

impl<'w> WatchedService<'w> {
    fn start(world: &'w World) -> Self {
        let proxy = Proxy::start(&world.database.url());
        let rates = RateSettings { per_client: 0, per_workspace: 0, window: Duration::from_secs(86_400) };
        let service = world.another_service_at(Database::Postgres(proxy.url(&[]).into()), rates);
        Self { world, service, proxy }
    }

    /// Returns the server's replies to the statements of a call, after an equal call has filled the caches.
    ///
    /// The service also reads the log when it is notified of posts: a change has its own connection during
    /// that time, and a repeated read is eventually alone.
    fn statements(&self, operation: &str, input: &Value) -> Vec<String> {
        let ask =
            || answer_of(call(&self.service, Some(&self.world.people.agent), operation, input)).output();
        let is_read = self.world.operation(operation).effect().is_read_only();
        let called = |_| {
            let before = self.proxy.statements();
            ask();
            let mut tags = Vec::new();
            // The call does not wait for the notification of others.
            until("others hear of what was committed", || {
                tags = self.own_after(before);
                is_read || tags.last().is_some_and(|tag| tag != "COMMIT")
            });
            tags
        };
        (0..10).map(called).min_by_key(Vec::len).unwrap()
    }

    /// Returns the statements after the first `count`: those of the connection that has written, if any.
    fn own_after(&self, count: usize) -> Vec<String> {
        let completed = self.proxy.completed_after(count);
        let writer = completed.iter().find(|(_, tag)| tag.starts_with("INSERT")).map(|(at, _)| *at);
        let own = completed.into_iter().filter(|(at, _)| writer.is_none_or(|writer| writer == *at));
        own.map(|(_, tag)| tag).collect()
    }
}

/// The statements of a post: its transaction with its name, the head of the log, the message, event and trail
/// with the head again, the check of the transaction, and the notification.
const POST: [&str; 8] =
    ["BEGIN", "SET", "SELECT 1", "INSERT 0 1", "UPDATE 1", "SELECT 1", "COMMIT", "SELECT 1"];

/// The statements of a read of one row: its transaction and time limit, the head of the log, which validates
/// the connection's cache, the row, and the end.
const READ: [&str; 5] = ["BEGIN", "SET", "SELECT 1", "SELECT 1", "ROLLBACK"];

#[test]
fn who_addresses_nobody_and_reads_what_nobody_marked_pays_for_no_more_than_the_rows() {
    for engine in engines().into_iter().filter(|engine| *engine == Engine::Postgres) {
        let world = World::with(engine, Setup { seed: 93, ..Setup::default() });
        world.new_agent("bob");
        let watched = WatchedService::start(&world);
        let thread = world.new_thread(&world.new_channel("plain"), "Plain");
        let post =
            |body: &str| watched.statements("post_message", &json!({"thread_id": thread, "body": body}));
        for nobody in ["the build is green", "mail bob@corp.example", "`@bob` said\n\n> @bob, look"] {
            assert_eq!(post(nobody), POST, "{nobody}");
        }
        // The control: possible receivers of a mention are looked up, and a receiver gets an item.
        assert_eq!(post("@nobody").len(), POST.len() + 1);
        assert_eq!(post("@bob, look").len(), POST.len() + 2);

        let message = world.agent("post_message", json!({"thread_id": thread, "body": "unmarked"}));
        let read = || watched.statements("get_message", &json!({"message_id": message["id"]}));
        assert_eq!(read(), READ);
        world.agent("pin_message", json!({"message_id": message["id"]}));
        assert_eq!(read().len(), READ.len() + 1);
    }
}
