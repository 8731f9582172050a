//! The door for commands: who may ask for what, and which events it leads to; never a follow-up.

use crate::agent::{Hold, Role, TeamHold};
use crate::command::{Caller, Command, Fact, Receipt, SendMessage};
use crate::event::{DeadLetterReason, Event};
use crate::id::{AgentName, MessageId, SlotId, TaskId};
use crate::message::{Body, Recipient, Sender, Urgency};
use crate::rejection::Rejection;
use crate::request::Withdrawal;
use crate::time::Timestamp;
use crate::turn::TurnOutcome;

use super::agents::{interrupt, restart_failed};
use super::checks;
use super::draft::Draft;
use super::{Phase, Team, key_of};

impl Team {
    /// Decides a command. Pure: the same state, time, caller and command give the same events.
    pub fn decide(
        &self,
        now: Timestamp,
        caller: Caller,
        command: &Command,
    ) -> Result<Vec<Event>, Rejection> {
        let now = now.max(self.at);
        match (self.phase, command) {
            (Phase::New, Command::CreateTeam { .. }) | (Phase::Live | Phase::Conversation, _) => {}
            (Phase::New, _) => return Err(Rejection::NoTeam),
            (
                Phase::Ended,
                Command::Tick | Command::Opened { .. } | Command::AgentExited { .. },
            ) => {
                return Ok(Vec::new());
            }
            (Phase::Ended, _) => return Err(Rejection::TeamEnded),
        }
        if let Some(key) = key_of(caller, command)
            && let Some(used) = self.keys.used.get(&key.key)
            && now - used.at <= self.settings.limits.keys_kept_for
        {
            // A repetition was answered by its receipt; here it can only be another content.
            return if used.content == key.content {
                Ok(Vec::new())
            } else {
                Err(Rejection::KeyReused)
            };
        }
        let mut draft = Draft::new(self, now);
        self.route(&mut draft, caller, command)?;
        Ok(draft.events)
    }

    fn route(&self, d: &mut Draft, caller: Caller, command: &Command) -> Result<(), Rejection> {
        match command {
            Command::CreateTeam { team, name, owner, workspace, solo, lead, settings } => {
                if self.phase != Phase::New {
                    return Err(Rejection::TeamExists);
                }
                let mut lead = (**lead).clone();
                if !*solo {
                    lead.name = AgentName::lead();
                }
                checks::team_name(name)?;
                checks::settings(settings)?;
                checks::member_words(&lead)?;
                checks::path("workspace_bytes", workspace)?;
                checks::word("owner_bytes", owner)?;
                let prompt = std::mem::take(&mut lead.prompt);
                let slot = d.next_slot();
                d.push(Event::TeamCreated {
                    team: team.clone(),
                    name: name.trim().to_owned(),
                    owner: owner.clone(),
                    workspace: workspace.clone(),
                    solo: *solo,
                    lead,
                    settings: (**settings).clone(),
                });
                if !prompt.is_empty() {
                    d.send(
                        Sender::User,
                        Recipient::Agent(slot),
                        vec![slot],
                        Body::Text(prompt),
                        Urgency::Wake,
                    );
                }
                Ok(())
            }
            Command::RenameTeam { name } => {
                self.person(caller, "rename the team")?;
                checks::team_name(name)?;
                d.push(Event::TeamRenamed { name: name.trim().to_owned() });
                Ok(())
            }
            Command::Configure { settings } => {
                self.person(caller, "change the settings")?;
                checks::settings(settings)?;
                d.push(Event::SettingsChanged { settings: (**settings).clone() });
                self.release_budget(d, settings.cap);
                Ok(())
            }
            Command::PauseTeam => {
                self.person(caller, "pause the team")?;
                self.hold_team(d, TeamHold::User);
                Ok(())
            }
            Command::ResumeTeam => {
                self.person(caller, "resume the team")?;
                self.resume_team(d, caller);
                Ok(())
            }
            Command::StopTeam => {
                self.person(caller, "stop the team")?;
                self.hold_team(d, TeamHold::Stopping);
                for agent in self.agents.values() {
                    interrupt(d, agent, caller.into());
                }
                Ok(())
            }
            Command::EndTeam => self.end_team(d, caller),
            Command::Opened { downtime_ms, resumable, detached } => {
                Self::shell(caller, "open a team's log")?;
                self.opened(d, *downtime_ms, resumable, detached);
                Ok(())
            }
            Command::Tick => Self::shell(caller, "say that time has passed"),

            Command::SpawnAgent { member } => self.spawn(d, caller, member),
            Command::AgentReady { slot, generation } => {
                Self::shell(caller, "say that a member is ready")?;
                self.ready(d, *slot, *generation)
            }
            Command::AgentExited { slot, generation, cause } => {
                Self::shell(caller, "say that a member has gone")?;
                self.exited(d, *slot, *generation, cause)
            }
            Command::RestartAgent { slot } => self.restart(d, caller, *slot),
            Command::RenameAgent { slot, name, label } => {
                self.rename(d, caller, *slot, name, label.as_deref())
            }
            Command::PauseAgent { slot } => {
                self.person(caller, "pause a member")?;
                self.member(*slot)?;
                self.hold(d, *slot, Hold::User);
                Ok(())
            }
            Command::ResumeAgent { slot } => {
                self.person(caller, "resume a member")?;
                for hold in self.member(*slot)?.holds() {
                    d.push(Event::AgentReleased { slot: *slot, hold });
                }
                Ok(())
            }
            Command::SetMode { slot, mode } => self.set_mode(d, caller, *slot, *mode),
            Command::SetModel { slot, model } => {
                self.person(caller, "change a member's model")?;
                self.member(*slot)?;
                checks::word("model_bytes", model.as_deref().unwrap_or_default())?;
                d.push(Event::ModelChanged { slot: *slot, model: model.clone() });
                Ok(())
            }
            Command::Interrupt { slot } => {
                self.coordinator(caller, *slot, "interrupt a member")?;
                let agent = self.member(*slot)?;
                interrupt(d, agent, caller.into());
                Ok(())
            }
            Command::KillAgent { slot } => self.kill(d, caller, *slot),

            Command::SendMessage(message) => self.send_message(d, caller, message),
            Command::SendAgain { slot, message } => self.send_again(d, caller, *slot, message),
            Command::TakeMail { turn, step } => self.take_mail(d, caller, *turn, *step),
            Command::ReturnMail { turn, messages } => self.return_mail(d, caller, *turn, messages),
            Command::EndTurn { turn, outcome, usage } => {
                let (agent, turn) = self.own_turn(caller, *turn)?;
                self.end_turn(d, agent, turn, outcome, *usage);
                Ok(())
            }

            Command::ProposeTool(proposal) => self.propose_tool(d, caller, proposal),
            Command::StartTool { turn, call } => self.start_tool(d, caller, *turn, call),
            Command::TakeAnswer { turn, request } => self.take_answer(d, caller, *turn, *request),
            Command::FinishTool { turn, call, ok, changed } => {
                self.finish_tool(d, caller, *turn, call, *ok, *changed)
            }
            Command::ReportViolation { turn, call, kind, what } => {
                self.report_violation(d, caller, *turn, call, *kind, what)
            }
            Command::RequestNetwork { turn, call, host, finding } => {
                self.request_network(d, caller, *turn, call, host, finding.as_ref())
            }

            Command::CreateTask {
                subject,
                description,
                active_form,
                owner,
                blocked_by,
                metadata,
            } => self.create_task(
                d,
                caller,
                super::tasks::NewTask {
                    subject,
                    description,
                    active_form: active_form.as_deref(),
                    owner: *owner,
                    blocked_by,
                    metadata,
                },
            ),
            Command::UpdateTask { task, change, version } => {
                self.update_task(d, caller, *task, change, *version)
            }
            Command::ClaimTask { task, version } => self.claim_task(d, caller, *task, *version),

            Command::SubmitPlan { text } => self.submit_plan(d, caller, text),
            Command::RequestShutdown { slot, reason } => {
                self.request_shutdown(d, caller, *slot, reason.as_deref())
            }
            Command::AskUser { text, options } => self.ask_user(d, caller, text, options),
            Command::ProposeTeam(proposal) => self.propose_team(d, caller, proposal),
            Command::RequestBudget { cap, reason } => self.request_budget(d, caller, *cap, reason),
            Command::Decide { request, decision } => {
                self.decide_request(d, caller, *request, decision)
            }
            Command::Withdraw { request } => self.withdraw(d, caller, *request),
            Command::LinkTeam { request, team } => self.link_team(d, caller, *request, team),
            Command::Delegate { delegation } => {
                self.person(caller, "change what the lead may decide")?;
                d.push(Event::DelegationChanged { delegation: delegation.clone() });
                Ok(())
            }
            Command::RevokeGrant { grant } => {
                self.person(caller, "take a permission back")?;
                if !self.grants.contains_key(grant) {
                    return Err(Rejection::UnknownGrant { grant: *grant });
                }
                d.push(Event::GrantRevoked { grant: *grant });
                Ok(())
            }

            Command::ReserveCall { turn, usage, worst } => {
                let (agent, turn) = self.own_turn(caller, *turn)?;
                if !self.budget.allows(Some(turn.id), usage.amount(), *worst) {
                    return Err(Rejection::OverBudget);
                }
                d.push(Event::CallReserved {
                    turn: turn.id,
                    slot: agent.slot,
                    amount: *worst,
                    usage: *usage,
                });
                Ok(())
            }
            Command::RecordUsage { slot, usage } => {
                self.member(*slot)?;
                if caller == Caller::User || matches!(caller, Caller::Agent(s) if s != *slot) {
                    return Err(Rejection::NotAllowed {
                        what: "report usage",
                        who: "the agent itself",
                    });
                }
                d.push(Event::UsageRecorded { slot: *slot, usage: *usage });
                Ok(())
            }
            Command::SetCap { cap } => {
                self.person(caller, "change the budget")?;
                d.push(Event::CapChanged { cap: *cap });
                self.release_budget(d, *cap);
                Ok(())
            }
            Command::Keyed { key: _, command: inner } => {
                let before = d.events.len();
                self.route(d, caller, inner)?;
                let receipt = receipt_of(&d.events[before..]);
                if let Some(key) = key_of(caller, command) {
                    d.push(Event::KeyUsed { key, receipt });
                }
                Ok(())
            }
            Command::Observe(fact) => self.observe(d, caller, fact),
        }
    }

    /// What foreign members did by themselves is recorded even where it breaks a rule.
    fn observe(&self, d: &mut Draft, caller: Caller, fact: &Fact) -> Result<(), Rejection> {
        if caller != Caller::System {
            return Err(Rejection::NotAllowed { what: "report facts", who: "a backend" });
        }
        let member = Caller::Agent(fact.slot());
        let mut tried = Draft::new(self, d.now);
        let outcome = match fact {
            Fact::Sent { to, text, .. } => self.send_message(
                &mut tried,
                member,
                &SendMessage {
                    to: *to,
                    text: text.clone(),
                    summary: None,
                    urgency: Urgency::Wake,
                    files: Vec::new(),
                    key: None,
                },
            ),
            Fact::ChangedTask { task, change, .. } => {
                self.update_task(&mut tried, member, *task, change, None)
            }
            Fact::CreatedTask { subject, description, .. } => self.create_task(
                &mut tried,
                member,
                super::tasks::NewTask {
                    subject,
                    description,
                    active_form: None,
                    owner: None,
                    blocked_by: &std::collections::BTreeSet::new(),
                    metadata: &std::collections::BTreeMap::new(),
                },
            ),
            Fact::Left { slot, cause } => self
                .member(*slot)
                .map(|agent| agent.generation)
                .and_then(|generation| self.exited(&mut tried, *slot, generation, cause)),
        };
        match outcome {
            Ok(()) => {
                d.push(Event::FactObserved { fact: fact.clone(), conflict: None });
                d.events.append(&mut tried.events);
            }
            Err(rule) => d.push(Event::FactObserved {
                fact: fact.clone(),
                conflict: Some(rule.code().to_owned()),
            }),
        }
        Ok(())
    }

    fn hold_team(&self, d: &mut Draft, hold: TeamHold) {
        if !self.holds.contains(&hold) {
            d.push(Event::TeamHeld { hold });
        }
    }

    pub(super) fn hold(&self, d: &mut Draft, slot: SlotId, hold: Hold) {
        if self.agents.get(&slot).is_some_and(|a| !a.holds.contains(&hold)) {
            d.push(Event::AgentHeld { slot, hold });
        }
    }

    fn resume_team(&self, d: &mut Draft, caller: Caller) {
        for hold in &self.holds {
            d.push(Event::TeamReleased { hold: *hold });
        }
        for agent in self.agents.values() {
            for hold in agent.holds() {
                d.push(Event::AgentReleased { slot: agent.slot, hold });
            }
            if agent.role == Role::Lead && self.holds.contains(&TeamHold::LeadDown) {
                restart_failed(d, agent, caller);
            }
        }
    }

    fn release_budget(&self, d: &mut Draft, cap: Option<crate::budget::Cap>) {
        let mut budget = self.budget.clone();
        budget.cap = cap;
        if !budget.has_room(budget.first_call().unwrap_or_default()) {
            return;
        }
        for agent in self.agents.values().filter(|a| a.holds.contains(&Hold::Budget)) {
            d.push(Event::AgentReleased { slot: agent.slot, hold: Hold::Budget });
        }
    }

    /// Ends the team: every turn, request and mailbox gets its end, by name.
    pub(super) fn end_now(&self, d: &mut Draft) {
        for agent in self.agents.values() {
            if let Some(turn) = agent.turn() {
                d.push(Event::TurnEnded {
                    turn: turn.id,
                    slot: agent.slot,
                    outcome: TurnOutcome::Interrupted,
                    acknowledged: turn.mail.keys().copied().collect(),
                    requeued: Vec::new(),
                    usage: None,
                });
            }
            let in_turn = |id: &MessageId| agent.turn().is_some_and(|t| t.mail.contains_key(id));
            for message in agent.mailbox.entries().keys().filter(|id| !in_turn(id)) {
                d.push(Event::MessageDeadLettered {
                    message: *message,
                    slot: agent.slot,
                    reason: DeadLetterReason::TeamEnded,
                });
            }
        }
        for request in self.requests.keys() {
            d.push(Event::RequestWithdrawn { request: *request, why: Withdrawal::TeamEnded });
        }
        for agent in self.agents.values() {
            d.push(Event::AgentRemoved {
                slot: agent.slot,
                reason: crate::agent::RemovalReason::TeamEnded,
            });
        }
        d.push(Event::TeamEnded);
    }
}

/// What a decision made, for its receipt.
fn receipt_of(events: &[Event]) -> Receipt {
    let mut receipt = Receipt::default();
    for event in events {
        match event {
            Event::MessageSent { message, .. } => {
                receipt.message.get_or_insert(message.id);
            }
            Event::TaskCreated { task, .. } => receipt.task = Some(TaskId(task.0)),
            Event::RequestOpened { request } => {
                receipt.request.get_or_insert(request.id);
            }
            Event::AgentSpawned { slot, .. } => receipt.slot = Some(*slot),
            _ => {}
        }
    }
    receipt
}
