//! Profile of a member: the display name, which members set themselves.
//!
//! Members cannot change their own handle.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::{Member, load_member};
use crate::capability::Capability::MessagePost;
use crate::error::{Code, Result};
use crate::id::MemberId;
use crate::limits::NAME_MAX;
use crate::log::event::{Event, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Operation, Write, idempotent};
use crate::request::request;
use crate::text::{Patch, Text};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        idempotent("update_me", update_me)
            .title("Change your display name")
            .when("Change your display name. Use `set_skills` to set the work that you are offered.")
            .patch("/me")
            .needs(&[MessagePost])
            .personal()
            .refuses(&[Code::Forbidden])
            .example(|_| json!({"display_name": "Ada, night shift"})),
    ]
}

/// The handle or the display name of a member was changed.
///
/// The fields contain the values after the change.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemberUpdated {
    /// Id of the changed member.
    pub member_id: MemberId,
    /// Unique name of the member in the workspace.
    pub handle: String,
    /// Name of the member to show to people; null if the member has none.
    pub display_name: Option<String>,
}

impl Event for MemberUpdated {
    const KIND: &'static str = "MemberUpdated";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let member = event.row_of("members", "member_id")?.copy("handle display_name");
        member.set("changed_at", event.at()).keep()
    }
}

request! {
    /// Changes your display name and returns your member record.
    ///
    /// An absent field keeps its value.
    ///
    /// Fails with 403 `forbidden` if you act as a delegate.
    #[derive(Serialize)]
    struct UpdateMe {
        /// Your name to show to people; null removes it.
        #[serde(default, skip_serializing_if = "Patch::is_keep")]
        display_name: Patch<Text<1, NAME_MAX>>,
    }

    update_me() clears(display_name => clear_display_name) -> Member
}

fn update_me(cx: &mut Write<'_>, input: &UpdateMe) -> Result<Member> {
    let me = load_member(cx, cx.caller().member_id()?)?;
    let display_name = match &input.display_name {
        Patch::Keep => return Ok(me),
        Patch::Clear => None,
        Patch::Set(name) => Some(name.to_string()),
    };
    if me.display_name == display_name {
        return Ok(me);
    }
    let now = cx.now();
    cx.execute(1, SET_DISPLAY_NAME, &[&me.id, &display_name, &now])?;
    let updated =
        MemberUpdated { member_id: me.id, handle: me.handle.clone(), display_name: display_name.clone() };
    cx.emit(Subject::WORKSPACE.about(me.id), &updated)?;
    Ok(Member { display_name, changed_at: Some(now), ..me })
}

const SET_DISPLAY_NAME: &str = "update members set display_name = $2, changed_at = $3 where id = $1";
