//! Splits the text of a database address into names and values, as libpq does.

use percent_encoding::percent_decode_str;
use zeroize::Zeroizing;

use crate::mark::strip_byte_order_mark;

/// The parameters of a database address in their order. A later value overrides an earlier value.
pub(super) struct UrlParameters {
    pub fields: Vec<(String, Zeroizing<String>)>,
    /// Whether an error may repeat the name of a parameter: only if the name cannot be part of a password.
    pub may_show_name: bool,
}

type ParseResult<T> = Result<T, String>;

/// URL schemes of PostgreSQL addresses. A `+` and the name of a driver may follow a scheme.
const SCHEMES: [&str; 6] = ["postgres", "postgresql", "psql", "pgsql", "postgis", "ecto"];

/// Splits a database address, a URL or `name=value` pairs, into its parameters.
pub(super) fn split_parameters(text: &str) -> ParseResult<UrlParameters> {
    let text = strip_byte_order_mark(text).trim();
    reject_mistakes(text)?;
    if let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) {
        let scheme = scheme.to_ascii_lowercase();
        let (is_java_url, scheme) = match scheme.strip_prefix("jdbc:").or(scheme.strip_prefix("r2dbc:")) {
            Some(scheme) => (true, scheme),
            None => (false, scheme.as_str()),
        };
        let base = scheme.split('+').next().unwrap_or_default();
        if !SCHEMES.contains(&base) {
            return Err(
                "does not begin with postgres://; for SQLite in the data folder leave it unset".to_owned()
            );
        }
        return parse_url(rest, is_java_url);
    }
    let begin = text.split(['=', '?']).next().unwrap_or_default();
    if !text.contains('=') || begin.contains(':') {
        return Err(NOT_AN_ADDRESS.to_owned());
    }
    let is_pair = |pair: &str| pair.trim().is_empty() || pair.matches('=').count() == 1;
    if text.contains(';') && text.split(';').all(is_pair) {
        return Err(
            "has the form of .NET, with semicolons: write postgres://user:password@host:port/database"
                .to_owned(),
        );
    }
    parse_pairs(text)
}

const NOT_AN_ADDRESS: &str = "is not an address of the form postgres://user:password@host:port/database";

/// Fails if the database address contains a common mistake.
fn reject_mistakes(text: &str) -> ParseResult<()> {
    let is_quoted = |mark: char| text.len() > 1 && text.starts_with(mark) && text.ends_with(mark);
    if is_quoted('"') || is_quoted('\'') || is_quoted('`') {
        return Err("is in quotation marks, which belong to it: remove them".to_owned());
    }
    if text.starts_with(['$', '{', '<', '%']) {
        return Err("is a placeholder that nothing has replaced".to_owned());
    }
    if text.starts_with("psql ") || text.starts_with("DATABASE_URL=") || text.starts_with("export ") {
        return Err("is a command or an assignment: give the address in it alone".to_owned());
    }
    Ok(())
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | ':'))
}

fn parse_url(rest: &str, is_java_url: bool) -> ParseResult<UrlParameters> {
    let mut fields = Vec::new();
    let mut add = |name: &str, value: String| fields.push((name.to_owned(), Zeroizing::new(value)));
    // As in libpq, the credentials end at the first @, if it is before the first slash.
    let (credentials, rest) = match rest.split_once('@') {
        Some((credentials, rest)) if !credentials.contains('/') => (Some(credentials), rest),
        _ => (None, rest),
    };
    if let Some(credentials) = credentials {
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        if password.starts_with("[YOUR") || matches!(password, "<password>" | "[PASSWORD]") {
            return Err("is a placeholder: the password in it was not filled in".to_owned());
        }
        add("user", decode_escapes(user)?);
        add("password", decode_escapes(password)?);
    }
    let hosts = rest.split(['/', '?']).next().unwrap_or_default();
    let (path, query) = rest
        .get(hosts.len()..)
        .unwrap_or_default()
        .split_once('?')
        .unwrap_or_else(|| (rest.get(hosts.len()..).unwrap_or_default(), ""));
    if hosts.contains('@') {
        return Err(format!("has an @ in its password: {ENCODE_ADVICE}"));
    }
    if !hosts.is_empty() {
        let hosts = hosts.split(',').map(split_host_and_port).collect::<ParseResult<Vec<_>>>()?;
        let (hosts, ports): (Vec<String>, Vec<String>) = hosts.into_iter().unzip();
        add("host", hosts.join(","));
        add("port", ports.join(","));
    }
    if let Some(database) = path.strip_prefix('/').filter(|database| !database.is_empty()) {
        add("dbname", decode_escapes(database)?);
    }
    let mut has_password = false;
    for field in query.split('&').filter(|field| !field.is_empty()) {
        let Some((name, value)) = field.split_once('=') else {
            return Err("has a parameter without a value: write name=value".to_owned());
        };
        let name = decode_escapes(name)?;
        let value = decode_escapes(value)?;
        has_password |= name == "password";
        if name == "ssl" && is_java_url && value != "false" {
            return Err("has the parameter ssl of Java's driver: write sslmode=verify-full, which it means"
                .to_owned());
        }
        add(&name, value);
    }
    Ok(UrlParameters { fields, may_show_name: !has_password && !rest.contains('@') })
}

/// Splits the authority of a URL into host and port. The port is empty if the URL has no port.
fn split_host_and_port(text: &str) -> ParseResult<(String, String)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("has an IPv6 address whose brackets do not end")?;
            match port.strip_prefix(':') {
                Some(port) => (host, port),
                None if port.is_empty() => (host, port),
                None => return Err(invalid_port_message()),
            }
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    if port.contains(':') {
        return Err("has an IPv6 address, which needs brackets: [::1]:5432".to_owned());
    }
    Ok((decode_escapes(host)?, decode_escapes(port)?))
}

const ENCODE_ADVICE: &str =
    "write @ as %40, / as %2F, : as %3A, ? as %3F and % as %25 in it (percent-encoded)";

pub(super) fn invalid_port_message() -> String {
    format!(
        "has a port that is no number from 1 to 65535; if that is a part of its password, {ENCODE_ADVICE}"
    )
}

/// Decodes percent-escapes in a URL. Fails if an escape is incomplete.
fn decode_escapes(text: &str) -> ParseResult<String> {
    let escapes = text.split('%').skip(1);
    let is_whole = |escape: &str| {
        let digits = escape.as_bytes().get(..2).unwrap_or_default();
        digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit) && digits != b"00"
    };
    if !escapes.into_iter().all(is_whole) {
        return Err(format!(
            "has a % that begins no escape; if that is a part of its password, {ENCODE_ADVICE}"
        ));
    }
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| "is not UTF-8 once it is decoded")?;
    Ok(decoded.into_owned())
}

/// Parses a database address of `name=value` pairs, which are separated by spaces.
///
/// A value with spaces is in single quotes, and `\` precedes a quote or another `\`.
fn parse_pairs(text: &str) -> ParseResult<UrlParameters> {
    let mut fields = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) =
            rest.split_once('=').ok_or("has a parameter without a value: write name=value")?;
        let name = name.trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err("has a parameter without a value: write name=value".to_owned());
        }
        let (value, after) = parse_pair_value(after.trim_start())?;
        fields.push((name.to_owned(), value));
        rest = after.trim_start();
    }
    // The second word of an unquoted password would be mistaken for a name.
    let has_password = fields.iter().any(|(name, _)| name == "password");
    Ok(UrlParameters { fields, may_show_name: !has_password })
}

/// Parses the value at the start of `text`, and returns the value and the text after the value.
fn parse_pair_value(text: &str) -> ParseResult<(Zeroizing<String>, &str)> {
    let (quoted, text) = match text.strip_prefix('\'') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut value = Zeroizing::new(String::new());
    let mut chars = text.chars();
    loop {
        let before = chars.as_str();
        match chars.next() {
            Some('\\') => value.extend(chars.next()),
            Some('\'') if quoted => return Ok((value, chars.as_str())),
            Some(c) if c.is_whitespace() && !quoted => return Ok((value, before)),
            Some(c) => value.push(c),
            None if quoted => return Err("has a value whose quotation mark does not end".to_owned()),
            None => return Ok((value, "")),
        }
    }
}
