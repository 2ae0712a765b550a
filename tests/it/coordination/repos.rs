//! Repositories by their clone URLs: all forms of one are equal, in every field for a repository.

use serde_json::{Value, json};
use svc_tests::state::assert_state;
use svc_tests::{on_both_engines, text};

use super::footprints::{claim, footprint};

/// A name, and clone URLs of it.
const REPOS: [(&str, &[&str]); 5] = [
    (
        "Acme/App",
        &[
            "https://ada:hunter2@github.com/acme/app.git/",
            "git@gitlab.example:ACME/app.git",
            "ssh://git@git.example:7999/acme/app.git",
            "https://git.example/scm/acme/app.git",
            "https://git.example/projects/ACME/repos/app/browse",
            "github.com/acme/app",
            "git+ssh://git@github.com:acme/app.git#main",
        ],
    ),
    (
        "group/sub/App",
        &[
            "https://gitlab.com/group/sub/app.git",
            "git@gitlab.com:group/sub/app.git",
            "gitlab.com/Group/sub/app",
        ],
    ),
    (
        "org/My Project/app",
        &[
            "https://dev.azure.com/org/My%20Project/_git/app",
            "git@ssh.dev.azure.com:v3/org/My%20Project/app",
            "https://Org.visualstudio.com/DefaultCollection/my%20project/_git/app?version=GBmain",
            "org@vs-ssh.visualstudio.com:v3/org/My%20Project/app",
        ],
    ),
    ("/app", &["https://git.example/app.git", "git@git.example:App.git", "file:///App.git"]),
    ("/gr\u{fc}n/app", &["https://git.example/gr%C3%BCn/app", "ssh://git@host/GRU%CC%88N/app.git"]),
];

#[test]
fn every_form_of_a_clone_url_is_the_same_repository() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let channel = world.new_channel("clones");
        let of = |repo: &str, more: Value| {
            let mut input = json!({"workspace_id": workspace, "repo": repo});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            input
        };
        for (name, urls) in REPOS {
            let thread =
                text(&world.admin("create_thread", json!({"channel_id": channel, "title": name}))["id"]);
            let mut sent = footprint(urls[0], "exclusive", &[("path", "src")]);
            sent["thread_id"] = json!(thread);
            let stored = world.agent("set_thread_footprint", sent);
            assert!(text(&stored["repo"]).to_lowercase() == name.to_lowercase(), "{stored} of {name}");
            for url in [&[name], urls, &[&*text(&stored["repo"])]].concat() {
                let paused = world.admin("pause_repo", of(url, json!({"reason": "a release"})));
                world
                    .call(&world.people.agent, "claim_thread", json!({"thread_id": thread}))
                    .refused(409, "footprint-conflict");
                let deferred = world.agent("list_deferred_threads", of(url, json!({})));
                assert_eq!(deferred["items"][0]["thread_id"], json!(thread), "{url}");
                // The displayed name refers to the same repository.
                world.admin("resume_repo", of(&text(&paused["repo"]), json!({})));

                let claimed = claim(world, &thread);
                let listed = world.agent("list_active_claims", of(url, json!({})));
                assert_eq!(listed["items"][0]["thread_id"], json!(thread), "{url}");
                let check = json!({"workspace_id": workspace,
                    "footprint": footprint(url, "shared", &[("path", "src/lib.rs")])});
                assert_eq!(
                    world.agent("check_footprint", check)["conflicts"][0]["reason"],
                    "overlap",
                    "{url}"
                );
                let resumed = world.agent("claim_next_workspace_thread", of(url, json!({"resume": true})));
                assert_eq!(resumed["id"], json!(thread), "{url}");
                let lease = json!({"thread_id": thread, "claim_lease_id": claimed["claim_lease_id"]});
                world.agent("release_claim", lease.clone());
                let next = world.agent("claim_next_workspace_thread", of(url, json!({})));
                assert_eq!(next["id"], json!(thread), "{url}");
                let lease = json!({"thread_id": thread, "claim_lease_id": next["claim_lease_id"]});
                world.agent("release_claim", lease);
            }
            world.admin("cancel_thread", json!({"thread_id": thread, "reason": "seen"}));
        }
        let dump = format!("{:?}", world.database.dump());
        assert!(!dump.contains("hunter2"), "a credential is stored");
        assert_state(&world.database.address());
    });
}

#[test]
fn what_names_no_repository_is_named_with_an_example() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        for repo in ["app", "https://git.example/", "https://ada:hunter2@", "acme/../app", "acme/app@v1"] {
            let named = footprint(repo, "exclusive", &[("path", "a")]);
            let mut set = named.clone();
            set["thread_id"] = json!(world.id("thread"));
            for (operation, field, input) in [
                ("set_thread_footprint", "repo", set),
                ("check_footprint", "footprint", json!({"workspace_id": workspace, "footprint": named})),
                ("pause_repo", "repo", json!({"workspace_id": workspace, "repo": repo})),
                ("list_active_claims", "repo", json!({"workspace_id": workspace, "repo": repo})),
                ("claim_next_workspace_thread", "repo", json!({"workspace_id": workspace, "repo": repo})),
            ] {
                let refusal = world.call(&world.people.admin, operation, input);
                let refused = refusal.refused(400, "malformed-request");
                let problem = refused.to_string();
                assert!(problem.contains("git@git.example:acme/app.git"), "{problem}");
                assert!(!problem.contains("hunter2"), "{problem}");
                assert_eq!(refused["errors"][0]["field"], field, "{operation} {problem}");
            }
        }
    });
}
