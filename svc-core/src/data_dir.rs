//! The data folder: the keys, the SQLite database and the artifacts of an installation.
//!
//! This module only handles files.
//!
//! Setting up a folder can be interrupted at any moment and repeated: a marker stays in the folder until
//! everything is done, generated keys are kept, and every file is created atomically. The commit of the first
//! workspace makes a set-up final; the database does that between [`DataDir::create`] and
//! [`UnfinishedSetup::finish`].
//!
//! Only its owner may access a folder, or also its group if that is configured ([`DataAccess`]). Any other
//! user with write permission could plant keys or a database, so such a folder is not opened, and a key that
//! other users can write is not used. Files that other users can read are reported in the log. A folder of
//! another owner, such as a mount, is used unchanged if its permissions allow that.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::config::{ENV_FILE, VapidKey};
use crate::data_access::{DataAccess, GROUP_ACCESS};
use crate::entropy::Entropy;
use crate::error::blocked::{Need, blocked, owner_and_mode, quoted, with_owner_and_mode};
use crate::error::{Code, Error, Result};

/// Path of the default data folder.
pub const DEFAULT: &str = "./svc-data";

const DATABASE: &str = "svc.db";
const DATABASE_WAL: &str = "svc.db-wal";
const ARTIFACTS: &str = "artifacts";
const KEYS: &str = "keys";
/// Name of the file that marks an unfinished set-up. A process locks it while setting up.
const SETUP_MARKER: &str = ".setup";
/// Name of the file with the address of the last server that used a folder. That server locks the file while
/// it runs.
const ADDRESS_FILE: &str = "listening";

/// The environment variable for each generated key, and the name of its file in `keys`. Each key is 32 random
/// bytes, in hex.
const KEY_FILES: [(&str, &str); 4] = [
    ("SVC_CONTENT_KEK", "content.kek"),
    ("SVC_SESSION_SECRET", "session.secret"),
    ("SVC_EXPORT_SIGNING_KEY", "export.key"),
    ("SVC_VAPID_PRIVATE_KEY", "vapid.key"),
];

/// Generates a key that every variable accepts: a private key on P-256, which almost all random bytes are.
fn generate_key(entropy: &Entropy) -> Result<Zeroizing<[u8; 32]>> {
    loop {
        let key = Zeroizing::new(entropy.bytes::<32>()?);
        if VapidKey::new(&key).is_some() {
            return Ok(key);
        }
    }
}

const SPOOL_FOLDER: &str = "spool";

/// Returns the folder for temporary files, which is in the data folder if that folder exists.
pub(crate) fn spool_folder(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(SPOOL_FOLDER) } else { crate::spool::default_spool_folder() }
}

/// The write permission bits of owner, group and others.
const WRITE_BITS: u32 = 0o222;
const READ_BITS: u32 = 0o444;

/// Name of a folder that some file systems create in an empty folder.
const LOST_AND_FOUND: &str = "lost+found";

/// Rejects files that users other than the owner can write, and returns the files that they can read.
///
/// Checks the folder `path`, its contents, and `secrets`. Missing files are ignored. In the folder, the
/// folder's group may have access; any other group counts as other users.
pub(crate) fn check_access_of_others(
    path: &Path,
    secrets: &[PathBuf],
    access: DataAccess,
) -> Result<Vec<PathBuf>> {
    let within = [KEYS, ENV_FILE, DATABASE, DATABASE_WAL].map(|name| path.join(name));
    let all = std::iter::once(path).chain(within.iter().chain(secrets).map(PathBuf::as_path));
    let mut writable = Vec::new();
    let mut readable = Vec::new();
    let mut of_another = Vec::new();
    let group = path.metadata().map(|folder| folder.gid()).ok();
    for file in all {
        let Ok(found) = file.metadata() else { continue };
        let is_within = file.starts_with(path);
        let has_group = group.is_none_or(|group| found.gid() == group);
        if is_within && !has_group && access == DataAccess::Group && found.mode() & 0o020 != 0 {
            of_another.push(file);
        }
        let access = if is_within && has_group { access } else { DataAccess::Owner };
        let open = found.mode() & access.bits_without_access();
        if open & WRITE_BITS != 0 {
            writable.push((file, found.mode()));
        } else if open & READ_BITS != 0 {
            readable.push(file.to_owned());
        }
    }
    if writable.is_empty() {
        return Ok(readable);
    }
    if let (Some(group), false) = (group, of_another.is_empty()) {
        let named: Vec<String> = of_another.iter().map(|file| with_owner_and_mode(file)).collect();
        let words: Vec<String> = of_another.iter().map(|file| quoted(file)).collect();
        return Err(Error::configuration(format!(
            "another group than that of the data folder ({group}) can write {}, and so could change keys and \
             messages; change the group with `chgrp {group} {}`",
            named.join(", "),
            words.join(" ")
        )));
    }
    writable.dedup();
    let named: Vec<String> = writable.iter().map(|(file, _)| with_owner_and_mode(file)).collect();
    let words: Vec<String> = writable.iter().map(|(file, _)| quoted(file)).collect();
    let by_group_alone = writable.iter().all(|(file, mode)| mode & 0o002 == 0 && file.starts_with(path));
    let instead = match access {
        DataAccess::Owner if by_group_alone => {
            format!(
                ", or set {GROUP_ACCESS}=1 if all of the group may, as on a Kubernetes volume with fsGroup"
            )
        }
        _ => String::new(),
    };
    let (others, who) = match access {
        DataAccess::Owner => ("the owner", "go"),
        DataAccess::Group => ("the owner and the group", "o"),
    };
    Err(Error::configuration(format!(
        "users other than {others} can write {}, and so could change keys and messages; remove that \
         permission with `chmod {who}-w {}`{instead}",
        named.join(", "),
        words.join(" ")
    )))
}

/// The data folder of one service: settings, keys and the SQLite database.
#[derive(Clone, Debug)]
pub struct DataDir {
    path: PathBuf,
}

impl DataDir {
    /// Opens the folder at `path`, which must be set up.
    pub fn open(path: &Path) -> Result<Self> {
        let dir = Self { path: path.to_owned() };
        let shown = path.display();
        let env = dir.file_path(ENV_FILE);
        // A file that cannot be checked does not count as missing.
        match env.metadata() {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(blocked(Need::Read, &env, &error));
            }
            _ => {}
        }
        if dir.has_file(SETUP_MARKER) {
            return Err(Error::wrong_state(format!(
                "the set-up of {shown} was interrupted; `svc init --data {shown}` completes it"
            )));
        }
        if !dir.has_file(ENV_FILE) {
            return Err(Error::new(
                Code::NotFound,
                format!("{shown} is not set up; run `svc init --data {shown}`"),
            ));
        }
        Ok(dir)
    }

    /// Starts to set up `path`, or resumes a set-up that was interrupted.
    ///
    /// Rejects a folder that is already set up.
    pub fn create(path: &Path, access: DataAccess, entropy: &Entropy) -> Result<UnfinishedSetup> {
        let dir = Self { path: path.to_owned() };
        dir.reject_occupied()?;
        let former_permissions = dir.restrict_permissions(access)?;
        let mut created = Vec::new();
        let locked = create_folders(path, access, path, &mut created).and_then(|()| dir.lock_marker());
        let (marker, is_new) = match locked {
            Ok(locked) => locked,
            Err(error) => {
                // The error explains why the folder cannot be used. All changes of the set-up are undone.
                let _ = undo_setup(&created, former_permissions.as_ref(), path);
                return Err(error);
            }
        };
        if is_new {
            created.push(dir.file_path(SETUP_MARKER));
        }
        let mut setup = UnfinishedSetup { dir, access, _marker: marker, created, former_permissions };
        match setup.create_files(is_new, entropy) {
            Ok(()) => Ok(setup),
            Err(error) => {
                // The error explains why the folder is occupied or cannot be written.
                let _ = setup.undo();
                Err(error)
            }
        }
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the SQLite database in the folder `path`.
    pub fn database(path: &Path) -> PathBuf {
        path.join(DATABASE)
    }

    /// Returns the folder for uploaded files, which a set-up creates.
    pub fn artifacts(&self) -> PathBuf {
        self.file_path(ARTIFACTS)
    }

    fn file_path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn has_file(&self, name: &str) -> bool {
        self.file_path(name).exists()
    }

    /// Rejects a folder that is already set up, or contains files of another origin.
    fn reject_occupied(&self) -> Result<()> {
        let shown = self.path.display();
        if self.has_file(SETUP_MARKER) {
            return Ok(());
        }
        if self.has_file(ENV_FILE) {
            let detail = format!("{shown} is already set up; nothing was changed");
            return Err(Error::new(Code::AlreadyInitialised, detail));
        }
        match [DATABASE, KEYS].into_iter().find(|name| self.has_file(name)) {
            Some(name) => Err(Error::wrong_state(format!(
                "{shown} contains {name} but no {ENV_FILE}; restore that file, or choose another folder"
            ))),
            None => Ok(()),
        }
    }

    /// Removes the permissions of other users from an existing folder.
    ///
    /// Returns the previous permissions if they have changed. A folder that is in use, because it is not
    /// empty, and a folder of another owner are left unchanged, or rejected if other users can write them.
    fn restrict_permissions(&self, access: DataAccess) -> Result<Option<Permissions>> {
        let before = match self.path.metadata() {
            Ok(found) if found.is_dir() => found.permissions(),
            Ok(_) => return Err(blocked(Need::Write, &self.path, &ErrorKind::NotADirectory.into())),
            Err(_) => return Ok(None),
        };
        if before.mode() & access.bits_without_access() & (WRITE_BITS | READ_BITS) == 0 {
            return Ok(None);
        }
        let mut entries = std::fs::read_dir(&self.path).map_err(|error| io_error(&self.path, &error))?;
        let is_ours = |name: std::ffi::OsString| name != LOST_AND_FOUND;
        let is_used = entries.any(|entry| entry.is_ok_and(|entry| is_ours(entry.file_name())));
        if !self.has_file(SETUP_MARKER) && is_used {
            return check_access_of_others(&self.path, &[], access).map(|_| None);
        }
        let narrowed = Permissions::from_mode(access.restricted_mode(before.mode()));
        match std::fs::set_permissions(&self.path, narrowed) {
            Ok(()) => Ok(Some(before)),
            // Only the owner may change the permissions, and only write permissions of other users matter.
            Err(_) if before.mode() & access.bits_without_access() & WRITE_BITS == 0 => Ok(None),
            Err(error) => Err(self.open_folder_error(access, &before, &error)),
        }
    }

    /// Returns the error for an empty folder with write permissions that this user may not remove.
    fn open_folder_error(&self, access: DataAccess, before: &Permissions, error: &std::io::Error) -> Error {
        let shown = self.path.display();
        let standing = owner_and_mode(&self.path).unwrap_or_default();
        let (who, others) = match access {
            DataAccess::Owner => ("go", "users other than its owner"),
            DataAccess::Group => ("o", "users outside of its group"),
        };
        let by_group = match access {
            DataAccess::Owner if before.mode() & 0o002 == 0 => {
                format!(
                    ", set {GROUP_ACCESS}=1 if all of the group may, as on a Kubernetes volume with fsGroup"
                )
            }
            _ => String::new(),
        };
        Error::configuration(format!(
            "{others} can write {shown} ({standing}), and this user cannot change that ({error}): as its \
             owner run `chmod {who}-w {}`{by_group}, or use a folder in it: --data {}",
            quoted(&self.path),
            quoted(&self.path.join("svc"))
        ))
    }

    /// Locks the marker of an unfinished set-up. Returns the marker and whether this call created it.
    fn lock_marker(&self) -> Result<(File, bool)> {
        let path = self.file_path(SETUP_MARKER);
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        let (marker, is_new) = match options.clone().create_new(true).open(&path) {
            Ok(marker) => (marker, true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                (options.open(&path).map_err(|error| io_error(&path, &error))?, false)
            }
            Err(error) => return Err(io_error(&path, &error)),
        };
        match marker.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let detail = format!("{} is being set up by another process", self.path.display());
                return Err(Error::wrong_state(detail));
            }
            Err(TryLockError::Error(error)) => return Err(io_error(&path, &error)),
        }
        // The previous holder may have finished, in which case the locked file is no longer in the folder.
        let there = path.metadata().map(|file| file.ino()).ok();
        if there != marker.metadata().map(|file| file.ino()).ok() {
            self.reject_occupied()?;
            return Err(Error::wrong_state("another process has been setting up the folder; try again"));
        }
        Ok((marker, is_new))
    }
}

/// An unfinished set-up of a data folder.
///
/// The folder contains its keys, `svc.env` and the artifact folder, but no database. If this value is dropped
/// without [`UnfinishedSetup::finish`], the set-up can be resumed.
#[derive(Debug)]
#[must_use = "a setup that is not finished leaves a folder that cannot be used"]
pub struct UnfinishedSetup {
    dir: DataDir,
    access: DataAccess,
    _marker: File,
    created: Vec<PathBuf>,
    /// The folder's previous permissions, if permissions of other users were removed.
    former_permissions: Option<Permissions>,
}

impl UnfinishedSetup {
    /// Returns the data folder that is being set up.
    pub fn dir(&self) -> &DataDir {
        &self.dir
    }

    /// Creates the file of the SQLite database, empty and accessible only by the owner.
    ///
    /// SQLite's other files inherit the mode of this file.
    pub fn create_database_file(&mut self) -> Result<()> {
        self.create_missing_file(DataDir::database(&self.dir.path), "")
    }

    /// Finishes the set-up, after the first workspace has been committed.
    pub fn finish(self) -> Result<DataDir> {
        let marker = self.dir.file_path(SETUP_MARKER);
        std::fs::remove_file(&marker).map_err(|error| io_error(&marker, &error))?;
        sync_folder(&self.dir.path)?;
        Ok(self.dir)
    }

    /// Abandons the set-up: removes everything that it created, and nothing that existed before.
    pub fn undo(self) -> Result<()> {
        undo_setup(&self.created, self.former_permissions.as_ref(), &self.dir.path)
    }

    /// Creates missing files. The marker exists, so the folder cannot be mistaken for a complete one.
    fn create_files(&mut self, is_new: bool, entropy: &Entropy) -> Result<()> {
        if is_new && self.dir.has_file(ENV_FILE) {
            let detail = format!("{} is already set up; nothing was changed", self.dir.path.display());
            return Err(Error::new(Code::AlreadyInitialised, detail));
        }
        let keys = self.dir.file_path(KEYS);
        create_folders(&keys, self.access, &self.dir.path, &mut self.created)?;
        create_folders(&self.dir.artifacts(), self.access, &self.dir.path, &mut self.created)?;
        for (_, name) in KEY_FILES {
            let key = generate_key(entropy)?;
            let text = Zeroizing::new(hex::encode(key.as_slice()) + "\n");
            self.create_missing_file(keys.join(name), &text)?;
        }
        sync_folder(&keys)?;
        self.create_missing_file(self.dir.file_path(ENV_FILE), &settings_text())?;
        sync_folder(&self.dir.path)
    }

    /// Atomically writes a file that does not exist yet.
    fn create_missing_file(&mut self, path: PathBuf, text: &str) -> Result<()> {
        if path.exists() {
            return Ok(());
        }
        let draft = path.with_added_extension("new");
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| self.access.extend(&draft, &self.dir.path))
            .and_then(|()| std::fs::rename(&draft, &path));
        written.map_err(|error| io_error(&path, &error))?;
        self.created.push(path);
        Ok(())
    }
}

/// The address of a running server, as stored in the data folder. The server drops this value when it ends.
#[derive(Debug)]
#[must_use = "the address is valid only while this value exists"]
pub struct PublishedAddress {
    _locked: File,
}

impl PublishedAddress {
    /// Stores the address of a server in the folder at `path`, replacing the address of an earlier server.
    pub fn leave(path: &Path, address: SocketAddr) -> Result<Self> {
        let place = path.join(ADDRESS_FILE);
        // The file is created complete and locked, even if an earlier server is just ending.
        let draft = path.join(format!("{ADDRESS_FILE}.{}.new", std::process::id()));
        let written = || {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.lock()?;
            file.write_all(address.to_string().as_bytes())?;
            DataAccess::of_folder(path).extend(&draft, path)?;
            std::fs::rename(&draft, &place)?;
            Ok(file)
        };
        let locked = written().map_err(|error| {
            let _ = std::fs::remove_file(&draft);
            io_error(&place, &error)
        })?;
        Ok(Self { _locked: locked })
    }

    /// Returns the address of the server that runs on the folder at `path`, or `None` if no server runs there
    /// or its address cannot be read.
    pub fn find(path: &Path) -> Option<SocketAddr> {
        let mut file = File::open(path.join(ADDRESS_FILE)).ok()?;
        if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return None;
        }
        let mut address = String::new();
        file.read_to_string(&mut address).ok()?;
        address.parse().ok()
    }
}

fn settings_text() -> String {
    let files = KEY_FILES.map(|(variable, name)| format!("{variable}_FILE={KEYS}/{name}\n")).concat();
    format!(
        "# Settings that the environment does not override; see svc-env(7). Paths are relative to this \
         folder.\n\
         {files}"
    )
}

/// Creates `path` and its missing parents, in the group of `group_source`, and records them in `created`.
fn create_folders(
    path: &Path,
    access: DataAccess,
    group_source: &Path,
    created: &mut Vec<PathBuf>,
) -> Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_folders(parent, access, parent, created)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => created.push(path.to_owned()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => return Ok(()),
        Err(error) => return Err(blocked(Need::Folder, path, &error)),
    }
    access.extend(path, group_source).map_err(|error| io_error(path, &error))
}

/// Removes everything that a set-up has created, and restores the permissions of its folder.
fn undo_setup(created: &[PathBuf], former_permissions: Option<&Permissions>, folder: &Path) -> Result<()> {
    for path in created.iter().rev() {
        let removed = if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io_error(path, &error)),
            _ => {}
        }
    }
    match former_permissions {
        Some(before) => {
            std::fs::set_permissions(folder, before.clone()).map_err(|error| io_error(folder, &error))
        }
        None => Ok(()),
    }
}

/// Syncs a folder to disk, unless its file system does not support that.
fn sync_folder(path: &Path) -> Result<()> {
    match File::open(path).and_then(|folder| folder.sync_all()) {
        Err(error) if !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
            Err(io_error(path, &error))
        }
        _ => Ok(()),
    }
}

/// Returns the error for a file that cannot be written.
fn io_error(path: &Path, error: &std::io::Error) -> Error {
    blocked(Need::Write, path, error)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::Config;

    const NOTHING: [(&str, &str); 0] = [];

    fn create(path: &Path) -> Result<UnfinishedSetup> {
        DataDir::create(path, DataAccess::Owner, &Entropy::System)
    }

    fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(files(&path));
            } else {
                found.insert(path.clone(), std::fs::read(path).unwrap());
            }
        }
        found
    }

    #[test]
    fn a_new_folder_has_keys_for_its_owner_alone_and_a_readable_configuration() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        create(&path).unwrap().finish().unwrap();
        for (file, _) in files(&path) {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
        }
        assert_eq!(path.join(KEYS).metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let config = Config::read(NOTHING, &path).unwrap();
        assert!(config.content_keys().is_ok());
        assert!(config.session_secret.is_some() && config.export_keys.signing.is_some());
        assert!(config.push.is_some());
        assert!(DataDir::open(&path).unwrap().artifacts().is_dir());
    }

    #[test]
    fn a_second_setup_is_rejected_and_changes_nothing() {
        let root = tempfile::tempdir().unwrap();
        create(root.path()).unwrap().finish().unwrap();
        let before = files(root.path());
        assert_eq!(create(root.path()).unwrap_err().code(), Code::AlreadyInitialised);
        assert_eq!(files(root.path()), before);
    }

    #[test]
    fn an_interrupted_setup_is_unusable_and_resumes_with_its_keys() {
        let root = tempfile::tempdir().unwrap();
        drop(create(root.path()).unwrap());
        let key = root.path().join(KEYS).join("content.kek");
        let drawn = std::fs::read(&key).unwrap();
        std::fs::remove_file(root.path().join(ENV_FILE)).unwrap();
        std::fs::write(root.path().join("keys/export.key.new"), "half").unwrap();
        assert_eq!(DataDir::open(root.path()).unwrap_err().code(), Code::WrongState);
        create(root.path()).unwrap().finish().unwrap();
        assert_eq!(std::fs::read(&key).unwrap(), drawn);
        assert!(DataDir::open(root.path()).is_ok());
    }

    #[test]
    fn two_processes_cannot_set_up_at_once() {
        let root = tempfile::tempdir().unwrap();
        let first = create(root.path()).unwrap();
        assert!(create(root.path()).unwrap_err().detail().contains("another process"));
        first.finish().unwrap();
    }

    #[test]
    fn undo_leaves_what_was_there() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("new/data");
        create(&path).unwrap().undo().unwrap();
        assert!(!root.path().join("new").exists());
        std::fs::write(root.path().join("note"), "mine").unwrap();
        create(root.path()).unwrap().undo().unwrap();
        assert_eq!(files(root.path()).into_keys().collect::<Vec<_>>(), [root.path().join("note")]);
        drop(create(root.path()).unwrap());
        create(root.path()).unwrap().undo().unwrap();
        assert!(root.path().join("keys/content.kek").exists());
    }

    #[test]
    fn the_address_of_a_server_is_found_while_it_runs() {
        let root = tempfile::tempdir().unwrap();
        let first = "127.0.0.1:1".parse().unwrap();
        let second = "[::1]:2".parse().unwrap();
        assert_eq!(PublishedAddress::find(root.path()), None);
        let earlier = PublishedAddress::leave(root.path(), first).unwrap();
        assert_eq!(PublishedAddress::find(root.path()), Some(first));
        let later = PublishedAddress::leave(root.path(), second).unwrap();
        assert_eq!(PublishedAddress::find(root.path()), Some(second));
        drop(earlier);
        assert_eq!(PublishedAddress::find(root.path()), Some(second), "an earlier one ends later");
        drop(later);
        assert_eq!(PublishedAddress::find(root.path()), None, "the file is there, and nobody runs");
        assert_eq!(files(root.path()).into_keys().collect::<Vec<_>>(), [root.path().join(ADDRESS_FILE)]);
        assert_eq!(mode(&root.path().join(ADDRESS_FILE)), 0o600);
        assert!(PublishedAddress::leave(&root.path().join("nowhere"), first).is_err());
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn files_others_can_write_are_rejected_and_files_they_can_read_are_returned() {
        let root = tempfile::tempdir().unwrap();
        create(root.path()).unwrap().finish().unwrap();
        std::fs::write(root.path().join(DATABASE), "").unwrap();
        chmod(&root.path().join(DATABASE), 0o600);
        let secret = root.path().join("keys/content.kek");
        let open = || check_access_of_others(root.path(), std::slice::from_ref(&secret), DataAccess::Owner);
        assert!(open().unwrap().is_empty());
        let parts = ["", KEYS, ENV_FILE, DATABASE, "keys/content.kek"].map(|name| root.path().join(name));
        for part in &parts {
            let before = mode(part);
            for (more, rejected) in
                [(0o040, false), (0o004, false), (0o020, true), (0o002, true), (0o066, true)]
            {
                chmod(part, before | more);
                match open() {
                    Ok(readable) => {
                        assert!(!rejected && readable == [part.clone()], "{} {more:o}", part.display())
                    }
                    Err(error) => {
                        assert!(
                            rejected && error.code() == Code::Configuration,
                            "{} {more:o}",
                            part.display()
                        );
                        assert!(error.detail().contains("chmod go-w"), "{}", error.detail());
                    }
                }
            }
            chmod(part, before);
        }
        assert!(
            check_access_of_others(&root.path().join("nowhere"), &[], DataAccess::Owner).unwrap().is_empty()
        );
    }

    #[test]
    fn an_empty_folder_is_made_private_and_one_in_use_is_not() {
        let root = tempfile::tempdir().unwrap();
        for open in [0o777, 0o755] {
            chmod(root.path(), open);
            create(root.path()).unwrap().undo().unwrap();
            assert_eq!(mode(root.path()), open, "as it was");
        }
        std::fs::write(root.path().join("note"), "mine").unwrap();
        chmod(root.path(), 0o777);
        assert_eq!(create(root.path()).unwrap_err().code(), Code::Configuration);
        assert_eq!((mode(root.path()), files(root.path()).len()), (0o777, 1));
        chmod(root.path(), 0o755);
        create(root.path()).unwrap().undo().unwrap();
        assert_eq!(mode(root.path()), 0o755);
        std::fs::remove_file(root.path().join("note")).unwrap();
        create(root.path()).unwrap().finish().unwrap();
        assert_eq!(mode(root.path()), 0o700);
    }

    /// Changes the permissions as kubelet does for a volume with `fsGroup` at each mount.
    fn pass_of_kubelet(path: &Path) {
        let (more, folder) = if path.is_dir() { (0o2770, true) } else { (0o660, false) };
        chmod(path, path.metadata().unwrap().mode() & 0o7777 | more);
        if folder {
            std::fs::read_dir(path).unwrap().for_each(|entry| pass_of_kubelet(&entry.unwrap().path()));
        }
    }

    #[test]
    fn the_group_may_use_a_volume_if_that_was_said_and_others_never() {
        let root = tempfile::tempdir().unwrap();
        chmod(root.path(), 0o2777);
        std::fs::create_dir(root.path().join(LOST_AND_FOUND)).unwrap();
        let mut setup = DataDir::create(root.path(), DataAccess::Group, &Entropy::System).unwrap();
        setup.create_database_file().unwrap();
        setup.finish().unwrap();
        let all = |path: &Path| path.metadata().unwrap().mode() & 0o7777;
        assert_eq!(all(root.path()), 0o2770, "others were shut out, and it is still set-group-id");
        assert_eq!((mode(&root.path().join(KEYS)), mode(&root.path().join(DATABASE))), (0o770, 0o660));
        for (file, _) in files(root.path()) {
            assert_eq!(mode(&file), 0o660, "{}", file.display());
        }
        pass_of_kubelet(root.path());
        let secret = root.path().join("keys/content.kek");
        let open = |access| check_access_of_others(root.path(), std::slice::from_ref(&secret), access);
        assert!(open(DataAccess::Group).unwrap().is_empty());
        let refused = open(DataAccess::Owner).unwrap_err();
        for wanted in ["SVC_DATA_GROUP_ACCESS=1", "mode 2770", "owner 0", "`chmod go-w "] {
            let wanted =
                wanted.replace("owner 0", &format!("owner {}", root.path().metadata().unwrap().uid()));
            assert!(refused.detail().contains(&wanted), "{refused}");
        }
        for part in ["", KEYS, ENV_FILE, DATABASE, "keys/content.kek"].map(|name| root.path().join(name)) {
            let before = all(&part);
            chmod(&part, before | 0o004);
            assert_eq!(open(DataAccess::Group).unwrap(), std::slice::from_ref(&part));
            chmod(&part, before | 0o002);
            let refused = open(DataAccess::Group).unwrap_err();
            assert!(refused.detail().contains("`chmod o-w ") && !refused.detail().contains(GROUP_ACCESS));
            chmod(&part, before);
        }
        if rustix::process::geteuid().is_root() {
            let group = root.path().metadata().unwrap().gid();
            let give = |group: u32| std::os::unix::fs::chown(&secret, None, Some(group)).unwrap();
            give(group + 1);
            let refused = open(DataAccess::Group).unwrap_err();
            assert!(refused.detail().contains(&format!("`chgrp {group} {}`", secret.display())), "{refused}");
            chmod(&secret, 0o640);
            assert_eq!(open(DataAccess::Group).unwrap(), std::slice::from_ref(&secret));
            give(group);
            assert!(open(DataAccess::Group).unwrap().is_empty());
            chmod(&secret, 0o660);
        }
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        chmod(elsewhere.path(), 0o660);
        let secrets = [elsewhere.path().to_owned()];
        assert!(
            check_access_of_others(root.path(), &secrets, DataAccess::Group).is_err(),
            "only in the folder"
        );
    }

    #[test]
    fn folders_in_use_are_rejected() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(DataDir::open(root.path()).unwrap_err().code(), Code::NotFound);
        std::fs::write(root.path().join(DATABASE), "").unwrap();
        assert_eq!(create(root.path()).unwrap_err().code(), Code::WrongState);
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(create(&file).unwrap_err().code(), Code::Configuration);
    }
}
