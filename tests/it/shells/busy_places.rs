//! The places of messages that keep a thread busy, while others wait for the database.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use serde_json::json;
use svc_core::op::{Feature, GuardedCall, Operation, Read};
use svc_core::{Engine, Result};
use svc_tests::process::until;
use svc_tests::{Setup, World, text};

/// Blocks the writer while the test holds it.
static HELD_UP: Mutex<()> = Mutex::new(());

/// Whether the writer is blocked.
static IS_HELD_UP: AtomicBool = AtomicBool::new(false);

fn hold_up(_: &Read<'_>, operation: &Operation, _: &GuardedCall) -> Result<()> {
    if operation.name() == "update_workspace" {
        IS_HELD_UP.store(true, Ordering::SeqCst);
        drop(HELD_UP.lock());
    }
    Ok(())
}

fn features() -> Vec<Feature> {
    vec![Feature::new().guard(hold_up)]
}

/// Returns whether a third workspace can list its resources while large messages of two others wait for the
/// writer.
fn is_answered(by_mcp: bool) -> bool {
    let world = &World::with(Engine::Sqlite, Setup { features, ..Setup::default() });
    let teams = ["One", "Two"].map(|name| {
        let made = world.admin("create_workspace", json!({"name": name, "admin_handle": "ada"}));
        let id = text(&made["workspace"]["id"]);
        let admin = text(&made["token"]["secret"]);
        let call = |operation, input| world.call(&admin, operation, input).output();
        let channel = call("create_channel", json!({"workspace_id": id, "name": "talk"}));
        let thread = call("create_thread", json!({"channel_id": channel["id"], "title": "The lexer"}));
        (admin.clone(), text(&thread["id"]))
    });
    let body = "x".repeat(90_000);
    let agent = Some(&*world.people.agent);
    // The control: it is answered at once.
    world.mcp().request(agent, "resources/list", json!({})).output();
    IS_HELD_UP.store(false, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let held_up = HELD_UP.lock().unwrap();
        let rename = json!({"workspace_id": world.id("workspace"), "name": "Held up"});
        scope.spawn(move || world.admin("update_workspace", rename));
        until("the writer is held up", || IS_HELD_UP.load(Ordering::SeqCst));
        let processors = std::thread::available_parallelism().unwrap().get();
        for (token, thread) in &teams {
            for _ in 0..processors {
                let input = json!({"thread_id": thread, "body": body});
                scope.spawn(move || {
                    let post = world.operation("post_message");
                    match by_mcp {
                        true => world.mcp().call(Some(token), post, &input),
                        false => world.rest().call(Some(token), post, &input),
                    }
                });
            }
        }
        until("messages of both wait for the writer", || {
            let status = world.admin("get_operator_status", json!({}));
            status["queue_depths"]["queued_writes"]["count"].as_u64() >= Some(2)
        });
        let (sender, listed) = mpsc::channel();
        scope.spawn(move || {
            let answer = world.mcp().request(agent, "resources/list", json!({}));
            // The test may be over.
            let _ = sender.send(answer.status);
        });
        let answered = listed.recv_timeout(Duration::from_secs(10));
        drop(held_up);
        answered == Ok(200)
    })
}

#[test]
fn large_messages_that_wait_for_the_database_keep_no_thread_busy() {
    for by_mcp in [false, true] {
        assert!(is_answered(by_mcp), "by MCP: {by_mcp}");
    }
}
