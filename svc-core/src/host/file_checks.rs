//! Files that are checked while they are being received.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::host::service::Service;
use crate::id::WorkspaceId;
use crate::op::{Admission, Input, Operation, Read};
use crate::portability::IncomingExport;
use crate::spool::CompleteSpool;

impl Service {
    /// Checks a request that uploads a file, before the file is received.
    ///
    /// Fails as the operation does if the caller may not call it, or if the call would fail for any file.
    pub async fn check_before_file(
        &self,
        operation: &Arc<Operation>,
        admission: &Admission,
        input: &Input,
    ) -> Result<()> {
        let check = operation.run.before_file;
        let input = input.clone();
        let run = move |cx: &Read<'_>| check.map_or(Ok(()), |check| check(cx, &input));
        self.dispatch().read_for(operation, admission.follow_up(), false, run).await
    }

    /// Begins to receive a file for a workspace. The file is checked while it is being received.
    pub async fn begin_upload(&self, workspace: WorkspaceId) -> Result<IncomingExport> {
        let service = self.clone();
        run_blocking(move || IncomingExport::begin(&service.dispatch().shared, workspace)).await
    }

    /// Writes and checks the next bytes of a file.
    ///
    /// The process checks one file at a time, but only while it processes these bytes.
    pub async fn write_upload(&self, file: IncomingExport, bytes: Vec<u8>) -> Result<IncomingExport> {
        let _turn = self.process().check_slots.acquire().await.map_err(Error::internal)?;
        run_blocking(move || file.write(bytes)).await
    }

    /// Completes a received file and returns it as a spool. Fails with 400 `export-invalid` if it does not
    /// verify.
    pub async fn end_upload(&self, file: IncomingExport) -> Result<CompleteSpool> {
        let _turn = self.process().check_slots.acquire().await.map_err(Error::internal)?;
        run_blocking(move || file.finish()).await
    }

    /// Returns the maximum size of an uploaded file in bytes.
    pub fn upload_max_bytes(&self) -> u64 {
        self.dispatch().shared.settings.import_max_bytes
    }
}

/// Runs blocking disk work on a thread that may block.
async fn run_blocking<T: Send + 'static>(run: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(run).await.map_err(Error::internal)?
}
