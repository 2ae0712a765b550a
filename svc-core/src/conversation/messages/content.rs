//! Content: the blocks of a message beside its body.
//!
//! Their types are the contract: what is in none of them is rejected when a message is posted. They are
//! sealed with the body, and gone with it. The block of a vote is the service's own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hash::ArtifactSha;
use crate::id::VoteId;
use crate::limits::{CONTENT_BLOCKS_MAX, LANGUAGE_MAX, MESSAGE_MAX, TITLE_MAX, URI_MAX};
use crate::text::{Items, Prose, Text};

/// Any JSON object.
pub(crate) type Metadata = Map<String, Value>;

/// The blocks that an author gives.
pub(super) type GivenContent = Items<GivenBlock, CONTENT_BLOCKS_MAX>;

/// A block that an author gives.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(inline)]
pub(crate) enum GivenBlock {
    /// Text. Markdown is welcome.
    Text {
        /// The text.
        text: Prose<1, MESSAGE_MAX>,
    },
    /// Source code, or what a program has printed.
    Code {
        /// The code.
        text: Prose<1, MESSAGE_MAX>,
        /// What language it is in, such as `rust`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        language: Option<Text<1, LANGUAGE_MAX>>,
    },
    /// An address of something to read.
    ResourceLink {
        /// The address.
        uri: Text<1, URI_MAX>,
        /// What people call it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<Text<1, TITLE_MAX>>,
    },
    /// Any JSON object for programs.
    Data {
        /// The object. Numbers from 2^53 on are rejected: send them as strings.
        data: Metadata,
    },
    /// An artifact.
    Artifact {
        /// The SHA-256 of its bytes, as 64 hex digits in lower case.
        sha: ArtifactSha,
        /// What people call it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<Text<1, TITLE_MAX>>,
    },
}

/// A block that the service makes.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum OwnBlock {
    /// The question of a vote.
    Vote {
        /// The vote.
        vote_id: VoteId,
        /// What is asked.
        question: String,
        /// What can be chosen, in the order of their indexes from 0.
        options: Vec<String>,
    },
}

/// A block of a message's content.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Block {
    /// One that its author gave.
    Given(GivenBlock),
    /// One that the service made.
    Own(OwnBlock),
}

/// Returns the blocks that an author gives, as a message has them.
pub(super) fn given(content: Option<&GivenContent>) -> Vec<Block> {
    content.into_iter().flat_map(|blocks| blocks.iter()).cloned().map(Block::Given).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_block_is_one_of_the_types() {
        let sha = "ab".repeat(32);
        for block in [
            json!({"type": "text", "text": "two\nlines"}),
            json!({"type": "code", "text": "fn main() {}", "language": "rust"}),
            json!({"type": "code", "text": "$ make"}),
            json!({"type": "resource_link", "uri": "https://example.org/a", "name": "The grammar"}),
            json!({"type": "data", "data": {"a": [1, null]}}),
            json!({"type": "artifact", "sha": sha, "title": "Screenshot"}),
        ] {
            let given: GivenContent = serde_json::from_value(json!([block])).unwrap();
            let stored = serde_json::to_value(super::given(Some(&given))).unwrap();
            assert_eq!(stored, json!([block]));
            assert!(
                serde_json::from_value::<Vec<Block>>(stored)
                    .is_ok_and(|read| read == super::given(Some(&given)))
            );
        }
        let vote =
            json!({"type": "vote", "vote_id": uuid::Uuid::from_u128(1), "question": "?", "options": ["a"]});
        assert!(serde_json::from_value::<Block>(vote.clone()).is_ok());
        for block in [
            vote,
            json!({"type": "text"}),
            json!({"type": "text", "text": ""}),
            json!({"type": "text", "text": "a", "language": "rust"}),
            json!({"type": "image", "text": "a"}),
            json!({"text": "a"}),
            json!({"type": "data", "data": [1]}),
            json!({"type": "artifact", "sha": "AB".repeat(32)}),
            json!({"type": "resource_link", "uri": "a\nb"}),
        ] {
            assert!(serde_json::from_value::<GivenContent>(json!([block])).is_err(), "{block}");
        }
        let blocks = |count: usize| Value::from(vec![json!({"type": "text", "text": "a"}); count]);
        assert!(serde_json::from_value::<GivenContent>(blocks(CONTENT_BLOCKS_MAX)).is_ok());
        assert!(serde_json::from_value::<GivenContent>(blocks(CONTENT_BLOCKS_MAX + 1)).is_err());
    }
}
