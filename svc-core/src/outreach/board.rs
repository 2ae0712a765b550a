//! The board: the pages for people, which a browser gets without a credential.
//!
//! The pages contain no data of any workspace: they call the operations of the API, with the session of their
//! browser. So they are the same for everyone, and the HTTP shell contains them.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::{Code, Error, Result};
use crate::op::{Feature, Frame, Operation, Read, read};

pub(crate) fn feature() -> Feature {
    let rows = vec![
        read("find_board", answered_by_shell::<FindBoard>)
            .title("Go to the board")
            .get("/")
            .alias("/ui")
            .redirects()
            .refuses(&[Code::UnknownRoute])
            .example(|_| json!({})),
        read("open_board", answered_by_shell::<OpenBoard>)
            .title("Open the board")
            .get("/ui/")
            .example(|_| json!({})),
        read("open_board_at", answered_by_shell::<OpenBoardAt>)
            .title("Open the board at a screen, or read a file of it")
            .get("/ui/{*path}")
            .example(|_| json!({"path": "board"})),
    ];
    let framed = |row: Operation| row.framed(Frame::Board).open_to_all();
    Feature::new().operations("board", rows.into_iter().map(framed).collect())
}

/// Takes the place of a row's function: the shell answers once the request is admitted, and never runs it.
fn answered_by_shell<I>(_: &Read<'_>, _: &I) -> Result<()> {
    Err(Error::internal("a row was run that the shell answers"))
}

/// Redirects a browser to the board.
///
/// Fails with 404 `unknown-route` at `/` if the request does not ask for a page.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindBoard {}

/// Returns the page of the board.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OpenBoard {}

/// Returns the page of the board, which shows the screen of this path, or the file at this path.
///
/// Paths of screens have no dot and up to five segments; the page itself reads the query.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the shell reads the path")]
struct OpenBoardAt {
    /// The rest of the path.
    path: String,
}
