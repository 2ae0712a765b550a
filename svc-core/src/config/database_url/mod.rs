//! Parses `DATABASE_URL`, the address of a PostgreSQL server, in all forms that hosting providers use.
//!
//! Both forms of libpq are accepted (PostgreSQL manual, section 34.1.1): a URL, and `name=value` pairs. Each
//! parameter either has the same effect as in libpq or is rejected by name, because an ignored parameter
//! could have been meant for protection. A parameter that only tunes the driver or the pool of another
//! program is ignored, and the log reports it. Errors never repeat a value, or a name that may be part of a
//! password.

mod text;
mod parameters;
mod tls;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use zeroize::Zeroizing;

use crate::error::{Error, Result};
use parameters::ParameterEffect;
pub(crate) use tls::{TlsUse, TlsVerification, TlsVersionLimit, TrustedRoots};

/// A parsed database address: the values of its parameters by libpq name, its hosts and its TLS settings.
#[derive(Clone)]
pub(crate) struct DatabaseUrl {
    values: BTreeMap<&'static str, Zeroizing<String>>,
    hosts: Vec<PgHost>,
    /// The TLS settings: how the server and the client must prove their identity.
    pub proof: TlsVerification,
    /// The names of the ignored parameters, which only tune other programs.
    pub ignored: Vec<&'static str>,
}

/// A host in a database address, with its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PgHost {
    /// A host name, an IP address or the folder of a Unix socket; empty for the default folder.
    pub name: String,
    /// The IP address to connect to (`hostaddr`), or `None` to look the host name up.
    pub address: Option<IpAddr>,
    pub port: u16,
}

impl DatabaseUrl {
    /// Parses a database address, and checks all of its parameters.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_text(text).map_err(|why| Error::configuration(format!("DATABASE_URL {why}")))
    }

    /// Parses a database address. An error is a clause that follows the name of the variable.
    fn parse_text(text: &str) -> std::result::Result<Self, String> {
        let mut values = BTreeMap::new();
        let mut ignored = Vec::new();
        let given = text::split_parameters(text)?;
        for (name, value) in given.fields {
            match parameters::parameter_effect(&name, &value)? {
                Some(ParameterEffect::Used(name)) => drop(values.insert(name, value)),
                Some(ParameterEffect::Replaced(name, value)) => {
                    values.insert(name, Zeroizing::new(value.to_owned()));
                }
                Some(ParameterEffect::None) => {}
                Some(ParameterEffect::Ignored(name)) => ignored.push(name),
                None => return Err(parameters::unknown_parameter_message(&name, given.may_show_name)),
            }
        }
        // An empty value counts as absent, except for a parameter that protects the connection.
        values.retain(|name, value| !value.is_empty() || *name == "sslmode");
        let hosts = parse_hosts(&values)?;
        let proof = TlsVerification::parse(|name| values.get(name).map(|value| value.as_str()), &hosts)?;
        ignored.sort_unstable();
        ignored.dedup();
        Ok(Self { values, hosts, proof, ignored })
    }

    /// Returns the value of the parameter `name`, or `None` if the parameter is absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.as_str())
    }

    /// Returns the value of the numeric parameter `name`, or `None` if the parameter is absent.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.trim().parse().ok()
    }

    /// Returns the hosts in the database address, at least one.
    pub fn hosts(&self) -> &[PgHost] {
        &self.hosts
    }

    /// Returns whether a host is another machine and no setting specifies how to secure the connection.
    pub fn needs_tls_settings(&self) -> bool {
        self.proof.is_unspecified() && self.hosts.iter().any(PgHost::is_remote)
    }
}

impl PgHost {
    /// Returns whether the host is the folder of a Unix socket. An empty name means the default folder.
    pub fn is_socket(&self) -> bool {
        self.address.is_none() && (self.name.is_empty() || self.name.starts_with('/'))
    }

    /// Returns the folder of the Unix socket, or `None` if the host is not a socket.
    ///
    /// Without a name, the folder is the default folder of PostgreSQL servers.
    pub fn socket_folder(&self) -> Option<&Path> {
        const DEBIAN: &str = "/var/run/postgresql";
        self.is_socket().then(|| match self.name.as_str() {
            "" if Path::new(DEBIAN).is_dir() => Path::new(DEBIAN),
            "" => Path::new("/tmp"),
            name => Path::new(name),
        })
    }

    fn is_remote(&self) -> bool {
        if self.is_socket() {
            return false;
        }
        match self.address.or_else(|| self.name.parse().ok()) {
            Some(address) => !address.is_loopback(),
            None => self.name != "localhost",
        }
    }
}

/// The default port of a PostgreSQL server.
const DEFAULT_PORT: u16 = 5432;

/// Combines the hosts, addresses and ports of a database address item by item.
fn parse_hosts(
    values: &BTreeMap<&'static str, Zeroizing<String>>,
) -> std::result::Result<Vec<PgHost>, String> {
    let list = |name| -> Vec<&str> {
        values.get(name).map(|list| list.split(',').map(str::trim).collect()).unwrap_or_default()
    };
    let names = list("host");
    let addresses = list("hostaddr");
    let ports = list("port");
    let count = names.len().max(addresses.len()).max(1);
    if !addresses.is_empty() && !names.is_empty() && addresses.len() != names.len() {
        return Err("has not as many addresses in hostaddr as hosts".to_owned());
    }
    if ports.len() > 1 && ports.len() != count {
        return Err("has not as many ports as hosts".to_owned());
    }
    let port = |at: usize| match ports.get(at).or(ports.first()).copied().unwrap_or_default() {
        "" => Ok(DEFAULT_PORT),
        text => text.parse().ok().filter(|port| *port > 0).ok_or_else(text::invalid_port_message),
    };
    let address = |at: usize| match addresses.get(at).copied().unwrap_or_default() {
        "" => Ok(None),
        text => {
            text.parse::<IpAddr>().map(Some).map_err(|_| "has a hostaddr that is no IP address".to_owned())
        }
    };
    let host = |at: usize| {
        let name = names.get(at).copied().unwrap_or_default();
        let address = address(at)?;
        if name.starts_with('@') {
            return Err(
                "names an abstract socket, which is not supported: use a socket in a folder".to_owned()
            );
        }
        let name = match address {
            Some(address) if name.is_empty() => address.to_string(),
            _ => name.to_owned(),
        };
        Ok(PgHost { name, address, port: port(at)? })
    };
    let hosts = (0..count).map(host).collect::<std::result::Result<Vec<_>, _>>()?;
    let by_address = hosts.iter().filter(|host| host.address.is_some()).count();
    if by_address != 0 && by_address != hosts.len() {
        return Err("has a hostaddr for some of its hosts only: give one for each, or none".to_owned());
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> std::result::Result<String, String> {
        let url = DatabaseUrl::parse(text).map_err(|error| error.detail().to_owned())?;
        let hosts: Vec<String> = url
            .hosts()
            .iter()
            .map(|host| match host.address {
                Some(address) => format!("{}={address}:{}", host.name, host.port),
                None => format!("{}:{}", host.name, host.port),
            })
            .collect();
        let word = |name| url.get(name).unwrap_or("-").to_owned();
        let ignored =
            if url.ignored.is_empty() { String::new() } else { format!(" ~{}", url.ignored.join(",")) };
        Ok(format!("{}/{}@{} {}{ignored}", word("user"), word("password"), hosts.join(","), word("dbname")))
    }

    /// Tests addresses as hosts, libraries and manuals write them, with the result of parsing each.
    #[test]
    fn addresses_are_read_as_others_hand_them_out() {
        for (text, wanted) in [
            // Heroku, Railway, Render, DigitalOcean, Fly: with and without a domain name.
            (
                "postgres://u:p@ec2-1.compute-1.amazonaws.com:5432/d",
                "u/p@ec2-1.compute-1.amazonaws.com:5432 d",
            ),
            (
                "postgresql://postgres:p@postgres.railway.internal:5432/railway",
                "postgres/p@postgres.railway.internal:5432 railway",
            ),
            ("postgresql://u:p@dpg-abc-a/d", "u/p@dpg-abc-a:5432 d"),
            (
                "postgresql://doadmin:AVNS_x@db-1.b.db.ondigitalocean.com:25060/defaultdb?sslmode=require",
                "doadmin/AVNS_x@db-1.b.db.ondigitalocean.com:25060 defaultdb",
            ),
            (
                "postgres://app:p@top2.nearest.of.app.internal:5432/app?sslmode=disable",
                "app/p@top2.nearest.of.app.internal:5432 app",
            ),
            // Neon, with and without SNI.
            (
                "postgresql://u:npg_x@ep-a-1.eu.aws.neon.tech/neondb?sslmode=require&channel_binding=require",
                "u/npg_x@ep-a-1.eu.aws.neon.tech:5432 neondb",
            ),
            (
                "postgres://u:p@ep-a.neon.tech/d?options=endpoint%3Dep-a&sslmode=require",
                "u/p@ep-a.neon.tech:5432 d",
            ),
            // Supabase, its session pooler, and Vercel's parameter for it.
            (
                "postgresql://postgres.ref:p@aws-0-eu.pooler.supabase.com:5432/postgres",
                "postgres.ref/p@aws-0-eu.pooler.supabase.com:5432 postgres",
            ),
            ("postgres://u:p@h:5432/d?sslmode=require&supa=base-pooler.x", "u/p@h:5432 d ~supa"),
            // Azure has a percent-encoded @ in its user names.
            (
                "postgres://ada%40corp:p@corp.postgres.database.azure.com:5432/d?sslmode=require",
                "ada@corp/p@corp.postgres.database.azure.com:5432 d",
            ),
            // RDS, with the certificate bundle of its authority.
            (
                "postgresql://u:p@i.rds.amazonaws.com:5432/d?sslmode=verify-full&sslrootcert=/etc/rds.pem",
                "u/p@i.rds.amazonaws.com:5432 d",
            ),
            // Prisma, SQLAlchemy, Django, Rails, Ecto, Java, Symfony.
            (
                "postgresql://u:p@h:5432/d?schema=public&connection_limit=5&pool_timeout=0&pgbouncer=false",
                "u/p@h:5432 d ~connection_limit,pool_timeout",
            ),
            ("postgresql+psycopg://u:p@h/d", "u/p@h:5432 d"),
            (
                "postgresql+asyncpg://u:p@h/d?prepared_statement_cache_size=0",
                "u/p@h:5432 d ~prepared_statement_cache_size",
            ),
            ("psql://u:p@h:5432/d?conn_max_age=600", "u/p@h:5432 d ~conn_max_age"),
            ("postgis://u:p@h/d", "u/p@h:5432 d"),
            (
                "postgresql://u:p@h/d?pool=5&encoding=unicode&prepared_statements=false",
                "u/p@h:5432 d ~encoding,pool,prepared_statements",
            ),
            ("ecto://u:p@h/d?pool_size=2", "u/p@h:5432 d ~pool_size"),
            (
                "jdbc:postgresql://h:5433/d?user=u&password=p%26q&ApplicationName=x&prepareThreshold=0",
                "u/p&q@h:5433 d ~prepareThreshold",
            ),
            ("postgresql://u:p@h/d?serverVersion=16&charset=utf8", "u/p@h:5432 d ~charset,serverVersion"),
            // A final newline, surrounding spaces, a scheme in capitals.
            ("postgres://u:p@h/d\n", "u/p@h:5432 d"),
            ("\u{feff}postgres://u:p@h/d\r\n", "u/p@h:5432 d"),
            ("  Postgres://u:p@h/d?sslmode=disable\r\n", "u/p@h:5432 d"),
            // Percent-escapes and characters that a URL need not escape in a password.
            ("postgres://u:p%40s%2Fs%3Aw%3F%23%25@h/d", "u/p@s/s:w?#%@h:5432 d"),
            ("postgres://u:a:b?c=d&e+f@h/d", "u/a:b?c=d&e+f@h:5432 d"),
            ("postgres://u@h", "u/-@h:5432 -"),
            ("postgres://u:@h/", "u/-@h:5432 -"),
            // IPv6, several hosts, sockets.
            ("postgres://u:p@[::1]:5433/d", "u/p@::1:5433 d"),
            ("postgres://u:p@[2001:db8::1]/d", "u/p@2001:db8::1:5432 d"),
            ("postgres://u@a:1,b,c:3/d?target_session_attrs=read-write", "u/-@a:1,b:5432,c:3 d"),
            ("postgres://u@%2Fvar%2Frun%2Fpostgresql/d", "u/-@/var/run/postgresql:5432 d"),
            ("postgresql:///d?host=/cloudsql/p:r:i&user=u&password=p", "u/p@/cloudsql/p:r:i:5432 d"),
            ("postgresql:///d", "-/-@:5432 d"),
            ("postgres://u@h/d?hostaddr=10.0.0.1", "u/-@h=10.0.0.1:5432 d"),
            ("postgres://h/d?user=u&host=other&port=7", "u/-@other:7 d"),
            // Pairs, in all accepted notations.
            ("host=h port=5433 dbname=d user=u password=p", "u/p@h:5433 d"),
            (
                r"host = h dbname='my db' user=u password='it\'s \\ x' sslmode=require",
                r"u/it's \ x@h:5432 my db",
            ),
            ("host=/var/run/postgresql dbname=d user=u", "u/-@/var/run/postgresql:5432 d"),
            ("hostaddr=10.0.0.1 user=u", "u/-@10.0.0.1=10.0.0.1:5432 -"),
            ("dbname=d", "-/-@:5432 d"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name_and_without_the_password() {
        for (text, why) in [
            ("mysql://u:hunter2@h/d", "does not begin with postgres://"),
            ("sqlite:///d", "does not begin with postgres://"),
            ("hunter2", "is not an address of the form"),
            ("\"postgres://u:hunter2@h/d\"", "quotation marks"),
            ("'postgres://u:hunter2@h/d'", "quotation marks"),
            ("psql 'postgresql://u:hunter2@h/d'", "is a command"),
            ("${DATABASE_URL}", "is a placeholder"),
            ("${{Postgres.DATABASE_URL}}", "is a placeholder"),
            ("<your database>", "is a placeholder"),
            ("postgresql://u:[YOUR-PASSWORD]@h/d", "is a placeholder"),
            ("postgres://u:hunter2@h:none/d", "has a port that is no number"),
            ("postgres://u:hunter2@h:0/d", "has a port that is no number"),
            ("postgres://u:hunter2@h:70000/d", "has a port that is no number"),
            ("postgres://u:hun/ter2@h/d", "has a port that is no number"),
            ("postgres://u:hunter@2@h/d", "percent-encoded"),
            ("postgres://u:100%hunter2@h/d", "percent-encoded"),
            ("postgres://u:hunter2%00@h/d", "percent-encoded"),
            ("postgres://u:hunter2@::1/d", "needs brackets"),
            ("postgres://u:hunter2@[::1/d", "brackets"),
            ("postgres://u:hunter2@h/d?sslmode", "without a value"),
            ("postgres://u:hunter2@h/d?sslmod=require", "unknown parameter sslmod, did you mean sslmode?"),
            ("postgres://h/d?password=a&hunter2=x", "unknown parameter, whose name"),
            ("password=a hunter2=x", "unknown parameter, whose name"),
            ("password=a hunter2", "without a value"),
            ("host=h password='hunter2", "quotation mark"),
            ("Server=h;Database=d;User Id=u;Password=hunter2", ".NET"),
            ("jdbc:postgresql:d?password=hunter2", "is not an address of the form"),
            ("jdbc:postgresql://h/d?ssl=true&password=hunter2", "sslmode=verify-full"),
            ("postgres://u:hunter2@h/d?pgbouncer=true", "pgbouncer"),
            ("postgres://u:hunter2@h/d?schema=hunter2", "search_path"),
            ("postgres://u:hunter2@h/d?currentSchema=x", "search_path"),
            ("postgres://u:hunter2@h/d?ssl=prefer", "sslmode"),
            ("postgres://u:hunter2@h/d?sslaccept=strict", "sslmode"),
            ("postgres://u:hunter2@h/d?sslmode=no-verify", "none of disable, allow"),
            ("postgres://u:hunter2@h/d?passfile=/p", "passfile"),
            ("postgres://u:hunter2@h/d?service=x", "service"),
            ("postgres://u:hunter2@h/d?sslcrl=/c", "sslcrl"),
            ("postgres://u:hunter2@h/d?sslpassword=hunter2", "sslpassword"),
            ("postgres://u:hunter2@h/d?require_auth=scram-sha-256", "require_auth"),
            ("postgres://u:hunter2@h/d?gssencmode=require", "gssencmode"),
            ("postgres://u:hunter2@h/d?target_session_attrs=read-only", "target_session_attrs"),
            ("postgres://u:hunter2@h/d?target_session_attrs=standby", "target_session_attrs"),
            ("postgres://u:hunter2@h/d?connect_timeout=hunter2", "connect_timeout"),
            ("postgres://u:hunter2@h/d?client_encoding=LATIN1", "client_encoding"),
            ("postgres://u:hunter2@h/d?keepalives=yes", "keepalives"),
            ("postgres://u:hunter2@a,b/d?hostaddr=10.0.0.1", "as many addresses"),
            ("postgres://u:hunter2@a,b,c/d?port=1,2", "as many ports"),
            ("postgres://u:hunter2@a/d?hostaddr=nowhere", "no IP address"),
            ("postgres://u:hunter2@%40x/d", "abstract socket"),
            ("postgres://u:hunter2@h/d?statement_timeout=5", "options=-c%20statement_timeout%3D"),
        ] {
            let error = shown(text).expect_err(text);
            assert!(error.starts_with("DATABASE_URL ") && error.contains(why), "{text}: {error}");
            assert!(!error.contains("hunter2") && !error.contains("ter2"), "{error}");
        }
    }

    #[test]
    fn only_an_address_of_this_machine_may_say_nothing_of_tls() {
        let nothing = |url: &str| DatabaseUrl::parse(url).unwrap().needs_tls_settings();
        for here in [
            "postgres://svc@localhost/svc",
            "postgres://svc@127.0.0.1:5433/svc",
            "postgres://svc@[::1]/svc",
            "postgres://svc@%2Fvar%2Frun%2Fpostgresql/svc",
            "postgres://svc@db/svc?hostaddr=127.0.0.1",
            "dbname=svc",
        ] {
            assert!(!nothing(here), "{here}");
        }
        for remote in
            ["postgres://svc@db/svc", "postgres://svc@10.0.0.1/svc", "postgres://svc@127.0.0.1,db/svc"]
        {
            assert!(nothing(remote), "{remote}");
            assert!(nothing(&format!("{remote}?sslrootcert=/ca")), "a server without TLS is taken, too");
            assert!(!nothing(&format!("{remote}?sslmode=disable")), "it says so");
            assert!(!nothing(&format!("{remote}?sslrootcert=system")), "that is verify-full");
        }
    }
}
