//! Explains why a file or a folder cannot be used, for the person who starts a program.
//!
//! The text contains the file or folder that denies access, which may be a parent folder, its owner and its
//! mode, the user of this process, and the command that fixes the problem. It never contains a byte of a
//! file.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use super::{Error, is_disk_full};

/// The access that a program needs to a file or a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The file will be read.
    Read,
    /// The file will be written, created or removed.
    Write,
    /// The folder will be created.
    Folder,
}

impl Need {
    /// Returns the past participle for the sentence "the file cannot be ...".
    fn past_participle(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "written",
            Self::Folder => "created",
        }
    }

    /// Returns the permission letter for `chmod`.
    fn permission_letter(self) -> char {
        match self {
            Self::Read => 'r',
            Self::Write | Self::Folder => 'w',
        }
    }

    /// Returns the access flag for the system call.
    fn access_flag(self) -> Access {
        match self {
            Self::Read => Access::READ_OK,
            Self::Write | Self::Folder => Access::WRITE_OK,
        }
    }
}

/// Returns the error for a program that cannot start without the file or folder at `path`.
pub(crate) fn blocked(need: Need, path: &Path, error: &io::Error) -> Error {
    Error::configuration(describe_denial(need, path, error))
}

/// Returns the reason why this process may not access the file at `path`, or `None` if it may.
pub(crate) fn denied(need: Need, path: &Path) -> Option<String> {
    let asked = accessat(CWD, path, need.access_flag(), AtFlags::EACCESS);
    asked.err().map(|errno| describe_denial(need, path, &errno.into()))
}

/// Returns a sentence that explains why the file at `path` cannot be used, and the remedy.
pub(crate) fn describe_denial(need: Need, path: &Path, error: &io::Error) -> String {
    let begin = format!("{} cannot be {}", path.display(), need.past_participle());
    let reason = match error.kind() {
        ErrorKind::NotFound => missing_reason(path),
        ErrorKind::IsADirectory => format!(
            "it is a folder where a file is expected, as a container makes of a mount whose source is \
             missing: remove it with `rmdir {}`, and put the file there",
            quoted(path)
        ),
        ErrorKind::NotADirectory => not_a_folder_reason(path),
        ErrorKind::PermissionDenied => permission_reason(need, path, error),
        ErrorKind::ReadOnlyFilesystem => format!(
            "it is on a read-only file system{}: mount a writable one there, or name another folder",
            owner_and_mode(path).map(|standing| format!(" ({standing})")).unwrap_or_default()
        ),
        _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            format!("its symbolic links go in a circle: see `ls -l {}`", quoted(path))
        }
        _ if is_disk_full(error) => {
            let folder = path.parent().unwrap_or(path);
            format!("the disk of {} is full: make room, see `df {}`", folder.display(), quoted(folder))
        }
        _ => match owner_and_mode(path) {
            Some(standing) => format!("{error} ({standing})"),
            None => error.to_string(),
        },
    };
    format!("{begin}: {reason}")
}

/// Describes the owner, the group and the mode of the file at `path`, or returns `None` if they are unknown.
pub(crate) fn owner_and_mode(path: &Path) -> Option<String> {
    let found = path.metadata().ok()?;
    Some(format!("owner {}, group {}, mode {:04o}", found.uid(), found.gid(), found.mode() & 0o7777))
}

/// Returns a path quoted for a shell.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+' | ',' | ':');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Describes why the file at `path` does not exist: a broken link, or the nearest existing folder.
fn missing_reason(path: &Path) -> String {
    if let Ok(target) = path.read_link() {
        return format!("it is a symbolic link to {}, which does not exist", target.display());
    }
    let nearest = ancestors(path).into_iter().rev().skip(1).find(|folder| folder.exists());
    match nearest {
        Some(folder) if path.parent().is_none_or(|parent| parent.exists()) => {
            format!("it does not exist in {}", with_owner_and_mode(&folder))
        }
        Some(folder) => {
            format!("it does not exist, and of the folders above only {}", with_owner_and_mode(&folder))
        }
        None => "it does not exist".to_owned(),
    }
}

/// Returns a path with its owner and its mode, if they are known.
pub(crate) fn with_owner_and_mode(path: &Path) -> String {
    match owner_and_mode(path) {
        Some(standing) => format!("{} ({standing})", path.display()),
        None => path.display().to_string(),
    }
}

/// Describes which part of a path is a file where a folder is expected.
fn not_a_folder_reason(path: &Path) -> String {
    let file = ancestors(path).into_iter().find(|part| part.metadata().is_ok_and(|found| !found.is_dir()));
    match file {
        Some(file) => format!("{} is a file, not a folder: name another path", with_owner_and_mode(&file)),
        None => "a part of the path is a file, not a folder: name another path".to_owned(),
    }
}

/// Describes the file or folder that denies access, its owner, and the command that permits access.
fn permission_reason(need: Need, path: &Path, error: &io::Error) -> String {
    let me = format!("this process is user {}, group {}", geteuid().as_raw(), getegid().as_raw());
    let Some((part, letter)) = find_denying_path(need, path) else {
        // The mode is not the reason, but an attribute of the file, a mount or a security module.
        let standing = owner_and_mode(path).map(|standing| format!(" ({standing})")).unwrap_or_default();
        return format!(
            "{error}, though its mode allows it{standing}; {me}: look for attributes of the file (`lsattr \
             {}`), and for rules of SELinux or AppArmor",
            quoted(path)
        );
    };
    let shown = part.display();
    let word = quoted(&part);
    let Ok(found) = part.metadata() else {
        return format!("{error}; {me}");
    };
    let standing = owner_and_mode(&part).unwrap_or_default();
    let user = geteuid().as_raw();
    let group = getegid().as_raw();
    let is_far_above = path.parent() != Some(part.as_path()) && path != part;
    let fix = if found.uid() == user {
        format!("`chmod u+{letter} {word}`")
    } else if letter == 'x' && (is_far_above || is_system_folder(&part)) {
        format!("name another path, or run `chmod o+x {word}` as its owner")
    } else if need == Need::Folder && path != part {
        format!("`install -d -m 700 -o {user} -g {group} {}` as root", quoted(path))
    } else {
        format!("`chown {user}:{group} {word}` as root")
    };
    format!("{shown} denies this user access ({standing}); {me}: {fix}")
}

/// Returns whether a folder is part of the system and must not change its owner or mode.
fn is_system_folder(folder: &Path) -> bool {
    const FOLDERS: [&str; 14] = [
        "/",
        "/etc",
        "/home",
        "/mnt",
        "/opt",
        "/root",
        "/run",
        "/run/secrets",
        "/srv",
        "/tmp",
        "/usr",
        "/var",
        "/var/lib",
        "/var/run",
    ];
    FOLDERS.iter().any(|system_folder| folder == Path::new(system_folder))
}

/// Returns the first folder or file of a path that denies access, and the letter of the missing permission
/// for `chmod`.
fn find_denying_path(need: Need, path: &Path) -> Option<(PathBuf, char)> {
    let parts = ancestors(path);
    let (last, folders) = parts.split_last()?;
    let lacks = |path: &Path, access| accessat(CWD, path, access, AtFlags::EACCESS).is_err();
    let closed = folders.iter().find(|folder| folder.metadata().is_ok() && lacks(folder, Access::EXEC_OK));
    if let Some(folder) = closed {
        return Some((folder.clone(), 'x'));
    }
    match last.metadata() {
        Ok(_) if lacks(last, need.access_flag()) => Some((last.clone(), need.permission_letter())),
        Ok(found) if found.is_dir() && lacks(last, Access::EXEC_OK) => Some((last.clone(), 'x')),
        // Creating, renaming or removing a file changes its folder. A folder owned by another user keeps its
        // mode.
        _ if need != Need::Read => {
            let folder = folders.iter().rev().find(|folder| folder.metadata().is_ok())?;
            let is_closed = lacks(folder, Access::WRITE_OK);
            is_closed
                .then(|| (folder.clone(), 'w'))
                .or_else(|| is_owned_by_other(last).then(|| (last.clone(), 'w')))
        }
        _ => None,
    }
}

/// Returns whether another user owns the file at `path`. Only the owner may change the mode of a file.
fn is_owned_by_other(path: &Path) -> bool {
    let me = geteuid();
    !me.is_root() && path.metadata().is_ok_and(|found| found.uid() != me.as_raw())
}

/// Returns the parent folders of a path, beginning at the root, and the path itself.
fn ancestors(path: &Path) -> Vec<PathBuf> {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut parts: Vec<PathBuf> = whole.ancestors().map(Path::to_owned).collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_names_the_file_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        let file = here.join("a file");
        let link = here.join("link");
        std::fs::write(&file, "secret").unwrap();
        std::os::unix::fs::symlink(here.join("nowhere"), &link).unwrap();
        let of = |kind: ErrorKind| io::Error::from(kind);
        let cases = [
            (here.join("none"), of(ErrorKind::NotFound), "does not exist in"),
            (here.join("none/deeper/file"), of(ErrorKind::NotFound), "of the folders above only"),
            (link, of(ErrorKind::NotFound), "symbolic link to"),
            (here.to_owned(), of(ErrorKind::IsADirectory), "`rmdir "),
            (file.join("below"), of(ErrorKind::NotADirectory), "is a file, not a folder"),
            (file.clone(), of(ErrorKind::ReadOnlyFilesystem), "read-only file system (owner"),
            (file.clone(), of(ErrorKind::StorageFull), "is full: make room, see `df "),
            (file.clone(), of(ErrorKind::QuotaExceeded), "is full: make room"),
            (file.clone(), Errno::LOOP.into(), "go in a circle"),
            (file.clone(), of(ErrorKind::InvalidInput), "mode 0"),
        ];
        for (path, error, wanted) in cases {
            let text = describe_denial(Need::Read, &path, &error);
            assert!(text.contains(wanted) && text.starts_with(&path.display().to_string()), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
        assert!(
            describe_denial(Need::Read, &file, &of(ErrorKind::PermissionDenied)).contains(&quoted(&file))
        );
        assert_eq!(quoted(Path::new("/it's")), r"'/it'\''s'");
        assert_eq!(denied(Need::Read, &file), None);
    }
}
