//! Calling operations as a member: by type, in JSON, asynchronously, over all pages.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use serde_json::{Value, json};
use svc_core::api::{
    ClaimThread, CreateChannel, CreateThread, ExportWorkspace, File, GetThread, ImportMode, ImportWorkspace,
    ItemKind, ListAudit, ListMessages, NewFootprint, NewFootprintItem, PostMessage, SetThreadFootprint,
    UpdateThread, VerifyWorkspaceExport, WaitForResult, Whoami,
};
use svc_core::{Code, Member};

use super::{Embedded, on_engines};

/// Creates a channel and a thread in it.
fn thread(member: &Member) -> svc_core::api::CreatedThread {
    let channel = member.call(&CreateChannel::new("general")).unwrap();
    member.call(&CreateThread::new(channel.id, "Fix the build").body("It is broken.")).unwrap()
}

#[test]
fn operations_are_called_by_type_and_in_json() {
    on_engines(|engine| {
        let Embedded { admin, agent, place: _place, .. } = Embedded::new(engine);
        let created = thread(&admin);
        // An output has the fields of the object that it contains.
        assert_eq!((created.title.as_str(), created.has_result), ("Fix the build", false));
        let claimed = agent.call(&ClaimThread::new(created.id).lease_secs(60)).unwrap();
        assert_eq!(claimed.id, created.id);
        let read = agent.call(&GetThread::new(created.id)).unwrap();
        let in_json = agent.call_json("get_thread", &json!({"thread_id": created.id})).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), in_json);
        let footprint = NewFootprint::new(footprint_items()).repo("acme/app");
        let set =
            admin.call(&SetThreadFootprint::new(created.id, footprint_items()).repo("acme/app")).unwrap();
        assert_eq!(set.items.len(), 2);
        let other = CreateThread::new(created.channel_id, "Other").footprint(footprint);
        assert_eq!(admin.call(&other).unwrap().title, "Other");
        for unknown in ["no_such_operation", "create_session", ""] {
            let refused = admin.call_json(unknown, &json!({})).unwrap_err();
            assert_eq!(refused.code(), Code::NotFound, "{unknown}");
        }
        for invalid in [json!([]), json!(null), json!("x"), json!({"wrong": 1})] {
            let refused = admin.call_json("whoami", &invalid).unwrap_err();
            assert_eq!(refused.code(), Code::Malformed, "{invalid}");
        }
    });
}

fn footprint_items() -> [NewFootprintItem; 2] {
    [NewFootprintItem::new(ItemKind::Path, "src"), NewFootprintItem::new(ItemKind::Path, "docs")]
}

#[test]
fn an_invalid_value_fails_like_the_same_json_after_the_credential() {
    let Embedded { service, admin, place: _place, .. } = Embedded::new(svc_core::Engine::Sqlite);
    let created = thread(&admin);
    let long = "x".repeat(201);
    let typed = admin.call(&CreateThread::new(created.channel_id, long.as_str()));
    let typed = typed.unwrap_err();
    let input = json!({"channel_id": created.channel_id, "title": long});
    let in_json = admin.call_json("create_thread", &input).unwrap_err();
    let problem = |error: &svc_core::Error| serde_json::to_value(error.problem()).unwrap();
    assert_eq!(problem(&typed), problem(&in_json));
    assert_eq!((typed.code(), typed.status(), typed.field()), (Code::Malformed, 400, Some("title")));
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let metadata = serde_json::Map::from_iter([("deep".to_owned(), deep)]);
    let refused = admin.call(&PostMessage::new(created.id, "x").metadata(metadata)).unwrap_err();
    assert_eq!(refused.code(), Code::Malformed);
    // A dead token is reported first.
    let token = service.mint_token("ada").unwrap();
    let revoked = service.member(&token.secret).unwrap();
    admin.call(&svc_core::api::RevokeToken::new(token.id)).unwrap();
    let refused = revoked.call(&CreateThread::new(created.channel_id, long.as_str())).unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
}

#[test]
fn a_list_is_read_page_by_page_and_a_change_is_repeated_by_its_key() {
    on_engines(|engine| {
        let Embedded { admin, place: _place, .. } = Embedded::new(engine);
        let created = thread(&admin);
        for number in 0..7 {
            admin.call(&PostMessage::new(created.id, format!("message {number}"))).unwrap();
        }
        let all: Vec<_> =
            admin.list(ListMessages::new(created.id).limit(3)).map(|message| message.unwrap().id).collect();
        let page = admin.call(&ListMessages::new(created.id).limit(100)).unwrap();
        assert_eq!(all, page.items.iter().map(|message| message.id).collect::<Vec<_>>());
        assert_eq!(all.len(), 8);
        let failing = admin.list(ListMessages::new(created.id).limit(1_000_000)).collect::<Vec<_>>();
        assert_eq!(failing.len(), 1);
        assert_eq!(failing[0].as_ref().unwrap_err().code(), Code::Malformed);
        let once = admin.idempotent("key-1");
        let post = PostMessage::new(created.id, "once");
        assert_eq!(once.call(&post).unwrap().id, once.call(&post).unwrap().id);
        let other = once.call(&PostMessage::new(created.id, "other")).unwrap_err();
        assert_eq!(other.code(), Code::IdempotencyMismatch);
        assert_eq!(admin.idempotent("not visible").call(&post).unwrap_err().code(), Code::Malformed);
    });
}

#[test]
fn a_field_is_cleared_by_its_own_method() {
    let Embedded { admin, place: _place, .. } = Embedded::new(svc_core::Engine::Sqlite);
    let created = thread(&admin);
    let set = svc_core::api::SetThreadBudget::new(created.id).max_tokens(100).max_turns(5);
    assert_eq!(admin.call(&set).unwrap().max_tokens, Some(100));
    let cleared = svc_core::api::UpdateThreadBudget::new(created.id).clear_max_tokens();
    let budget = admin.call(&cleared).unwrap();
    assert_eq!((budget.max_tokens, budget.max_turns), (None, Some(5)));
    let renamed = admin.call(&UpdateThread::new(created.id).title("New title")).unwrap();
    assert_eq!(renamed.title, "New title");
}

/// Wakes a thread that polls a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Awaits a future without any runtime.
fn await_without_runtime<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn calls_work_on_any_thread_and_without_a_runtime() {
    on_engines(|engine| {
        let embedded = Embedded::new(engine);
        let (admin, agent) = (&embedded.admin, &embedded.agent);
        let id = admin.id();
        let whoami = Whoami::new();
        assert_eq!(await_without_runtime(admin.call_async(&whoami)).unwrap().member_id, id);
        let created = thread(admin);
        let wait = WaitForResult::new(created.id).timeout_secs(60);
        for runtime in [
            tokio::runtime::Builder::new_current_thread().build().unwrap(),
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
        ] {
            runtime.block_on(async {
                assert_eq!(admin.call(&whoami).unwrap().member_id, id);
                admin.call(&PostMessage::new(created.id, "on a runtime")).unwrap();
                assert_eq!(admin.call_async(&whoami).await.unwrap().member_id, id);
                let token = embedded.service.mint_token("ada").unwrap();
                assert_eq!(embedded.service.member(&token.secret).unwrap().id(), id);
                let parked = Box::pin(agent.call_async(&wait));
                let waker = Waker::noop();
                let mut parked = parked;
                while embedded.service.parked_waits() == 0 {
                    let polled = parked.as_mut().poll(&mut Context::from_waker(waker));
                    assert!(polled.is_pending(), "{polled:?}");
                    tokio::task::yield_now().await;
                }
                drop(parked);
                assert_eq!(embedded.service.parked_waits(), 0, "the wait was abandoned");
                // A service can also be opened and closed here.
                let other = embedded.place.builder().open().unwrap();
                other.close().unwrap();
            });
            runtime.block_on(async move {});
        }
    });
}

#[test]
fn files_go_in_and_come_out() {
    on_engines(|engine| {
        let Embedded { service, admin, place: _place, .. } = Embedded::new(engine);
        thread(&admin);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("team.json");
        let exported = admin.call(&ExportWorkspace::new()).unwrap();
        exported.save(&path).unwrap();
        let file = File::open(&path).unwrap();
        let verified = admin.call(&VerifyWorkspaceExport::new(file.clone())).unwrap();
        assert_eq!(verified.header.workspace_id, admin.workspace_id());
        let copied = admin.call(&ImportWorkspace::new(ImportMode::New, file).admin_handle("eve"));
        let refused = copied.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound, "no member is named so: {refused}");
        let file = File::open(&path).unwrap();
        let import = ImportWorkspace::new(ImportMode::New, file).admin_handle("ada");
        let copied = await_without_runtime(admin.call_async(&import)).unwrap();
        let token = copied.admin_token.as_ref().unwrap();
        assert_eq!(service.member(&token.secret).unwrap().workspace_id(), copied.workspace_id);
        let missing = File::open(folder.path().join("none")).unwrap_err();
        assert!(missing.code() == Code::Malformed && missing.detail().contains("none"), "{missing}");
    });
}

#[test]
fn calls_of_the_program_are_audited_as_its_own_and_limited_only_on_request() {
    on_engines(|engine| {
        for limited in [false, true] {
            let embedded = Embedded::with(engine, |builder| {
                builder.set("SVC_RATE_LIMIT_MAX", "20").rate_limits(limited)
            });
            let admin = &embedded.admin;
            let created = thread(admin);
            let outcomes: Vec<_> = (0..40).map(|_| admin.call(&GetThread::new(created.id))).collect();
            let refused: Vec<Code> =
                outcomes.into_iter().filter_map(Result::err).map(|error| error.code()).collect();
            assert_eq!(!refused.is_empty(), limited, "{refused:?}");
            assert!(refused.iter().all(|code| *code == Code::RateLimited), "{refused:?}");
            if !limited {
                let rows: Vec<Value> = admin
                    .list(ListAudit::new())
                    .map(|row| serde_json::to_value(row.unwrap()).unwrap())
                    .collect();
                let created =
                    rows.iter().find(|row| row["metadata"]["operation"] == "create_thread").unwrap();
                assert_eq!(created["metadata"]["surface"], "library", "{created}");
            }
        }
    });
}
