//! An operation for tests that ends all claims of a member, as its deactivation does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_core::capability::Capability::TokenAdmin;
use svc_core::id::MemberId;
use svc_core::op::{Feature, Write, write};
use svc_core::{ClaimEnd, Result, end_all_claims};

/// Ends all claims of a member.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SendHome {
    /// The member.
    member_id: MemberId,
}

svc_core::without_requests! { SendHome }

crate::keeps_nothing!(SendHome => Value);

fn send_home(cx: &mut Write<'_>, input: &SendHome) -> Result<Value> {
    Ok(json!({"ended": end_all_claims(cx, input.member_id, ClaimEnd::Deactivated)?}))
}

/// Returns the feature with the operation `send_home`.
pub fn features() -> Vec<Feature> {
    let operation = write("send_home", send_home)
        .title("Send a member home")
        .post("/members/{member_id}/home")
        .needs(&[TokenAdmin])
        .example(|w| json!({"member_id": w.id("agent")}));
    vec![Feature::new().operations("home", vec![operation])]
}
