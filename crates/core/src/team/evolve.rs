//! Applies events: the only place where a team's state changes; never refuses, never decides.

use crate::agent::{AgentState, Hold, Role};
use crate::event::Event;
use crate::id::SlotId;
use crate::message::Sender;
use crate::permission::GrantRule;
use crate::request::{RequestKind, RequestState};
use crate::shutdown::ShutdownStage;
use crate::task::{Task, TaskStatus};
use crate::time::Timestamp;
use crate::turn::ToolCallState;

use super::{OpenRequest, Phase, Team};

impl Team {
    /// Applies one event that happened at `at`.
    pub fn evolve(&mut self, at: Timestamp, event: &Event) {
        let at = self.at.max(at);
        self.at = at;
        match event {
            Event::TeamCreated { team, name, owner, workspace, solo, lead, settings } => {
                self.phase = if *solo { Phase::Conversation } else { Phase::Live };
                self.id = Some(team.clone());
                self.name.clone_from(name);
                self.owner.clone_from(owner);
                self.workspace.clone_from(workspace);
                self.settings = settings.clone();
                self.spawns_left = settings.spawn_allowance;
                self.budget.cap = settings.cap;
                let role = if *solo { Role::Solo } else { Role::Lead };
                self.add_agent(SlotId::LEAD, role, lead);
            }
            Event::TeamRenamed { name } => self.name.clone_from(name),
            Event::SettingsChanged { settings } => {
                if settings.spawn_allowance != self.settings.spawn_allowance {
                    self.spawns_left = settings.spawn_allowance;
                }
                self.settings = settings.clone();
                self.budget.cap = settings.cap;
            }
            Event::TeamHeld { hold } => {
                self.holds.insert(*hold);
            }
            Event::TeamReleased { hold } => {
                self.holds.remove(hold);
            }
            Event::TeamEnded => self.phase = Phase::Ended,

            Event::AgentSpawned { slot, member, consent, by } => {
                if matches!(by, Sender::Agent(_)) && consent.is_none() {
                    self.spawns_left = self.spawns_left.saturating_sub(1);
                }
                self.add_agent(*slot, Role::Teammate, member);
            }
            Event::AgentReady { slot, .. } => self.with(*slot, |a| a.state = AgentState::Idle),
            Event::AgentFailed { slot, cause, retry_at } => self.with(*slot, |a| {
                a.state = AgentState::Failed { cause: cause.clone(), retry_at: *retry_at };
            }),
            Event::AgentRestarting { slot, generation, by } => {
                let window = self.settings.limits.restart_window;
                self.with(*slot, |a| {
                    a.generation = *generation;
                    a.state = AgentState::Pending;
                    if *by == Sender::System {
                        a.restarts.push_back(at);
                        a.restarts.retain(|r| at - *r < window);
                    } else {
                        a.restarts.clear();
                        a.faults_in_a_row = 0;
                        a.not_before = Timestamp::default();
                    }
                });
            }
            Event::AgentRenamed { slot, name, label } => self.with(*slot, |a| {
                a.name.clone_from(name);
                a.label.clone_from(label);
            }),
            Event::AgentHeld { slot, hold } => {
                self.with(*slot, |a| {
                    a.holds.insert(*hold);
                });
                if *hold == Hold::NoProgress {
                    self.standstill.forget(*slot);
                }
            }
            Event::AgentReleased { slot, hold } => self.with(*slot, |a| {
                a.holds.remove(hold);
            }),
            Event::ModeChanged { slot, mode } => self.with(*slot, |a| a.mode = *mode),
            Event::ModelChanged { slot, model } => self.with(*slot, |a| a.model.clone_from(model)),
            Event::AgentStopping { slot, request, kill } => self.with(*slot, |a| {
                let turn = match std::mem::replace(&mut a.state, AgentState::Idle) {
                    AgentState::Active { turn } => Some(turn),
                    AgentState::Stopping { turn, .. } => turn,
                    AgentState::Pending | AgentState::Idle | AgentState::Failed { .. } => None,
                };
                a.state = AgentState::Stopping { request: *request, turn, kill: *kill };
            }),
            Event::AgentRemoved { slot, .. } => self.drop_agent(*slot),

            Event::MessageSent { message, recipients, held, key } => {
                self.accept(at, message, recipients, *held, key.as_ref());
            }
            Event::MessageDelivered { message, slot, turn, step } => {
                self.deliver(*slot, *message, *turn, *step);
                if let Some(request) = self.answered_by(*message) {
                    self.close_request(request);
                }
            }
            Event::MessageReturned { message, slot, .. } => self.with(*slot, |a| {
                a.mailbox.requeue(*message, false, false);
                if let Some(turn) = a.turn_mut() {
                    turn.mail.remove(message);
                }
            }),
            Event::MessageSuperseded { message, slot, .. }
            | Event::MessageDeadLettered { message, slot, .. } => self.settle(*slot, *message),

            Event::TurnStarted { turn, slot, batch, offer, reserved } => {
                self.begin_turn(at, *turn, *slot, batch, *offer);
                if let Some(amount) = reserved {
                    self.budget.reserve(*turn, *amount);
                }
            }
            Event::TurnResumed { slot, .. } => self.with(*slot, |a| {
                if let Some(turn) = a.turn_mut() {
                    turn.resumed += 1;
                    turn.detached_until = None;
                }
            }),
            Event::TurnDetached { slot, until, .. } => self.with(*slot, |a| {
                if let Some(turn) = a.turn_mut() {
                    turn.detached_until = Some(*until);
                }
            }),
            Event::InterruptRequested { slot, by, .. } => self.with(*slot, |a| {
                if let Some(turn) = a.turn_mut() {
                    turn.interrupted_by = Some(*by);
                }
            }),
            Event::TurnEnded { turn, slot, outcome, acknowledged, requeued, usage } => {
                self.finish_turn(at, *turn, *slot, outcome, acknowledged, requeued);
                self.budget.settle(*turn, usage.unwrap_or_default());
            }

            Event::ToolProposed { slot, call, tool, action, verdict, grant, .. } => {
                self.journal(*slot, call, tool, *action, verdict);
                if let Some(grant) = grant
                    && let Some(GrantRule::Action { once: true, .. }) =
                        self.grants.get(grant).map(|g| &g.rule)
                {
                    self.grants.remove(grant);
                }
            }
            Event::ToolStarted { slot, call, request, .. } => {
                self.with(*slot, |a| {
                    if let Some(turn) = a.turn_mut()
                        && let Some(state) = turn.calls.get_mut(call)
                        && let ToolCallState::Asked { tool, .. } = state
                    {
                        *state = ToolCallState::Started { tool: std::mem::take(tool) };
                    }
                });
                self.close_request(*request);
            }
            Event::ToolRefused { slot, call, request, .. } => {
                self.with(*slot, |a| {
                    if let Some(turn) = a.turn_mut() {
                        turn.calls.remove(call);
                    }
                });
                self.close_request(*request);
            }
            Event::ToolFinished { slot, call, changed, .. } => {
                self.with(*slot, |a| {
                    if let Some(turn) = a.turn_mut() {
                        turn.calls.remove(call);
                        turn.progress |= changed;
                    }
                });
                if *changed {
                    self.standstill.clear();
                }
            }

            Event::TaskCreated {
                task,
                subject,
                description,
                active_form,
                owner,
                blocked_by,
                metadata,
                by,
            } => {
                self.board.last = self.board.last.max(task.0);
                self.board.open.insert(
                    *task,
                    Task {
                        id: *task,
                        subject: subject.clone(),
                        description: description.clone(),
                        active_form: active_form.clone(),
                        in_progress: false,
                        owner: *owner,
                        blocked_by: blocked_by.iter().copied().collect(),
                        metadata: metadata.clone(),
                        created_by: *by,
                        created_at: at,
                        version: 1,
                    },
                );
                self.progress_by(*by);
            }
            Event::TaskChanged { task, change, by } => {
                self.board.apply(*task, change);
                if matches!(change.status, Some(TaskStatus::Completed | TaskStatus::Deleted)) {
                    for (_, agent) in self.agents.iter_mut() {
                        agent.offered.remove(task);
                    }
                }
                self.progress_by(*by);
            }

            Event::RequestOpened { request } => {
                self.last.request = self.last.request.max(request.id.0);
                if let (Some(turn), Sender::Agent(slot)) = (request.turn, request.from) {
                    self.with(slot, |a| {
                        if let Some(live) = a.turn_mut().filter(|t| t.id == turn) {
                            live.blocked_on.insert(request.id);
                        }
                    });
                }
                self.requests.insert(
                    request.id,
                    OpenRequest { request: request.clone(), state: RequestState::Open },
                );
            }
            Event::RequestDecided { request, by, decision, .. } => {
                self.decided(*request, *by, decision);
            }
            Event::RequestEscalated { request } => {
                if let Some(open) = self.requests.get_mut(request)
                    && let RequestKind::Shutdown(handshake) = &mut open.request.kind
                {
                    handshake.stage = ShutdownStage::Person;
                }
            }
            Event::RequestOrphaned { request } => {
                if let Some(open) = self.requests.get_mut(request) {
                    open.state = RequestState::Orphaned;
                }
            }
            Event::RequestWithdrawn { request, .. } | Event::TeamLinked { request, .. } => {
                self.close_request(*request);
            }
            Event::GrantAdded { grant } => {
                self.last.grant = self.last.grant.max(grant.id.0);
                self.grants.insert(grant.id, grant.clone());
            }
            Event::GrantRevoked { grant } => {
                self.grants.remove(grant);
            }
            Event::DelegationChanged { delegation } => {
                self.settings.delegation = delegation.clone();
            }

            Event::CallReserved { turn, amount, usage, .. } => {
                self.budget.settle(*turn, *usage);
                self.budget.reserve(*turn, *amount);
            }
            Event::UsageRecorded { usage, .. } => self.budget.record(*usage),
            Event::CapChanged { cap } => {
                self.settings.cap = *cap;
                self.budget.cap = *cap;
            }

            Event::KeyUsed { key, receipt } => self.use_key(at, key, receipt.clone()),
            Event::TeamOpened { .. }
            | Event::FactObserved { .. }
            | Event::SandboxViolation { .. } => {}
        }
    }
}
