//! A house around one agent, in memory: it judges calls by a rule that the test gives, and can fall
//! at any call; it knows no team.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aion_agent::host::{Delta, Host, HostError, Permit, Rules, ToolOutput, ToolSpec};
use aion_agent::mcp::Wanted;
use aion_agent::sandbox::Violation;
use aion_core::budget::{Amount, Usage};
use aion_core::command::ToolProposal;
use aion_core::id::{RequestId, TurnId};
use aion_core::rule::Finding;
use aion_core::time::Timestamp;
use aion_core::transcript::Item;
use aion_core::turn::{CallId, ToolCallState};
use futures::FutureExt;
use futures::channel::mpsc;
use futures::future::BoxFuture;

/// What becomes of a proposed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It runs.
    Run,
    /// It is asked for, and then runs or, with a reason, does not.
    Ask(Result<(), String>),
    /// It does not run.
    Refuse(String),
}

/// What an agent did to its house.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Items became durable.
    Recorded(Vec<Item>),
    /// A coding tool's call was judged.
    Proposed(CallId),
    /// A call began.
    Started(CallId),
    /// A call ended.
    Finished {
        /// The call.
        call: CallId,
        /// Whether it did what it was asked to.
        ok: bool,
        /// Whether it changed something.
        changed: bool,
    },
    /// A team tool had its effect.
    TeamTool {
        /// The tool.
        tool: String,
        /// Its input.
        input: serde_json::Value,
    },
    /// A connection was judged.
    Reached(String),
    /// The wall around a command refused something.
    Violated(Violation),
    /// Mail was delivered.
    Mail(u32),
    /// A model call was reserved.
    Reserved(Usage),
}

/// Where the house falls, if it does: from this call on it answers that the turn is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fall {
    /// The call, counted from 0.
    pub at: usize,
    /// Whether that call still has its effect.
    pub applied: bool,
}

/// What happens while the agent waits for the word that something is done.
type Meanwhile = Box<dyn FnMut(&Act) + Send>;
/// How calls are judged.
type Judge = Box<dyn Fn(&ToolProposal) -> Judgement + Send + Sync>;

/// The house.
pub struct House {
    judge: Judge,
    state: Mutex<State>,
    meanwhile: Mutex<Option<Meanwhile>>,
    asked: mpsc::UnboundedSender<RequestId>,
}

#[derive(Debug, Default)]
struct State {
    transcript: Vec<Item>,
    journal: BTreeMap<CallId, ToolCallState>,
    asked: BTreeMap<RequestId, Result<(), String>>,
    waiting: Vec<String>,
    delivered: BTreeMap<(TurnId, u32), String>,
    team_calls: BTreeMap<(TurnId, CallId), ToolOutput>,
    acts: Vec<Act>,
    deltas: Vec<Delta>,
    budget: Option<u64>,
    calls: usize,
    hosts: BTreeMap<String, Judgement>,
    fall: Option<Fall>,
    standing: String,
    trusted: bool,
    wanted: Wanted,
    refuse_to_record: Option<HostError>,
}

impl House {
    /// A house with a rule for calls, and the requests that it opens.
    pub fn new(
        judge: impl Fn(&ToolProposal) -> Judgement + Send + Sync + 'static,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<RequestId>) {
        let (asked, requests) = mpsc::unbounded();
        let (judge, state) = (Box::new(judge), Mutex::default());
        (Arc::new(Self { judge, state, meanwhile: Mutex::default(), asked }), requests)
    }

    /// The person has these MCP servers.
    pub fn want(&self, wanted: Wanted) {
        self.lock().wanted = wanted;
    }

    /// The person trusts the workspace.
    pub fn trust(&self) {
        self.lock().trusted = true;
    }

    /// What the agent may not forget.
    pub fn stand(&self, text: &str) {
        text.clone_into(&mut self.lock().standing);
    }

    /// Does something whenever the agent has done something and has not heard yet that it is done.
    pub fn meanwhile(&self, act: impl FnMut(&Act) + Send + 'static) {
        *self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(act));
    }

    /// How connections to a host are judged; others are refused.
    pub fn judge_host(&self, host: &str, judgement: Judgement) {
        self.lock().hosts.insert(host.to_owned(), judgement);
    }

    /// Lets the next write of the transcript fail.
    pub fn refuse_to_record(&self, error: HostError) {
        self.lock().refuse_to_record = Some(error);
    }

    /// Lets the house fall, or stand again.
    pub fn fall(&self, fall: Option<Fall>) {
        let mut state = self.lock();
        state.fall = fall;
        state.calls = 0;
    }

    /// Whether it has fallen.
    pub fn has_fallen(&self) -> bool {
        let state = self.lock();
        state.fall.is_some_and(|fall| state.calls > fall.at)
    }

    /// Puts mail where the agent finds it between two steps.
    pub fn send(&self, text: &str) {
        self.lock().waiting.push(text.to_owned());
    }

    /// Allows so many more model calls.
    pub fn allow_calls(&self, calls: u64) {
        self.lock().budget = Some(calls);
    }

    /// The journal of calls that have not ended.
    pub fn journal(&self) -> BTreeMap<CallId, ToolCallState> {
        self.lock().journal.clone()
    }

    /// The transcript.
    pub fn transcript(&self) -> Vec<Item> {
        self.lock().transcript.clone()
    }

    /// What the agent did, in order.
    pub fn acts(&self) -> Vec<Act> {
        self.lock().acts.clone()
    }

    /// What was shown to those who watch.
    pub fn deltas(&self) -> Vec<Delta> {
        self.lock().deltas.clone()
    }

    /// Opens a request that will be decided so, and tells of it.
    fn ask(&self, state: &mut State, decision: Result<(), String>) -> RequestId {
        let request = RequestId(state.asked.len() as u64 + 1);
        state.asked.insert(request, decision);
        let _ = self.asked.unbounded_send(request);
        request
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something as one call, unless the house falls there.
    fn call<T>(
        &self,
        effect: impl FnOnce(&mut State) -> Result<T, HostError>,
    ) -> BoxFuture<'_, Result<T, HostError>>
    where
        T: Send + 'static,
    {
        let mut state = self.lock();
        let number = state.calls;
        state.calls += 1;
        let before = state.acts.len();
        let result = match state.fall {
            Some(fall) if number > fall.at => Err(HostError::TurnOver),
            Some(fall) if number == fall.at => {
                if fall.applied {
                    // Done, and never heard of.
                    let _ = effect(&mut state);
                }
                Err(HostError::TurnOver)
            }
            Some(_) | None => effect(&mut state),
        };
        let act = state.acts.get(before).cloned();
        drop(state);
        async move {
            let meanwhile = || self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(act) = act
                && let Some(happens) = &mut *meanwhile()
            {
                happens(&act);
            } else {
                return result;
            }
            // Whoever waits for something else as well hears of it before.
            tokio::task::yield_now().await;
            result
        }
        .boxed()
    }
}

impl fmt::Debug for House {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("House").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Host for House {
    fn now(&self) -> Timestamp {
        Timestamp(1_000)
    }

    fn team_tools(&self) -> Vec<Arc<ToolSpec>> {
        ["SendMessage", "team_submit_plan", "team_refuse"]
            .map(|name| {
                Arc::new(ToolSpec {
                    name: name.to_owned(),
                    description: String::new(),
                    input_schema: serde_json::json!({ "type": "object" }),
                })
            })
            .into()
    }

    fn call_team_tool<'a>(
        &'a self,
        turn: TurnId,
        call: &'a CallId,
        tool: &'a str,
        input: &'a serde_json::Value,
    ) -> BoxFuture<'a, Result<ToolOutput, HostError>> {
        self.call(|state| {
            let key = (turn, call.clone());
            if let Some(output) = state.team_calls.get(&key) {
                return Ok(output.clone());
            }
            let (tool, input) = (tool.to_owned(), input.clone());
            let output = ToolOutput {
                text: format!("{tool}: done"),
                ok: tool != "team_refuse",
                changed: false,
                ends_turn: tool == "team_submit_plan",
                images: Vec::new(),
            };
            state.acts.push(Act::TeamTool { tool, input });
            state.team_calls.insert(key, output.clone());
            Ok(output)
        })
    }

    fn ended_turn<'a>(
        &'a self,
        _: TurnId,
        tool: &'a str,
        _: &'a serde_json::Value,
    ) -> BoxFuture<'a, Result<bool, HostError>> {
        let ends = tool == "team_submit_plan";
        self.call(move |_| Ok(ends))
    }

    fn rules(&self) -> BoxFuture<'_, Result<Rules, HostError>> {
        self.call(|_| Ok(Rules::default()))
    }

    fn servers(&self) -> BoxFuture<'_, Result<Wanted, HostError>> {
        self.call(|state| Ok(state.wanted.clone()))
    }

    fn trusted(&self) -> BoxFuture<'_, Result<bool, HostError>> {
        self.call(|state| Ok(state.trusted))
    }

    fn propose(&self, proposal: ToolProposal) -> BoxFuture<'_, Result<Permit, HostError>> {
        let judgement = (self.judge)(&proposal);
        self.call(|state| {
            let ToolProposal { call, tool, action, .. } = proposal;
            match state.journal.get(&call) {
                Some(ToolCallState::Asked { request, .. }) => {
                    let _ = self.asked.unbounded_send(*request);
                    return Ok(Permit::Ask(*request));
                }
                Some(ToolCallState::Started { .. }) => {
                    return Ok(Permit::Refused("it was begun before".to_owned()));
                }
                None => {}
            }
            state.acts.push(Act::Proposed(call.clone()));
            Ok(match judgement {
                Judgement::Run => {
                    state.acts.push(Act::Started(call.clone()));
                    state.journal.insert(call, ToolCallState::Started { tool });
                    Permit::Run
                }
                Judgement::Ask(decision) => {
                    let request = self.ask(state, decision);
                    state.journal.insert(call, ToolCallState::Asked { request, action, tool });
                    Permit::Ask(request)
                }
                Judgement::Refuse(reason) => Permit::Refused(reason),
            })
        })
    }

    fn reach<'a>(
        &'a self,
        _: TurnId,
        _: &'a CallId,
        host: &'a str,
        _: Option<Finding>,
    ) -> BoxFuture<'a, Result<Permit, HostError>> {
        let host = host.to_owned();
        self.call(|state| {
            let judgement = state.hosts.get(&host).cloned();
            state.acts.push(Act::Reached(host));
            Ok(match judgement.unwrap_or(Judgement::Refuse("no such host here".to_owned())) {
                Judgement::Run => Permit::Run,
                Judgement::Ask(decision) => Permit::Ask(self.ask(state, decision)),
                Judgement::Refuse(reason) => Permit::Refused(reason),
            })
        })
    }

    fn take_answer(&self, _: TurnId, _: RequestId) -> BoxFuture<'_, Result<(), HostError>> {
        self.call(|_| Ok(()))
    }

    fn refused<'a>(
        &'a self,
        _: TurnId,
        _: &'a CallId,
        violation: Violation,
    ) -> BoxFuture<'a, Result<(), HostError>> {
        self.call(|state| {
            state.acts.push(Act::Violated(violation));
            Ok(())
        })
    }

    fn start<'a>(
        &'a self,
        _: TurnId,
        call: &'a CallId,
    ) -> BoxFuture<'a, Result<Permit, HostError>> {
        self.call(|state| {
            let Some(ToolCallState::Asked { request, tool, .. }) = state.journal.get(call).cloned()
            else {
                return Ok(Permit::Refused("it was not asked for".to_owned()));
            };
            if let Some(Err(reason)) = state.asked.get(&request).cloned() {
                state.journal.remove(call);
                return Ok(Permit::Refused(reason));
            }
            state.acts.push(Act::Started(call.clone()));
            state.journal.insert(call.clone(), ToolCallState::Started { tool });
            Ok(Permit::Run)
        })
    }

    fn finish<'a>(
        &'a self,
        _: TurnId,
        call: &'a CallId,
        ok: bool,
        changed: bool,
    ) -> BoxFuture<'a, Result<(), HostError>> {
        self.call(|state| {
            if state.journal.remove(call).is_some() {
                state.acts.push(Act::Finished { call: call.clone(), ok, changed });
            }
            Ok(())
        })
    }

    fn take_mail(
        &self,
        turn: TurnId,
        step: u32,
    ) -> BoxFuture<'_, Result<Option<String>, HostError>> {
        self.call(|state| {
            if !state.waiting.is_empty() {
                let mail = std::mem::take(&mut state.waiting).join("\n");
                state.acts.push(Act::Mail(step));
                state.delivered.entry((turn, step)).or_default().push_str(&mail);
            }
            Ok(state.delivered.get(&(turn, step)).cloned())
        })
    }

    fn standing(&self) -> BoxFuture<'_, Result<String, HostError>> {
        self.call(|state| Ok(state.standing.clone()))
    }

    fn reserve(&self, _: TurnId, usage: Usage, _: Amount) -> BoxFuture<'_, Result<(), HostError>> {
        self.call(|state| {
            if state.budget == Some(0) {
                return Err(HostError::OverBudget);
            }
            state.budget = state.budget.map(|calls| calls - 1);
            state.acts.push(Act::Reserved(usage));
            Ok(())
        })
    }

    fn history(&self) -> BoxFuture<'_, Result<Vec<Item>, HostError>> {
        self.call(|state| Ok(state.transcript.clone()))
    }

    fn record(&self, items: Vec<Item>) -> BoxFuture<'_, Result<(), HostError>> {
        self.call(|state| {
            if let Some(error) = state.refuse_to_record.take() {
                return Err(error);
            }
            state.transcript.extend(items.iter().cloned());
            state.acts.push(Act::Recorded(items));
            Ok(())
        })
    }

    fn delta(&self, _: TurnId, delta: Delta) {
        self.lock().deltas.push(delta);
    }
}
