//! The settings of a connection to SQLite, and its state between statements.

use serde_json::json;
use svc_core::Engine;
use svc_tests::World;

#[test]
fn no_statement_is_prepared_again() {
    let world = World::open(Engine::Sqlite);
    for _ in 0..3 {
        world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "again"}));
        world.agent("list_messages", json!({"thread_id": world.id("thread")}));
    }
    assert_eq!(world.service.statement_counts().re_prepared, 0);
    assert!(world.service.durability().unwrap().iter().all(|setting| setting.contains("synchronous=2")));
}
