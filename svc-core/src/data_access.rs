//! Access to a data folder by its owner and its group, as permission bits.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

use crate::error::blocked::quoted;

/// Name of the variable that lets the folder's group access the data folder.
pub(crate) const GROUP_ACCESS: &str = "SVC_DATA_GROUP_ACCESS";

/// The users that may access a data folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataAccess {
    /// Only the owner of the folder.
    #[default]
    Owner,
    /// The owner and the group of the folder.
    Group,
}

impl DataAccess {
    pub(crate) fn of(is_shared_with_group: bool) -> Self {
        if is_shared_with_group { Self::Group } else { Self::Owner }
    }

    /// Returns the access to a folder according to the folder's write permissions.
    ///
    /// The folder must be in use already, so that its permissions have been checked.
    pub(crate) fn of_folder(path: &Path) -> Self {
        Self::of(path.metadata().is_ok_and(|found| found.mode() & 0o020 != 0))
    }

    /// Returns the permission bits that must be clear: those of users without access.
    pub(crate) fn bits_without_access(self) -> u32 {
        match self {
            Self::Owner => 0o077,
            Self::Group => 0o007,
        }
    }

    /// Returns the mode to set on an existing folder. If the group has access, the group's permissions are
    /// kept.
    pub(crate) fn restricted_mode(self, mode: u32) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Group => mode & 0o7770 | 0o700,
        }
    }

    /// If the group has access, gives the owner's permissions for a new file to the group of `folder`.
    ///
    /// The permissions do not depend on the umask.
    pub(crate) fn extend(self, path: &Path, folder: &Path) -> io::Result<()> {
        if self == Self::Owner {
            return Ok(());
        }
        set_group_like(path, folder)?;
        let mode = path.metadata()?.mode() & 0o7777;
        std::fs::set_permissions(path, Permissions::from_mode(mode | (mode & 0o700) >> 3))
    }
}

/// Changes the group of the file at `path` to the group of `reference`.
///
/// In a set-group-id folder, a new file already belongs to that group.
fn set_group_like(path: &Path, reference: &Path) -> io::Result<()> {
    let group = reference.metadata()?.gid();
    if path.metadata()?.gid() == group {
        return Ok(());
    }
    chown(path, None, Some(group)).map_err(|error| {
        let shown = reference.display();
        let word = quoted(reference);
        let own = getegid().as_raw();
        io::Error::other(format!(
            "it cannot be given to group {group}, which {shown} belongs to ({error}): run this process with \
             that group as one of its own, or run `chgrp {own} {word}` as root"
        ))
    })
}

/// Changes the group of SQLite's files beside a database to the group of the database.
///
/// SQLite does this itself only as root.
pub(crate) fn share_sqlite_files(database: &Path) -> io::Result<()> {
    if database.metadata()?.mode() & 0o020 == 0 {
        return Ok(());
    }
    let whole = database.canonicalize()?;
    for end in ["-wal", "-shm"] {
        let mut name = whole.clone().into_os_string();
        name.push(end);
        let file = PathBuf::from(name);
        // Another user's process changes the files of that user.
        if file.metadata().is_ok_and(|found| found.uid() == geteuid().as_raw()) {
            set_group_like(&file, &whole)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_gets_what_the_owner_has_and_others_get_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let chmod = |mode| std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let mode = || file.metadata().unwrap().mode() & 0o7777;
        for (before, after) in [(0o600, 0o660), (0o700, 0o770), (0o2700, 0o2770), (0o640, 0o660)] {
            chmod(before);
            DataAccess::Owner.extend(&file, folder.path()).unwrap();
            assert_eq!(mode(), before);
            DataAccess::Group.extend(&file, folder.path()).unwrap();
            assert_eq!(mode(), after);
        }
        assert_eq!(DataAccess::Group.restricted_mode(0o2777), 0o2770);
        assert_eq!(DataAccess::Group.restricted_mode(0o755), 0o750);
        assert_eq!(DataAccess::Owner.restricted_mode(0o2777), 0o700);
    }
}
