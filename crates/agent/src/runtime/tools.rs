//! The calls of one model step: judged, run, answered, journalled; each at most once.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use aion_core::command::ToolProposal;
use aion_core::message::shorten;
use aion_core::permission::ToolClass;
use aion_core::prompt::tool_output;
use aion_core::request::{ActionHash, Decision};
use aion_core::rule::{Finding, RuleScope, RuleWord};
use aion_core::transcript::{Content, Item};
use aion_core::turn::{CallId, ToolCallState};
use futures::StreamExt;
use futures::future::{join_all, try_join_all};
use futures::stream::FuturesUnordered;

use super::turn::{Flow, Halt, Turn};
use crate::host::{Delta, HostError, Permit, ToolOutput, ToolSpec};
use crate::network::{Gate, HostAsk};
use crate::permission::{Rulebook, Subject};
use crate::tools::{Prepared, Surroundings, Toolbox, shown_input};

/// What the model is told of a call that was running when the house fell.
const MAY_HAVE_RUN: &str = "This call had begun when the program was stopped, so it is not run again. It may have run, or \
     have run in part: look before you do it again.";
/// What the model is told of a call that was running when its turn was interrupted.
const INTERRUPTED: &str =
    "The turn was interrupted while this call was under way. It may have run, or have run in part.";
/// What the model is told of a call that came after an interrupted one.
const NOT_RUN: &str = "The turn was interrupted before this call began: it did not run.";
/// Bytes of an output that those who watch are shown.
const SHOWN_OUTPUT_BYTES: usize = 2 * 1024;

/// A call that has no result yet.
#[derive(Clone, Debug)]
struct Call {
    id: CallId,
    tool: String,
    input: serde_json::Value,
}

/// What a call came to.
struct Performed {
    output: ToolOutput,
    /// Whether it stands in the house's journal as started.
    journalled: bool,
}

impl Performed {
    fn refused(text: impl Into<String>) -> Self {
        Self { output: ToolOutput::failed(text), journalled: false }
    }
}

impl Turn<'_> {
    /// Journals the end of calls whose result is in the transcript while their end is not in the
    /// journal.
    pub(super) async fn settle_journal(&mut self) -> Result<(), Halt> {
        let Some(journal) = &self.input.resume else { return Ok(()) };
        let turn = self.input.turn;
        let results: Vec<(CallId, bool)> = self
            .own()
            .filter_map(|item| match &item.content {
                Content::Got { call, ok, .. }
                    if matches!(journal.get(call), Some(ToolCallState::Started { .. })) =>
                {
                    Some((call.clone(), *ok))
                }
                _ => None,
            })
            .collect();
        for (call, ok) in results {
            let tool = self.own().find_map(|item| match &item.content {
                Content::Called { call: c, tool, .. } if *c == call => Some(tool.as_str()),
                _ => None,
            });
            let changed = ok && tool.is_some_and(|tool| !Toolbox::is_reader(tool));
            self.runtime.host.finish(turn, &call, ok, changed).await?;
        }
        Ok(())
    }

    /// Runs the calls of the step that have no result.
    pub(super) async fn run_calls(&mut self) -> Result<Flow, Halt> {
        let (had_calls, mut open) = self.open_calls();
        if !had_calls {
            return Ok(Flow::NoCalls);
        }
        let mut ends = self.ended_before().await?;
        while !open.is_empty() {
            if self.controls.interrupt.is_cancelled() {
                return self.break_off(Vec::new(), open).await;
            }
            let batch: Vec<Call> = open.drain(..self.together(&open)).collect();
            match try_join_all(batch.iter().map(|call| self.perform(call))).await {
                Ok(performed) => ends |= self.conclude(&batch, performed).await?,
                Err(Halt::Interrupted) => return self.break_off(batch, open).await,
                Err(halt) => return Err(halt),
            }
        }
        Ok(if ends { Flow::End } else { Flow::GoOn })
    }

    /// Answers the calls that an interrupt met under way, and those that it met before they began.
    async fn break_off(&mut self, under_way: Vec<Call>, open: Vec<Call>) -> Result<Flow, Halt> {
        let got = |call: Call, text: &str| got(call.id, ToolOutput::failed(text));
        let content = under_way
            .into_iter()
            .map(|call| got(call, INTERRUPTED))
            .chain(open.into_iter().map(|call| got(call, NOT_RUN)))
            .collect();
        self.record(self.step, content).await?;
        Err(Halt::Interrupted)
    }

    /// Whether a call of this step that was answered before the house fell has ended the turn.
    async fn ended_before(&self) -> Result<bool, Halt> {
        if self.input.resume.is_none() {
            return Ok(false);
        }
        for item in self.own().filter(|item| item.step == self.step) {
            let Content::Called { call, tool, input } = &item.content else { continue };
            let succeeded = |item: &Item| matches!(&item.content, Content::Got { call: c, ok: true, .. } if c == call);
            if !self.runtime.tools.has(tool)
                && self.own().any(succeeded)
                && self.runtime.host.ended_turn(self.input.turn, tool, input).await?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the step called anything, and what of it has no result.
    fn open_calls(&self) -> (bool, Vec<Call>) {
        let answered: BTreeSet<&CallId> = self
            .own()
            .filter_map(|item| match &item.content {
                Content::Got { call, .. } => Some(call),
                _ => None,
            })
            .collect();
        let mut had_calls = false;
        let mut open = Vec::new();
        for item in self.own().filter(|item| item.step == self.step) {
            if let Content::Called { call, tool, input } = &item.content {
                had_calls = true;
                if !answered.contains(call) {
                    open.push(Call { id: call.clone(), tool: tool.clone(), input: input.clone() });
                }
            }
        }
        (had_calls, open)
    }

    /// How many of the next calls may run at the same time: readers do, everything else runs alone
    /// and in order.
    fn together(&self, open: &[Call]) -> usize {
        let reads = |call: &&Call| {
            Toolbox::is_reader(&call.tool)
                && self
                    .runtime
                    .tools
                    .prepare(&call.tool, &call.input)
                    .is_ok_and(|prepared| prepared.class == ToolClass::Read)
        };
        open.iter().take_while(reads).count().max(1)
    }

    async fn perform(&self, call: &Call) -> Result<Performed, Halt> {
        let (turn, step) = (self.input.turn, self.step);
        let host = &self.runtime.host;
        let show = |description: String| {
            let (call, tool) = (call.id.clone(), call.tool.clone());
            host.delta(turn, Delta::Called { step, call, tool, description });
        };
        let began = self.input.resume.as_ref().and_then(|journal| journal.get(&call.id));
        if matches!(began, Some(ToolCallState::Started { .. })) {
            return Ok(Performed { output: ToolOutput::failed(MAY_HAVE_RUN), journalled: true });
        }
        if !self.runtime.tools.has(&call.tool) {
            let team_tools = host.team_tools();
            if !team_tools.iter().any(|spec| spec.name == call.tool) {
                return Ok(Performed::refused(unknown_tool(
                    &call.tool,
                    &self.runtime.tools.specs(),
                    &team_tools,
                )));
            }
            show(call.tool.clone());
            // Not given up half-way: mail that a tool has taken counts as read with its answer.
            let output = host.call_team_tool(turn, &call.id, &call.tool, &call.input).await?;
            return Ok(Performed { output, journalled: false });
        }
        let prepared = match self.runtime.tools.prepare(&call.tool, &call.input) {
            Ok(prepared) => prepared,
            Err(reason) => return Ok(Performed::refused(reason)),
        };
        show(prepared.description.clone());
        self.unless_interrupted(self.permit_and_run(call, prepared)).await?
    }

    async fn permit_and_run(&self, call: &Call, prepared: Prepared) -> Result<Performed, Halt> {
        let rules = self.runtime.host.rules().await?;
        let book = self.runtime.tools.book(rules);
        let prepared = prepared.hiding(&book);
        if let Some(reason) = self.permit(call, &prepared, &book).await? {
            return Ok(Performed::refused(tool_output(&reason)));
        }
        let (gate, mut asked) = Gate::new();
        let around = Surroundings { gate: Some(gate), ..Surroundings::default() };
        let refused = Arc::clone(&around.refused);
        let mut run = self.runtime.tools.run(prepared, around);
        let mut waiting = FuturesUnordered::new();
        let mut output = loop {
            tokio::select! {
                output = &mut run => break output,
                Some(ask) = asked.recv() => waiting.push(self.decide(call, ask)),
                Some(decided) = waiting.next() => decided?,
            }
        };
        // Every change of it is one addition.
        let told = std::mem::take(&mut *refused.lock().unwrap_or_else(PoisonError::into_inner));
        for violation in told {
            self.runtime.host.refused(self.input.turn, &call.id, violation).await?;
        }
        output.text = tool_output(&output.text);
        Ok(Performed { output, journalled: true })
    }

    /// Answers whether a running command may reach a host, when somebody has decided.
    async fn decide(&self, call: &Call, ask: HostAsk) -> Result<(), HostError> {
        let (turn, host) = (self.input.turn, &self.runtime.host);
        let book = self.runtime.tools.book(host.rules().await?);
        let name = ask.host.rsplit_once(':').filter(|(name, _)| !name.contains(':'));
        let subject = Subject::Host(name.map_or(ask.host.as_str(), |(name, _)| name).to_owned());
        let finding = book.judge("WebFetch", &subject, ToolClass::Execute);
        let answer = match host.reach(turn, &call.id, &ask.host, finding).await? {
            Permit::Run => Ok(()),
            Permit::Refused(reason) => Err(format!("{}: {reason}", ask.host)),
            Permit::Ask(request) => {
                let decision = self.controls.answers.wait(request).await;
                host.take_answer(turn, request).await?;
                match decision {
                    Decision::Allow { .. } => Ok(()),
                    Decision::Deny { reason } if !reason.is_empty() => {
                        Err(format!("{} was denied: {reason}", ask.host))
                    }
                    _ => Err(format!("{} was denied", ask.host)),
                }
            }
        };
        // A command that ended meanwhile hears nothing more.
        let _ = ask.answer.send(answer);
        Ok(())
    }

    /// Has a call judged, waits for a decision where one is needed, and answers why it does not run.
    async fn permit(
        &self,
        call: &Call,
        prepared: &Prepared,
        book: &Rulebook,
    ) -> Result<Option<String>, HostError> {
        let turn = self.input.turn;
        let host = &self.runtime.host;
        let cwd = self.runtime.tools.workspace().display().to_string();
        let mut finding = book.judge(&call.tool, &prepared.subject, prepared.class);
        let mut description = prepared.description.clone();
        if call.tool == "Bash" && self.runtime.tools.runs_without_wall().await {
            description.push_str(" (WITHOUT A SANDBOX: none works on this machine)");
            // Whatever would let it run otherwise was said of commands behind a wall.
            finding = finding.filter(|finding| finding.says == RuleWord::Deny).or(Some(Finding {
                says: RuleWord::Ask,
                rule: "a command without a sandbox".to_owned(),
                scope: RuleScope::User,
                grant: None,
            }));
        }
        let proposal = ToolProposal {
            turn,
            call: call.id.clone(),
            tool: call.tool.clone(),
            class: prepared.class,
            action: ActionHash::of_tool(&call.tool, &call.input, &cwd),
            description,
            input: shown_input(&call.input),
            kin: prepared.subject.kin(&cwd),
            cwd,
            finding,
            suggestion: book.suggestion(&call.tool, &prepared.subject, prepared.class),
        };
        let mut permit = host.propose(proposal).await?;
        loop {
            match permit {
                Permit::Run => return Ok(None),
                Permit::Refused(reason) => return Ok(Some(reason)),
                Permit::Ask(request) => {
                    self.controls.answers.wait(request).await;
                    permit = host.start(turn, &call.id).await?;
                }
            }
        }
    }

    /// Records results, then journals the ends; says whether one of them ends the turn.
    async fn conclude(&mut self, batch: &[Call], performed: Vec<Performed>) -> Result<bool, Halt> {
        let (turn, step) = (self.input.turn, self.step);
        let ends = performed.iter().any(|p| p.output.ends_turn);
        let mut finished = Vec::new();
        let mut content = Vec::new();
        for (call, Performed { output, journalled }) in batch.iter().zip(performed) {
            let text = shorten(&output.text, SHOWN_OUTPUT_BYTES);
            let shown = Delta::Got { step, call: call.id.clone(), ok: output.ok, text };
            self.runtime.host.delta(turn, shown);
            if journalled {
                finished.push((call.id.clone(), output.ok, output.changed));
            }
            content.push(got(call.id.clone(), output));
        }
        self.record(step, content).await?;
        let ends_of_calls = finished
            .iter()
            .map(|(call, ok, changed)| self.runtime.host.finish(turn, call, *ok, *changed));
        for end in join_all(ends_of_calls).await {
            end?;
        }
        Ok(ends)
    }
}

fn got(call: CallId, output: ToolOutput) -> Content {
    Content::Got { call, output: output.text, ok: output.ok, images: output.images }
}

fn unknown_tool(tool: &str, specs: &[Arc<ToolSpec>], team_tools: &[Arc<ToolSpec>]) -> String {
    let names: Vec<&str> = specs.iter().chain(team_tools).map(|spec| spec.name.as_str()).collect();
    format!("There is no tool {tool:?}. The tools are: {}.", names.join(", "))
}
