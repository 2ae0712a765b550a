//! One session with a server: a connection from when it is opened until it ends.
//!
//! It is never replaced; a caller that needs another opens another.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage, Statement};

use super::errors::{Failed, PgResult, unreachable};
use super::settings::Server;
use crate::error::{Error, Result};
use crate::limits::{ANSWER_SLACK, CONNECT_TIMEOUT, ROW_BYTES};

/// How much of a statement's result is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// Every row.
    Whole,
    /// The first rows, up to a weight that is an additional parameter.
    Bounded,
}

/// A session. Dropping it closes the socket at once.
pub(super) struct Session {
    pub client: Arc<Client>,
    /// Timeout of a reply: a little more than the server lets a statement run.
    ///
    /// None if the server has no such limit.
    pub limit: Option<Duration>,
    statements: RefCell<HashMap<(Form, usize, usize), Statement>>,
    driver: JoinHandle<()>,
}

impl Session {
    /// Connects, within the time limit for it.
    pub async fn open(server: &Server) -> Result<Self> {
        tokio::time::timeout(opening_limit(server), Self::connect(server)).await.map_err(unreachable)?
    }

    async fn connect(server: &Server) -> Result<Self> {
        let (client, connection) = server.connect().await.map_err(unreachable)?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::info!(%error, "a connection to the database ended");
            }
        });
        let client = Arc::new(client);
        if let Some(statement) = server.first_statement() {
            client.batch_execute(statement).await.map_err(unreachable)?;
        }
        let mut session = Self { client, limit: None, statements: RefCell::default(), driver };
        let limit = session.statement_timeout().await?;
        session.limit = limit.map(|limit| limit.saturating_add(ANSWER_SLACK));
        Ok(session)
    }

    /// Returns the limit in force, which the address may have changed from ours. Zero means none.
    async fn statement_timeout(&self) -> Result<Option<Duration>> {
        let reply = self.client.simple_query(STATEMENT_TIMEOUT_MS).await.map_err(unreachable)?;
        let millis = first_text(&reply).and_then(|text| text.parse().ok());
        let millis: u64 =
            millis.ok_or_else(|| Error::internal("the server does not report its statement_timeout"))?;
        Ok((millis > 0).then(|| Duration::from_millis(millis)))
    }

    /// Prepares a statement, which is cached by the text's address and length then.
    pub async fn prepare(&self, form: Form, sql: &'static str) -> PgResult<Statement> {
        match form {
            Form::Whole => self.prepare_text(form, sql, sql).await,
            Form::Bounded => {
                let whole = match self.prepared(Form::Whole, sql) {
                    Some(whole) => whole,
                    None => self.prepare_text(Form::Whole, sql, sql).await?,
                };
                self.prepare_text(form, sql, &bounded(sql, &whole)).await
            }
        }
    }

    /// Returns a statement that was prepared before.
    pub fn prepared(&self, form: Form, sql: &'static str) -> Option<Statement> {
        self.statements.borrow().get(&key(form, sql)).cloned()
    }

    async fn prepare_text(&self, form: Form, sql: &'static str, text: &str) -> PgResult<Statement> {
        let statement = self.client.prepare(text).await.map_err(|error| Failed::of(error, text))?;
        self.statements.borrow_mut().insert(key(form, sql), statement.clone());
        Ok(statement)
    }

    /// Returns whether the connection is known to have ended.
    pub fn is_closed(&self) -> bool {
        self.client.is_closed() || self.driver.is_finished()
    }
}

fn key(form: Form, sql: &'static str) -> (Form, usize, usize) {
    (form, sql.as_ptr().addr(), sql.len())
}

/// Wraps the statement `sql` so that the server bounds its rows by weight.
///
/// It omits the rows after those that weigh as much as its last parameter, which follows its own. The server
/// knows the length of a text without reading it, so an omitted row costs it no more than being found.
fn bounded(sql: &str, whole: &Statement) -> String {
    let names: Vec<String> = (0..whole.columns().len()).map(|place| format!("c{place}")).collect();
    let long = whole.columns().iter().zip(&names).filter(|(column, _)| is_long(column.type_()));
    let bytes: String = long.map(|(_, name)| format!(" + coalesce(octet_length({name}), 0)")).collect();
    let (names, last) = (names.join(", "), whole.params().len() + 1);
    format!(
        "select {names} from (
             select *,
                 sum({ROW_BYTES}{bytes}) over (rows between unbounded preceding and 1 preceding) as before
             from ({sql}) as found ({names})
         ) as weighed where coalesce(before, 0) < cast(${last} as bigint)"
    )
}

/// Returns whether a column's values have no fixed size.
fn is_long(kind: &Type) -> bool {
    matches!(kind, &(Type::TEXT | Type::VARCHAR | Type::BYTEA))
}

/// Returns how long opening a session may take.
///
/// The driver's own limit covers only the TCP connection, not what the server sends then.
pub(super) fn opening_limit(server: &Server) -> Duration {
    server.config().get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT).saturating_add(ANSWER_SLACK)
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

const STATEMENT_TIMEOUT_MS: &str = "select setting from pg_settings where name = 'statement_timeout'";

/// Returns the first column of the first row of a result.
pub(super) fn first_text(reply: &[SimpleQueryMessage]) -> Option<&str> {
    reply.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    })
}
