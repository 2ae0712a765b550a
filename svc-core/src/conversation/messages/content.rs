//! Content blocks: the parts of a message in addition to its body.
//!
//! The block types are fixed: the service rejects a message with a block of any other type. Blocks are sealed
//! together with the body, and destroyed together with it. Only the service can create the block of a vote.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::argument::{Argument, Field};
use crate::hash::ArtifactSha;
use crate::id::VoteId;
use crate::limits::{CONTENT_BLOCKS_MAX, LANGUAGE_MAX, MESSAGE_MAX, TITLE_MAX, URI_MAX};
use crate::text::{Items, Prose, Text};

/// Metadata of a message, or the data of a block: any JSON object.
pub(crate) type Metadata = Map<String, Value>;

/// The content blocks in a request to post or edit a message.
pub(super) type GivenContent = Items<GivenBlock, CONTENT_BLOCKS_MAX>;

/// A content block that an author can supply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(inline)]
pub enum GivenBlock {
    /// Text in Markdown.
    Text {
        /// The text of the block, in Markdown.
        text: Prose<1, MESSAGE_MAX>,
    },
    /// Source code or program output.
    Code {
        /// The code or the output.
        text: Prose<1, MESSAGE_MAX>,
        /// Programming language of the code, such as `rust`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        language: Option<Text<1, LANGUAGE_MAX>>,
    },
    /// A link to a resource.
    ResourceLink {
        /// The URI of the resource.
        uri: Text<1, URI_MAX>,
        /// Name of the resource.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<Text<1, TITLE_MAX>>,
    },
    /// Data for programs: any JSON object.
    Data {
        /// The JSON object. Numbers of 2^53 or more are rejected: send them as strings.
        data: Metadata,
    },
    /// A reference to an artifact.
    Artifact {
        /// SHA-256 of the artifact's bytes, as 64 hex digits in lower case.
        sha: ArtifactSha,
        /// Title of the artifact.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<Text<1, TITLE_MAX>>,
    },
}

/// A content block of a message, such as text in Markdown or a link.
#[derive(Clone, Debug)]
pub struct ContentBlock(serde_json::Value);

impl ContentBlock {
    /// Creates a block of text in Markdown.
    pub fn text(text: impl Into<String>) -> Self {
        Self(json!({"type": "text", "text": text.into()}))
    }

    /// Creates a block of source code, or of the output of a program.
    pub fn code(text: impl Into<String>) -> Self {
        Self(json!({"type": "code", "text": text.into()}))
    }

    /// Creates a block of source code in a language, such as `rust`.
    pub fn code_in(language: impl Into<String>, text: impl Into<String>) -> Self {
        Self(json!({"type": "code", "text": text.into(), "language": language.into()}))
    }

    /// Creates a block with the address of a resource.
    pub fn link(uri: impl Into<String>) -> Self {
        Self(json!({"type": "resource_link", "uri": uri.into()}))
    }

    /// Creates a block with a JSON object for programs.
    pub fn data(data: serde_json::Value) -> Self {
        Self(json!({"type": "data", "data": data}))
    }

    /// Creates a block with the artifact that has this SHA-256, as 64 hex digits in lower case.
    pub fn artifact(sha: impl Into<String>) -> Self {
        Self(json!({"type": "artifact", "sha": sha.into()}))
    }
}

impl Field for GivenBlock {}

impl Argument<GivenBlock> for ContentBlock {
    fn value(self) -> serde_json::Value {
        self.0
    }
}

/// A content block that only the service creates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(inline)]
pub enum ServiceBlock {
    /// A vote: its question and its options.
    Vote {
        /// Id of the vote.
        vote_id: VoteId,
        /// The question of the vote.
        question: String,
        /// Texts of the options, in the order of their indexes, which start at 0.
        options: Vec<String>,
    },
}

/// A content block of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Block {
    /// A block supplied by the author.
    Given(GivenBlock),
    /// A block created by the service.
    Own(ServiceBlock),
}

/// Converts the blocks supplied by an author into blocks of a message.
pub(super) fn to_blocks(content: Option<&GivenContent>) -> Vec<Block> {
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
            let stored = serde_json::to_value(super::to_blocks(Some(&given))).unwrap();
            assert_eq!(stored, json!([block]));
            assert!(
                serde_json::from_value::<Vec<Block>>(stored)
                    .is_ok_and(|read| read == super::to_blocks(Some(&given)))
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
