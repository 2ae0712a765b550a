//! Limits on the disk space of spools: a budget for their bytes, and a reserve for the database.
//!
//! A spool takes space with each buffer that it writes, and returns all of it when its file is closed. A
//! workspace holds up to half of the budget, so that its files do not block those of other workspaces. If
//! less than the reserve is free on the disk, no spool can grow: only the database may use the remaining
//! space.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::fstatvfs;

use super::Spool;
use crate::Result;
use crate::error::{Code, Error};
use crate::id::WorkspaceId;
use crate::limits::{DISK_RESERVE_MAX_BYTES, DISK_RESERVE_PERCENT, SPOOL_MAX_BYTES};
use crate::sync::lock;

/// The free bytes and the total bytes of a disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskSize {
    /// Free bytes on the disk that this process can use.
    pub free: u64,
    /// Total size of the disk in bytes.
    pub total: u64,
}

/// A function that measures the disk of a folder.
pub type MeasureDisk = Arc<dyn Fn(&Path) -> io::Result<DiskSize> + Send + Sync>;

/// The limits of spools that an operator can set. Defaults for unset limits depend on the disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpoolLimits {
    /// Maximum bytes of all spools together (`SVC_SPOOL_MAX_BYTES`).
    pub max_bytes: Option<u64>,
    /// Bytes of the disk that only the database may use (`SVC_DISK_RESERVE_BYTES`). 0 reserves none.
    pub reserve_bytes: Option<u64>,
}

/// The folder for spools, and the space that they may use there. Clones share both.
#[derive(Clone)]
pub struct SpoolFolder(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    max: u64,
    reserve: u64,
    measure: MeasureDisk,
    taken: Mutex<UsedSpace>,
}

/// The bytes of spools that are charged to workspaces.
#[derive(Default)]
struct UsedSpace {
    total: u64,
    by_workspace: BTreeMap<WorkspaceId, u64>,
}

impl fmt::Debug for SpoolFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { folder, max, reserve, .. } = &*self.0;
        write!(f, "Spools({}, {max} bytes, {reserve} in reserve)", folder.display())
    }
}

impl SpoolFolder {
    /// Creates the handle of the spool folder `folder`. The folder itself is created with the first spool.
    pub fn new(folder: PathBuf, limits: SpoolLimits) -> Self {
        Self::measured(folder, limits, Arc::new(measure_disk))
    }

    /// Creates the handle of a spool folder, with the function `measure` for measuring the disk.
    pub fn measured(folder: PathBuf, limits: SpoolLimits, measure: MeasureDisk) -> Self {
        // If the disk cannot be measured, nothing is reserved.
        let disk = measure(&folder).unwrap_or(DiskSize { free: u64::MAX, total: 0 });
        let reserve = || (disk.total / 100).saturating_mul(DISK_RESERVE_PERCENT).min(DISK_RESERVE_MAX_BYTES);
        let max = || (disk.free / 2).min(SPOOL_MAX_BYTES);
        let max = limits.max_bytes.unwrap_or_else(max);
        let reserve = limits.reserve_bytes.unwrap_or_else(reserve);
        Self(Arc::new(Inner { folder, max, reserve, measure, taken: Mutex::default() }))
    }

    /// Returns the folder that contains the spools.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Creates a spool whose bytes are charged to a workspace.
    ///
    /// Without a payer, only the reserve limits the spool. That is for commands of the operator, and for data
    /// no larger than a request.
    pub fn create(&self, payer: Option<WorkspaceId>) -> Result<Spool> {
        Spool::create(SpoolSpace { spools: self.clone(), payer, bytes: 0 })
    }

    /// Returns the number of bytes of spools that are charged to workspaces.
    pub fn taken(&self) -> u64 {
        lock(&self.0.taken).total
    }

    /// Fails with 507 `insufficient-storage` if `bytes` more would use the reserve of the disk.
    pub(crate) fn check_reserve(&self, bytes: u64) -> Result<()> {
        let Inner { folder, reserve, measure, .. } = &*self.0;
        if *reserve == 0 {
            return Ok(());
        }
        // If the disk cannot be measured, the write itself reports a lack of space.
        match measure(folder) {
            Ok(disk) if disk.free < reserve.saturating_add(bytes) => {
                Err(insufficient_storage_error(format!(
                    "{} bytes of the disk are free, and {reserve} are reserved for the database \
                 (SVC_DISK_RESERVE_BYTES)",
                    disk.free
                )))
            }
            _ => Ok(()),
        }
    }

    /// Charges bytes to a workspace. Fails with 507 `insufficient-storage` if the workspace or all workspaces
    /// together would exceed their limit.
    fn charge(&self, workspace: WorkspaceId, bytes: u64) -> Result<()> {
        let max = self.0.max;
        let mut taken = lock(&self.0.taken);
        let own = taken.by_workspace.get(&workspace).copied().unwrap_or(0).saturating_add(bytes);
        let all = taken.total.saturating_add(bytes);
        if own > max / 2 {
            return Err(insufficient_storage_error(format!(
                "files of the workspace that are being sent or wait to be read would have {own} bytes, and \
                 {} are allowed (half of SVC_SPOOL_MAX_BYTES)",
                max / 2
            )));
        }
        if all > max {
            return Err(insufficient_storage_error(format!(
                "files that are being sent or wait to be read would have {all} bytes, and {max} are allowed \
                 (SVC_SPOOL_MAX_BYTES)"
            )));
        }
        taken.total = all;
        taken.by_workspace.insert(workspace, own);
        Ok(())
    }

    /// Removes bytes from those that are charged to a workspace.
    fn release(&self, workspace: WorkspaceId, bytes: u64) {
        let mut taken = lock(&self.0.taken);
        taken.total = taken.total.saturating_sub(bytes);
        let own = taken.by_workspace.get(&workspace).copied().unwrap_or(0).saturating_sub(bytes);
        match own {
            0 => taken.by_workspace.remove(&workspace),
            own => taken.by_workspace.insert(workspace, own),
        };
    }
}

/// The disk space that one spool has reserved. Dropping this value releases the space.
#[derive(Debug)]
pub(super) struct SpoolSpace {
    spools: SpoolFolder,
    payer: Option<WorkspaceId>,
    bytes: u64,
}

impl SpoolSpace {
    pub fn spools(&self) -> &SpoolFolder {
        &self.spools
    }

    pub fn payer(&self) -> Option<WorkspaceId> {
        self.payer
    }

    /// Reserves `bytes` more bytes of disk space. Fails with 507 `insufficient-storage` if there is not
    /// enough.
    pub fn grow(&mut self, bytes: u64) -> Result<()> {
        self.spools.check_reserve(bytes)?;
        if let Some(payer) = self.payer {
            self.spools.charge(payer, bytes)?;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Releases all but `bytes` bytes of the reserved disk space.
    pub fn shrink_to(&mut self, bytes: u64) {
        let returned = self.bytes.saturating_sub(bytes);
        self.bytes = self.bytes.saturating_sub(returned);
        if let Some(payer) = self.payer {
            self.spools.release(payer, returned);
        }
    }
}

impl Drop for SpoolSpace {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// Returns the error for a file without enough disk space.
pub(super) fn insufficient_storage_error(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(Code::InsufficientStorage, detail)
}

/// Measures the disk of a folder, or of its nearest existing parent folder.
fn measure_disk(folder: &Path) -> io::Result<DiskSize> {
    let exists = folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    let disk = fstatvfs(File::open(exists)?)?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Ok(DiskSize { free: bytes(disk.f_bavail), total: bytes(disk.f_blocks) })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use uuid::Uuid;

    use super::*;

    fn workspace(n: u128) -> WorkspaceId {
        Uuid::from_u128(n).into()
    }

    /// Creates spools on a disk with the given number of free bytes.
    fn on_disk(limits: SpoolLimits, free: &Arc<AtomicU64>, total: u64) -> (tempfile::TempDir, SpoolFolder) {
        let folder = tempfile::tempdir().unwrap();
        let free = Arc::clone(free);
        let measure = move |_: &Path| Ok(DiskSize { free: free.load(Ordering::Relaxed), total });
        let spools = SpoolFolder::measured(folder.path().join("new"), limits, Arc::new(measure));
        (folder, spools)
    }

    fn limits(max: u64, reserve: u64) -> SpoolLimits {
        SpoolLimits { max_bytes: Some(max), reserve_bytes: Some(reserve) }
    }

    fn write(spool: &mut Spool, bytes: usize) -> Result<(), Code> {
        let written = spool.write(&vec![7; bytes]).and_then(|()| spool.flush());
        written.map_err(|error| error.code())
    }

    const FULL: Result<(), Code> = Err(Code::InsufficientStorage);

    #[test]
    fn a_workspace_holds_half_of_the_budget_and_returns_it_with_the_file() {
        let (_folder, spools) = on_disk(limits(1000, 0), &Arc::default(), 0);
        let mut first = spools.create(Some(workspace(1))).unwrap();
        let mut second = spools.create(Some(workspace(1))).unwrap();
        let mut other = spools.create(Some(workspace(2))).unwrap();
        assert_eq!((write(&mut first, 300), write(&mut second, 200)), (Ok(()), Ok(())));
        assert_eq!(write(&mut first, 1), FULL, "the workspace has its half");
        assert_eq!(write(&mut other, 500), Ok(()), "another one has the other half");
        assert_eq!(write(&mut spools.create(Some(workspace(3))).unwrap(), 1), FULL, "nothing is left");
        assert_eq!(write(&mut spools.create(None).unwrap(), 5000), Ok(()));
        other.truncate(100).unwrap();
        assert_eq!(spools.taken(), 600);
        drop(second);
        let mut third = spools.create(Some(workspace(1))).unwrap();
        assert_eq!(write(&mut third, 200), Ok(()));
        let file = third.finish().unwrap();
        let unread = file.clone();
        drop((first, other, file));
        assert_eq!(spools.taken(), 200, "a file counts until its last reader is done");
        drop(unread);
        assert_eq!(spools.taken(), 0);
    }

    #[test]
    fn a_write_that_is_refused_leaves_the_file_and_the_count_as_they_were() {
        let (_folder, spools) = on_disk(limits(1000, 0), &Arc::default(), 0);
        let mut spool = spools.create(Some(workspace(1))).unwrap();
        write(&mut spool, 500).unwrap();
        assert_eq!(write(&mut spool, 1), FULL);
        assert_eq!(spools.taken(), 500);
        drop(spool);
        assert_eq!(spools.taken(), 0);
    }

    #[test]
    fn no_spool_grows_into_the_reserve_of_the_disk() {
        let free = Arc::new(AtomicU64::new(1500));
        let (_folder, spools) = on_disk(limits(1 << 20, 1000), &free, 10_000);
        let mut spool = spools.create(Some(workspace(1))).unwrap();
        assert_eq!((write(&mut spool, 500), spools.taken()), (Ok(()), 500));
        free.store(1099, Ordering::Relaxed);
        assert_eq!(write(&mut spools.create(Some(workspace(1))).unwrap(), 100), FULL);
        assert_eq!(write(&mut spools.create(None).unwrap(), 100), FULL);
        free.store(1100, Ordering::Relaxed);
        assert_eq!(write(&mut spools.create(Some(workspace(1))).unwrap(), 100), Ok(()));
        free.store(0, Ordering::Relaxed);
        let (_folder, off) = on_disk(limits(1 << 20, 0), &free, 10_000);
        assert_eq!(write(&mut off.create(Some(workspace(1))).unwrap(), 100), Ok(()), "0 reserves nothing");
    }

    #[test]
    fn limits_that_are_not_set_follow_from_the_disk() {
        let found = |free: u64, total: u64| {
            let (_folder, spools) = on_disk(SpoolLimits::default(), &Arc::new(free.into()), total);
            (spools.0.max, spools.0.reserve)
        };
        assert_eq!(found(1000, 2000), (500, 100));
        assert_eq!(found(1 << 40, 1 << 41), (8 << 30, 512 << 20));
    }

    #[test]
    fn a_disk_is_measured_where_the_folder_will_be() {
        let folder = tempfile::tempdir().unwrap();
        let disk = measure_disk(&folder.path().join("not/yet")).unwrap();
        assert!(disk.free > 0 && disk.total >= disk.free, "{disk:?}");
    }
}
