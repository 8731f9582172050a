//! How the house falls and comes back: loading, opening, and falling again while it opens.

use std::collections::{BTreeMap, BTreeSet};

use aion_core::id::TurnId;
use aion_core::team::Team;
use aion_core::time::Millis;
use aion_core::{Caller, Command};

use crate::world::{Action, Fate, Reply, Session, World};

impl World {
    /// The state as the log tells it, with or without the help of a snapshot.
    pub(crate) fn load(&mut self) -> Team {
        let (mut team, from) = match &self.snapshot {
            Some((seq, bytes)) if *seq <= self.log.len() && self.rng.percent(70) => {
                (serde_json::from_slice(bytes).expect("a snapshot is read back"), *seq)
            }
            _ => (Team::new(), 0),
        };
        for recorded in &self.log[from..] {
            team.evolve(recorded.at, &recorded.event);
        }
        team
    }

    /// After an append that failed or is unknown: the state is dropped and read anew.
    pub(crate) fn reload(&mut self) {
        let team = self.load();
        let now = self.true_now();
        let mono = self.mono;
        let Some(session) = &mut self.session else { return };
        session.team = team;
        session.base = now;
        session.base_mono = mono;
    }

    /// The house falls: everything in its memory is gone, and most processes with it.
    pub(crate) fn fall(&mut self) {
        if self.session.take().is_none() {
            return;
        }
        self.performed.clear();
        self.stats.crashes += 1;
        self.stats.nested += u64::from(self.opening > 0);
        self.fallen_at_wall = self.wall;
        self.procs.retain(|_, proc| proc.survives);
        for proc in self.procs.values_mut() {
            proc.orphan();
        }
        let after = self.rng.range(10, 5_000);
        self.schedule(after, Action::Up);
        if self.verbose {
            println!("{:>8} -- the house falls", self.mono);
        }
    }

    /// The house comes up: load, open, go on. It may fall again while it does.
    pub(crate) fn open(&mut self) {
        if self.session.is_some() {
            return;
        }
        let team = self.load();
        if self.verbose {
            println!("{:>8} -- the house opens at {}", self.mono, self.log.len());
        }
        let base = team.now_floor();
        let (resumable, detached) = self.survivors(&team);
        self.session =
            Some(Session { team, base, base_mono: self.mono, in_flight: BTreeSet::new() });
        if self.log.is_empty() {
            return;
        }
        self.opening += 1;
        let downtime_ms = u64::try_from(self.wall - self.fallen_at_wall).unwrap_or(0);
        let command = Command::Opened { downtime_ms, resumable, detached };
        let fate = if self.faults && self.opening < 4 && self.rng.permille(self.fault_rate * 4) {
            self.stats.faults += 1;
            self.rng.weighted(&[
                (2, Fate::DeathBeforeAppend),
                (2, Fate::DeathBeforeReply),
                (2, Fate::DeathBeforeEffects),
                (1, Fate::Failed),
                (1, Fate::UnknownApplied),
            ])
        } else {
            Fate::Durable
        };
        let reply = self.submit_with(vec![(Caller::System, command)], fate);
        self.opening -= 1;
        if matches!(reply.first(), Some(Reply::Unavailable)) && self.session.is_some() {
            // It could not be written: the team is not open, and is opened again.
            self.fall();
        }
    }

    /// Which live turns can go on: taken up from the journal, or alive outside.
    fn survivors(&mut self, team: &Team) -> (BTreeSet<TurnId>, BTreeMap<TurnId, Millis>) {
        let mut resumable = BTreeSet::new();
        let mut detached = BTreeMap::new();
        for agent in team.agents() {
            let Some(turn) = agent.turn() else { continue };
            match self.procs.get(&agent.slot()) {
                Some(proc) if proc.turn_id() == Some(turn.id()) => {
                    detached.insert(turn.id(), Millis(self.rng.range(1_000, 60_000)));
                }
                _ if self.rng.percent(60) => {
                    resumable.insert(turn.id());
                }
                _ => {}
            }
        }
        (resumable, detached)
    }
}
