//! Log messages for settings of other programs, which this program ignores.

use std::ffi::OsString;

use secrecy::{ExposeSecret as _, SecretString};

use super::database_url::DatabaseUrl;
use super::reader::Reader;

impl Reader {
    /// Returns a log message that lists the ignored variables in `vars`, or `None` if no variable is ignored.
    pub fn ignored_variables_message<N: Into<OsString>, V: Into<OsString>>(
        vars: impl IntoIterator<Item = (N, V)>,
    ) -> Option<String> {
        let mut reader = Self::default();
        reader.select_variables(vars);
        reader.remark_kubernetes_variables();
        reader.remarks.pop()
    }

    /// Adds a log message that lists the ignored variables of Kubernetes, if there are any.
    pub fn remark_kubernetes_variables(&mut self) {
        let mut names = std::mem::take(&mut self.kubernetes_variables);
        if !names.is_empty() {
            names.sort_unstable();
            let names = names.join(", ");
            self.remarks.push(format!("ignored the variables that Kubernetes sets for a Service: {names}"));
        }
    }

    /// Returns the database URL. Checks it, and remarks on its ignored parameters.
    pub fn database_url(&mut self) -> Option<SecretString> {
        let url = self.secret("DATABASE_URL")?;
        match DatabaseUrl::parse(url.expose_secret()) {
            Ok(parsed) => {
                // A user with write access to the key file can replace the key, so its access is checked.
                self.secret_files.extend(parsed.proof.client.map(|(_, key)| key));
                if !parsed.ignored.is_empty() {
                    let ignored = parsed.ignored.join(", ");
                    self.remarks.push(format!("ignored what DATABASE_URL says to other programs: {ignored}"));
                }
            }
            Err(error) => self.reject(error.detail()),
        }
        Some(SecretString::from(url.expose_secret().trim()))
    }
}
