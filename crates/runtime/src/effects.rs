//! The only place where an effect meets the world; it never waits for what it began.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use aion_backends::{SpawnSpec, TurnInput};
use aion_core::agent::{Agent, AgentState};
use aion_core::command::Command;
use aion_core::effect::{Effect, EffectKey};
use aion_core::id::{SlotId, TurnId};
use aion_core::prompt::{self, Roster};
use aion_core::team::Team;
use aion_core::time::Millis;
use aion_core::turn::{Turn, TurnOutcome};
use futures::future::join_all;
use tokio_util::task::TaskTracker;

use crate::handle::TeamHandle;
use crate::host::TeamHost;
use crate::runner::{Announce, GRACE, Order, RunnerHandle};
use crate::world::{Shared, Upward};
use aion_store::failpoint;

/// The effects of one team that are in flight, and the runners that carry them out.
#[derive(Debug)]
pub(crate) struct Effects {
    shared: Arc<Shared>,
    handle: TeamHandle,
    runners: BTreeMap<SlotId, RunnerHandle>,
    /// All of their tasks, also of those that were let go.
    tasks: TaskTracker,
    in_flight: BTreeSet<EffectKey>,
    /// Turns that were live when the team was opened: they are taken up from their journal.
    taken_up: BTreeSet<TurnId>,
}

impl Effects {
    pub(crate) fn new(shared: Arc<Shared>, handle: TeamHandle, opened: &Team) -> Self {
        let taken_up = opened.agents().filter_map(|agent| agent.turn().map(Turn::id));
        Self {
            shared,
            handle,
            runners: BTreeMap::new(),
            tasks: TaskTracker::new(),
            in_flight: BTreeSet::new(),
            taken_up: taken_up.collect(),
        }
    }

    /// Performs what is outstanding and not yet in flight. What fails at once comes back as commands.
    pub(crate) fn perform(&mut self, team: &Team) -> Vec<Command> {
        self.let_go(team);
        let mut outstanding = team.outstanding();
        outstanding.sort_by_key(Effect::key);
        let bus = &self.shared.bus;
        self.in_flight.retain(|key| {
            let stays = outstanding.binary_search_by_key(key, Effect::key).is_ok();
            if !stays && let EffectKey::Turn(turn) = key {
                bus.ended(*turn);
            }
            stays
        });
        // Written for the first that needs it, and the same for all that begin with it.
        let mut roster = None;
        let mut failed = Vec::new();
        for effect in outstanding {
            if self.in_flight.insert(effect.key()) {
                failed.extend(self.begin(team, &mut roster, effect));
            }
        }
        failed
    }

    /// Ends every runner, the last one first, and waits for all of them together.
    pub(crate) async fn end(&mut self) {
        let runners = std::mem::take(&mut self.runners).into_iter().rev();
        let runners = runners.map(|(slot, runner)| {
            revoke(&self.shared, slot, &runner);
            runner
        });
        let clock = &*self.shared.house.clock;
        join_all(runners.map(|runner| runner.end(clock))).await;
        // Whoever was let go before may still be ending its processes.
        self.tasks.close();
        tokio::select! {
            () = self.tasks.wait() => {}
            () = clock.sleep_until(Millis(clock.monotonic().0 + GRACE.0)) => {}
        }
    }

    /// Kills whoever is no longer meant to run: dropping a runner ends its agent.
    fn let_go(&mut self, team: &Team) {
        let shared = &self.shared;
        self.runners.retain(|slot, runner| {
            let stays = team.agent(*slot).is_some_and(|agent| {
                agent.generation() == runner.generation()
                    && !matches!(agent.state(), AgentState::Failed { .. })
            });
            if !stays {
                revoke(shared, *slot, runner);
            }
            stays
        });
    }

    fn begin(
        &mut self,
        team: &Team,
        roster: &mut Option<Roster>,
        effect: Effect,
    ) -> Option<Command> {
        match effect {
            Effect::Spawn { slot, generation } => {
                failpoint::hit("effects.spawn");
                let agent = team.agent(slot).filter(|agent| agent.generation() == generation)?;
                self.start(team, roster, agent, Announce::Yes)
            }
            Effect::RunTurn { slot, turn } => {
                failpoint::hit("effects.run_turn");
                let agent = team.agent(slot)?;
                // Before the turn begins, so that nothing of what it writes is missed.
                self.shared.bus.began(turn);
                self.run_turn(team, roster, agent, turn)
            }
            Effect::Answer { slot, turn, request, decision } => {
                let order = Order::Answer { turn, request, decision: Box::new(decision) };
                self.order(team.agent(slot)?, order)
            }
            Effect::Interrupt { slot, turn } => match self.runner(team.agent(slot)?) {
                Some(_) => self.order(team.agent(slot)?, Order::Interrupt(turn)),
                None => {
                    Some(Command::EndTurn { turn, outcome: TurnOutcome::Interrupted, usage: None })
                }
            },
            Effect::Stop { slot, kill: false, .. } if self.runner(team.agent(slot)?).is_some() => {
                self.order(team.agent(slot)?, Order::Stop)
            }
            Effect::Stop { slot, generation, kill } => {
                // Dropping the runner kills its agent. Without one nothing runs that could be stopped.
                let runner = self.runners.remove(&slot);
                if let Some(runner) = &runner {
                    revoke(&self.shared, slot, runner);
                }
                let ran = runner.is_some();
                debug_assert!(kill || !ran, "whoever runs is asked to stop");
                let cause = if ran { "it was killed" } else { "it was not running" };
                Some(Command::AgentExited { slot, generation, cause: cause.to_owned() })
            }
            Effect::CreateTeam { request } => {
                let from = self.shared.team.clone();
                // Without a service nobody can make it; the effect stays outstanding in the log.
                let _ = self.shared.up.send(Upward::CreateTeam { from, request });
                None
            }
        }
    }

    fn run_turn(
        &mut self,
        team: &Team,
        roster: &mut Option<Roster>,
        agent: &Agent,
        turn: TurnId,
    ) -> Option<Command> {
        let slot = agent.slot();
        let live = agent.turn().filter(|live| live.id() == turn)?;
        // A model that was set since counts from this turn.
        if self.runner(agent).is_none_or(|runner| runner.model() != agent.model()) {
            let failed = self.start(team, roster, agent, Announce::No);
            if failed.is_some() {
                return failed;
            }
        }
        let ids = &self.shared.house.ids;
        let roster = roster.get_or_insert_with(|| Roster::of(team));
        let input = TurnInput {
            turn,
            system: prompt::role_prompt(team, roster, slot),
            mode: agent.mode(),
            opening: prompt::opening(team, slot, turn, &mut || ids.nonce()),
            budgeted: live.budgeted(),
            resume: self.taken_up.contains(&turn).then(|| live.calls().clone()),
        };
        self.order(agent, Order::Turn(Box::new(input)))
    }

    /// The runner of this start of the agent, also one whose agent has just gone: the word of that is
    /// on its way, and nothing takes its place before it has arrived.
    fn runner(&self, agent: &Agent) -> Option<&RunnerHandle> {
        self.runners.get(&agent.slot()).filter(|runner| runner.generation() == agent.generation())
    }

    /// Starts an agent's runner in place of an earlier one; what fails at once comes back.
    fn start(
        &mut self,
        team: &Team,
        roster: &mut Option<Roster>,
        agent: &Agent,
        announce: Announce,
    ) -> Option<Command> {
        let slot = agent.slot();
        let Some(backend) = self.shared.house.backends.of(agent.agent_type()) else {
            let cause = format!("nothing here runs agents of the type {:?}", agent.agent_type());
            return Some(Command::AgentExited { slot, generation: agent.generation(), cause });
        };
        let host = TeamHost::new(self.handle.clone(), PathBuf::from(team.workspace()), agent);
        let connections = self.shared.house.connections.get().filter(|_| backend.connects());
        let connection = connections.map(|connections| {
            Box::new(connections.issue(&self.shared.team, slot, agent.generation()))
        });
        let role = if backend.connects() {
            let roster = roster.get_or_insert_with(|| Roster::of(team));
            prompt::role_prompt(team, roster, slot)
        } else {
            String::new()
        };
        let spec = SpawnSpec {
            team: self.shared.team.clone(),
            slot,
            generation: agent.generation(),
            name: agent.name().clone(),
            role: agent.role(),
            agent_type: agent.agent_type().to_owned(),
            model: agent.model().map(str::to_owned),
            workspace: PathBuf::from(team.workspace()),
            system: role,
            mode: agent.mode(),
            conversation: agent.conversation().clone(),
            host: Arc::new(host),
            connection,
        };
        let runner = RunnerHandle::spawn(
            self.handle.clone(),
            Arc::clone(backend),
            spec,
            announce,
            &self.tasks,
        );
        // An earlier runner of the slot is dropped here, and its agent ends with it.
        self.runners.insert(slot, runner);
        None
    }

    /// Hands an order to a runner. One that does not take its orders has failed.
    fn order(&mut self, agent: &Agent, order: Order) -> Option<Command> {
        let slot = agent.slot();
        if self.runner(agent)?.order(order) {
            return None;
        }
        if let Some(runner) = self.runners.remove(&slot) {
            revoke(&self.shared, slot, &runner);
        }
        let cause = "its runner did not take its orders".to_owned();
        Some(Command::AgentExited { slot, generation: agent.generation(), cause })
    }
}

/// An agent that is let go has no way to the team any more.
fn revoke(shared: &Shared, slot: SlotId, runner: &RunnerHandle) {
    if let Some(connections) = shared.house.connections.get() {
        connections.revoke(&shared.team, slot, runner.generation());
    }
}
