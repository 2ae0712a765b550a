//! Capabilities: the rights that a token grants.
//!
//! The list of capabilities is closed and append-only; an operation declares the capabilities that permit it.
//! Named sets are templates: they are expanded when a token is created and are never stored.
//!
//! Reading requires `workspace:read`, and a subscription to events requires `event:subscribe`. Changing the
//! properties of a channel or thread requires `workspace:write`. Changing a thread's worker, priority or
//! state requires `thread:transition`. Posting and changing messages requires `message:post`. Changing the
//! rights of others requires a capability that ends in `:admin`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Result;
use crate::error::Error;
use crate::store::{FromValue, Param, ToParam, Value};

macro_rules! capabilities {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal),* $(,)?) => {
        /// A single right. Variants are in the order of the stored bit set, so new ones are added at the end.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Capability { $($(#[doc = $doc])* $variant),* }

        impl Capability {
            /// Every capability, in the order of the stored bit set.
            pub const ALL: &[Capability] = &[$(Capability::$variant),*];

            /// Returns the wire name of the capability.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Returns a sentence that describes the rights granted by the capability.
            pub fn grants(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),*).trim_ascii()),* }
            }
        }
    };
}

capabilities! {
    /// Read workspaces, channels, threads, messages, events and audit.
    WorkspaceRead = "workspace:read",
    /// Create and change channels and threads.
    WorkspaceWrite = "workspace:write",
    /// Post messages; edit and withdraw your own.
    MessagePost = "message:post",
    /// Change the course of a thread: transitions, claims, result, priority, dependencies.
    ThreadTransition = "thread:transition",
    /// Upload artifacts, the files that messages refer to.
    ArtifactUpload = "artifact:upload",
    /// Search everything that the credential may read.
    SearchQuery = "search:query",
    /// Receive events as they happen, through a wait or a WebSocket.
    EventSubscribe = "event:subscribe",
    /// Administer tokens, agents and the workspace; purge withdrawn messages.
    TokenAdmin = "token:admin",
    /// Withdraw others' messages; archive channels and change who sees them; confer governance skills.
    ChannelAdmin = "channel:admin",
    /// Deliver events of a federated peer.
    FederationIngest = "federation:ingest",
    /// Administer federated peers.
    FederationAdmin = "federation:admin",
    /// Operate the instance: create workspaces, read its status.
    OperatorGlobal = "operator:global",
    /// Read audit rows of the instance.
    AuditReadGlobal = "audit:read-global",
    /// Accept an approval gate. Never delegatable.
    ApprovalGrant = "approval:grant",
    /// Administer named secrets.
    SecretAdmin = "secret:admin",
    /// Resolve named secrets.
    SecretRead = "secret:read",
}

impl std::str::FromStr for Capability {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|capability| capability.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|capability| capability.name()).collect();
            Error::malformed(format!("unknown capability \"{text}\", expected one of {}", names.join(", ")))
        })
    }
}

impl Serialize for Capability {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Capability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(|error: Error| de::Error::custom(error.detail()))
    }
}

impl JsonSchema for Capability {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Capability".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Self::ALL.iter().map(|capability| capability.name()).collect();
        json_schema!({"type": "string", "enum": names})
    }
}

/// The set of capabilities that a token has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Capabilities(u64);

impl Capabilities {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns the set of every capability.
    pub fn all() -> Self {
        Capability::ALL.iter().copied().collect()
    }

    /// Returns the capabilities of an anonymous caller in a workspace whose public channels are open to all.
    pub fn for_anonymous() -> Self {
        [Capability::WorkspaceRead, Capability::SearchQuery].into_iter().collect()
    }

    /// Returns whether `capability` is in the set.
    pub fn has(self, capability: Capability) -> bool {
        self.0 & Self::bit(capability) != 0
    }

    /// Returns whether this set contains every capability in `other`.
    pub fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Returns this set without `capability`.
    #[must_use]
    pub fn without(self, capability: Capability) -> Self {
        Self(self.0 & !Self::bit(capability))
    }

    /// Returns the union of this set and `other`.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the intersection of this set and `other`.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Iterates over the capabilities in stored order.
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL.iter().copied().filter(move |capability| self.has(*capability))
    }

    fn bit(capability: Capability) -> u64 {
        1 << (capability as u8)
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(items: I) -> Self {
        Self(items.into_iter().fold(0, |bits, capability| bits | Self::bit(capability)))
    }
}

impl Serialize for Capabilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Capabilities {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Ok(Vec::<Capability>::deserialize(deserializer)?.into_iter().collect())
    }
}

impl JsonSchema for Capabilities {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Capabilities".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "array", "items": Capability::json_schema(generator)})
    }
}

impl ToParam for Capabilities {
    fn param(&self) -> Param<'_> {
        Param::Int(i64::from_ne_bytes(self.0.to_ne_bytes()))
    }
}

impl FromValue for Capabilities {
    fn from_value(value: Value) -> Result<Self> {
        i64::from_value(value).map(|bits| Self(u64::from_ne_bytes(bits.to_ne_bytes())))
    }
}

/// A named set of capabilities for creating tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CapabilitySet {
    #[serde(rename = "svc.agent.worker")]
    AgentWorker,
    #[serde(rename = "svc.human.admin")]
    HumanAdmin,
}

impl CapabilitySet {
    /// Every named set.
    pub const ALL: &[CapabilitySet] = &[Self::AgentWorker, Self::HumanAdmin];

    /// Returns the capabilities of a token created from the set.
    pub fn capabilities(self) -> Capabilities {
        match self {
            Self::AgentWorker => [
                Capability::WorkspaceRead,
                Capability::WorkspaceWrite,
                Capability::MessagePost,
                Capability::ThreadTransition,
                Capability::ArtifactUpload,
                Capability::SearchQuery,
                Capability::EventSubscribe,
            ]
            .into_iter()
            .collect(),
            Self::HumanAdmin => {
                Capabilities::all().without(Capability::OperatorGlobal).without(Capability::AuditReadGlobal)
            }
        }
    }

    /// Returns a description of the intended users of the set.
    pub fn description(self) -> &'static str {
        match self {
            Self::AgentWorker => "An agent that takes tasks: reads, creates, claims, posts and transitions.",
            Self::HumanAdmin => {
                "A person who administers a workspace: everything but operating the instance."
            }
        }
    }
}

/// A right that permits a caller to call an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// The credential has this capability.
    Has(Capability),
    /// The caller uses a browser session and no other credential.
    Session,
    /// The caller uses a share ticket.
    Ticket,
    /// The caller is a federated peer.
    Peer,
    /// The caller is the app that marks pull requests as ready.
    MarkReadyApp,
}

impl Right {
    /// The rights that are not capabilities, in the order in which expressions contain them.
    const OTHERS: [Right; 4] = [Self::Session, Self::Ticket, Self::Peer, Self::MarkReadyApp];

    /// Returns the name of the right in contracts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Has(capability) => capability.name(),
            Self::Session => "session",
            Self::Ticket => "ShareTicket",
            Self::Peer => "peer",
            Self::MarkReadyApp => "app:mark-ready",
        }
    }
}

impl From<Capability> for Right {
    fn from(capability: Capability) -> Self {
        Self::Has(capability)
    }
}

/// A set of rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    capabilities: Capabilities,
    others: [bool; Right::OTHERS.len()],
}

impl From<Capabilities> for Rights {
    fn from(capabilities: Capabilities) -> Self {
        Self { capabilities, others: [false; Right::OTHERS.len()] }
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(items: I) -> Self {
        items.into_iter().fold(Capabilities::NONE.into(), Self::with)
    }
}

impl Rights {
    /// Returns this set with `right` added.
    #[must_use]
    pub fn with(mut self, right: Right) -> Self {
        if let Right::Has(capability) = right {
            self.capabilities = self.capabilities.union(std::iter::once(capability).collect());
        }
        for (has, other) in self.others.iter_mut().zip(Right::OTHERS) {
            *has |= other == right;
        }
        self
    }

    /// Returns whether `right` is in the set.
    pub fn has(self, right: Right) -> bool {
        self.iter().any(|held| held == right)
    }

    /// Iterates over the rights: first the capabilities in stored order, then all other rights.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        let others =
            Right::OTHERS.into_iter().zip(self.others).filter_map(|(right, has)| has.then_some(right));
        self.capabilities.iter().map(Right::Has).chain(others)
    }
}

/// The requirement for the caller of an operation, which is checked before all other requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// No credential at all.
    Nothing,
    /// Any valid credential, whatever its capabilities.
    AnyCredential,
    /// A credential with at least one of these rights.
    OneOf(Rights),
}

impl Needs {
    /// Returns the requirement of at least one of the rights in `any`.
    pub fn one_of<R: Into<Right> + Copy>(any: &[R]) -> Self {
        Self::OneOf(any.iter().map(|right| (*right).into()).collect())
    }

    /// Returns whether a caller with the rights `held` meets the requirement.
    pub fn is_satisfied_by(self, held: impl Into<Rights>) -> bool {
        let held = held.into();
        match self {
            Self::Nothing | Self::AnyCredential => true,
            Self::OneOf(any) => any.iter().any(|right| held.has(right)),
        }
    }

    /// Returns whether `right` alone meets the requirement.
    pub fn names(self, right: Right) -> bool {
        matches!(self, Self::OneOf(any) if any.has(right))
    }

    /// Returns whether some capability alone meets the requirement.
    pub fn is_satisfied_by_a_capability(self) -> bool {
        matches!(self, Self::OneOf(any) if any.capabilities != Capabilities::NONE)
    }

    /// Returns the requirement as an expression for contracts and documents: `none`, `any`, or names joined
    /// by `|`.
    pub fn expression(self) -> String {
        match self {
            Self::Nothing => "none".to_owned(),
            Self::AnyCredential => "any".to_owned(),
            Self::OneOf(any) => any.iter().map(Right::name).collect::<Vec<_>>().join("|"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_sets_nest() {
        for capability in Capability::ALL {
            assert_eq!(capability.name().parse::<Capability>().unwrap(), *capability);
            assert!(!capability.grants().is_empty());
        }
        let worker = CapabilitySet::AgentWorker.capabilities();
        let admin = CapabilitySet::HumanAdmin.capabilities();
        assert!(admin.covers(worker) && !worker.covers(admin));
        assert!(!admin.has(Capability::OperatorGlobal));
    }

    #[test]
    fn one_right_of_several_is_enough_and_they_are_named_in_order() {
        let both = Needs::one_of(&[Right::Peer, Right::Has(Capability::TokenAdmin)]);
        assert_eq!(both.expression(), "token:admin|peer");
        assert_eq!(Needs::one_of(&[Right::MarkReadyApp]).expression(), "app:mark-ready");
        let admin: Capabilities = [Capability::TokenAdmin].into_iter().collect();
        let peer: Rights = [Right::Peer].into_iter().collect();
        let session = Rights::from(CapabilitySet::AgentWorker.capabilities()).with(Right::Session);
        assert!(both.is_satisfied_by(admin) && both.is_satisfied_by(peer) && !both.is_satisfied_by(session));
        assert!(
            both.names(Right::Peer) && !both.names(Right::Session) && both.is_satisfied_by_a_capability()
        );
        assert!(!Needs::one_of(&[Right::Session]).is_satisfied_by_a_capability());
        assert!(Needs::one_of(&[Right::Session]).is_satisfied_by(session));
    }
}
