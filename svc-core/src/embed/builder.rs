//! Creating and opening a service.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::outside_runtime;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::entropy::Entropy;
use crate::error::{Error, Result};
use crate::host::service::{Service, ServiceOptions};
use crate::host::setup::{self, Established, IssuedToken, TokenRequest};
use crate::op::Settings;
use crate::store::{Database, OpenMode};
use crate::time::Clock;

/// Folder of which the kernel keeps the files in memory.
const MEMORY_FOLDER: &str = "/dev/shm";

/// Name of the workspace of a service in memory, and handle of its administrator.
const IN_MEMORY_NAMES: (&str, &str) = ("Workspace", "admin");

/// The options of a service to be opened.
///
/// ```no_run
/// use svc_core::Service;
///
/// let service = Service::builder()
///     .folder("/srv/team")
///     .postgres("postgres://svc@db.example/svc?sslmode=verify-full")
///     .set("SVC_LEASE_SECS", "120")
///     .open()?;
/// # Ok::<(), svc_core::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the service is opened by `open`, `create` or `in_memory`"]
pub struct Builder {
    folder: Option<PathBuf>,
    variables: Vec<(String, Zeroizing<String>)>,
    clock: Clock,
    chores: bool,
    rate_limits: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self { folder: None, variables: Vec::new(), clock: Clock::system(), chores: true, rate_limits: false }
    }
}

impl Builder {
    /// Sets the data folder, which contains the settings (`svc.env`), the keys, and without Postgres the
    /// database.
    pub fn folder(mut self, path: impl AsRef<Path>) -> Self {
        self.folder = Some(path.as_ref().to_owned());
        self
    }

    /// Stores the data in the Postgres database at a URL, instead of in the data folder.
    pub fn postgres(self, url: &str) -> Self {
        self.set("DATABASE_URL", url)
    }

    /// Sets the key-encryption key, instead of the key in the data folder.
    pub fn key(self, key: [u8; 32]) -> Self {
        self.set("SVC_CONTENT_KEK", &hex::encode(Zeroizing::new(key).as_slice()))
    }

    /// Sets a variable of svc-env(7), such as `SVC_LEASE_SECS`. Takes precedence over the file `svc.env`.
    ///
    /// The environment variables of the process have no effect.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), Zeroizing::new(value.to_owned())));
        self
    }

    /// Sets the source of time. Default: the clock of the machine, or with Postgres that of the database.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets whether this process runs chores, such as ending lapsed claims. Default: true.
    ///
    /// At least one process that uses a database must run them.
    pub fn chores(mut self, runs: bool) -> Self {
        self.chores = runs;
        self
    }

    /// Sets whether the rate limits apply to calls of this process. Default: false.
    pub fn rate_limits(mut self, apply: bool) -> Self {
        self.rate_limits = apply;
        self
    }

    /// Sets up a new service as `svc init` does, with a workspace, an administrator and an agent, and opens
    /// the service.
    ///
    /// Fails with 409 `already-initialised` if the folder or the database is set up, and changes nothing.
    /// After an interruption, the call can be repeated.
    pub fn create(self, workspace: &str, admin: &str) -> Result<(Service, Established)> {
        let folder = self.data_folder()?.to_owned();
        let adjust = |options: ServiceOptions| self.adjust(options);
        outside_runtime(|| {
            let (_, service, established) =
                setup::init_with(&self.environment(), &folder, workspace, admin, adjust)?;
            Ok((service, established))
        })
    }

    /// Opens a service that is set up.
    pub fn open(self) -> Result<Service> {
        let folder = self.data_folder()?;
        outside_runtime(|| {
            let config = Config::read(self.environment(), folder)?;
            setup::open_with(&config, |options| self.adjust(options))
        })
    }

    /// Creates a service in memory, with the workspace `Workspace` and its administrator `admin`.
    ///
    /// Closing the service removes all of its data.
    pub fn in_memory(self) -> Result<(Service, Established)> {
        outside_runtime(|| {
            let parent = Path::new(MEMORY_FOLDER);
            let mut folder = tempfile::Builder::new();
            folder.prefix("svc-");
            let folder = if parent.is_dir() { folder.tempdir_in(parent) } else { folder.tempdir() };
            let folder = folder.map_err(Error::internal)?;
            let key = Zeroizing::new(Entropy::System.bytes::<32>()?);
            let mut variables = self.environment();
            if !self.variables.iter().any(|(name, _)| name == "SVC_CONTENT_KEK") {
                variables.push(("SVC_CONTENT_KEK".into(), hex::encode(key.as_slice()).into()));
            }
            let config = Config::read(variables, folder.path())?;
            if config.database_url.is_some() {
                return Err(Error::configuration("a service in memory has no DATABASE_URL"));
            }
            let options = ServiceOptions {
                mode: OpenMode::Create,
                database: Database::Sqlite(DataDir::database(folder.path())),
                folder: Some(folder),
                ..ServiceOptions::from_config(&config)?
            };
            let service = Service::with_options(self.adjust(options))?;
            let (workspace, admin) = IN_MEMORY_NAMES;
            let established = service.establish(workspace, admin)?;
            Ok((service, established))
        })
    }

    /// Returns the data folder. Fails if none is set.
    fn data_folder(&self) -> Result<&Path> {
        self.folder.as_deref().ok_or_else(|| Error::configuration("the service has no data folder"))
    }

    /// Returns the variables as a process receives them.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        self.variables.iter().map(|(name, value)| (name.into(), value.as_str().into())).collect()
    }

    /// Returns the options of a configuration with those of the builder.
    fn adjust(&self, options: ServiceOptions) -> ServiceOptions {
        ServiceOptions {
            clock: self.clock.clone(),
            chores: self.chores,
            settings: Settings { limits_library: self.rate_limits, ..options.settings },
            ..options
        }
    }
}

impl Service {
    /// Sets up a new service in the folder `folder`, as `svc init` does, and opens the service.
    ///
    /// `workspace` is the name of the first workspace, and `admin` the handle of its administrator. Fails
    /// with 409 `already-initialised` if the folder is set up, and changes nothing.
    pub fn create(folder: impl AsRef<Path>, workspace: &str, admin: &str) -> Result<(Self, Established)> {
        Self::builder().folder(folder).create(workspace, admin)
    }

    /// Opens the service in the folder `folder`, which [`Service::create`] or `svc init` has set up.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Self::builder().folder(folder).open()
    }

    /// Creates a service in memory, for tests and experiments. Closing the service removes all of its data.
    pub fn in_memory() -> Result<(Self, Established)> {
        Self::builder().in_memory()
    }

    /// Returns the options of a service to be opened.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Mints a token for the member with the handle `handle`, as `svc token mint --as-instance` does.
    ///
    /// Fails with 404 `not-found` if no member has the handle, and with 400 `malformed-request` if there are
    /// several workspaces.
    pub fn mint_token(&self, handle: &str) -> Result<IssuedToken> {
        let _call = self.calls().begin()?;
        outside_runtime(|| {
            self.mint_as_instance(&TokenRequest { member: handle.to_owned(), ..TokenRequest::default() })
        })
    }

    /// Closes the service: ends waits, finishes the calls and changes in progress, and stops all threads.
    ///
    /// Workers finish their tasks, and other claims are released. Other handles of the service then fail with
    /// 503 `closing`. Fails if a claim could not be released or a thread has panicked.
    pub fn close(self) -> Result<()> {
        let caller = std::thread::current().id();
        self.keeper().end_workers(caller);
        self.calls().close();
        outside_runtime(|| self.shut_down(caller))
    }
}
