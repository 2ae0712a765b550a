//! The board: web pages for people, which a browser loads without a credential.
//!
//! The pages contain no data of any workspace. They call the operations of the API with the session of the
//! browser, so every user receives the same pages. The HTTP shell contains their files.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::{Code, Error, Result};
use crate::op::{Feature, Frame, Operation, Read, read, without_requests};

pub(crate) fn feature() -> Feature {
    let rows = vec![
        read("find_board", fail_because_shell_answers::<FindBoard>)
            .title("Go to the board")
            .get("/")
            .alias("/ui")
            .redirects()
            .refuses(&[Code::UnknownRoute])
            .example(|_| json!({})),
        read("open_board", fail_because_shell_answers::<OpenBoard>)
            .title("Open the board")
            .get("/ui/")
            .example(|_| json!({})),
        read("open_board_at", fail_because_shell_answers::<OpenBoardAt>)
            .title("Open the board at a screen, or read a file of it")
            .get("/ui/{*path}")
            .example(|_| json!({"path": "board"})),
    ];
    let framed = |row: Operation| row.framed(Frame::Board).open_to_all();
    Feature::new().operations("board", rows.into_iter().map(framed).collect())
}

without_requests! { FindBoard, OpenBoard, OpenBoardAt }

/// Placeholder for the function of an operation that the shell answers itself after admitting the request.
fn fail_because_shell_answers<I>(_: &Read<'_>, _: &I) -> Result<()> {
    Err(Error::internal("an operation was run that the shell answers"))
}

/// Redirects a browser to the board.
///
/// Fails with 404 `unknown-route` at `/` if the request does not ask for a page.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindBoard {}

/// Returns the start page of the board.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OpenBoard {}

/// Returns the page of the board for the screen at this path, or the file at this path.
///
/// Paths of screens contain no dot and have up to five segments; the page itself reads the query.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the shell reads the path")]
struct OpenBoardAt {
    /// The part of the path after `/ui/`.
    path: String,
}
