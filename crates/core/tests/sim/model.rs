//! The reference model: what a team is, told by its events alone; it never asks `Team`.
//!
//! Every event is checked against the state before it, then applied. What only holds when a whole
//! commit is in is checked in [`crate::invariants`].

mod board;
mod mail;
mod members;
mod rights;

use std::collections::{BTreeMap, BTreeSet};

use aion_core::agent::{Hold, PermissionMode, TeamHold};
use aion_core::budget::{Amount, Cap};
use aion_core::command::{Caller, KeyHash, Settings};
use aion_core::event::{DeadLetterReason, Event, Recorded};
use aion_core::id::{AgentName, CommandId, GrantId, MessageId, RequestId, SlotId, TaskId, TurnId};
use aion_core::message::{Recipient, Sender, Urgency};
use aion_core::permission::{Delegation, Grant, GrantScope, ToolClass};
use aion_core::request::{ActionHash, Decision, Request};
use aion_core::time::Timestamp;
use aion_core::turn::TurnOutcome;

/// A rule that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    pub(crate) seq: u64,
    pub(crate) text: String,
}

/// Where an open message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Queued,
    InTurn(TurnId),
}

/// One message in one mailbox.
#[derive(Clone, Debug)]
pub(crate) struct Mail {
    pub(crate) home: Home,
    pub(crate) urgency: Urgency,
    pub(crate) held: bool,
    pub(crate) bytes: u64,
    pub(crate) from: Sender,
    /// The request whose decision it carries.
    pub(crate) answers: Option<RequestId>,
    pub(crate) accepted_at: Timestamp,
    /// The model step before which it was read.
    pub(crate) step: u32,
    pub(crate) attempts: u32,
    pub(crate) redelivered: bool,
    /// Somebody wrote it.
    pub(crate) text: bool,
    /// What it is about, where a newer message about the same may take its place.
    pub(crate) gives_way_to: Option<String>,
}

/// Where a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Idle,
    Active,
    Stopping,
    Failed,
    Removed,
}

/// One tool call of a live turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Asked { request: RequestId, action: ActionHash },
    Started,
}

/// The turn of a member.
#[derive(Clone, Debug)]
pub(crate) struct LiveTurn {
    pub(crate) id: TurnId,
    pub(crate) calls: BTreeMap<String, Call>,
    pub(crate) detached: Option<Timestamp>,
    pub(crate) interrupted: bool,
    pub(crate) offer: Option<TaskId>,
    pub(crate) progress: bool,
}

/// One member, present or removed.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) lead: bool,
    pub(crate) name: AgentName,
    pub(crate) phase: Phase,
    pub(crate) generation: u32,
    pub(crate) restarts: Vec<Timestamp>,
    pub(crate) retry_at: Option<Timestamp>,
    pub(crate) faults_in_a_row: u32,
    pub(crate) not_before: Timestamp,
    pub(crate) holds: BTreeSet<Hold>,
    pub(crate) mail: BTreeMap<MessageId, Mail>,
    pub(crate) turn: Option<LiveTurn>,
    pub(crate) offered: BTreeMap<TaskId, u32>,
    pub(crate) mode: PermissionMode,
    pub(crate) stop_request: Option<RequestId>,
    /// What it wrote lately, with the number of mailboxes.
    pub(crate) sent: Vec<(Timestamp, u64)>,
}

/// One task that is not completed or deleted.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) owner: Option<SlotId>,
    pub(crate) in_progress: bool,
    pub(crate) created_by: Sender,
    pub(crate) blocked_by: BTreeSet<TaskId>,
    pub(crate) version: u32,
}

/// Where a request stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Open,
    Decided(Decision),
    Withdrawn,
}

/// One request, open or closed.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    pub(crate) standing: Standing,
    pub(crate) orphaned: bool,
    pub(crate) escalated: bool,
    /// The decision reached the call that waited for it.
    pub(crate) used: bool,
}

impl Asked {
    /// Whether nobody waits for it or for its decision.
    pub(crate) fn is_closed(&self) -> bool {
        match &self.standing {
            Standing::Open => false,
            Standing::Decided(_) => self.used,
            Standing::Withdrawn => true,
        }
    }
}

/// Mail counted over the whole life, once per mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) accepted: u64,
    pub(crate) acknowledged: u64,
    pub(crate) dead: u64,
    pub(crate) superseded: u64,
    pub(crate) turns: u64,
    pub(crate) restarts: u64,
    pub(crate) decided: u64,
}

/// A message that did not arrive.
#[derive(Clone, Debug)]
pub(crate) struct Dead {
    pub(crate) id: MessageId,
    pub(crate) slot: SlotId,
    pub(crate) from: Sender,
    pub(crate) text: bool,
    pub(crate) reason: DeadLetterReason,
}

/// What happened within the command that is being applied.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Scope {
    pub(crate) command: Option<CommandId>,
    pub(crate) actor: Option<Caller>,
    pub(crate) opened: bool,
    pub(crate) ended_turns: Vec<(SlotId, TurnOutcome, Vec<MessageId>)>,
    pub(crate) failed: Vec<SlotId>,
    pub(crate) removed: Vec<SlotId>,
    pub(crate) restarted: Vec<SlotId>,
    pub(crate) dead: Vec<Dead>,
    /// What the team itself said, and to whom.
    pub(crate) told: Vec<(Recipient, String)>,
    /// Live turns that an opening took care of.
    pub(crate) cared_for: BTreeSet<TurnId>,
    pub(crate) user_acted: bool,
    /// How far the "allow" of this command reaches, and whether nobody waited for it.
    pub(crate) allowed: Option<(GrantScope, bool)>,
    /// An answer is carried back; no mailbox is too full for it.
    pub(crate) decided: bool,
    /// A newer request takes the place of one that was open.
    pub(crate) replaced: bool,
    /// A member was brought in; its prompt is no message of anybody's day.
    pub(crate) brought_in: bool,
    /// A member was brought in that somebody else had asked for.
    pub(crate) consented: bool,
}

/// A team as its events tell it.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Model {
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) created: bool,
    pub(crate) solo: bool,
    pub(crate) ended: bool,
    /// The turns that were live when the log was last opened.
    pub(crate) live_at_opening: Vec<TurnId>,
    pub(crate) settings: Settings,
    pub(crate) members: BTreeMap<SlotId, Member>,
    /// How many mailboxes an open message is still in.
    pub(crate) open_mail: BTreeMap<MessageId, u32>,
    pub(crate) tasks: BTreeMap<TaskId, Task>,
    pub(crate) done: BTreeSet<TaskId>,
    pub(crate) requests: BTreeMap<RequestId, Asked>,
    pub(crate) grants: BTreeMap<GrantId, Grant>,
    pub(crate) spent_grants: BTreeSet<GrantId>,
    /// Actions that were denied, and not allowed since.
    pub(crate) denials: BTreeSet<ActionHash>,
    pub(crate) delegation: Delegation,
    pub(crate) team_holds: BTreeSet<TeamHold>,
    pub(crate) cap: Option<Cap>,
    pub(crate) used: Amount,
    pub(crate) reserved: BTreeMap<TurnId, Amount>,
    pub(crate) soft: bool,
    pub(crate) spawned_by_lead: u32,
    pub(crate) last_slot: u32,
    /// What members wrote, each message in its own words.
    pub(crate) written: BTreeMap<MessageId, (SlotId, String)>,
    pub(crate) last_message: u64,
    pub(crate) last_turn: u64,
    pub(crate) last_task: u32,
    pub(crate) last_request: u64,
    pub(crate) keys: BTreeMap<String, Timestamp>,
    pub(crate) counts: Counts,
    /// Turns between two members that brought nothing, the smaller slot first.
    pub(crate) stale: BTreeMap<(SlotId, SlotId), u32>,
    pub(crate) scope: Scope,
    /// Members, and messages without a home, to be compared with the state after the commit.
    pub(crate) dirty: BTreeSet<SlotId>,
    pub(crate) closed_mail: Vec<MessageId>,
    pub(crate) violations: Vec<Violation>,
}

impl Model {
    pub(crate) fn fail(&mut self, rule: &'static str, text: impl Into<String>) {
        self.violations.push(Violation { rule, seq: self.seq, text: text.into() });
    }

    pub(crate) fn check(&mut self, holds: bool, rule: &'static str, text: impl FnOnce() -> String) {
        if !holds {
            self.fail(rule, text());
        }
    }

    /// Members that are not removed.
    pub(crate) fn present(&self) -> impl Iterator<Item = (SlotId, &Member)> {
        self.members.iter().filter(|(_, m)| m.phase != Phase::Removed).map(|(s, m)| (*s, m))
    }

    pub(crate) fn is_present(&self, slot: SlotId) -> bool {
        self.members.get(&slot).is_some_and(|m| m.phase != Phase::Removed)
    }

    /// Checks one stored event against the state before it, and applies it.
    pub(crate) fn apply(&mut self, recorded: &Recorded) {
        let (seq, at) = (recorded.seq.0, recorded.at);
        let expected = self.seq + 1;
        let before = self.at;
        self.seq = seq;
        self.check(seq == expected, "INV-36", || format!("seq {seq} follows {}", expected - 1));
        self.check(at >= before, "INV-23", || format!("time went back from {before} to {at}"));
        self.at = at.max(before);
        self.enter(recorded);
        self.check(!self.ended, "INV-01", || {
            format!("{} after the team ended", recorded.event.name())
        });
        if !self.created && !matches!(recorded.event, Event::TeamCreated { .. }) {
            self.fail("INV-36", format!("{} before the team was created", recorded.event.name()));
            return;
        }
        self.dispatch(recorded.actor, &recorded.event);
    }

    /// Begins a new scope with each new command.
    fn enter(&mut self, recorded: &Recorded) {
        if self.scope.command.as_ref() != Some(&recorded.command_id) {
            self.scope = Scope {
                command: Some(recorded.command_id.clone()),
                actor: Some(recorded.actor),
                user_acted: recorded.actor == Caller::User,
                ..Scope::default()
            };
        }
        let actor = self.scope.actor;
        self.check(actor == Some(recorded.actor), "INV-36", || {
            format!("one command, two actors: {actor:?} and {:?}", recorded.actor)
        });
        if let Caller::Agent(slot) = recorded.actor {
            let known = self.members.contains_key(&slot);
            self.check(known, "INV-36", || format!("the actor {slot} was never a member"));
        }
        let credential = recorded.credential.is_some() || recorded.actor == Caller::System;
        self.check(credential, "INV-36", || format!("no credential for {:?}", recorded.actor));
    }

    /// A key stands for one command; it may be used again only after it was forgotten.
    fn key_used(&mut self, key: &KeyHash) {
        let at = self.at;
        let kept = self.settings.limits.keys_kept_for;
        let before = self.keys.insert(key.key.clone(), at);
        let fresh = before.is_none_or(|before| at - before > kept);
        self.check(fresh, "INV-02", || {
            format!("the key {} was used before, at {before:?}", key.key)
        });
    }

    fn dispatch(&mut self, actor: Caller, event: &Event) {
        match event {
            Event::TeamCreated { lead, settings, solo, .. } => {
                self.team_created(lead, settings, *solo);
            }
            Event::TeamRenamed { .. } | Event::SandboxViolation { .. } => {}
            Event::SettingsChanged { settings } => self.settings_changed(settings),
            Event::TeamHeld { hold } => self.team_held(*hold),
            Event::TeamReleased { hold } => self.team_released(*hold),
            Event::TeamOpened { .. } => {
                self.scope.opened = true;
                self.live_at_opening =
                    self.present().filter_map(|(_, m)| m.turn.as_ref().map(|t| t.id)).collect();
            }
            Event::TeamEnded => self.team_ended(),
            Event::AgentSpawned { slot, member, consent, by } => {
                self.agent_spawned(*by, *slot, member, *consent);
            }
            Event::AgentReady { slot, generation } => self.agent_ready(*slot, *generation),
            Event::AgentRestarting { slot, generation, by } => {
                self.agent_restarting(*slot, *generation, *by);
            }
            Event::AgentFailed { slot, retry_at, .. } => self.agent_failed(*slot, *retry_at),
            Event::AgentRenamed { slot, name, .. } => self.agent_renamed(*slot, name),
            Event::AgentHeld { slot, hold } => self.agent_held(*slot, *hold),
            Event::AgentReleased { slot, hold } => self.agent_released(*slot, *hold),
            Event::ModeChanged { slot, mode } => self.mode_changed(actor, *slot, *mode),
            Event::ModelChanged { slot, .. } => self.touch(*slot),
            Event::AgentStopping { slot, request, kill } => {
                self.agent_stopping(*slot, *request, *kill);
            }
            Event::AgentRemoved { slot, reason } => self.agent_removed(*slot, reason),

            Event::MessageSent { message, recipients, held, key } => {
                self.message_sent(actor, message, recipients, *held);
                if let Some(key) = key {
                    self.key_used(key);
                }
            }
            Event::MessageDelivered { message, slot, turn, step } => {
                self.message_delivered(*message, *slot, *turn, *step);
            }
            Event::MessageReturned { message, slot, turn } => {
                self.message_returned(*message, *slot, *turn);
            }
            Event::MessageSuperseded { message, slot, by } => {
                self.message_superseded(*message, *slot, *by);
            }
            Event::MessageDeadLettered { message, slot, reason } => {
                self.message_dead(*message, *slot, reason);
            }

            Event::TurnStarted { turn, slot, batch, offer, reserved } => {
                self.turn_started(*turn, *slot, batch, *offer, *reserved);
            }
            Event::TurnResumed { turn, slot } => self.turn_resumed(*turn, *slot),
            Event::TurnDetached { turn, slot, until } => self.turn_detached(*turn, *slot, *until),
            Event::InterruptRequested { turn, slot, by } => {
                self.interrupt_requested(*turn, *slot, *by);
            }
            Event::TurnEnded { turn, slot, outcome, acknowledged, requeued, usage } => {
                self.turn_ended(*turn, *slot, outcome, acknowledged, requeued);
                self.settle_call(*turn, *usage);
            }

            Event::ToolProposed {
                turn,
                slot,
                call,
                tool,
                class,
                action,
                verdict,
                grant,
                finding,
                ..
            } => {
                let call = (call.as_str(), tool.as_str(), *class, *action);
                let says = finding.as_ref().map(|finding| finding.says);
                self.tool_proposed(*turn, *slot, call, says, verdict, *grant);
            }
            Event::ToolStarted { turn, slot, call, request } => {
                self.tool_answered(*turn, *slot, call, *request, true);
            }
            Event::ToolRefused { turn, slot, call, request, .. } => {
                self.tool_answered(*turn, *slot, call, *request, false);
            }
            Event::ToolFinished { turn, slot, call, changed, .. } => {
                self.tool_finished(*turn, *slot, call, *changed);
            }

            Event::TaskCreated { task, owner, blocked_by, by, .. } => {
                self.task_created(*task, *owner, blocked_by, *by);
                self.progress_by(*by);
            }
            Event::TaskChanged { task, change, by } => {
                self.task_changed(actor, *task, change, *by);
                self.progress_by(*by);
            }

            Event::RequestOpened { request } => self.request_opened(actor, request),
            Event::RequestDecided { request, by, decision, delegated } => {
                self.request_decided(actor, *request, *by, decision, *delegated);
            }
            Event::RequestEscalated { request } => self.request_escalated(*request),
            Event::RequestOrphaned { request } => self.request_orphaned(*request),
            Event::RequestWithdrawn { request, why } => self.request_withdrawn(*request, why),
            Event::TeamLinked { request, .. } => self.team_linked(*request),
            Event::GrantAdded { grant } => self.grant_added(actor, grant),
            Event::GrantRevoked { grant } => self.grant_revoked(*grant),
            Event::DelegationChanged { delegation } => self.delegation_changed(actor, delegation),

            Event::CallReserved { turn, slot, amount, usage } => {
                self.call_reserved(*turn, *slot, *amount, *usage);
            }
            Event::UsageRecorded { usage, .. } => self.usage_recorded(*usage),
            Event::CapChanged { cap } => self.cap_changed(actor, *cap),
            Event::KeyUsed { key, .. } => self.key_used(key),
            Event::FactObserved { fact, .. } => self.touch(fact.slot()),
        }
    }

    /// Something got done: nobody goes in circles.
    pub(crate) fn progress_by(&mut self, by: Sender) {
        self.stale.clear();
        if let Sender::Agent(slot) = by
            && let Some(live) = self.members.get_mut(&slot).and_then(|m| m.turn.as_mut())
        {
            live.progress = true;
        }
    }

    pub(crate) fn touch(&mut self, slot: SlotId) {
        self.dirty.insert(slot);
    }

    /// The member, if there is one; an event about nobody is a fault by itself.
    fn member(&mut self, slot: SlotId) -> Option<&mut Member> {
        self.touch(slot);
        if !self.is_present(slot) {
            self.fail("INV-36", format!("an event about {slot}, who is no member"));
            return None;
        }
        self.members.get_mut(&slot)
    }
}

/// What a tool call is: its id, its tool, what it can do, and what exactly it would do.
pub(crate) type Proposed<'a> = (&'a str, &'a str, ToolClass, ActionHash);
