//! The errors of a start about files that it cannot use.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use super::deployed::{DeployedSetup, SOMEBODY, chmod, is_root};

/// A fault of a data folder.
struct Form {
    name: &'static str,
    /// Whether only root can create it.
    by_root: bool,
    damage: fn(&Path),
    variables: &'static [(&'static str, &'static str)],
    code: i32,
    /// The required parts of the error; `DIR` is the data folder, `ME` the user and the group.
    wanted: &'static [&'static str],
}

const fn form(name: &'static str, damage: fn(&Path), code: i32, wanted: &'static [&'static str]) -> Form {
    Form { name, by_root: false, damage, variables: &[], code, wanted }
}

const fn root_form(name: &'static str, damage: fn(&Path), wanted: &'static [&'static str]) -> Form {
    Form { name, by_root: true, damage, variables: &[], code: 2, wanted }
}

const fn with(variables: &'static [(&'static str, &'static str)], form: Form) -> Form {
    Form { variables, ..form }
}

fn to_root(path: &Path) {
    chown(path, Some(0), Some(0)).unwrap();
}

fn replace(path: &Path, by: impl FnOnce(&Path)) {
    fs::remove_file(path).unwrap();
    by(path);
}

const FORMS: &[Form] = &[
    root_form(
        "the folder of another user",
        to_root,
        &[
            "DIR/svc.env cannot be read: DIR denies this user access (owner 0, group 0, mode 0700)",
            "`chown ME DIR`",
        ],
    ),
    root_form(
        "svc.env of another user",
        |data| to_root(&data.join("svc.env")),
        &["DIR/svc.env cannot be read", "(owner 0, group 0, mode 0600)", "`chown ME DIR/svc.env`"],
    ),
    root_form(
        "keys of another user",
        |data| to_root(&data.join("keys")),
        &["DIR/keys/content.kek cannot be read: DIR/keys denies", "`chown ME DIR/keys`"],
    ),
    root_form(
        "a key of another user",
        |data| to_root(&data.join("keys/content.kek")),
        &[
            "SVC_CONTENT_KEK_FILE: the file DIR/keys/content.kek cannot be read",
            "mode 0600",
            "`chown ME DIR/keys/content.kek`",
        ],
    ),
    root_form(
        "a database of another user",
        |data| to_root(&data.join("svc.db")),
        &["DIR/svc.db cannot be read", "`chown ME DIR/svc.db`"],
    ),
    root_form(
        "a log of the database of another user",
        |data| {
            fs::write(data.join("svc.db-wal"), "").unwrap();
            chmod(&data.join("svc.db-wal"), 0o600);
            to_root(&data.join("svc.db-wal"));
        },
        &["DIR/svc.db-wal cannot be written", "`chown ME DIR/svc.db-wal`"],
    ),
    form(
        "svc.env that nobody may read",
        |data| chmod(&data.join("svc.env"), 0),
        2,
        &["DIR/svc.env cannot be read", "mode 0000", "`chmod u+r DIR/svc.env`"],
    ),
    form(
        "svc.env is a folder",
        |data| replace(&data.join("svc.env"), |path| fs::create_dir(path).unwrap()),
        2,
        &["DIR/svc.env cannot be read: it is a folder", "`rmdir DIR/svc.env`"],
    ),
    form(
        "svc.env is missing",
        |data| fs::remove_file(data.join("svc.env")).unwrap(),
        4,
        &["DIR is not set up; run `svc init --data DIR`"],
    ),
    form(
        "svc.env is a link to itself",
        |data| replace(&data.join("svc.env"), |path| symlink(path, path).unwrap()),
        2,
        &["DIR/svc.env cannot be read: its symbolic links go in a circle"],
    ),
    form(
        "svc.env in another encoding",
        |data| fs::write(data.join("svc.env"), b"# caf\xe9\n").unwrap(),
        2,
        &["DIR/svc.env is not UTF-8"],
    ),
    form(
        "keys that nobody may search",
        |data| chmod(&data.join("keys"), 0),
        2,
        &["DIR/keys denies this user access", "mode 0000", "`chmod u+x DIR/keys`"],
    ),
    form(
        "a key that nobody may read",
        |data| chmod(&data.join("keys/content.kek"), 0),
        2,
        &["`chmod u+r DIR/keys/content.kek`"],
    ),
    form(
        "a key is missing",
        |data| fs::remove_file(data.join("keys/content.kek")).unwrap(),
        2,
        &["the file DIR/keys/content.kek cannot be read: it does not exist in DIR/keys (owner"],
    ),
    form(
        "the keys are missing",
        |data| fs::remove_dir_all(data.join("keys")).unwrap(),
        2,
        &["it does not exist, and of the folders above only DIR (owner"],
    ),
    form(
        "a key is a folder",
        |data| replace(&data.join("keys/content.kek"), |path| fs::create_dir(path).unwrap()),
        2,
        &["it is a folder", "`rmdir DIR/keys/content.kek`"],
    ),
    form(
        "a key is a link to nothing",
        |data| replace(&data.join("keys/content.kek"), |path| symlink("/gone", path).unwrap()),
        2,
        &["content.kek cannot be read: it is a symbolic link to /gone, which does not exist"],
    ),
    form("a key is empty", |data| fs::write(data.join("keys/content.kek"), "\n").unwrap(), 2, &["is empty"]),
    form(
        "a key that others can write",
        |data| chmod(&data.join("keys/content.kek"), 0o666),
        2,
        &["DIR/keys/content.kek (owner", "mode 0666", "`chmod go-w DIR/keys/content.kek`"],
    ),
    form(
        "a folder that the group can write",
        |data| chmod(data, 0o770),
        2,
        &["mode 0770", "`chmod go-w DIR`, or set SVC_DATA_GROUP_ACCESS=1"],
    ),
    form(
        "a folder that everybody can write",
        |data| chmod(data, 0o777),
        2,
        &["mode 0777", "`chmod go-w DIR`"],
    ),
    form(
        "a database that the group can write",
        |data| chmod(&data.join("svc.db"), 0o660),
        2,
        &["`chmod go-w DIR/svc.db`, or set SVC_DATA_GROUP_ACCESS=1"],
    ),
    form(
        "a read-only database",
        |data| chmod(&data.join("svc.db"), 0o400),
        2,
        &["DIR/svc.db cannot be written", "mode 0400", "`chmod u+w DIR/svc.db`"],
    ),
    form(
        "a database that nobody may read",
        |data| chmod(&data.join("svc.db"), 0),
        2,
        &["DIR/svc.db cannot be read", "`chmod u+r DIR/svc.db`"],
    ),
    form(
        "a database is a folder",
        |data| replace(&data.join("svc.db"), |path| fs::create_dir(path).unwrap()),
        2,
        &["DIR/svc.db cannot be read: it is a folder", "`rmdir DIR/svc.db`"],
    ),
    form(
        "a database is a link to nothing",
        |data| replace(&data.join("svc.db"), |path| symlink("/gone", path).unwrap()),
        2,
        &["DIR/svc.db cannot be read: it is a symbolic link to /gone, which does not exist"],
    ),
    form(
        "a read-only folder",
        |data| chmod(data, 0o500),
        2,
        &["DIR cannot be written", "mode 0500", "`chmod u+w DIR`"],
    ),
    form(
        "the folder is a file",
        |data| {
            fs::remove_dir_all(data).unwrap();
            fs::write(data, "").unwrap();
        },
        2,
        &["DIR/svc.env cannot be read: DIR (owner", "is a file, not a folder"],
    ),
    form(
        "the folder is missing",
        |data| fs::remove_dir_all(data).unwrap(),
        4,
        &["DIR is not set up; run `svc init"],
    ),
    with(
        &[("SVC_SESSION_SECRET_FILE", "DIR/none")],
        form(
            "a secret is missing",
            |_| {},
            2,
            &["SVC_SESSION_SECRET_FILE: the file DIR/none cannot be read: it does not exist in DIR"],
        ),
    ),
    with(
        &[(
            "DATABASE_URL",
            "postgres://u:hunter2@127.0.0.1:1/d?sslmode=verify-full&sslrootcert=DIR/roots.pem",
        )],
        form(
            "a file of roots is missing",
            |_| {},
            2,
            &["DATABASE_URL: sslrootcert: DIR/roots.pem cannot be read: it does not exist in DIR"],
        ),
    ),
    with(
        &[("DATABASE_URL", "postgres://u:hunter2@127.0.0.1:1/d?sslcert=DIR/svc.env&sslkey=DIR/keys")],
        form(
            "a certificate is none",
            |_| {},
            2,
            &["sslcert: DIR/svc.env cannot be used: it has no certificate"],
        ),
    ),
    with(
        &[("DATABASE_URL", "host=DIR user=u password=hunter2")],
        form(
            "a socket is missing",
            |_| {},
            1,
            &["the socket DIR/.s.PGSQL.5432 cannot be written: it does not exist"],
        ),
    ),
];

#[test]
fn a_failed_start_names_the_file_its_owner_and_its_mode_and_the_command_that_fixes_it() {
    let place = DeployedSetup::new();
    let me = match is_root() {
        true => format!("{SOMEBODY}:{SOMEBODY}"),
        false => format!("{}:{}", rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
    };
    let mut failures = Vec::new();
    for form in FORMS.iter().filter(|form| is_root() || !form.by_root) {
        let data = place.copy();
        (form.damage)(&data);
        let shown = data.display().to_string();
        let resolved = |text: &str| text.replace("DIR", &shown).replace("ME", &me);
        let variables: Vec<(&str, String)> =
            form.variables.iter().map(|(name, value)| (*name, resolved(value))).collect();
        let outcome = place.start(&data, &variables);
        let says = form.wanted.iter().all(|wanted| outcome.err.contains(&resolved(wanted)));
        if outcome.code != Some(form.code) || !says || outcome.err.contains("hunter2") {
            failures.push(format!("{}: {:?}, {}", form.name, outcome.code, outcome.err));
        }
        // Restore the modes so that the next copy can replace it.
        for folder in [data.clone(), data.join("keys")].iter().filter(|folder| folder.is_dir()) {
            chmod(folder, 0o700);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let data = place.copy();
    assert_eq!(place.start(&data, &[]).code, Some(0), "a control");
}
