//! Parses the path of a repository from input by users and tools: `owner/name`, a clone URL, or a path.
//!
//! The location of a repository is not part of its path. The scheme, credentials, host, port, query, fragment
//! and `.git` are removed, and so are the path segments that code hosts add. Credentials are removed before
//! anything else is parsed, and no path segment may contain `@`, so a credential is never taken for a name.
//!
//! No crate does this: `gix-url` splits a clone URL as git does, but keeps the segments that hosts add, does
//! not parse an address without a scheme, and brings ten other crates.

use percent_encoding::percent_decode_str;

use super::names::{is_invisible, to_nfc};

/// The schemes that a clone URL may have.
const SCHEMES: [&str; 13] = [
    "https",
    "ssh",
    "http",
    "git",
    "file",
    "git+ssh",
    "ssh+git",
    "git+https",
    "git+http",
    "git+file",
    "git+git",
    "ftp",
    "ftps",
];

const GIT_SUFFIX: &str = ".git";

/// Returns the path of a repository, such as `owner/name`, or `None` if the text does not name a repository.
///
/// A path with only one segment, or whose beginning looks like a host, would be parsed differently and is
/// returned with a leading `/`. Parsing the result returns it unchanged.
pub(super) fn repository_path(text: &str) -> Option<String> {
    let (path, place) = split_location(text)?;
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    let mut parts: Vec<String> =
        to_nfc(&decoded).split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    if let Some(place) = &place {
        parts = place.repository_segments(parts);
    }
    while parts.first().is_some_and(|first| first == "~") {
        parts.remove(0);
    }
    remove_git_suffix(&mut parts);
    let is_short = is_stable_path(&parts);
    let is_whole = !parts.is_empty() && parts.iter().all(|part| is_valid_segment(part));
    let is_meant = is_short || place.is_some() || is_path(path);
    let joined = parts.join("/");
    (is_whole && is_meant).then(|| if is_short { joined } else { format!("/{joined}") })
}

/// Returns whether a text is a path of the file system.
fn is_path(text: &str) -> bool {
    text.starts_with('/') || text.starts_with("~/")
}

/// Returns whether path segments joined by `/` are parsed as the same segments again.
///
/// This is true for `owner/name`, and for a longer path whose beginning does not look like a host.
fn is_stable_path(parts: &[String]) -> bool {
    let is_plain = |part: &String| part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-~".contains(&b));
    match parts {
        [] | [_] => false,
        [owner, name] => is_plain(owner) && is_plain(name),
        [first, ..] => !first.contains('.'),
    }
}

/// Returns whether a text is allowed as a path segment.
fn is_valid_segment(part: &str) -> bool {
    let is_refused = |c: char| {
        is_invisible(c)
            || c.is_control()
            || (c.is_whitespace() && c != ' ')
            || matches!(c, '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' | '#' | '%' | '@')
    };
    part.trim() == part && part.chars().any(|c| c != '.') && !part.contains(is_refused)
}

/// Removes `.git` at the end of a path, in any case.
///
/// `.git` may be the end of the last segment, or the whole last segment, as in the path of a working tree. A
/// repository may itself be named `.git`.
fn remove_git_suffix(parts: &mut Vec<String>) {
    while let Some(mut last) = parts.pop() {
        while let Some((name, end)) =
            last.len().checked_sub(GIT_SUFFIX.len()).and_then(|at| last.split_at_checked(at))
            && end.eq_ignore_ascii_case(GIT_SUFFIX)
            && is_valid_segment(name)
        {
            last = name.to_owned();
        }
        if !last.eq_ignore_ascii_case(GIT_SUFFIX) || parts.len() < 2 {
            parts.push(last);
            return;
        }
    }
}

/// The location in a clone URL: its user and host.
#[derive(Debug)]
struct Location<'t> {
    /// The user name before the host; empty if the URL has no user name.
    user: &'t str,
    host: &'t str,
}

/// Splits a text into its path and its location; a plain path or a name has no location.
fn split_location(text: &str) -> Option<(&str, Option<Location<'_>>)> {
    let url = text.split(['?', '#']).next()?;
    if let Some((scheme, rest)) = url.split_once("://") {
        let scheme = SCHEMES.iter().find(|known| known.eq_ignore_ascii_case(scheme))?;
        if scheme.ends_with("file") {
            let (_, path) = rest.split_once('/')?;
            // The drive of a Windows path is part of the location.
            let path =
                path.split_once(":/").filter(|(drive, _)| drive.len() == 1).map_or(path, |(_, path)| path);
            return Some((path, Some(Location { user: "", host: "" })));
        }
        let (place, after) = Location::parse(rest)?;
        let path = match after.strip_prefix(':') {
            None => after,
            Some(after) => match after.split_once('/')? {
                (port, path) if is_port(port) => path,
                // Package managers write git+ssh://git@host:owner/name.
                _ if scheme.contains("ssh") => after,
                _ => return None,
            },
        };
        return Some((path, Some(place)));
    }
    let (first, rest) = url.split_once('/').unwrap_or((url, ""));
    if first.starts_with('@') {
        // This is an npm package or the handle of a member.
        return None;
    }
    if first.contains([':', '@']) {
        let (place, after) = Location::parse(url)?;
        let is_scheme = SCHEMES.iter().any(|scheme| scheme.eq_ignore_ascii_case(place.host));
        // A password that contains `?` or `#` could be mistaken for the path.
        let may_hide = text.get(url.len()..).is_some_and(|rest| rest.contains('@'));
        if (is_scheme && place.user.is_empty()) || may_hide {
            return None;
        }
        let path = match after.strip_prefix(':').map(|path| (path, path.split_once('/'))) {
            None => after,
            // In an address without a scheme, a number after the host is a port. After a user name, git
            // interprets the number as a path segment.
            Some((_, Some((port, path))))
                if place.user.is_empty() && !port.is_empty() && is_port(port) && has_two_segments(path) =>
            {
                path
            }
            Some((path, _)) => path,
        };
        return Some((path, Some(place)));
    }
    if first.contains('.') && is_host(first) && has_two_segments(rest) {
        return Some((rest, Some(Location { user: "", host: first })));
    }
    Some((text, None))
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

/// Returns whether a path has at least two segments.
fn has_two_segments(path: &str) -> bool {
    path.split('/').filter(|part| !part.is_empty()).nth(1).is_some()
}

fn is_host(text: &str) -> bool {
    text.contains(char::is_alphanumeric) && text.chars().all(|c| c.is_alphanumeric() || ".-_".contains(c))
}

impl<'t> Location<'t> {
    /// Parses the user and the host at the beginning of a text, and returns them with the rest of the text.
    fn parse(text: &'t str) -> Option<(Self, &'t str)> {
        let (first, _) = text.split_once('/').unwrap_or((text, ""));
        let at = if first.starts_with('[') { None } else { first.rfind('@') };
        let (credentials, rest) = match at {
            Some(at) => (text.get(..at)?, text.get(at.checked_add(1)?..)?),
            None => ("", text),
        };
        let (user, _) = credentials.split_once(':').unwrap_or((credentials, ""));
        // An IPv6 address, or `[user@host:port]:path`, which git accepts too.
        if let Some((host, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let is_allowed = |c: char| c.is_alphanumeric() || ".-_:@%".contains(c);
            let is_ended = after.is_empty() || after.starts_with([':', '/']);
            return (is_ended && !host.is_empty() && host.chars().all(is_allowed))
                .then_some((Self { user, host }, after));
        }
        let end = rest.find([':', '/']).unwrap_or(rest.len());
        let (host, after) = rest.split_at_checked(end)?;
        is_host(host).then_some((Self { user, host }, after))
    }

    /// Returns the path segments of the repository itself, without segments that the code host adds to its
    /// URLs.
    fn repository_segments(&self, mut parts: Vec<String>) -> Vec<String> {
        if self.host.is_empty() {
            return parts;
        }
        // With pip, a revision follows `.git`.
        let revision = parts.iter().enumerate().find_map(|(at, part)| Some((at, part.find(".git@")?)));
        if let Some((at, name)) = revision {
            parts.truncate(at.saturating_add(1));
            parts.iter_mut().skip(at).for_each(|part| part.truncate(name));
        }
        if let Some(page) = parts.iter().skip(2).position(|part| part == "-") {
            // The URL is a page of a GitLab project.
            parts.truncate(page.saturating_add(2));
        }
        let parts = self.azure_segments(parts);
        let is = |part: &String, word: &str| part.eq_ignore_ascii_case(word);
        // Clone URLs and pages of Bitbucket Server contain `projects` or `users`, and `repos`.
        let page = parts.windows(4).find_map(|four| match four {
            [kind, owner, repos, name] if is(repos, "repos") && is(kind, "projects") => {
                Some(vec![owner.clone(), name.clone()])
            }
            [kind, owner, repos, name] if is(repos, "repos") && is(kind, "users") => {
                Some(vec![format!("~{}", owner.trim_start_matches('~')), name.clone()])
            }
            _ => None,
        });
        match (page, parts.as_slice()) {
            (Some(named), _) => named,
            (None, [.., scm, owner, name]) if is(scm, "scm") => vec![owner.clone(), name.clone()],
            (None, _) => parts,
        }
    }

    /// Returns `organisation/project/repository` for the URLs of Azure DevOps and its predecessors.
    fn azure_segments(&self, mut parts: Vec<String>) -> Vec<String> {
        const OLD_HOST_SUFFIX: &str = ".visualstudio.com";
        const COLLECTION: &str = "DefaultCollection";
        let host = self.host.to_ascii_lowercase();
        let Some(first) = parts.first() else { return parts };
        if first == "v3" && ["ssh.dev.azure.com", "vs-ssh.visualstudio.com"].contains(&&*host) {
            parts.remove(0);
        } else if let Some(organisation) = host.strip_suffix(OLD_HOST_SUFFIX) {
            let organisation = if organisation == "vs-ssh" { self.user } else { organisation };
            parts.insert(0, organisation.to_owned());
        }
        let is = |part: &String, words: [&str; 2]| words.iter().any(|word| part.eq_ignore_ascii_case(word));
        let at = parts.iter().position(|part| is(part, ["_git", "_ssh"])).filter(|at| *at > 0);
        let Some(at) = at else { return parts };
        let mut after = parts.iter().skip(at.saturating_add(1));
        let name = after.find(|part| !is(part, ["_full", "_optimized"])).cloned();
        let Some(name) = name else { return parts };
        parts.truncate(at);
        let is_collection = |part: &String| part.eq_ignore_ascii_case(COLLECTION);
        if host.ends_with(OLD_HOST_SUFFIX) {
            parts.retain(|part| !is_collection(part));
        }
        // The URL omits a project with the same name as its repository.
        if parts.len() < 2 || parts.last().is_some_and(is_collection) {
            parts.push(name.clone());
        }
        // On a self-hosted server, the collection is the organisation and follows the server's own path.
        parts.drain(..parts.len().saturating_sub(2));
        parts.push(name);
        parts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Inputs, each with the path that the parser must return.
    const FORMS: &[(&str, &str)] = &[
        // Plain names.
        ("Acme/App", "Acme/App"),
        ("Acme/App/", "Acme/App"),
        ("Acme/App.git", "Acme/App"),
        ("Acme/App.git.Git", "Acme/App"),
        (".github/a.b-c_d", ".github/a.b-c_d"),
        ("acme.io/app", "acme.io/app"),
        ("acme/.git", "acme/.git"),
        ("~ada/app", "~ada/app"),
        ("group/sub/app", "group/sub/app"),
        ("acme/My Project/app", "acme/My Project/app"),
        // URLs of GitHub.
        ("https://github.com/acme/app", "acme/app"),
        ("https://github.com/acme/app.git", "acme/app"),
        ("https://github.com/acme/app.git/", "acme/app"),
        ("https://github.com/acme/app?tab=readme#install", "acme/app"),
        ("HTTPS://GitHub.com/acme/app.GIT", "acme/app"),
        ("https://ada:ghp_x@github.com/acme/app.git", "acme/app"),
        ("https://x-access-token:a@b:c@github.com/acme/app.git", "acme/app"),
        ("git@github.com:acme/app.git", "acme/app"),
        ("org-7@github.com:acme/app.git", "acme/app"),
        ("ssh://git@github.com/acme/app.git", "acme/app"),
        ("ssh://git@ssh.github.com:443/acme/app.git", "acme/app"),
        ("git://github.com/acme/app.git", "acme/app"),
        ("git+https://github.com/acme/app.git#v1", "acme/app"),
        ("git+ssh://git@github.com/acme/app.git", "acme/app"),
        ("git+ssh://git@github.com:acme/app.git#semver:^1", "acme/app"),
        ("git+https://github.com/acme/app.git@release/1#egg=app", "acme/app"),
        ("github:acme/app", "acme/app"),
        ("github.com/acme/app", "acme/app"),
        ("www.github.com/acme/app.git", "acme/app"),
        ("git@github.com/acme/app", "acme/app"),
        ("ada:ghp_x@github.com/acme/app", "acme/app"),
        ("git@gist.github.com:0123abcd.git", "/0123abcd"),
        // URLs of GitLab.
        ("https://gitlab.com/group/sub/app.git", "group/sub/app"),
        ("https://oauth2:glpat-x@gitlab.com/group/sub/deep/app.git", "group/sub/deep/app"),
        ("git@gitlab.com:group/sub/app.git", "group/sub/app"),
        ("git@gitlab.com:123/sub/app.git", "123/sub/app"),
        ("ssh://git@gitlab.example:2222/group/sub/app.git", "group/sub/app"),
        ("gitlab.example/group/sub/app", "group/sub/app"),
        ("gitlab.example:8443/group/sub/app", "group/sub/app"),
        ("https://gitlab.com/group/sub/app/-/tree/main?ref=x", "group/sub/app"),
        ("https://gitlab.com/my.group/sub/app.git", "/my.group/sub/app"),
        ("/my.group/sub/app", "/my.group/sub/app"),
        // URLs of Bitbucket, in the cloud and on a server.
        ("https://ada@bitbucket.org/team/app.git", "team/app"),
        ("git@bitbucket.org:team/app.git", "team/app"),
        ("ssh://git@altssh.bitbucket.org:443/team/app.git", "team/app"),
        ("https://git.example/scm/PROJ/app.git", "PROJ/app"),
        ("https://ada@git.example:7990/bitbucket/scm/PROJ/app.git", "PROJ/app"),
        ("ssh://git@git.example:7999/PROJ/app.git", "PROJ/app"),
        ("https://git.example/projects/PROJ/repos/app/browse", "PROJ/app"),
        ("https://git.example/bitbucket/projects/PROJ/repos/app", "PROJ/app"),
        ("https://git.example/users/ada/repos/app", "~ada/app"),
        ("https://git.example/scm/~ada/app.git", "~ada/app"),
        ("ssh://git@git.example:7999/~ada/app.git", "~ada/app"),
        // URLs of Azure DevOps.
        ("https://dev.azure.com/org/project/_git/app", "org/project/app"),
        ("https://org@dev.azure.com/org/project/_git/app", "org/project/app"),
        ("https://dev.azure.com/org/My%20Project/_git/My%20App", "org/My Project/My App"),
        ("https://dev.azure.com/org/Gr%C3%BCn/_git/app?version=GBmain", "org/Gr\u{fc}n/app"),
        ("https://dev.azure.com/org/_git/app", "org/app/app"),
        ("https://dev.azure.com/org/project/_git/app/pullrequest/5", "org/project/app"),
        ("git@ssh.dev.azure.com:v3/org/project/app", "org/project/app"),
        ("ssh://git@ssh.dev.azure.com:22/v3/org/project/app", "org/project/app"),
        ("git@ssh.dev.azure.com:v3/org/My%20Project/app", "org/My Project/app"),
        ("https://org.visualstudio.com/project/_git/app", "org/project/app"),
        ("https://Org.VisualStudio.com/DefaultCollection/project/_git/app", "org/project/app"),
        ("https://org.visualstudio.com/_git/app", "org/app/app"),
        ("https://org.visualstudio.com/DefaultCollection/_git/app", "org/app/app"),
        ("https://org.visualstudio.com/project/_git/_full/app", "org/project/app"),
        ("org@vs-ssh.visualstudio.com:v3/org/project/app", "org/project/app"),
        ("ssh://org@vs-ssh.visualstudio.com:22/project/_ssh/app", "org/project/app"),
        ("ssh://org@org.visualstudio.com:22/DefaultCollection/_git/app", "org/app/app"),
        ("https://tfs.example/tfs/DefaultCollection/project/_git/app", "DefaultCollection/project/app"),
        ("https://tfs.example:8080/DefaultCollection/project/_git/app", "DefaultCollection/project/app"),
        ("ssh://tfs.example:22/tfs/DefaultCollection/project/_ssh/app", "DefaultCollection/project/app"),
        ("https://tfs.example/tfs/DefaultCollection/_git/app", "DefaultCollection/app/app"),
        ("dev.azure.com/org/project/_git/app", "org/project/app"),
        // URLs of Gitea, Forgejo, sr.ht and others.
        ("https://codeberg.org/acme/app.git", "acme/app"),
        ("ssh://forgejo@git.example:222/acme/app.git", "acme/app"),
        ("http://localhost:3000/acme/app.git", "acme/app"),
        ("localhost:3000/acme/app", "acme/app"),
        ("https://git.sr.ht/~ada/app", "~ada/app"),
        ("git@git.sr.ht:~ada/app", "~ada/app"),
        ("https://git-codecommit.eu-west-1.amazonaws.com/v1/repos/app", "v1/repos/app"),
        // Plain SSH addresses, and files.
        ("git@git.example:app.git", "/app"),
        ("https://git.example/app.git", "/app"),
        ("/app", "/app"),
        ("ada@git.example:/srv/git/app.git", "srv/git/app"),
        ("ssh://ada@git.example/srv/git/app.git", "srv/git/app"),
        ("git.example:git/app.git", "git/app"),
        ("git.example:22/app", "22/app"),
        ("git.example:~/git/app.git", "git/app"),
        ("ssh://git.example/~/git/app.git", "git/app"),
        ("[git@git.example:2222]:acme/app.git", "acme/app"),
        ("git@[2001:db8::1]:acme/app.git", "acme/app"),
        ("ssh://git@[::1]:2222/acme/app.git", "acme/app"),
        ("http://git_server/acme/app", "acme/app"),
        ("https://b\u{fc}cher.example/acme/app", "acme/app"),
        ("https://git.example:/acme//app", "acme/app"),
        ("https://git.example/acme/c%2B%2B.git", "/acme/c++"),
        ("https://git.example/gr%C3%BCn/app", "/gr\u{fc}n/app"),
        ("file:///srv/git/app.git", "srv/git/app"),
        ("file://localhost/srv/git/app", "srv/git/app"),
        ("file:///srv/git/app/.git", "srv/git/app"),
        ("file:///C:/git/team/app.git", "git/team/app"),
        ("C:/git/team/app", "git/team/app"),
        ("/srv/git/app.git", "srv/git/app"),
        ("~/git/app.git", "git/app"),
    ];

    const REFUSED: &[&str] = &[
        "",
        "/",
        "app",
        "acme/",
        "acme/..",
        "./app",
        "../acme/app",
        "acme app/x",
        "acme/\u{e4}pp",
        " acme/app",
        "acme/app ",
        "acme/a\u{200b}pp",
        "acme/a%00b/c",
        "acme/app\n",
        "acme/app?x=1",
        "acme/app#12",
        "@acme/app",
        "acme/app@v1",
        "acme/app:main",
        "acme/100%/app",
        "https://",
        "https://host",
        "https://host/",
        "https:///acme/app",
        "https://ho st/acme/app",
        "https://host:p/acme/app",
        "https://host/acme/../app",
        "https://host/acme/%2e%2e/app",
        "https:/host/acme/app",
        "https://org.visualstudio.com/",
        "postgres://ada:secret@host/acme/app",
        "javascript://host/acme/app",
        "git@:acme/app",
        "git@host",
        "https://ada:se/cret@host/acme/app",
        "ssh://ada:se/cret@host/acme/app",
        "ada:se/cret@host/acme/app",
        "ada:se#cret@host/acme/app",
        "ada:se?cret@host/acme/app",
        "C:\\acme\\app",
        "https://host/acme\\app",
        "git clone https://host/acme/app",
    ];

    #[test]
    fn every_form_of_a_clone_url_names_the_path() {
        for (text, wanted) in FORMS {
            assert_eq!(repository_path(text).as_deref(), Some(*wanted), "{text}");
            assert_eq!(repository_path(wanted).as_deref(), Some(*wanted), "{wanted}, read again");
        }
    }

    #[test]
    fn what_names_no_repository_is_refused() {
        for text in REFUSED {
            assert_eq!(repository_path(text), None, "{text:?}");
        }
    }

    /// Generates text from parts of URLs and from characters that are not allowed in one.
    fn hostile() -> impl Strategy<Value = String> {
        let words = [
            "https://",
            "ssh://",
            "file://",
            "git@",
            "host",
            "a.b",
            ":",
            "/",
            "//",
            "@",
            "acme",
            "app",
            ".git",
            "..",
            ".",
            "~",
            "%2f",
            "%00",
            "%40",
            "?q=1",
            "#f",
            "\\",
            " ",
            "\n",
            "\0",
            "\u{202e}",
            "\u{e4}",
            "a\u{308}",
            "22",
            "user:secret@",
            "-",
            "_",
            "[",
            "]",
            "[::1]",
            "\u{ff0f}",
            "'",
            "\"",
            "_git",
            "_ssh",
            "scm",
            "v3",
            "projects",
            "users",
            "repos",
            "DefaultCollection",
            "x.visualstudio.com",
            "vs-ssh.visualstudio.com",
            "ssh.dev.azure.com",
            "C:/",
        ];
        let part = prop_oneof![
            4 => prop::sample::select(words.to_vec()).prop_map(str::to_owned),
            1 => "[a-zA-Z0-9._-]{1,4}",
            1 => any::<char>().prop_map(|c| c.to_string()),
        ];
        let joined = prop::collection::vec(part.clone(), 0..9).prop_map(|parts| parts.concat());
        let before =
            prop::sample::select(vec!["", "https://u:p@host/", "ssh://host:22/", "git@host:", "/", "~/"]);
        let path = (before, prop::collection::vec(part, 1..6))
            .prop_map(|(before, parts)| before.to_owned() + &parts.join("/"));
        prop_oneof![joined, path]
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_read_as_the_same_again(text in hostile()) {
            if let Some(path) = repository_path(&text) {
                let parts: Vec<&str> = path.strip_prefix('/').unwrap_or(&path).split('/').collect();
                prop_assert!(parts.iter().all(|part| is_valid_segment(part)), "{path:?}");
                prop_assert_eq!(repository_path(&path), Some(path), "{:?}", text);
            }
        }

        #[test]
        fn where_a_repository_is_does_not_count(
            owner in "[A-Za-z0-9_][A-Za-z0-9_-]{0,8}",
            others in prop::collection::vec("[A-Za-z0-9_]{1,9}", 1..4),
            credentials in "([a-z]{1,5}(:[a-zA-Z0-9:@%\\[]{0,9})?@)?",
            host in prop::sample::select(vec!["git.example", "host", "10.0.0.1", "[2001:db8::1]", "HOST"]),
            port in prop::option::of(1..65536_u32),
            scheme in prop::sample::select(SCHEMES.to_vec()),
            suffix in prop::sample::select(vec!["", "/", ".git", ".git/", "?x=1", ".git#main"]),
        ) {
            let wanted = format!("{owner}/{}", others.join("/"));
            let port = port.map(|port| format!(":{port}")).unwrap_or_default();
            let url = format!("{scheme}://{credentials}{host}{port}/{wanted}{suffix}");
            prop_assert_eq!(repository_path(&url), Some(wanted.clone()), "{}", url);
            let upper = format!("{}://{credentials}{host}{port}/{wanted}{suffix}", scheme.to_uppercase());
            prop_assert_eq!(repository_path(&upper), Some(wanted.clone()), "{}", upper);
            let by_ssh = format!("git@{host}:{wanted}{suffix}");
            prop_assert_eq!(repository_path(&by_ssh), Some(wanted.clone()), "{}", by_ssh);
        }

        /// Checks that names from before longer paths were supported are parsed unchanged.
        #[test]
        fn a_plain_name_is_itself(
            owner in "[A-Za-z0-9._-]{0,6}[A-Za-z0-9_-]",
            name in "[A-Za-z0-9._-]{0,6}[A-Za-z0-9_-]",
        ) {
            let name = format!("{owner}/{name}");
            let is_suffixed = name.to_ascii_lowercase().ends_with(GIT_SUFFIX);
            prop_assert!(is_suffixed || repository_path(&name).as_ref() == Some(&name), "{name}");
        }
    }
}
