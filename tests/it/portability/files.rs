//! Exports as files: the commands that write, verify and import them, and the maximum size.

use std::path::Path;

use serde_json::{Value, json};
use svc_core::signed_note::NoteSigner;
use svc_tests::database::engines;
use svc_tests::process::{ExitedProgram, run};
use svc_tests::site::Site;
use svc_tests::{SIGNS, text};

/// Returns the public key that has signed the files, and another one.
fn keys() -> [String; 2] {
    [SIGNS, [1; 32]].map(|seed| hex::encode(NoteSigner::new(&seed).public()))
}

fn svc(site: &Site, arguments: &[&str]) -> ExitedProgram {
    let mut command = site.command("svc", arguments);
    run(command.env("SVC_EXPORT_SIGNING_KEY", hex::encode(SIGNS)))
}

fn printed(outcome: &ExitedProgram) -> Value {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    serde_json::from_str(&outcome.out).unwrap()
}

fn path(file: &Path) -> &str {
    file.to_str().unwrap()
}

#[test]
fn a_workspace_is_exported_verified_and_imported_by_commands() {
    for engine in engines() {
        let site = Site::found(engine);
        let folder = tempfile::tempdir().unwrap();
        let [key, other] = keys();
        let file = folder.path().join("moving.json");
        // The partial file of a killed command is overwritten.
        let part = folder.path().join("moving.json.part");
        std::fs::write(&part, vec![b'x'; 4 << 20]).unwrap();
        let export = ["export", "--json", "--as-instance", "--output", path(&file)];
        let exported = printed(&svc(&site, &export));
        let bytes = std::fs::read(&file).unwrap();
        assert_eq!((exported["bytes"].as_u64(), part.exists()), (u64::try_from(bytes.len()).ok(), false));
        let again = svc(&site, &export);
        assert!(again.code != Some(0) && again.err.contains("exists already"), "{again:?}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);

        // It verifies with a known key or the named key, and with no other.
        let verify = |more: &[&str]| svc(&site, &[&["verify", "--json", path(&file)], more].concat());
        for more in [&[][..], &["--key", &key]] {
            assert_eq!(printed(&verify(more))["valid"], json!(true));
        }
        let refused = verify(&["--key", &other]);
        assert!(refused.code != Some(0) && refused.err.contains("unknown-key"), "{refused:?}");
        let broken = folder.path().join("broken.json");
        std::fs::write(&broken, &bytes[..bytes.len() / 2]).unwrap();
        let refused = svc(&site, &["verify", "--json", path(&broken)]);
        assert!(refused.code != Some(0) && refused.err.contains("truncated"), "{refused:?}");

        // The workspace already exists; a copy of it is made once, or again.
        let import = |mode: &str, more: &[&str]| {
            let begin = ["import", "--json", "--as-instance", path(&file), "--mode", mode];
            svc(&site, &[&begin[..], more].concat())
        };
        let refused = import("restore", &[]);
        assert!(refused.code != Some(0) && refused.err.contains("workspace-exists"), "{refused:?}");
        let records: Value = serde_json::from_slice(&bytes).unwrap();
        let people = records["records"].as_array().unwrap().iter();
        let admin = people.filter(|row| row["record"] == "members" && row["kind"] == "human");
        let admin = text(&admin.map(|row| &row["handle"]).next().unwrap().clone());
        let first = printed(&import("new", &["--admin", &admin]));
        let token = text(&first["admin_token"]["secret"]);
        let second = printed(&import("new", &["--admin", &admin]));
        assert_eq!((&first["created"], &second["created"]), (&json!(true), &json!(false)));
        assert_eq!((&second["workspace_id"], &second["admin_token"]), (&first["workspace_id"], &json!(null)));
        let third = printed(&import("new", &["--again"]));
        assert_ne!(third["workspace_id"], first["workspace_id"]);
        let refused = import("new", &["--again", "--admin", "nobody"]);
        assert!(refused.code != Some(0) && refused.err.contains("not-found"), "{refused:?}");

        // Evidence can be verified, but not imported.
        let evidence = folder.path().join("evidence.json");
        let id = text(&exported["workspace_id"]);
        let arguments = ["--as-instance", "--workspace", &id, "--words", "none", "--output", path(&evidence)];
        assert_eq!(svc(&site, &[&["export"], &arguments[..]].concat()).code, Some(0));
        assert!(!std::fs::read_to_string(&evidence).unwrap().contains("content_key"));
        assert_eq!(svc(&site, &["verify", path(&evidence)]).code, Some(0));
        let refused = svc(&site, &["import", "--json", "--as-instance", path(&evidence), "--mode", "new"]);
        assert!(refused.code != Some(0) && refused.err.contains("not-an-export"), "{refused:?}");

        // The administrator of the copy has access.
        let server = site.serve(&[]);
        assert_eq!(server.rest.send(Some(&token), "GET", "/me", &[], None).status, 200);
    }
}

#[test]
fn a_file_that_is_larger_than_allowed_is_refused() {
    let site = Site::found(svc_core::Engine::Sqlite);
    let server = site.serve(&[("SVC_IMPORT_MAX_BYTES", "1048576")]);
    let admin = Some(site.founders.admin.as_str());
    for path in ["/workspaces/export/verify", "/workspaces/import?mode=new"] {
        let send = |bytes: usize| {
            let body = json!({"padding": "x".repeat(bytes)});
            server.rest.send(admin, "POST", path, &[], Some(&body))
        };
        send(1 << 20).refused(413, "body-too-large");
        send(1000).refused(400, "export-invalid");
    }
}
