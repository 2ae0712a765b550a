//! The parameters of a database address: those of libpq, and those of other programs.

use zeroize::Zeroizing;

use crate::text::nearest;

/// The effect of a parameter of a database address.
pub(super) enum ParameterEffect {
    /// The service uses the parameter, under this libpq name.
    Used(&'static str),
    /// The parameter is equivalent to this libpq parameter with this value.
    Replaced(&'static str, &'static str),
    /// The parameter requests the only supported behaviour.
    None,
    /// The parameter tunes the driver or the pool of another program.
    Ignored(&'static str),
}

/// The allowed values of a parameter, and the effect of the parameter.
#[derive(Clone, Copy)]
enum ParameterRule {
    /// The service uses any value. Other code may check the value.
    Any,
    /// The value must be one word from this list.
    OneOf(&'static [&'static str]),
    /// The value must be a number.
    Number,
    /// The parameter is another name of this libpq parameter.
    AliasOf(&'static str),
    /// The values in this list request the only supported behaviour. Other values are rejected with this
    /// instruction.
    Only(&'static [&'static str], &'static str),
    /// The parameter is rejected with this instruction.
    Refused(&'static str),
}

use ParameterRule::{AliasOf, Any, Number, OneOf, Only, Refused};

const NO_GSS: &str =
    "GSSAPI and Kerberos are not supported: remove it, and sign in by password or certificate";
const UTF8: &[&str] = &["UTF8", "utf8", "UTF-8", "utf-8", "auto", "unicode"];
const OLD_PROTOCOL: &str = "svc speaks version 3.0 of the protocol: remove it";
const NO_OAUTH: &str = "OAuth is not supported: remove it, and sign in by password or certificate";
const NO_CRL: &str = "revocation lists are not supported: remove it";
const NO_FILES: &str = "libpq's own files are not read: write what it stands for into the address, for which \
    DATABASE_URL_FILE can name a file";
const USE_SSLMODE: &str = "write sslmode (require, or verify-full with sslrootcert) instead";
const USE_OPTIONS: &str = "write options=-c%20search_path%3DNAME instead";
const USE_TIMEOUT_OPTIONS: &str =
    "write options=-c%20statement_timeout%3DMILLISECONDS instead, and the like for others";

/// The parameters of libpq (PostgreSQL 18 manual, section 34.1.2), with their effect in this service.
#[rustfmt::skip]
const LIBPQ_PARAMETERS: &[(&str, ParameterRule)] = &[
    ("host", Any), ("hostaddr", Any), ("port", Any), ("dbname", Any), ("user", Any), ("password", Any),
    ("options", Any), ("application_name", Any), ("fallback_application_name", Any),
    ("connect_timeout", Number), ("tcp_user_timeout", Number),
    ("keepalives", OneOf(&["0", "1"])), ("keepalives_idle", Number), ("keepalives_interval", Number),
    ("keepalives_count", Number), ("keepalives_retries", AliasOf("keepalives_count")),
    ("channel_binding", OneOf(&["disable", "prefer", "require"])),
    ("load_balance_hosts", OneOf(&["disable", "random"])),
    ("sslmode", Any), ("sslrootcert", Any), ("sslcert", Any), ("sslkey", Any),
    ("sslcertmode", OneOf(&["disable", "allow"])),
    ("sslnegotiation", OneOf(&["postgres", "direct"])),
    ("sslsni", OneOf(&["0", "1"])),
    ("ssl_min_protocol_version", Any), ("ssl_max_protocol_version", Any),
    ("target_session_attrs", OneOf(&["any", "read-write", "primary"])),
    ("client_encoding", Only(UTF8, "svc speaks UTF8: remove it")),
    ("sslcompression", Only(&["0", "1"], "it must be 0 or 1, and compresses nothing: remove it")),
    ("gssencmode", Only(&["disable", "prefer"], NO_GSS)),
    ("gssdelegation", Only(&["0"], NO_GSS)),
    ("min_protocol_version", Only(&["3.0"], OLD_PROTOCOL)),
    ("max_protocol_version", Only(&["3.0", "3.2", "latest"], OLD_PROTOCOL)),
    ("replication", Only(&["false", "off", "no", "0"], "svc is no replica: remove it")),
    ("krbsrvname", Refused(NO_GSS)), ("gsslib", Refused(NO_GSS)),
    ("oauth_issuer", Refused(NO_OAUTH)), ("oauth_client_id", Refused(NO_OAUTH)),
    ("oauth_client_secret", Refused(NO_OAUTH)), ("oauth_scope", Refused(NO_OAUTH)),
    ("sslcrl", Refused(NO_CRL)), ("sslcrldir", Refused(NO_CRL)),
    ("passfile", Refused(NO_FILES)), ("service", Refused(NO_FILES)), ("servicefile", Refused(NO_FILES)),
    ("sslpassword", Refused("encrypted keys are not supported: run `openssl pkey -in KEY -out FILE`")),
    ("sslkeylogfile", Refused("svc writes the keys of a connection nowhere: remove it")),
    ("scram_client_key", Refused("only a password is supported: remove it")),
    ("scram_server_key", Refused("only a password is supported: remove it")),
    ("require_auth", Refused("write channel_binding=require instead, which with TLS demands SCRAM")),
    ("requirepeer", Refused("the owner of a socket is not compared: remove it, and use a socket in a folder \
        that only the server's user can write")),
    ("requiressl", Refused(USE_SSLMODE)),
    ("authtype", Refused("it has no meaning: remove it")), ("tty", Refused("it has no meaning: remove it")),
];

/// Parameters of other programs that are equivalent to a libpq parameter, or cannot be supported.
#[rustfmt::skip]
const OTHER_PARAMETERS: &[(&str, ParameterRule)] = &[
    ("ApplicationName", AliasOf("application_name")),
    ("sslaccept", Refused(USE_SSLMODE)), ("sslfactory", Refused(USE_SSLMODE)),
    ("sslidentity", Refused("write sslcert and sslkey instead, which name PEM files")),
    ("sslhostnameverifier", Refused(USE_SSLMODE)), ("ssl_require", Refused(USE_SSLMODE)),
    ("sslinline", Refused("write files into sslrootcert, sslcert and sslkey instead")),
    ("ssl-mode", Refused(USE_SSLMODE)), ("ssl_mode", Refused(USE_SSLMODE)), ("sslMode", Refused(USE_SSLMODE)),
    ("ssl_ca", Refused("write sslrootcert instead")), ("sslca", Refused("write sslrootcert instead")),
    ("schema", Only(&["public"], USE_OPTIONS)), ("currentSchema", Only(&["public"], USE_OPTIONS)),
    ("search_path", Only(&["public"], USE_OPTIONS)), ("schema_search_path", Only(&["public"], USE_OPTIONS)),
    ("pgbouncer", Only(&["false"], "it says that a pooler in transaction mode is in front, which does not \
        pass notifications on: use the direct address of the server")),
    ("endpoint", Refused("write options=endpoint%3DNAME instead")),
    ("project", Refused("write options=project%3DNAME instead")),
    ("targetServerType", Refused("write target_session_attrs=primary instead")),
    ("statement_timeout", Refused(USE_TIMEOUT_OPTIONS)), ("lock_timeout", Refused(USE_TIMEOUT_OPTIONS)),
    ("idle_in_transaction_session_timeout", Refused(USE_TIMEOUT_OPTIONS)),
];

/// Parameters that tune the driver or the pool of another program.
#[rustfmt::skip]
const TUNING_PARAMETERS: &[&str] = &[
    // Prisma.
    "connection_limit", "pool_timeout", "socket_timeout", "statement_cache_size",
    "max_idle_connection_lifetime",
    // SQLAlchemy, Django, Rails, Ecto, Sequelize, Doctrine.
    "prepared_statement_cache_size", "prepared_statement_name_func", "pool_size", "max_overflow",
    "pool_recycle", "pool_pre_ping", "conn_max_age", "conn_health_checks", "disable_server_side_cursors",
    "pool", "encoding", "prepared_statements", "reaping_frequency", "checkout_timeout", "idle_timeout",
    "adapter", "reconnect", "advisory_locks", "min", "max", "serverVersion", "charset",
    // node-postgres, and the platforms around it.
    "uselibpqcompat", "supa", "workaround",
    // Go and Rust.
    "binary_parameters", "default_query_exec_mode", "statement_cache_capacity", "statement-cache-capacity",
    "description_cache_capacity", "pool_max_conns", "pool_min_conns", "pool_min_idle_conns",
    "pool_max_conn_lifetime", "pool_max_conn_lifetime_jitter", "pool_max_conn_idle_time",
    "pool_health_check_period",
    // Java.
    "prepareThreshold", "preparedStatementCacheQueries", "reWriteBatchedInserts", "tcpKeepAlive",
    "loginTimeout", "connectTimeout", "socketTimeout", "defaultRowFetchSize", "stringtype",
    "binaryTransfer", "assumeMinServerVersion", "autosave",
];

/// Returns the effect of a parameter, or `None` if the parameter is unknown.
pub(super) fn parameter_effect(
    name: &str,
    value: &Zeroizing<String>,
) -> Result<Option<ParameterEffect>, String> {
    let value = value.trim();
    if name == "ssl" {
        // Same as in libpq, which accepts this for Java.
        return match value {
            "true" => Ok(Some(ParameterEffect::Replaced("sslmode", "require"))),
            _ => Err(format!("has the parameter ssl: {USE_SSLMODE}")),
        };
    }
    let Some((name, rule)) =
        LIBPQ_PARAMETERS.iter().chain(OTHER_PARAMETERS).find(|(known, _)| *known == name)
    else {
        return Ok(TUNING_PARAMETERS
            .iter()
            .find(|known| **known == name)
            .map(|name| ParameterEffect::Ignored(name)));
    };
    let refused = |why: &str| Err(format!("has the parameter {name}: {why}"));
    match rule {
        Any => Ok(Some(ParameterEffect::Used(name))),
        AliasOf(other) => parameter_effect(other, &Zeroizing::new(value.to_owned())),
        OneOf(allowed) if value.is_empty() || allowed.contains(&value) => {
            Ok(Some(ParameterEffect::Used(name)))
        }
        OneOf(allowed) => refused(&format!("it must be {}", allowed.join(" or "))),
        Number if value.is_empty() || value.parse::<i64>().is_ok() => Ok(Some(ParameterEffect::Used(name))),
        Number => refused("it must be a whole number"),
        Only(values, _) if value.is_empty() || values.contains(&value) => Ok(Some(ParameterEffect::None)),
        Only(_, why) | Refused(why) => refused(why),
    }
}

/// Returns the error message for an unknown parameter, with the known parameter that is most similar.
pub(super) fn unknown_parameter_message(name: &str, may_show_name: bool) -> String {
    let names: Vec<&str> = LIBPQ_PARAMETERS.iter().map(|(name, _)| *name).collect();
    let near = nearest(name, &names).map(|near| format!(", did you mean {near}?")).unwrap_or_default();
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if may_show_name && is_name && name.len() <= 40 {
        return format!("has the unknown parameter {name}{near}");
    }
    format!("has an unknown parameter, whose name may be a part of a password{near}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_in_the_tables_once_and_each_alias_names_another() {
        let named = LIBPQ_PARAMETERS.iter().chain(OTHER_PARAMETERS).map(|(name, _)| *name);
        let names: Vec<&str> = named.chain(TUNING_PARAMETERS.iter().copied()).collect();
        for name in &names {
            assert_eq!(names.iter().filter(|other| other == &name).count(), 1, "{name}");
        }
        for (name, rule) in LIBPQ_PARAMETERS.iter().chain(OTHER_PARAMETERS) {
            if let AliasOf(other) = rule {
                let found = parameter_effect(name, &Zeroizing::new("1".to_owned()));
                assert!(matches!(found, Ok(Some(ParameterEffect::Used(taken))) if taken == *other), "{name}");
            }
        }
    }
}
