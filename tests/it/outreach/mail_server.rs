//! Mail as an independent server receives it: the Python package `aiosmtpd`, from the real `svc-http`.
//!
//! It accepts, defers and refuses mail. Both it and `svc-http` are killed and restarted. Nothing is lost, and
//! items that were read or withdrawn are not sent.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::database::{engines, skipped};
use svc_tests::ordeal::tls::certificate_for;
use svc_tests::process::{RunningProgram, until};
use svc_tests::site::{Caller, Server, Site};
use svc_tests::text;
use tempfile::TempDir;

/// The variable with the Python that has the mail server.
const PYTHON: &str = "SVC_TEST_PYTHON";

const NAME: &str = "night shift";
const PASSWORD: &str = "a/secret@of:the server";

/// The mail server, and the parameters for its restart.
struct MailServer {
    python: PathBuf,
    port: u16,
    files: TempDir,
    running: RunningProgram,
}

impl MailServer {
    fn start() -> Option<Self> {
        let Some(python) = std::env::var_os(PYTHON) else {
            skipped("mail", PYTHON);
            return None;
        };
        let files = tempfile::tempdir().unwrap();
        certificate_for("localhost", files.path());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let running = Self::run(Path::new(&python), port, files.path());
        Some(Self { python: python.into(), port, files, running })
    }

    fn run(python: &Path, port: u16, files: &Path) -> RunningProgram {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/py/mail_server.py");
        let mut command = Command::new(python);
        command.arg(script).arg(port.to_string()).arg(files.join("server.crt")).arg(files.join("server.key"));
        let mut running = RunningProgram::start(command.args([NAME, PASSWORD]));
        let first: Value = serde_json::from_str(&running.next_line()).unwrap();
        assert_eq!(first, json!({"port": port}));
        running
    }

    /// Restarts it at the same port.
    fn restart(&mut self) {
        self.running = Self::run(&self.python, self.port, self.files.path());
    }

    fn answers(&mut self, how: &str) {
        self.running.say(how);
        assert_eq!(self.next()["answers"], how);
    }

    /// Sets its replies from now on, whatever was set before.
    fn answers_from_now_on(&mut self, how: &Value) {
        self.running.say(&how.to_string());
        while self.next().get("answers").is_none() {}
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.running.next_line()).unwrap()
    }

    /// Returns the next mail, which must have been accepted.
    #[track_caller]
    fn mail(&mut self) -> Value {
        let next = self.next();
        assert!(next["mail"].is_object(), "{next:#}");
        next["mail"].clone()
    }

    fn serve(&self, site: &Site) -> Server {
        let url = format!("smtp://night%20shift:a%2Fsecret%40of%3Athe%20server@localhost:{}", self.port);
        site.serve(&[
            ("SVC_SMTP_URL", &url),
            ("SVC_MAIL_FROM", "Night Shift <svc@example.com>"),
            ("SVC_PUBLIC_URL", "https://svc.example.com"),
            ("SVC_MAIL_DELAY_SECS", "0"),
            ("SSL_CERT_FILE", self.files.path().join("roots.pem").to_str().unwrap()),
        ])
    }
}

fn header<'m>(mail: &'m Value, name: &str) -> &'m str {
    let all = mail["headers"].as_array().unwrap();
    let mut found = all.iter().filter(|header| header[0] == name);
    let value = found.next().unwrap_or_else(|| panic!("{name} is missing: {mail:#}"))[1].as_str().unwrap();
    assert!(found.next().is_none(), "{name} twice: {mail:#}");
    value
}

fn plain(mail: &Value) -> &str {
    mail["parts"]["text/plain"].as_str().unwrap()
}

/// The actions of the administrator and the agent of a site.
struct Team<'s> {
    admin: Caller<'s>,
    agent: Caller<'s>,
    channel: String,
}

impl<'s> Team<'s> {
    fn at(site: &'s Site, server: &Server) -> Self {
        let admin = server.caller(&site.founders.admin);
        let agent = server.caller(&site.founders.agent);
        let channels = format!("/workspaces/{}/channels", site.founders.workspace_id);
        let channel = admin.ask("POST", &channels, Some(&json!({"name": "mailed"}))).output();
        Self { admin, agent, channel: text(&channel["id"]) }
    }

    fn thread(&self, title: &str) -> String {
        let target = format!("/channels/{}/threads", self.channel);
        text(&self.admin.ask("POST", &target, Some(&json!({"title": title}))).output()["id"])
    }

    /// Posts a message of the agent to the administrator in a thread.
    fn say(&self, thread: &str, words: &str) -> Value {
        let body = json!({"body": format!("@admin, {words}")});
        self.agent.ask("POST", &format!("/threads/{thread}/messages"), Some(&body)).output()
    }

    fn delivery(&self) -> Value {
        self.admin.ask("GET", "/me/notification-preferences", None).output()["delivery"].clone()
    }
}

/// Makes everything due that waits for a time.
fn make_due(site: &Site) {
    site.database.execute(
        "update delivery_addresses set retry_at = null;
         update inbox set mail_due = 0 where mail_due is not null",
    );
}

#[test]
fn mail_reaches_a_server_whatever_becomes_of_it_and_of_ours() {
    for engine in engines() {
        let Some(mut mail) = MailServer::start() else { return };
        tell(engine, &mut mail);
    }
}

fn tell(engine: Engine, mail: &mut MailServer) {
    let site = Site::found(engine);
    let handle = site.database.rows("select handle from members where kind = 'human'");
    assert_eq!(handle[0][0], "admin", "the handle that is mentioned");
    let mut server = mail.serve(&site);
    let team = Team::at(&site, &server);

    let address = json!({"address": "ada+svc@example.com", "mode": "immediate"});
    team.admin.ask("PUT", "/me/delivery-address", Some(&address)).output();
    let sent = mail.mail();
    assert_eq!((&sent["encrypted"], &sent["authenticated"]), (&json!(true), &json!(true)), "{sent:#}");
    assert_eq!((&sent["from"], &sent["to"]), (&json!("svc@example.com"), &json!(["ada+svc@example.com"])));
    let code: String = plain(&sent).chars().take(8).collect();
    until("the code is taken", || {
        let confirm = json!({"code": code});
        team.admin.ask("POST", "/me/delivery-address/confirm", Some(&confirm)).is_success()
    });

    team.admin.put("/me/notification-preferences", json!({"show_words": true}));
    let title = format!("Bcc: eve@example.com \u{e4} {}", "long ".repeat(30));
    let thread = team.thread(title.trim());
    team.say(&thread, "the words: \u{20ac} <b>&\n.\nFrom here");
    let first = mail.mail();
    assert_eq!(first["to"], json!(["ada+svc@example.com"]));
    assert_eq!(header(&first, "From"), "Night Shift <svc@example.com>");
    assert_eq!(header(&first, "To"), "ada+svc@example.com");
    assert_eq!(header(&first, "Auto-Submitted"), "auto-generated");
    assert!(header(&first, "Subject").ends_with(title.trim()), "{first:#}");
    assert!(plain(&first).contains(&format!("https://svc.example.com/ui/t/{thread}#m-")), "{first:#}");
    assert_eq!(header(&first, "List-Unsubscribe-Post"), "List-Unsubscribe=One-Click");
    let unsubscribe = header(&first, "List-Unsubscribe").to_owned();
    let unsubscribe =
        unsubscribe.strip_prefix("<https://svc.example.com").unwrap().strip_suffix('>').unwrap();
    let names = || first["headers"].as_array().unwrap().iter().map(|header| header[0].as_str().unwrap());
    assert!(!names().any(|name| name.eq_ignore_ascii_case("bcc")), "{first:#}");
    assert_eq!((&first["type"], &first["defects"]), (&json!("multipart/alternative"), &json!([])));
    assert!(first["longest"].as_u64().unwrap() < 998, "{first:#}");
    assert!(
        plain(&first).contains("the words: \u{20ac} <b>&") && plain(&first).contains("    ."),
        "{first:#}"
    );
    let html = first["parts"]["text/html"].as_str().unwrap();
    assert!(html.contains("\u{20ac} &lt;b&gt;&amp;") && html.contains("@worker"), "{html}");
    team.say(&thread, "more");
    let second = mail.mail();
    assert_eq!(header(&second, "References"), header(&first, "References"));
    assert_ne!(header(&second, "Message-ID"), header(&first, "Message-ID"));

    // Its receiver unsubscribes like a mail provider, and subscribes again.
    let one_click =
        server.rest.send_form(unsubscribe, &[("host", "svc.example.com")], "List-Unsubscribe=One-Click");
    assert_eq!(one_click.output(), json!({"mode": "off"}));
    team.say(&thread, "into the void");
    assert_eq!(team.delivery()["mode"], "off");
    team.admin.put("/me/delivery-address", address.clone());

    // Items that are deferred, and then read or withdrawn, are not sent; the rest comes once.
    mail.answers("451 4.7.1 later");
    let read = team.say(&thread, "this is read");
    assert_eq!(mail.next()["refused"], "ada+svc@example.com");
    until("that it was put off is shown", || team.delivery()["retry_at"] != Value::Null);
    assert!(text(&team.delivery()["last_error"]).contains("later"));
    let withdrawn = team.say(&thread, "this is withdrawn");
    team.say(&thread, "this is left");
    team.admin.ask("POST", "/me/inbox/read", Some(&json!({"lsns": [read["lsn"]]}))).output();
    team.agent.ask("DELETE", &format!("/messages/{}", text(&withdrawn["id"])), None).output();
    mail.answers("take");
    make_due(&site);
    let left = mail.mail();
    assert!(plain(&left).contains("this is left"), "{left:#}");
    assert!(!plain(&left).contains("is read") && !plain(&left).contains("is withdrawn"), "{left:#}");
    until("that it was taken is shown", || team.delivery()["last_error"] == Value::Null);

    // The mail server dies, and is restarted.
    mail.running.kill();
    team.say(&thread, "while it is away");
    until("that it is away is shown", || team.delivery()["last_error"] != Value::Null);
    mail.restart();
    make_due(&site);
    assert!(plain(&mail.mail()).contains("while it is away"));
    until("that it was taken is shown", || team.delivery()["last_error"] == Value::Null);

    // Our server dies while it sends a mail, and sends the same one again.
    mail.answers("hang");
    team.say(&thread, "twice rather than never");
    let hung = mail.next()["hung"].clone();
    server.running.kill();
    mail.answers("take");
    make_due(&site);
    server = mail.serve(&site);
    let again = mail.mail();
    assert_eq!(header(&again, "Message-ID"), header(&hung, "Message-ID"));
    assert_eq!(plain(&again), plain(&hung));
    let team = Team {
        admin: server.caller(&site.founders.admin),
        agent: server.caller(&site.founders.agent),
        ..team
    };

    mail.answers("550 5.1.1 no such user");
    team.say(&thread, "to nobody");
    assert_eq!(mail.next()["refused"], "ada+svc@example.com");
    until("that it is suspended is shown", || team.delivery()["suspended"] == true);
    mail.answers("take");
    team.say(&thread, "to nobody either");
    assert_eq!(site.database.number("select count(*) from inbox where mail_due is not null"), 0);
    // A new code is the next mail.
    team.admin.ask("PUT", "/me/delivery-address", Some(&address)).output();
    assert!(plain(&mail.mail()).contains("code"));

    server.running.signal("TERM");
    let log = server.running.ended().err;
    for secret in ["ada+svc", "the words", "secret", "eve@"] {
        assert!(!log.contains(secret), "{secret} is in the log: {log}");
    }
}

/// Each reply for a separate member, all at once: the command, the reply, whether the address is suspended,
/// the count of refusals, and whether the mail is retried.
const REPLIES: &[(&str, &str, bool, i64, bool)] = &[
    ("RCPT", "550 5.1.0 address rejected", true, 0, false),
    ("RCPT", "550 5.1.1 no such user", true, 0, false),
    ("RCPT", "550-5.1.1 no such user\r\n550-5.1.1 here,\r\n550 5.1.1 see 192.0.2.1", true, 0, false),
    ("RCPT", "550 5.1.2 no such domain", true, 0, false),
    ("RCPT", "501 5.1.3 bad syntax", true, 0, false),
    ("RCPT", "551 5.1.6 moved", true, 0, false),
    ("RCPT", "556 5.1.10 null MX", true, 0, false),
    ("RCPT", "550 5.2.1 disabled", true, 0, false),
    ("RCPT", "550 no such user", true, 0, false),
    ("RCPT", "550", true, 0, false),
    ("RCPT", "550 5.1.1 Bo\u{ee}te inconnue", true, 0, false),
    ("DATA", "550 5.1.1 no such user", true, 0, false),
    ("RCPT", "553 5.1.7 bad sender", false, 0, true),
    ("RCPT", "550 5.1.8 bad domain of the sender", false, 0, true),
    ("RCPT", "552 5.2.2 full", false, 1, false),
    ("RCPT", "550 5.4.1 access denied", false, 1, false),
    ("RCPT", "550 5.7.1 policy", false, 1, false),
    ("DATA", "554 5.7.1 spam", false, 1, false),
    ("DATA", "550 5.6.0 content", false, 1, false),
    ("DATA", "552 5.3.4 too large", false, 1, false),
    ("DATA", "550 5.7.26 not authenticated", false, 1, false),
    ("DATA", "554 5.3.0 failed", false, 1, false),
    ("DATA", "554 no", false, 1, false),
    ("DATA", "554", false, 1, false),
    ("DATA", "554 refus\u{e9}", false, 1, false),
    ("RCPT", "450 4.2.1 busy", false, 0, true),
    ("RCPT", "451 4.7.1 greylisted", false, 0, true),
    ("RCPT", "452 4.2.2 full", false, 0, true),
    ("DATA", "451 4.3.0 later", false, 0, true),
    ("RCPT", "450 4.4.1 no answer of the next server", false, 0, true),
    ("RCPT", "450", false, 0, true),
    ("DATA", "250 taken", false, 0, false),
    ("RCPT", "250", false, 0, false),
    ("DATA", "250", false, 0, false),
    ("DATA", "250 Destinataire accept\u{e9}", false, 0, false),
];

#[test]
fn what_a_server_replies_decides_what_becomes_of_the_address_and_of_the_mail() {
    let Some(mut mail) = MailServer::start() else { return };
    let site = Site::found(Engine::Sqlite);
    let server = mail.serve(&site);
    let team = Team::at(&site, &server);
    let agents = format!("/workspaces/{}/agents", site.founders.workspace_id);
    let names: Vec<String> = (0..REPLIES.len()).map(|n| format!("member{n}")).collect();
    for name in &names {
        team.admin.post(&agents, json!({"handle": name}));
    }
    site.database.execute(
        "insert into delivery_addresses (member_id, workspace_id, mode, address, confirmed_at, tries,
             notice_failures, failures, suspended, sent)
         select id, workspace_id, 'immediate', handle || '@example.com', 1, 0, 0, 0, false, 0
         from members where handle like 'member%'",
    );
    let replies: serde_json::Map<String, Value> = REPLIES
        .iter()
        .zip(&names)
        .map(|((command, reply, ..), name)| (format!("{name}@example.com"), json!([command, reply])))
        .collect();
    mail.answers_from_now_on(&Value::Object(replies));
    let thread = team.thread("Replies");
    let all: Vec<String> = names.iter().map(|name| format!("@{name}")).collect();
    team.say(&thread, &all.join(" "));
    let outcome = |name: &str| {
        let rows = site.database.rows(&format!(
            "select d.suspended, d.refusals, coalesce(d.last_error, ''), d.retry_at is not null,
                 (select count(*) from inbox i where i.member_id = d.member_id and i.mail_due is not null)
             from delivery_addresses d where d.address = '{name}@example.com'"
        ));
        rows.into_iter().next().unwrap()
    };
    for ((command, reply, suspended, refusals, again), name) in REPLIES.iter().zip(&names) {
        let is_taken = reply.starts_with('2');
        until("the reply was settled", || match is_taken {
            true => outcome(name)[4] == 0,
            false => outcome(name)[2] != "",
        });
        let found = outcome(name);
        let wanted = [json!(i64::from(*suspended)), json!(refusals), json!(i64::from(*again))];
        assert_eq!([&found[0], &found[1], &found[3]], wanted.each_ref(), "{command} {reply}: {found:?}");
        assert_eq!(found[4], i64::from(*again), "{command} {reply}: {found:?}");
    }

    // A rejected sender is the fault of the operator, not of a member.
    let name = names.last().unwrap();
    mail.answers_from_now_on(&json!({"*": ["MAIL", "553 5.1.8 sender rejected"]}));
    team.say(&thread, &format!("@{name}"));
    until("it is put off", || outcome(name)[3] == 1);
    let found = outcome(name);
    assert_eq!((&found[0], &found[1], &found[4]), (&json!(0), &json!(0), &json!(1)), "{found:?}");
    // Three in a row, over restarts of the service.
    mail.answers_from_now_on(&json!({"*": ["DATA", "554 5.7.1 spam"]}));
    let mut running = server;
    for count in 1..=3 {
        make_due(&site);
        until("it is dropped", || outcome(name)[1] == count);
        running.running.kill();
        running = mail.serve(&site);
        let caller = running.caller(&site.founders.agent);
        let body = json!({"body": format!("@{name}, once more")});
        caller.post(&format!("/threads/{thread}/messages"), body);
    }
    assert_eq!(outcome(name)[0], 1);
    running.running.signal("TERM");
    let log = running.running.ended().err;
    assert!(!log.contains("@example.com"), "an address is in the log: {log}");
}
