//! The current health of the service.

use crate::error::Error;
use crate::host::service::Service;
use crate::op::{HealthResult, health_in_database, health_of_process, health_without_database};

impl Service {
    /// Reports whether each component of the service works now.
    ///
    /// Takes as long as the database takes to respond. Callers that ask during that time share the next
    /// result.
    pub async fn health(&self) -> Vec<HealthResult> {
        let asked = self.dispatch().clock.monotonic();
        let mut last = self.last_health().lock().await;
        let mut parts = match &*last {
            Some((read, parts)) if *read > asked => parts.clone(),
            _ => {
                let reads = self.dispatch().clock.monotonic();
                let parts = self.health_of_database().await;
                last.insert((reads, parts)).1.clone()
            }
        };
        drop(last);
        parts.extend(health_of_process(self.table().parts()));
        parts
    }

    async fn health_of_database(&self) -> Vec<HealthResult> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.dispatch().submit_health(health_in_database, move |outcome| {
            // If the caller has stopped waiting, the result has no receiver.
            let _ = sender.send(outcome);
        });
        match receiver.await.map_err(Error::internal).flatten() {
            Ok(parts) => parts,
            Err(error) => health_without_database(self.table().parts(), &error),
        }
    }
}
