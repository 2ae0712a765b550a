//! The current health of the service.

use crate::error::Error;
use crate::host::service::Service;
use crate::op::{HealthResult, health_in_database, health_of_process, health_without_database};

impl Service {
    /// Reports whether each component of the service works now.
    ///
    /// Takes as long as the database takes to respond. Calls during that time share the next
    /// result.
    pub async fn health(&self) -> Vec<HealthResult> {
        let requested_at = self.dispatch().clock.monotonic();
        let mut last = self.last_health().lock().await;
        let mut parts = match &*last {
            Some((begun_at, parts)) if *begun_at > requested_at => parts.clone(),
            _ => {
                let begun_at = self.dispatch().clock.monotonic();
                let parts = self.check_database().await;
                last.insert((begun_at, parts)).1.clone()
            }
        };
        drop(last);
        parts.extend(health_of_process(self.table().parts()));
        parts
    }

    /// Runs the health checks that query the database, and waits for their results.
    async fn check_database(&self) -> Vec<HealthResult> {
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
