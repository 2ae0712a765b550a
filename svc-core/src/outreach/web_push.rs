//! Web push: the browsers in which members are notified.

use crate::op::{Feature, Records};

pub(crate) fn feature() -> Feature {
    Feature::new().records(vec![Records::table("web_push", "id").through("member_id", "members").stays()])
}
