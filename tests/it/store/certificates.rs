//! The certificates of a real PostgreSQL server: `svc` and psql give the same verdict, except for the
//! differences in the manual.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use secrecy::SecretString;
use svc_core::verify::verify_database;
use svc_core::{Code, Database};
use svc_tests::database::skipped;
use svc_tests::process::{RunningProgram, run, until};
use tempfile::TempDir;

type Authority = CertifiedIssuer<'static, KeyPair>;

/// Whether a client connects to a server with the certificate: with `require`; with `prefer` and the roots;
/// with `verify-ca`; with `verify-full` as localhost, and as 127.0.0.1.
type Verdicts = [bool; 5];

const HOSTS: [(&str, &str, bool); 5] = [
    ("require", "localhost", false),
    ("prefer", "localhost", true),
    ("verify-ca", "127.0.0.1", true),
    ("verify-full", "localhost", true),
    ("verify-full", "127.0.0.1", true),
];

const GOOD: Verdicts = [true, true, true, true, true];
const BY_NAME: Verdicts = [true, true, true, true, false];
const BY_ADDRESS: Verdicts = [true, true, true, false, true];
const NO_NAME: Verdicts = [true, true, true, false, false];
const UNPROVEN: Verdicts = [true, false, false, false, false];

/// A certificate of a server, and the roots that the client trusts.
struct Case {
    name: &'static str,
    certificate: String,
    key: String,
    roots: String,
    verdicts: Verdicts,
}

/// The case on which the verdicts differ.
const INDIRECT: &str = "version 1, issued through an intermediate";

#[test]
fn the_certificate_of_a_real_server_is_judged_as_psql_judges_it() {
    let Some(programs) = programs() else {
        skipped("the certificates of PostgreSQL", "PATH to the programs of a server");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut cases = by_openssl(folder.path());
    cases.extend(by_rcgen());
    let server = Server::start(&programs, &cases[0]);
    let roots = folder.path().join("roots.pem");
    let mut differences = Vec::new();
    for case in &cases {
        server.serve_with(case);
        std::fs::write(&roots, &case.roots).unwrap();
        let judged = |connects: &dyn Fn(&str) -> bool| {
            HOSTS.map(|(mode, host, has_roots)| {
                let roots =
                    if has_roots { format!(" sslrootcert={}", roots.display()) } else { String::new() };
                connects(&format!("host={host} {} sslmode={mode}{roots}", server.address()))
            })
        };
        let psql = judged(&|address| server.psql(folder.path(), address));
        let ours = judged(&svc);
        // svc accepts a version 1 certificate only from a root itself.
        let own = if case.name == INDIRECT { UNPROVEN } else { case.verdicts };
        if psql != case.verdicts || ours != own {
            let name = case.name;
            let expected = case.verdicts;
            differences.push(format!("{name}: expected {expected:?}, psql {psql:?}, svc {ours:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Returns whether svc connects: its error is that the empty database is not set up.
fn svc(address: &str) -> bool {
    let database = Database::Postgres(SecretString::from(address));
    let error = verify_database(&database, None, None).unwrap_err();
    if error.code() != Code::NotFound {
        assert_eq!(error.code(), Code::Configuration, "{error}: {:?}", error.cause());
    }
    error.code() == Code::NotFound
}

/// Returns the folder of the newest server's programs.
fn programs() -> Option<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = installed.map(|version| version.path().join("bin")).collect();
    folders.sort_by_key(|folder| {
        let version = folder.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        version.and_then(|version| version.parse::<u32>().ok())
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = folders.into_iter().rev().chain(std::env::split_paths(&path));
    let is_whole =
        |folder: &PathBuf| ["postgres", "initdb", "psql"].iter().all(|name| folder.join(name).is_file());
    all.into_iter().find(is_whole)
}

/// A PostgreSQL server that accepts only connections over TLS.
struct Server {
    running: RunningProgram,
    programs: PathBuf,
    folder: TempDir,
    port: u16,
}

/// The user of the server, which refuses to run as root.
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    run(Command::new("id").arg("-u")).out.trim() == "0"
}

/// Returns a program of the server, as its user.
fn as_server(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups", "--"]);
    command.arg(program);
    command
}

impl Server {
    fn start(programs: &Path, first: &Case) -> Self {
        let folder = tempfile::tempdir().unwrap();
        give(folder.path(), 0o700);
        let data = folder.path().join("data");
        let made = run(as_server(&programs.join("initdb"))
            .current_dir(folder.path())
            .arg("-D")
            .arg(&data)
            .args(["-U", "svc", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8"]));
        assert_eq!(made.code, Some(0), "{made:?}");
        std::fs::write(data.join("pg_hba.conf"), "hostssl all all all trust\n").unwrap();
        write_certificate(folder.path(), first);
        // Another process may take the port before the server does.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut command = as_server(&programs.join("postgres"));
            command.current_dir(folder.path()).arg("-D").arg(&data);
            for setting in [
                "listen_addresses=127.0.0.1".to_owned(),
                format!("port={port}"),
                format!("unix_socket_directories={}", folder.path().display()),
                "ssl=on".to_owned(),
                format!("ssl_cert_file={}", folder.path().join("server.crt").display()),
                format!("ssl_key_file={}", folder.path().join("server.key").display()),
                "fsync=off".to_owned(),
            ] {
                command.arg("-c").arg(setting);
            }
            let running = RunningProgram::start(&mut command);
            let has_said = |text: &str| running.err.text().contains(text);
            until("the server has started", || has_said("ready to accept connections") || has_said("FATAL"));
            if has_said("ready to accept connections") {
                return Self { running, programs: programs.to_owned(), folder, port };
            }
        }
        panic!("the server did not start");
    }

    fn address(&self) -> String {
        format!("port={} user=svc dbname=postgres connect_timeout=20", self.port)
    }

    /// Serves new connections with another certificate.
    fn serve_with(&self, case: &Case) {
        let reloads = || self.running.err.text().matches("received SIGHUP").count();
        let before = reloads();
        write_certificate(self.folder.path(), case);
        self.running.signal("HUP");
        // It reads the files before it accepts another connection.
        until("the server reads its files", || reloads() > before);
    }

    /// Returns whether psql connects.
    fn psql(&self, home: &Path, address: &str) -> bool {
        let mut command = Command::new(self.programs.join("psql"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        let outcome = run(command.env("HOME", home).args(["-X", "-w", "-c", "select 1", address]));
        assert!(matches!(outcome.code, Some(0 | 2)), "{outcome:?}");
        outcome.code == Some(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.signal("INT");
        until("the server has ended", || self.running.err.text().contains("database system is shut down"));
    }
}

/// Gives a file to the server's user.
fn give(path: &Path, mode: u32) {
    if is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn write_certificate(folder: &Path, case: &Case) {
    for (name, text) in [("server.crt", &case.certificate), ("server.key", &case.key)] {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        give(&path, 0o600);
    }
}

/// Creates the certificates of PostgreSQL's manual (section 19.9.5), by the same commands.
fn by_openssl(folder: &Path) -> Vec<Case> {
    // With separate settings, since those of the system may differ.
    const SETTINGS: &str = "[req]\ndistinguished_name=dn\nx509_extensions=v3_ca\n[dn]\n[v3_ca]\n\
        subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid:always,issuer\n\
        basicConstraints=critical,CA:true\n[leaf]\nbasicConstraints=CA:false\n";
    std::fs::write(folder.join("openssl.cnf"), SETTINGS).unwrap();
    let openssl = |line: &str| {
        let mut command = Command::new("openssl");
        let outcome =
            run(command.current_dir(folder).env("OPENSSL_CONF", "openssl.cnf").args(line.split(' ')));
        assert_eq!(outcome.code, Some(0), "openssl {line}: {outcome:?}");
    };
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    openssl("req -new -x509 -days 365 -nodes -text -out self.crt -keyout self.key -subj /CN=localhost");
    openssl("req -new -nodes -text -out root.csr -keyout root.key -subj /CN=root.example");
    openssl(
        "x509 -req -in root.csr -text -days 3650 -extfile openssl.cnf -extensions v3_ca -signkey root.key \
         -out root.crt",
    );
    openssl("req -new -nodes -text -out between.csr -keyout between.key -subj /CN=between.example");
    openssl(
        "x509 -req -in between.csr -text -days 1825 -extfile openssl.cnf -extensions v3_ca -CA root.crt \
         -CAkey root.key -CAcreateserial -out between.crt",
    );
    for authority in ["root", "between"] {
        openssl(&format!(
            "req -new -nodes -text -out leaf.csr -keyout by-{authority}.key -subj /CN=localhost"
        ));
        openssl(&format!(
            "x509 -req -in leaf.csr -text -days 365 -CA {authority}.crt -CAkey {authority}.key \
             -CAcreateserial -out by-{authority}.crt"
        ));
    }
    let case = |name, certificate: String, key: &str, roots: &str, verdicts| Case {
        name,
        certificate,
        key: read(key),
        roots: read(roots),
        verdicts,
    };
    let chain = format!("{}{}", read("by-between.crt"), read("between.crt"));
    openssl(
        "x509 -req -in leaf.csr -days 365 -extfile openssl.cnf -extensions leaf -CA between.crt \
         -CAkey between.key -CAcreateserial -out whole.crt",
    );
    let whole = format!("{}{}", read("whole.crt"), read("between.crt"));
    vec![
        case("self-signed, CA:TRUE, name in CN", read("self.crt"), "self.key", "self.crt", BY_NAME),
        case("self-signed, and another root", read("self.crt"), "self.key", "root.crt", UNPROVEN),
        case("issued by a root, name in CN", read("by-root.crt"), "by-root.key", "root.crt", BY_NAME),
        case(INDIRECT, chain.clone(), "by-between.key", "root.crt", BY_NAME),
        case("version 3, issued through an intermediate", whole, "by-between.key", "root.crt", BY_NAME),
        case(
            "an intermediate that was not sent",
            read("by-between.crt"),
            "by-between.key",
            "root.crt",
            UNPROVEN,
        ),
        case("an intermediate without its root", chain, "by-between.key", "between.crt", UNPROVEN),
    ]
}

fn authority(change: impl FnOnce(&mut CertificateParams)) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "an authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Issues a certificate by an authority, with its common name and its alternative names.
fn issued(
    name: &'static str,
    by: &Authority,
    common_name: &str,
    names: &[&str],
    verdicts: Verdicts,
    change: impl FnOnce(&mut CertificateParams),
) -> Case {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.subject_alt_names = names
        .iter()
        .map(|name| match name.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName((*name).try_into().unwrap()),
        })
        .collect();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, by).unwrap().pem();
    Case { name, certificate, key: key.serialize_pem(), roots: by.pem(), verdicts }
}

fn by_rcgen() -> Vec<Case> {
    let root = authority(|_| {});
    let old = authority(|params| params.not_after = date_time_ymd(2020, 1, 1));
    let no_authority = authority(|params| params.is_ca = IsCa::ExplicitNoCa);
    let keep = |_: &mut CertificateParams| {};
    let own = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::ExplicitNoCa;
    let own_certificate = params.self_signed(&own).unwrap().pem();
    vec![
        issued("an alternative name", &root, "x", &["localhost"], BY_NAME, keep),
        issued("an alternative name and an address", &root, "x", &["localhost", "127.0.0.1"], GOOD, keep),
        issued("an address, and a name in CN", &root, "localhost", &["127.0.0.1"], GOOD, keep),
        issued("an address in CN", &root, "127.0.0.1", &[], BY_ADDRESS, keep),
        issued("CN beside an alternative name", &root, "localhost", &["db.example"], NO_NAME, keep),
        issued("the name of another host", &root, "db.example", &[], NO_NAME, keep),
        issued("expired", &root, "x", &["localhost"], UNPROVEN, |params| {
            params.not_after = date_time_ymd(2021, 1, 1);
        }),
        issued("not valid yet", &root, "x", &["localhost"], UNPROVEN, |params| {
            params.not_before = date_time_ymd(2090, 1, 1);
        }),
        issued("by an expired root", &old, "x", &["localhost"], UNPROVEN, keep),
        issued("by what is no authority", &no_authority, "x", &["localhost"], UNPROVEN, keep),
        issued("for clients alone", &root, "x", &["localhost"], UNPROVEN, |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        }),
        issued("for servers and to sign", &root, "x", &["localhost"], BY_NAME, |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        }),
        issued("to sign certificates alone", &root, "x", &["localhost"], UNPROVEN, |params| {
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        }),
        issued("of an authority itself", &root, "x", &["localhost"], BY_NAME, |params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }),
        Case {
            name: "self-signed, CA:FALSE",
            certificate: own_certificate.clone(),
            key: own.serialize_pem(),
            roots: own_certificate,
            verdicts: BY_NAME,
        },
    ]
}
