//! Requests for all operations, their outputs, and the other types in them.
//!
//! Each operation has a request with the operation's name: [`CreateThread`] is the request for
//! `create_thread`. [`new`](CreateThread::new) takes the required fields, and a method named like the field
//! sets each other field. The request's [`Output`](Request::Output) is what a call returns. A value that is
//! not valid, such as a title that is too long, makes the call fail with 400 `malformed-request`.
//!
//! The types are grouped by area, and all of them are also listed here.

pub use audit::*;
pub use conversation::*;
pub use coordination::*;
pub use gates::*;
pub use identity::*;
pub use outreach::*;
pub use portability::*;
pub use retention::*;
pub use shared::*;
pub use sharing::*;
pub use stream::*;

/// Threads, claims, results, checkpoints, budgets, footprints, slots and direct messages.
pub mod coordination {
    pub use crate::coordination::budget::{BudgetLimit, BudgetLimits, BudgetRemaining, BudgetUsed};
    pub use crate::coordination::budget_ops::spawn::{
        SpawnBudget, get_spawn_budget::GetSpawnBudget, set_spawn_budget::SetSpawnBudget,
    };
    pub use crate::coordination::budget_ops::thread::{
        ThreadBudget, get_thread_budget::GetThreadBudget, set_thread_budget::SetThreadBudget,
        update_thread_budget::UpdateThreadBudget,
    };
    pub use crate::coordination::budget_ops::usage::sums::{
        UsageSum, WorkspaceUsage, get_workspace_usage::GetWorkspaceUsage,
    };
    pub use crate::coordination::budget_ops::usage::{
        ReportedUsage, UsageReport, list_thread_usage::ListThreadUsage, report_usage::ReportUsage,
    };
    pub use crate::coordination::checkpoint::{Checkpoint, StoredContent};
    pub use crate::coordination::claim_ops::{
        ClaimWithContext, NextClaim, claim_next_thread::ClaimNextThread,
        claim_next_workspace_thread::ClaimNextWorkspaceThread, claim_thread::ClaimThread,
    };
    pub use crate::coordination::claims::holder_ops::{
        Claim, acknowledge_claim::AcknowledgeClaim, get_claim::GetClaim, hand_off_claim::HandOffClaim,
        release_claim::ReleaseClaim, renew_claim::RenewClaim,
    };
    pub use crate::coordination::claims::lists::list_active_claims::ListActiveClaims;
    pub use crate::coordination::claims::{ClaimedThread, Pin};
    pub use crate::coordination::conflicts::DeferralReason;
    pub use crate::coordination::context::{Fsm, ThreadContext, get_thread_context::GetThreadContext};
    pub use crate::coordination::dead_letters::{
        DeadLetter, list_dead_letters::ListDeadLetters, requeue_dead_letter::RequeueDeadLetter,
    };
    pub use crate::coordination::deferred::{DeferredThread, list_deferred_threads::ListDeferredThreads};
    pub use crate::coordination::dependencies::{
        Dependency, add_thread_dependency::AddThreadDependency,
        list_thread_dependencies::ListThreadDependencies, remove_thread_dependency::RemoveThreadDependency,
    };
    pub use crate::coordination::dms::{
        Dm, LeftDm, add_dm_participant::AddDmParticipant, leave_dm::LeaveDm, list_dms::ListDms,
        open_dm::OpenDm,
    };
    pub use crate::coordination::footprint::names::ItemKind;
    pub use crate::coordination::footprint::repo::Repo;
    pub use crate::coordination::footprint::value::{
        Footprint, FootprintItem, FootprintMode, new_footprint::NewFootprint, new_item::NewFootprintItem,
    };
    pub use crate::coordination::footprint_ops::{
        FootprintCheck, check_footprint::CheckFootprint, get_thread_footprint::GetThreadFootprint,
        set_thread_footprint::SetThreadFootprint,
    };
    pub use crate::coordination::freeze::{
        FrozenMember, freeze_member::FreezeMember, list_frozen_members::ListFrozenMembers,
        unfreeze_member::UnfreezeMember,
    };
    pub use crate::coordination::lifecycle::cancel::cancel_thread::CancelThread;
    pub use crate::coordination::lifecycle::change::{
        set_required_skills::SetRequiredSkills, set_thread_owner::SetThreadOwner,
        set_thread_priority::SetThreadPriority, update_thread::UpdateThread,
    };
    pub use crate::coordination::lifecycle::create::{
        CreatedThread, FirstMessage, create_child_thread::CreateChildThread, create_thread::CreateThread,
    };
    pub use crate::coordination::lifecycle::transition::{
        StateAfterTransition, ThreadAction, TransitionReason, transition_thread::TransitionThread,
    };
    pub use crate::coordination::notices::Notice;
    pub use crate::coordination::obstacles::{Conflict, ConflictReason};
    pub use crate::coordination::occupancy::{
        BusyMember, IdleMember, Occupancy, ThreadCounts, get_workspace_occupancy::GetWorkspaceOccupancy,
    };
    pub use crate::coordination::pauses::{
        RepoPause, list_repo_pauses::ListRepoPauses, pause_repo::PauseRepo, resume_repo::ResumeRepo,
    };
    pub use crate::coordination::results::{
        FollowUpTransition, NewResult, ThreadResult, get_thread_result::GetThreadResult,
        list_thread_results::ListThreadResults, set_thread_result::SetThreadResult,
        wait_for_result::WaitForResult,
    };
    pub use crate::coordination::slots::{
        SlotCapacity, SlotHolder, SlotUse, UsedSlot, clear_slot_capacity::ClearSlotCapacity,
        list_slots::ListSlots, set_slot_capacity::SetSlotCapacity,
    };
    pub use crate::coordination::thread_reads::{
        ThreadDetail, get_thread::GetThread, list_child_threads::ListChildThreads,
        list_thread_events::ListThreadEvents, list_threads::ListThreads,
    };
    pub use crate::coordination::thread_row::{HeldClaim, Thread, ThreadState};
    pub use crate::coordination::token_revocation::{ClaimHandling, Revocation, revoke_token::RevokeToken};
    pub use crate::coordination::wait_for_ready::{ReadyThread, wait_for_ready::WaitForReady};
    pub use crate::coordination::workspace_threads::list_workspace_threads::ListWorkspaceThreads;
}

/// Channels, messages, reactions, votes, memory blocks, follows, presence and the inbox.
pub mod conversation {
    pub use crate::conversation::addresses::{AddressIds, AddressKind, ResolvedUri, resolve_uri::ResolveUri};
    pub use crate::conversation::boot::{
        ChannelBoot, get_channel_boot::GetChannelBoot, set_channel_boot::SetChannelBoot,
    };
    pub use crate::conversation::channels::change::{
        archive_channel::ArchiveChannel, unarchive_channel::UnarchiveChannel, update_channel::UpdateChannel,
    };
    pub use crate::conversation::channels::direct::{ListedDm, Participant};
    pub use crate::conversation::channels::members::{
        ChannelMember, RemovedChannelMember, add_channel_member::AddChannelMember,
        list_channel_members::ListChannelMembers, remove_channel_member::RemoveChannelMember,
    };
    pub use crate::conversation::channels::{
        Channel, ChannelKind, create_channel::CreateChannel, get_channel::GetChannel,
        list_channels::ListChannels,
    };
    pub use crate::conversation::follows::{
        FollowEntry, FollowedKind, RemovedFollow, follow::Follow, list_follows::ListFollows,
        unfollow::Unfollow,
    };
    pub use crate::conversation::glossary::{
        GlossaryTerm, delete_glossary_term::DeleteGlossaryTerm, list_glossary::ListGlossary,
        set_glossary_term::SetGlossaryTerm,
    };
    pub use crate::conversation::inbox::InboxReason;
    pub use crate::conversation::memory::attached::{
        AttachedBlock, Attachment, attach_memory_block::AttachMemoryBlock,
        detach_memory_block::DetachMemoryBlock, list_thread_memory_blocks::ListThreadMemoryBlocks,
    };
    pub use crate::conversation::memory::change::{
        create_memory_block::CreateMemoryBlock, delete_memory_block::DeleteMemoryBlock,
        set_memory_block::SetMemoryBlock,
    };
    pub use crate::conversation::memory::wait::wait_for_memory_block::WaitForMemoryBlock;
    pub use crate::conversation::memory::{
        MemoryBlock, get_memory_block::GetMemoryBlock, list_memory_blocks::ListMemoryBlocks,
    };
    pub use crate::conversation::mentions::{MentionedMember, UnreachedMention, WhyNot};
    pub use crate::conversation::messages::citations::CitationState;
    pub use crate::conversation::messages::content::{Block, ContentBlock, GivenBlock, ServiceBlock};
    pub use crate::conversation::messages::edit::{
        EarlierText, EditedMessage, edit_message::EditMessage, list_message_edits::ListMessageEdits,
    };
    pub use crate::conversation::messages::event_content::{EventMessage, OpenedEvent};
    pub use crate::conversation::messages::marks::ReactionCount;
    pub use crate::conversation::messages::pins::{
        ChannelPin, PinnedMessage, UnpinnedMessage, list_pins::ListPins, pin_message::PinMessage,
        unpin_message::UnpinMessage,
    };
    pub use crate::conversation::messages::post::{PostedMessage, post_message::PostMessage};
    pub use crate::conversation::messages::reactions::{
        EmojiReactions, Reaction, RemovedReaction, add_reaction::AddReaction, list_reactions::ListReactions,
        remove_reaction::RemoveReaction,
    };
    pub use crate::conversation::messages::withdraw::{
        PurgedMessage, delete_message::DeleteMessage, purge_message::PurgeMessage,
    };
    pub use crate::conversation::messages::{
        ContextMessage, Message, get_message::GetMessage, list_messages::ListMessages,
    };
    pub use crate::conversation::notifications::item::{InboxItem, InboxPage};
    pub use crate::conversation::notifications::list::{list_inbox::ListInbox, list_mentions::ListMentions};
    pub use crate::conversation::notifications::mark::{
        RemainingUnread, mark_inbox_read::MarkInboxRead, mark_mentions_read::MarkMentionsRead,
    };
    pub use crate::conversation::notifications::wait::wait_for_mention::WaitForMention;
    pub use crate::conversation::presence::{
        HeartbeatReceipt, OnlineMember, PresenceStatus, list_presence::ListPresence,
        send_heartbeat::SendHeartbeat,
    };
    pub use crate::conversation::votes::ballot::cast_vote::CastVote;
    pub use crate::conversation::votes::close::close_vote::CloseVote;
    pub use crate::conversation::votes::{
        Vote, VoteOption, create_vote::CreateVote, get_vote::GetVote, list_votes::ListVotes,
    };
}

/// Reviews, approval gates, land gates, relations between messages, and the context of a workspace.
pub mod gates {
    pub use crate::gates::approvals::decide::{Decision, DecisionResult, approval_decide::ApprovalDecide};
    pub use crate::gates::approvals::link::DecisionLink;
    pub use crate::gates::approvals::{
        ApprovalGate, GateState, get_approval_gate::GetApprovalGate, list_approval_gates::ListApprovalGates,
        request_approval::RequestApproval,
    };
    pub use crate::gates::backlinks::{Backlink, list_message_backlinks::ListMessageBacklinks};
    pub use crate::gates::commit::CommitHash;
    pub use crate::gates::context::{WorkspaceContext, get_workspace_context::GetWorkspaceContext};
    pub use crate::gates::land_gate::advice::{LandAdvice, request_land_advice::RequestLandAdvice};
    pub use crate::gates::land_gate::{
        LandGate, LandVerdict, clear_land_gate::ClearLandGate, get_land_gate::GetLandGate,
        require_land_gate::RequireLandGate, set_land_gate::SetLandGate,
    };
    pub use crate::gates::relations::list::list_message_relations::ListMessageRelations;
    pub use crate::gates::relations::remove::remove_relation::RemoveRelation;
    pub use crate::gates::relations::resolve::resolve_relation::ResolveRelation;
    pub use crate::gates::relations::{Relation, RelationKind, relate_message::RelateMessage};
    pub use crate::gates::reviews::findings::{
        Finding, Resolution, ResolvedFinding, Severity, resolve_finding::ResolveFinding,
    };
    pub use crate::gates::reviews::requirement::{
        ReviewRequirement, Reviewer, add_reviewer::AddReviewer, get_review_requirement::GetReviewRequirement,
        list_reviewers::ListReviewers, remove_reviewer::RemoveReviewer,
        set_review_requirement::SetReviewRequirement,
    };
    pub use crate::gates::reviews::status::{
        ReviewStatus, WeighedReview, get_review_status::GetReviewStatus, list_reviews::ListReviews,
    };
    pub use crate::gates::reviews::submit::{Review, new_finding::NewFinding, submit_review::SubmitReview};
    pub use crate::gates::reviews::verdicts::Verdict;
    pub use crate::gates::verdict_rules::Objection;
}

/// Workspaces, members, tokens, capabilities, delegation, apps and the state of the server.
pub mod identity {
    pub use crate::identity::apps::installations::{
        Installation, InstallationRevocation, NewInstallation, install_app::InstallApp,
        list_app_installations::ListAppInstallations, revoke_app_installation::RevokeAppInstallation,
    };
    pub use crate::identity::apps::tokens::{AppToken, mint_app_token::MintAppToken};
    pub use crate::identity::apps::{App, create_app::CreateApp, list_apps::ListApps};
    pub use crate::identity::delegation::create::create_delegation_grant::CreateDelegationGrant;
    pub use crate::identity::delegation::exchange::delegate_token::DelegateToken;
    pub use crate::identity::delegation::policy::{
        DelegationPolicy, get_delegation_policy::GetDelegationPolicy,
        set_delegation_policy::SetDelegationPolicy,
    };
    pub use crate::identity::delegation::revoke::{
        GrantRevocation, revoke_delegation_grant::RevokeDelegationGrant,
    };
    pub use crate::identity::delegation::{DelegationGrant, list_delegation_grants::ListDelegationGrants};
    pub use crate::identity::enrol::{MemberWithToken, create_agent::CreateAgent};
    pub use crate::identity::members::frozen::MemberFreeze;
    pub use crate::identity::members::governance::{confer_skill::ConferSkill, revoke_skill::RevokeSkill};
    pub use crate::identity::members::profile::update_me::UpdateMe;
    pub use crate::identity::members::skills::{
        GovernanceSkill, SkillCount, list_skills::ListSkills, set_skills::SetSkills,
    };
    pub use crate::identity::members::{
        Member, MemberKind, get_member::GetMember, list_members::ListMembers,
    };
    pub use crate::identity::operator::{
        OperatorStatus, ServerPhase, get_operator_status::GetOperatorStatus,
    };
    pub use crate::identity::setup::{NewWorkspace, create_workspace::CreateWorkspace};
    pub use crate::identity::tokens::attenuate::attenuate_token::AttenuateToken;
    pub use crate::identity::tokens::mint::mint_token::MintToken;
    pub use crate::identity::tokens::quotas::{Quotas, new_quotas::NewQuotas};
    pub use crate::identity::tokens::rotate::rotate_token::RotateToken;
    pub use crate::identity::tokens::{MintedToken, Token, list_tokens::ListTokens};
    pub use crate::identity::whoami::{
        Me, NamedCapabilitySet, list_capability_sets::ListCapabilitySets, whoami::Whoami,
    };
    pub use crate::identity::workspaces::{
        Workspace, get_workspace::GetWorkspace, list_workspaces::ListWorkspaces,
        set_workspace_handle::SetWorkspaceHandle, update_workspace::UpdateWorkspace,
    };
}

/// Notification preferences, email addresses and web push.
pub mod outreach {
    pub use crate::outreach::delivery_address::{
        Delivery, DeliveryMode, confirm_delivery_address::ConfirmDeliveryAddress,
        set_delivery_address::SetDeliveryAddress,
    };
    pub use crate::outreach::hours::{
        Day, Digest, DigestInterval, QuietHours, TimeOfDay, ZoneName, new_digest::NewDigest,
        new_quiet_hours::NewQuietHours,
    };
    pub use crate::outreach::preferences::{
        NotificationRule, Preferences, PreferencesWithTargets,
        get_notification_preferences::GetNotificationPreferences, new_rule::NewNotificationRule,
        set_notification_preferences::SetNotificationPreferences,
    };
    pub use crate::outreach::web_push::{
        Subscription, WebPush, WebPushKeys, browser_keys::BrowserKeys, register_web_push::RegisterWebPush,
        remove_web_push::RemoveWebPush,
    };
}

/// Exports, imports and the erasure of workspaces.
pub mod portability {
    pub use crate::portability::admin_token::AdminToken;
    pub use crate::portability::erase::{ErasureResult, erase_workspace::EraseWorkspace};
    pub use crate::portability::form::{ExportHead, ExportHeader, ExportSection, ExportTexts};
    pub use crate::portability::import::{
        ImportMode, ImportResult, ImportSource, import_workspace::ImportWorkspace,
    };
    pub use crate::portability::verify::ExportReport;
    pub use crate::portability::{
        export_workspace::ExportWorkspace, verify_workspace_export::VerifyWorkspaceExport,
    };
}

/// Retention policies, legal holds and purges.
pub mod retention {
    pub use crate::retention::holds::{
        LegalHold, list_legal_holds::ListLegalHolds, place_legal_hold::PlaceLegalHold,
        release_legal_hold::ReleaseLegalHold,
    };
    pub use crate::retention::purge::{PurgeResult, purge_workspace::PurgeWorkspace};
    pub use crate::retention::{
        PendingRemoval, RetentionPolicy, get_retention_policy::GetRetentionPolicy,
        set_retention_policy::SetRetentionPolicy,
    };
}

/// Share tickets.
pub mod sharing {
    pub use crate::sharing::create::{NewShareTicket, create_share_ticket::CreateShareTicket};
    pub use crate::sharing::revoke::{TicketRevocation, revoke_share_ticket::RevokeShareTicket};
    pub use crate::sharing::{ShareTicket, list_share_tickets::ListShareTickets};
}

/// Events, snapshots and the verification of the log.
pub mod stream {
    pub use crate::stream::catch_up::{ChainedEvent, LogPart, catch_up_events::CatchUpEvents};
    pub use crate::stream::census::{KindCensus, KindCount, get_kind_census::GetKindCensus};
    pub use crate::stream::events::{
        ChainVerifyReport, EventPage, list_events::ListEvents, verify_event_chain::VerifyEventChain,
        wait_for_event::WaitForEvent,
    };
    pub use crate::stream::snapshot::graph::{GraphEdge, GraphNode, WorkspaceGraph};
    pub use crate::stream::snapshot::{
        LogSnapshot, SnapshotFloor, SnapshotHead, SnapshotHeader, get_log_snapshot::GetLogSnapshot,
    };
    pub use crate::stream::tombstones::{Tombstone, list_tombstones::ListTombstones};
    pub use crate::stream::workspace_address::{Links, Room, get_room::GetRoom};
}

/// Audit rows.
pub mod audit {
    pub use crate::audit::instance::{InstanceAuditRow, list_operator_audit::ListOperatorAudit};
    pub use crate::audit::{AuditRow, list_audit::ListAudit};
}

/// Ids, pages, files and other types that several areas use.
pub mod shared {
    pub use crate::argument::Argument;
    pub use crate::capability::{Capabilities, Capability, CapabilitySet};
    pub use crate::config::retention::RetentionLimits;
    pub use crate::error::problem::Problem;
    pub use crate::hash::ArtifactSha;
    pub use crate::id::*;
    pub use crate::log::event::Attribution;
    pub use crate::log::stored_event::StoredEvent;
    pub use crate::log::verify::{Break, ChainHead, ChainReport, Defect, ExpectedFound};
    pub use crate::mailbox::MailAddress;
    pub use crate::op::declare::health_check::Depth;
    pub use crate::op::{TimedOut, WaitOutput};
    pub use crate::page::{Cursor, Page};
    pub use crate::request::{List, Request};
    pub use crate::spool::FileContent as File;
    pub use crate::time::Time;
}
