//! What an agent says and does in a turn, as it happens: into the transcript, to those who watch, and
//! to whoever has to allow it; nothing is allowed here.

use aion_agent::host::{Delta, HostError, Permit};
use aion_core::message::shorten;
use serde_json::Map;
use serde_json::value::RawValue;

use super::ask::{Ask, Waiting, cancelled, proven};
use super::call::CallNews;
use super::calls::name;
use super::deed::Deed;
use super::process::Deaf;
use super::turn::{Halt, Phase, Turn, Why};
use super::update::Update;

/// Bytes of an output that those who watch are shown.
const SHOWN_BYTES: usize = 2 * 1024;
/// Bytes of text that may wait to become durable.
const WAITING_BYTES: usize = 1024 * 1024;
/// The most refusals that the next prompt tells of.
const NOTES: usize = 32;
/// The protocol's code for parameters that mean nothing.
const BAD_PARAMETERS: i64 = -32_602;

impl Turn<'_> {
    /// Takes in news of the session.
    pub(super) async fn learn(&mut self, update: Update) -> Result<(), Halt> {
        let (host, turn) = (&self.seat.host, self.id);
        match update {
            Update::Said(text) => {
                self.log.said(&text);
                host.delta(turn, Delta::Text { step: self.log.step(), text });
                self.weigh().await?;
            }
            Update::Thought(text) => {
                self.log.thought(&text);
                host.delta(turn, Delta::Thought { step: self.log.step(), text });
                self.weigh().await?;
            }
            Update::Call(news) => self.called(*news).await?,
            Update::Mode(mode) => self.live.options.mode_is(&mode),
            Update::Options(options) => self.live.options.replace(options),
            Update::Cost(cost) => self.live.meter.cost(cost),
            Update::Other => {}
        }
        Ok(())
    }

    /// Keeps what was said small: what waits becomes durable, and who says too much is stopped.
    async fn weigh(&mut self) -> Result<(), Halt> {
        let limits = &self.seat.limits;
        if self.log.bytes() > limits.turn_bytes {
            let most = limits.turn_bytes;
            self.stop(Why::Fault(format!("the agent said more than {most} bytes in one turn")))?;
        }
        if self.log.waiting() > WAITING_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    async fn called(&mut self, news: CallNews) -> Result<(), Halt> {
        let id = news.id.clone();
        if self.is_one_too_many(&id)? {
            return Ok(());
        }
        let track = self.calls.learn(news);
        let ended = track.ended();
        if track.is_under_way() {
            self.show(&id);
        }
        if let Some(ok) = ended {
            self.ended(&id, ok).await?;
        }
        Ok(())
    }

    /// Whether a call is beyond what one turn may do; then the turn is stopped.
    fn is_one_too_many(&mut self, id: &str) -> Result<bool, Deaf> {
        let most = self.seat.limits.turn_calls;
        if self.calls.len() < most || self.calls.get(id).is_some() {
            return Ok(false);
        }
        self.stop(Why::Fault(format!("the agent called more than {most} tools in one turn")))?;
        Ok(true)
    }

    /// Puts a call into the transcript, once.
    fn show(&mut self, id: &str) {
        if !self.calls.show(id) {
            return;
        }
        let Some(track) = self.calls.get(id) else { return };
        let (call, tool) = (name(id), track.tool().to_owned());
        let title = track.call.title().unwrap_or(&tool);
        let description = shorten(title, SHOWN_BYTES);
        self.log.called(&call, &tool, track.input());
        let shown = Delta::Called { step: self.log.step(), call, tool, description };
        self.seat.host.delta(self.id, shown);
    }

    /// A call ended: its answer is durable before its end is in the journal.
    async fn ended(&mut self, id: &str, ok: bool) -> Result<(), Halt> {
        if !self.calls.end(id) {
            return Ok(());
        }
        let Some(track) = self.calls.get(id) else { return Ok(()) };
        let (output, started) = (track.call.output().to_owned(), track.started.take());
        let call = name(id);
        let text = shorten(&output, SHOWN_BYTES);
        let shown = Delta::Got { step: self.log.step(), call: call.clone(), ok, text };
        self.log.got(&call, output, ok);
        self.seat.host.delta(self.id, shown);
        self.flush().await?;
        if let Some((journal, changes)) = started {
            self.seat.host.finish(self.id, &journal, ok, ok && changes).await?;
        }
        if self.takes_mail() {
            // The same step would show the same mail again.
            let step = self.log.step().max(self.mail_step) + 1;
            if let Some(mail) = self.seat.host.take_mail(self.id, step).await? {
                self.mail_step = step;
                self.hand_over(mail)?;
            }
        }
        Ok(())
    }

    /// The agent asks for a permission.
    pub(super) async fn asked(&mut self, id: Box<RawValue>, params: &RawValue) -> Result<(), Halt> {
        let (ask, told) = match Ask::read(id, params) {
            Ok(read) => read,
            Err(id) => {
                let peer = self.live.exchange.peer();
                return Ok(peer.refuse(
                    &id,
                    BAD_PARAMETERS,
                    "this is no request for permission",
                )?);
            }
        };
        let Some(news) = CallNews::read(&told) else {
            return Ok(self.refuse(&ask, "a call that has no id", "nobody can tell what it is")?);
        };
        if !matches!(self.phase, Phase::Working) {
            return Ok(self.live.exchange.peer().answer(&ask.id, &cancelled())?);
        }
        let call = news.id.clone();
        if self.is_one_too_many(&call)? {
            return Ok(self.live.exchange.peer().answer(&ask.id, &cancelled())?);
        }
        let nothing = Map::new();
        let told_before = self.calls.get(&call).map_or(&nothing, |track| track.call.fields());
        let (proofs, tools) = (&self.seat.launch.profile.team_tools, self.seat.team_tools());
        let team_tool = proven(proofs, params, told_before, &tools).map(str::to_owned);
        let track = self.calls.learn(news);
        if team_tool.is_some() {
            track.team_tool = team_tool;
            self.show(&call);
            let allowed = ask.allowed();
            match allowed {
                Some(allowed) => self.live.exchange.peer().answer(&ask.id, &allowed)?,
                None => self.refuse(&ask, "a tool of the team", NO_ONCE)?,
            }
            return Ok(());
        }
        self.propose(ask, call).await
    }

    /// Has a call judged by the house.
    async fn propose(&mut self, ask: Ask, call: String) -> Result<(), Halt> {
        self.show(&call);
        // What it is about is in the transcript before anybody is asked.
        self.flush().await?;
        let Some(track) = self.calls.get(&call) else { return Ok(()) };
        let deed = match Deed::of(&track.call, &call, &self.seat.toolbox) {
            Ok(deed) => deed,
            Err(why) => return Ok(self.refuse(&ask, "a call", &why)?),
        };
        let journal = track.next_name(&call);
        let host = &self.seat.host;
        let book = self.seat.toolbox.book(host.rules().await?);
        let proposal = deed.propose(self.id, journal.clone(), &self.seat.workspace, &book);
        match host.propose(proposal).await? {
            Permit::Refused(why) => self.refuse(&ask, &deed.description, &why)?,
            Permit::Ask(request) => {
                self.waiting.push(Waiting { ask, call, journal, deed, request });
            }
            Permit::Run => self.let_run(ask, &call, journal, &deed).await?,
        }
        Ok(())
    }

    /// The request for a permission was decided.
    pub(super) async fn decided(&mut self, waiting: Waiting) -> Result<(), Halt> {
        match self.seat.host.start(self.id, &waiting.journal).await? {
            Permit::Run => {
                let Waiting { ask, call, journal, deed, .. } = waiting;
                self.let_run(ask, &call, journal, &deed).await?;
            }
            Permit::Ask(request) => self.waiting.push(Waiting { request, ..waiting }),
            Permit::Refused(why) => {
                self.refuse(&waiting.ask, &waiting.deed.description, &why)?;
            }
        }
        Ok(())
    }

    /// A call may run: it stands in the journal as started.
    async fn let_run(
        &mut self,
        ask: Ask,
        call: &str,
        journal: String,
        deed: &Deed,
    ) -> Result<(), Halt> {
        let Some(allowed) = ask.allowed() else {
            self.seat.host.finish(self.id, &journal, false, false).await?;
            return Ok(self.refuse(&ask, &deed.description, NO_ONCE)?);
        };
        self.live.exchange.peer().answer(&ask.id, &allowed)?;
        let Some(track) = self.calls.get(call) else { return Ok(()) };
        // One that was asked for before has ended with this.
        if let Some((before, _)) = track.started.replace((journal, deed.changes())) {
            self.seat.host.finish(self.id, &before, true, deed.changes()).await?;
        }
        Ok(())
    }

    /// Refuses a call. The protocol has no place for the reason: the next prompt tells it.
    fn refuse(&mut self, ask: &Ask, what: &str, why: &str) -> Result<(), Deaf> {
        self.denied = true;
        if self.live.notes.len() < NOTES {
            let what = shorten(what, SHOWN_BYTES);
            self.live.notes.push(format!("(What you asked to do was refused. {what}: {why}.)"));
        }
        self.live.exchange.peer().answer(&ask.id, &ask.refused())
    }

    /// Makes durable what happened so far, but for text that may still go on.
    pub(super) async fn flush(&mut self) -> Result<(), HostError> {
        self.record(false).await
    }

    /// Makes everything durable, and ends what did not end.
    pub(super) async fn conclude(&mut self) -> Result<(), HostError> {
        let mut started = Vec::new();
        for id in self.calls.open() {
            if self.calls.end(&id)
                && let Some(track) = self.calls.get(&id)
            {
                started.extend(track.started.take());
                let output = format!("{}[the turn ended before the call did]", track.call.output());
                self.log.got(&name(&id), output, false);
            }
        }
        self.record(true).await?;
        for (journal, changes) in started {
            self.seat.host.finish(self.id, &journal, false, changes).await?;
        }
        Ok(())
    }

    async fn record(&mut self, all: bool) -> Result<(), HostError> {
        let items = self.log.take(all);
        if items.is_empty() {
            return Ok(());
        }
        self.seat.host.record(items).await
    }
}

/// Why a call does not run that may.
const NO_ONCE: &str = "the agent offers no way to allow it once, and nothing is allowed for good";
