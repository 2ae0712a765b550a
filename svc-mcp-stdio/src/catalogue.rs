//! Builds the tools that clients see from the operation table, once, and lists them.
//!
//! Each tool is encoded once for each [`ToolShape`]. A list of tools concatenates the encoded tools, and is
//! cached for its audience.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::{Value, json};
use svc_core::capability::Capabilities;
use svc_core::op::{Effect, Operation, Table, mcp};

use crate::response::RESPONSE_END;
use crate::revision::Revision;
use crate::tool_filter::ToolFilter;

/// Maximum cached lists of tools.
const CACHED_LISTS_MAX: usize = 64;

/// Tool of the catalogue, with the operation that the tool calls.
#[derive(Debug)]
pub(crate) struct CatalogueEntry {
    pub operation: Arc<Operation>,
    /// Encoded tool in each [`ToolShape`].
    shapes: [Bytes; ToolShape::ALL.len()],
}

impl CatalogueEntry {
    fn new(operation: &Arc<Operation>) -> Self {
        let shape = |shape: ToolShape| Bytes::from(shape.tool_value(operation).to_string());
        Self { operation: Arc::clone(operation), shapes: ToolShape::ALL.map(shape) }
    }

    /// Returns whether a call of the tool may be parked.
    pub fn is_wait(&self) -> bool {
        self.operation.effect() == Effect::Wait
    }

    /// Returns whether a call of the tool may change data.
    pub fn is_change(&self) -> bool {
        !self.operation.effect().is_read_only()
    }
}

/// Form of a tool in a list, which determines the members of the tool's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ToolShape {
    /// Without titles and output schemas, for revision 2024-11-05.
    Plain = 0,
    /// With all members except the card.
    Full = 1,
    /// With the card that shows the tool's result, for clients that show cards.
    WithCard = 2,
}

impl ToolShape {
    const ALL: [Self; 3] = [Self::Plain, Self::Full, Self::WithCard];

    /// Returns the shape for a client of this revision.
    pub fn for_client(revision: Revision, shows_cards: bool) -> Self {
        match (revision.has_structured_content(), shows_cards) {
            (false, _) => Self::Plain,
            (true, false) => Self::Full,
            (true, true) => Self::WithCard,
        }
    }

    fn tool_value(self, operation: &Operation) -> Value {
        let mut tool = mcp::tool(operation);
        let Some(members) = tool.as_object_mut() else { return tool };
        match self {
            Self::Plain => {
                members.remove("title");
                members.remove("outputSchema");
                members.remove("_meta");
            }
            Self::Full => {}
            Self::WithCard if CARD_TOOLS.contains(&operation.name()) => {
                let meta = members.entry("_meta").or_insert_with(|| json!({}));
                if let Some(meta) = meta.as_object_mut() {
                    meta.insert("ui".to_owned(), json!({"resourceUri": CARD_URI}));
                }
            }
            Self::WithCard => {}
        }
        tool
    }
}

/// URI of the card that shows an approval gate.
pub(crate) const CARD_URI: &str = "ui://svc/approval-card.html";
/// Tools whose results the card shows.
const CARD_TOOLS: [&str; 2] = ["approval_decide", "get_approval_gate"];

/// Properties of a caller that determine the caller's list of tools.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ToolAudience {
    /// Capabilities of the caller's credential; `None` if the list does not depend on capabilities.
    pub capabilities: Option<Capabilities>,
    /// Whether the caller has no credential.
    pub is_anonymous: bool,
    pub view: ToolFilter,
    pub shape: ToolShape,
}

impl ToolAudience {
    fn can_see(&self, operation: &Operation) -> bool {
        let is_open = !self.is_anonymous || operation.is_open_to_anonymous();
        let can_call = self.capabilities.is_none_or(|held| operation.access().needs.is_satisfied_by(held));
        is_open && can_call && self.view.shows(operation)
    }
}

/// Start of the result member that lists the tools.
const LIST_START: &[u8] = br#""tools":["#;

/// All tools, sorted by name.
#[derive(Debug)]
pub(crate) struct Catalogue {
    entries: Vec<Arc<CatalogueEntry>>,
    lists: Mutex<CachedLists>,
}

impl Catalogue {
    /// Encodes the tools for the operations of `table`.
    pub fn from_table(table: &Table) -> Self {
        let tools = mcp::tools(table, Capabilities::all());
        Self {
            entries: tools.map(|row| Arc::new(CatalogueEntry::new(row))).collect(),
            lists: Mutex::default(),
        }
    }

    /// Returns the tool called `name`.
    pub fn entry(&self, name: &str) -> Option<&Arc<CatalogueEntry>> {
        let index = self.entries.binary_search_by(|entry| entry.operation.name().cmp(name)).ok()?;
        self.entries.get(index)
    }

    /// Returns the names of the tools that the filter `view` shows.
    pub fn visible_names(&self, view: &ToolFilter) -> impl Iterator<Item = &str> {
        let operations = self.entries.iter().map(|entry| &entry.operation);
        operations.filter(|operation| view.shows(operation)).map(|operation| operation.name())
    }

    /// Returns the encoded list of the tools that an audience sees, up to the end of the `tools/list`
    /// response.
    ///
    /// The list is never split into pages, because the reference clients read only one page.
    pub fn list(&self, audience: ToolAudience) -> Bytes {
        if let Some(list) = self.cached_lists().get(&audience) {
            return list;
        }
        let mut list = LIST_START.to_vec();
        for entry in self.entries.iter().filter(|entry| audience.can_see(&entry.operation)) {
            if list.len() > LIST_START.len() {
                list.push(b',');
            }
            if let Some(bytes) = entry.shapes.get(audience.shape as usize) {
                list.extend_from_slice(bytes);
            }
        }
        list.push(b']');
        list.extend_from_slice(RESPONSE_END);
        let list = Bytes::from(list);
        self.cached_lists().put(audience, list.clone());
        list
    }

    fn cached_lists(&self) -> std::sync::MutexGuard<'_, CachedLists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cache of the most recently requested lists.
#[derive(Debug, Default)]
struct CachedLists {
    by_audience: HashMap<ToolAudience, (Bytes, u64)>,
    uses: u64,
}

impl CachedLists {
    fn get(&mut self, audience: &ToolAudience) -> Option<Bytes> {
        self.uses += 1;
        let (list, used) = self.by_audience.get_mut(audience)?;
        *used = self.uses;
        Some(list.clone())
    }

    /// Caches a list, and evicts the least recently requested list if the cache is full.
    fn put(&mut self, audience: ToolAudience, list: Bytes) {
        if self.by_audience.len() >= CACHED_LISTS_MAX {
            let oldest = self.by_audience.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(audience) = oldest.map(|(audience, _)| audience.clone()) {
                self.by_audience.remove(&audience);
            }
        }
        self.by_audience.insert(audience, (list, self.uses));
    }
}

#[cfg(test)]
mod tests {
    use svc_core::operation_table;

    use super::*;
    use crate::profiles::Profile;
    use crate::tool_filter::ToolChoice;

    fn everybody(shape: ToolShape) -> ToolAudience {
        ToolAudience {
            capabilities: Some(Capabilities::all()),
            is_anonymous: false,
            view: ToolFilter::default(),
            shape,
        }
    }

    fn listed(catalogue: &Catalogue, audience: ToolAudience) -> Vec<Value> {
        let list = catalogue.list(audience);
        let list =
            list.strip_prefix(br#""tools":"#).and_then(|list| list.strip_suffix(RESPONSE_END)).unwrap();
        serde_json::from_slice(list).unwrap()
    }

    #[test]
    fn each_audience_sees_its_own_list() {
        let catalogue = Catalogue::from_table(&operation_table().unwrap());
        let all = listed(&catalogue, everybody(ToolShape::Full));
        assert!(!json!(all).to_string().contains("x-mcp-header"), "the offer says that there are none");
        assert!(all.iter().all(|tool| tool["outputSchema"].is_object() && tool["title"].is_string()));
        let plain = listed(&catalogue, everybody(ToolShape::Plain));
        assert_eq!(plain.len(), all.len());
        assert!(plain.iter().all(|tool| tool.get("outputSchema").is_none() && tool.get("title").is_none()));
        let few = ToolAudience { capabilities: Some(Capabilities::NONE), ..everybody(ToolShape::Full) };
        assert!(listed(&catalogue, few).len() < all.len());
        let worker = ToolAudience {
            capabilities: None,
            view: ToolFilter::for_profile(Profile::Worker),
            ..everybody(ToolShape::Full)
        };
        assert_eq!(listed(&catalogue, worker).len(), Profile::Worker.tools().len());
        let card = listed(&catalogue, everybody(ToolShape::WithCard));
        let with_card: Vec<&Value> = card.iter().filter(|tool| tool["_meta"].get("ui").is_some()).collect();
        assert_eq!(with_card.len(), CARD_TOOLS.len());
    }

    #[test]
    fn no_more_than_a_number_of_lists_is_kept() {
        let table = operation_table().unwrap();
        let catalogue = Catalogue::from_table(&table);
        let names: Vec<&str> = table.operations().map(Operation::name).collect();
        let first = everybody(ToolShape::Full);
        for name in names.iter().take(2 * CACHED_LISTS_MAX) {
            let choice = ToolChoice { tools: Some((*name).to_owned()), ..ToolChoice::default() };
            let Ok(view) = ToolFilter::chosen(&table, &choice) else { continue };
            catalogue.list(ToolAudience { view, ..first.clone() });
            catalogue.list(first.clone());
        }
        let kept = catalogue.cached_lists();
        assert_eq!(kept.by_audience.len(), CACHED_LISTS_MAX);
        assert!(kept.by_audience.contains_key(&first), "what is in use stays");
    }
}
