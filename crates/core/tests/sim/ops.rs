//! What a person, a stranger and chance do to a team; never what an agent does in its turn.

use aion_core::agent::{MemberSpec, PermissionMode};
use aion_core::budget::{Amount, Cap};
use aion_core::command::{SendMessage, Settings};
use aion_core::id::{AgentName, ConversationId, RequestId, SlotId, TeamId};
use aion_core::limits::Limits;
use aion_core::message::{Envelope, Recipient, Urgency};
use aion_core::permission::{Delegation, GrantScope};
use aion_core::request::{Decision, Request, RequestKind};
use aion_core::rule::{Rule, SessionRules};
use aion_core::{Caller, Command, Event};

use crate::agents::Sent;
use crate::model::Standing;
use crate::run;
use crate::world::{SECRET_KEY, World};

#[derive(Clone, Copy, Debug)]
enum Op {
    Send,
    SendAll,
    SendAgain,
    Batch,
    Race,
    Retry,
    Decide,
    Task,
    Spawn,
    Shutdown,
    Kill,
    Restart,
    Rename,
    Mode,
    Model,
    Interrupt,
    Pause,
    Resume,
    PauseTeam,
    ResumeTeam,
    StopTeam,
    Delegate,
    Revoke,
    SetCap,
    Configure,
    Crash,
    CrashProcess,
    Outage,
    WallJump,
    Suspend,
    Wait,
    Late,
    Stale,
    Trespass,
    Fact,
    Snapshot,
    Tick,
    EndTeam,
    Withdraw,
}

impl World {
    /// The team and its first members.
    pub(crate) fn set_up(&mut self) {
        let faults = std::mem::replace(&mut self.faults, false);
        let solo = self.rng.percent(4);
        self.open();
        let mut lead = *self.some_member();
        lead.mode = self.some_mode();
        let settings = Box::new(self.some_settings());
        let command = Command::CreateTeam {
            team: TeamId::new(format!("team-{}", self.seed)).expect("a slug"),
            name: "team".to_owned(),
            owner: "user-1".to_owned(),
            workspace: "/w".to_owned(),
            solo,
            lead: Box::new(lead),
            settings,
        };
        self.submit(Caller::User, command);
        let teammates = self.rng.range(2, 8);
        if !solo {
            for _ in 0..teammates {
                let member = self.some_member();
                self.submit(Caller::User, Command::SpawnAgent { member });
            }
        }
        self.faults = faults;
    }

    fn some_settings(&mut self) -> Settings {
        let mut limits = Limits::default();
        let mut pick = |choices: &[u64]| self.rng.pick(choices).copied().unwrap_or(1);
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        limits.members = small(pick(&[9, 10, 12, 16]));
        limits.batch_messages = small(pick(&[1, 3, 32, 32]));
        limits.attempts = small(pick(&[1, 2, 3, 3]));
        limits.unread = small(pick(&[8, 1_000, 1_000]));
        limits.messages_per_minute = small(pick(&[0, 5, 30, 30]));
        limits.restarts_in_window = small(pick(&[0, 1, 3, 3]));
        limits.turns_without_progress = small(pick(&[0, 3, 12, 12]));
        limits.open_requests = small(pick(&[1, 3, 8, 8]));
        limits.open_tasks = small(pick(&[5, 1_000, 1_000]));
        let capped = self.rng.percent(25);
        Settings {
            limits,
            auto_claim: self.rng.percent(80),
            spawn_allowance: small(self.rng.below(4)),
            delegation: self.some_delegation(),
            rules: self.some_rules(),
            member_mode: self.rng.percent(20).then(|| self.some_mode()),
            cap: capped.then(|| self.some_cap()),
        }
    }

    fn some_rules(&mut self) -> SessionRules {
        let allow = self.rng.percent(30).then(|| Rule::tool_alone("bash"));
        SessionRules { allow: allow.into_iter().collect(), ..SessionRules::default() }
    }

    fn some_cap(&mut self) -> Cap {
        let tokens = self.rng.range(500, 20_000);
        let per_call = Amount { tokens: self.rng.range(1, 400), micro_usd: 0 };
        Cap { most: Amount { tokens, micro_usd: 0 }, per_call }
    }

    pub(crate) fn some_delegation(&mut self) -> Delegation {
        let mut delegation = Delegation { plans: self.rng.percent(80), ..Delegation::default() };
        if self.rng.percent(40) {
            delegation.tools.insert("bash".to_owned());
        }
        if self.rng.percent(40) {
            delegation.hosts.insert("host-0.example".to_owned());
        }
        delegation
    }

    fn some_mode(&mut self) -> PermissionMode {
        self.rng.weighted(&[
            (1, PermissionMode::Plan),
            (1, PermissionMode::DontAsk),
            (5, PermissionMode::Default),
            (2, PermissionMode::AcceptEdits),
            (1, PermissionMode::BypassPermissions),
        ])
    }

    pub(crate) fn some_member(&mut self) -> Box<MemberSpec> {
        self.client.names += 1;
        let number = self.client.names;
        let prompt = if self.rng.percent(80) { "do your part".to_owned() } else { String::new() };
        Box::new(MemberSpec {
            name: AgentName::parse(&format!("worker-{number}")).expect("a slug"),
            label: None,
            agent_type: "scripted".to_owned(),
            model: None,
            color: None,
            prompt,
            mode: self.some_mode(),
            conversation: ConversationId::new(format!("conversation-{number}")).expect("a slug"),
            parent_call: None,
            parent_conversation: None,
        })
    }

    pub(crate) fn some_slot(&mut self) -> SlotId {
        let present: Vec<SlotId> = self.model.present().map(|(slot, _)| slot).collect();
        if self.rng.percent(4) {
            return SlotId(u32::try_from(self.rng.below(20)).unwrap_or(0));
        }
        self.rng.pick(&present).copied().unwrap_or(SlotId::LEAD)
    }

    pub(crate) fn some_recipient(&mut self) -> Recipient {
        match self.rng.below(10) {
            0 => Recipient::Everyone,
            1 => Recipient::User,
            2 | 3 => Recipient::Lead,
            _ => Recipient::Agent(self.some_slot()),
        }
    }

    pub(crate) fn open_requests(&self, fits: impl Fn(&Request) -> bool) -> Vec<RequestId> {
        self.model
            .requests
            .iter()
            .filter(|(_, a)| a.standing == Standing::Open && fits(&a.request))
            .map(|(id, _)| *id)
            .collect()
    }

    /// One operation: mostly something that was going to happen happens.
    pub(crate) fn operate(&mut self) {
        self.stats.operations += 1;
        if self.rng.percent(60) && self.advance() {
            return;
        }
        if self.session.is_none() && self.rng.percent(70) {
            return self.open();
        }
        let op = self.rng.weighted(&[
            (12, Op::Send),
            (3, Op::SendAll),
            (2, Op::SendAgain),
            (4, Op::Batch),
            (4, Op::Race),
            (6, Op::Retry),
            (16, Op::Decide),
            (8, Op::Task),
            (3, Op::Spawn),
            (4, Op::Shutdown),
            (1, Op::Kill),
            (4, Op::Restart),
            (2, Op::Rename),
            (2, Op::Mode),
            (1, Op::Model),
            (4, Op::Interrupt),
            (1, Op::Pause),
            (3, Op::Resume),
            (1, Op::PauseTeam),
            (3, Op::ResumeTeam),
            (1, Op::StopTeam),
            (1, Op::Delegate),
            (1, Op::Revoke),
            (1, Op::SetCap),
            (1, Op::Configure),
            (2, Op::Crash),
            (2, Op::CrashProcess),
            (1, Op::Outage),
            (2, Op::WallJump),
            (1, Op::Suspend),
            (3, Op::Wait),
            (4, Op::Late),
            (2, Op::Stale),
            (4, Op::Trespass),
            (2, Op::Fact),
            (2, Op::Snapshot),
            (2, Op::Tick),
            (1, Op::Withdraw),
        ]);
        let op = if self.stats.operations > 190 && self.rng.permille(4) { Op::EndTeam } else { op };
        self.do_op(op);
    }

    fn do_op(&mut self, op: Op) {
        let user = Caller::User;
        match op {
            Op::Send => {
                let to = self.some_recipient();
                self.send(user, to);
            }
            Op::SendAll => self.send(user, Recipient::Everyone),
            Op::SendAgain => self.send_again(),
            Op::Batch => self.send_batch(),
            Op::Race => self.race(),
            Op::Retry => self.retry(),
            Op::Decide => self.decide_something(user),
            Op::Task => {
                if self.rng.percent(50) {
                    self.create_task(user);
                } else {
                    self.update_task(user);
                }
            }
            Op::Spawn => {
                let member = self.some_member();
                self.submit(user, Command::SpawnAgent { member });
            }
            Op::Shutdown => {
                let slot = self.some_slot();
                self.submit(
                    user,
                    Command::RequestShutdown { slot, reason: Some("enough".to_owned()) },
                );
            }
            Op::Kill => self.on_slot(|slot| Command::KillAgent { slot }),
            Op::Restart => self.on_slot(|slot| Command::RestartAgent { slot }),
            Op::Rename => self.rename(user),
            Op::Mode => {
                let mode = self.some_mode();
                self.on_slot(|slot| Command::SetMode { slot, mode });
            }
            Op::Model => {
                self.on_slot(|slot| Command::SetModel { slot, model: Some("other".to_owned()) });
            }
            Op::Interrupt => self.on_slot(|slot| Command::Interrupt { slot }),
            Op::Pause => self.on_slot(|slot| Command::PauseAgent { slot }),
            Op::Resume => self.on_slot(|slot| Command::ResumeAgent { slot }),
            Op::PauseTeam => {
                self.submit(user, Command::PauseTeam);
            }
            Op::ResumeTeam => {
                self.submit(user, Command::ResumeTeam);
            }
            Op::StopTeam => {
                self.submit(user, Command::StopTeam);
            }
            Op::Delegate => {
                let delegation = self.some_delegation();
                self.submit(user, Command::Delegate { delegation });
            }
            Op::Revoke => {
                let grants: Vec<_> = self.model.grants.keys().copied().collect();
                if let Some(grant) = self.rng.pick(&grants).copied() {
                    self.submit(user, Command::RevokeGrant { grant });
                }
            }
            Op::SetCap => {
                let cap = if self.rng.percent(40) { None } else { Some(self.some_cap()) };
                self.submit(user, Command::SetCap { cap });
            }
            Op::Configure => {
                let settings = Box::new(self.some_settings());
                self.submit(user, Command::Configure { settings });
            }
            Op::Crash => {
                if self.faults {
                    self.stats.faults += 1;
                    self.fall();
                }
            }
            Op::CrashProcess => self.crash_process(),
            Op::Outage => self.outage(),
            Op::WallJump => self.jump(),
            Op::Suspend => self.wall += i64::try_from(self.rng.below(10_000_000)).unwrap_or(0),
            Op::Wait => {
                let wait = self.rng.pick(&[500, 20_000, 61_000, 700_000]).copied().unwrap_or(0);
                self.pass_until(self.mono + wait);
            }
            Op::Late => self.late_result(),
            Op::Stale => self.stale_process(),
            Op::Trespass => {
                let slot = self.some_slot();
                self.trespass(Caller::Agent(slot));
            }
            Op::Fact => self.observe(),
            Op::Snapshot => {
                self.keep_snapshot();
                run::check_replay(self);
            }
            Op::Tick => {
                self.submit(Caller::System, Command::Tick);
            }
            Op::EndTeam => {
                self.submit(user, Command::EndTeam);
            }
            Op::Withdraw => {
                let open = self.open_requests(|r| r.turn.is_none());
                if let Some(request) = self.rng.pick(&open).copied() {
                    self.submit(user, Command::Withdraw { request });
                }
            }
        }
    }

    fn on_slot(&mut self, command: impl FnOnce(SlotId) -> Command) {
        let slot = self.some_slot();
        self.submit(Caller::User, command(slot));
    }

    pub(crate) fn rename(&mut self, caller: Caller) {
        let slot = self.some_slot();
        let taken = self.some_slot();
        // Half of the names are twins of one that is taken.
        let text = match self.model.members.get(&taken) {
            Some(member) if self.rng.percent(50) => {
                member.name.as_str().replace('o', "0").replace('l', "1")
            }
            _ => format!("renamed-{}", self.rng.below(1_000)),
        };
        if let Ok(name) = AgentName::parse(&text) {
            self.submit(caller, Command::RenameAgent { slot, name, label: None });
        }
    }

    /// The person sends once more what the log holds, to its recipient or to somebody else.
    fn send_again(&mut self) {
        let sent: Vec<Envelope> = self
            .log
            .iter()
            .rev()
            .filter_map(|recorded| match &recorded.event {
                Event::MessageSent { message, .. } => Some(message.clone()),
                _ => None,
            })
            .take(30)
            .collect();
        let Some(message) = self.rng.pick(&sent).cloned().map(Box::new) else { return };
        let slot = match message.to {
            Recipient::Agent(slot) if self.rng.percent(80) => slot,
            _ => self.some_slot(),
        };
        self.submit(Caller::User, Command::SendAgain { slot, message });
    }

    /// Several commands that arrive together and share one append.
    fn send_batch(&mut self) {
        let mut batch = Vec::new();
        let mut numbers = Vec::new();
        for _ in 0..self.rng.range(2, 6) {
            let number = self.client.sends.len();
            let to = self.some_recipient();
            let message = SendMessage {
                to,
                text: format!("text {number}"),
                summary: None,
                urgency: Urgency::Wake,
                files: Vec::new(),
                key: Some(format!("{SECRET_KEY} {number}")),
            };
            let sent = Sent { caller: Caller::User, message: message.clone(), accepted: None };
            self.client.sends.push(sent);
            numbers.push(number);
            batch.push((Caller::User, Command::SendMessage(Box::new(message))));
        }
        let replies = self.submit_all(batch);
        for (number, reply) in numbers.into_iter().zip(replies) {
            self.note_reply(number, &reply);
        }
    }

    /// A client without an answer asks again, by the same key.
    pub(crate) fn retry(&mut self) {
        if self.client.unsure.is_empty() {
            return;
        }
        let at = self.rng.index(self.client.unsure.len());
        let number = self.client.unsure.swap_remove(at);
        self.try_send(number);
    }

    pub(crate) fn decide_something(&mut self, caller: Caller) {
        let open = if self.rng.percent(6) {
            (1..=self.model.last_request).map(RequestId).collect()
        } else {
            self.open_requests(|_| true)
        };
        let Some(request) = self.rng.pick(&open).copied() else { return };
        let Some(kind) = self.model.requests.get(&request).map(|a| a.request.kind.clone()) else {
            return;
        };
        if matches!(kind, RequestKind::Shutdown(_)) && self.rng.percent(20) {
            self.submit(caller, Command::Withdraw { request });
            return;
        }
        let decision = self.some_decision(&kind);
        self.submit(caller, Command::Decide { request, decision: decision.clone() });
        if self.rng.percent(15) {
            // Somebody else is a moment later.
            let other =
                if self.rng.percent(50) { Caller::User } else { Caller::Agent(SlotId::LEAD) };
            let decision = self.some_decision(&kind);
            self.submit(other, Command::Decide { request, decision });
        }
    }

    pub(crate) fn some_decision(&mut self, kind: &RequestKind) -> Decision {
        let yes = self.rng.percent(60);
        match kind {
            RequestKind::Permission(_) | RequestKind::Network(_) if yes => Decision::Allow {
                scope: self.rng.weighted(&[
                    (6, GrantScope::Once),
                    (2, GrantScope::Action),
                    (1, GrantScope::Member),
                    (1, GrantScope::Team),
                ]),
                rule: None,
            },
            RequestKind::Permission(_) | RequestKind::Network(_) => {
                Decision::Deny { reason: "not that".to_owned() }
            }
            RequestKind::Plan(_) if yes => {
                let mode = if self.rng.percent(30) { Some(self.some_mode()) } else { None };
                Decision::ApprovePlan { mode }
            }
            RequestKind::Plan(_) => Decision::ReturnPlan { feedback: "smaller steps".to_owned() },
            RequestKind::Shutdown(_) if yes => {
                if self.rng.percent(50) {
                    Decision::ApproveShutdown
                } else {
                    Decision::ForceShutdown
                }
            }
            RequestKind::Shutdown(_) => Decision::RejectShutdown { reason: "stay".to_owned() },
            RequestKind::Question(_) if yes => Decision::Answer { text: "yes".to_owned() },
            _ if yes => Decision::Consent,
            _ => Decision::Decline { reason: None },
        }
    }
}
