//! What the world must do next. Derived from state by `Team::outstanding`, never stored.

use std::fmt;

use crate::id::{RequestId, SlotId, TurnId};
use crate::request::Decision;

/// One thing for the shell to do. The shell performs `outstanding − in flight`, by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start a member's process and report it ready or failed.
    Spawn {
        /// The member.
        slot: SlotId,
        /// Which start of it.
        generation: u32,
    },
    /// Run a turn until it ends. After a crash it is taken up from its journal.
    RunTurn {
        /// The member.
        slot: SlotId,
        /// The turn.
        turn: TurnId,
    },
    /// End a running turn.
    Interrupt {
        /// The member.
        slot: SlotId,
        /// The turn.
        turn: TurnId,
    },
    /// Hand a decision to the turn that waits for it.
    Answer {
        /// The member.
        slot: SlotId,
        /// The turn.
        turn: TurnId,
        /// The request.
        request: RequestId,
        /// The decision.
        decision: Decision,
    },
    /// Let a member finish its turn, then end its process and report it gone.
    Stop {
        /// The member.
        slot: SlotId,
        /// Which start of it.
        generation: u32,
        /// Do not wait for the turn.
        kill: bool,
    },
    /// Make the team that the person agreed to.
    CreateTeam {
        /// The request that was granted.
        request: RequestId,
    },
}

/// What an effect is known by: the same intention has the same key, across restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectKey {
    /// `spawn:slot:generation`
    Spawn(SlotId, u32),
    /// `turn:turn`
    Turn(TurnId),
    /// `interrupt:turn`
    Interrupt(TurnId),
    /// `answer:request`
    Answer(RequestId),
    /// `stop:slot:generation`
    Stop(SlotId, u32),
    /// `kill:slot:generation`: comes after a polite stop that does not end.
    Kill(SlotId, u32),
    /// `create_team:request`
    CreateTeam(RequestId),
}

impl Effect {
    /// Its key.
    pub fn key(&self) -> EffectKey {
        match self {
            Self::Spawn { slot, generation } => EffectKey::Spawn(*slot, *generation),
            Self::RunTurn { turn, .. } => EffectKey::Turn(*turn),
            Self::Interrupt { turn, .. } => EffectKey::Interrupt(*turn),
            Self::Answer { request, .. } => EffectKey::Answer(*request),
            Self::Stop { slot, generation, kill: false } => EffectKey::Stop(*slot, *generation),
            Self::Stop { slot, generation, kill: true } => EffectKey::Kill(*slot, *generation),
            Self::CreateTeam { request } => EffectKey::CreateTeam(*request),
        }
    }
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawn(slot, generation) => write!(f, "spawn:{slot}:{generation}"),
            Self::Turn(turn) => write!(f, "turn:{turn}"),
            Self::Interrupt(turn) => write!(f, "interrupt:{turn}"),
            Self::Answer(request) => write!(f, "answer:{request}"),
            Self::Stop(slot, generation) => write!(f, "stop:{slot}:{generation}"),
            Self::Kill(slot, generation) => write!(f, "kill:{slot}:{generation}"),
            Self::CreateTeam(request) => write!(f, "create_team:{request}"),
        }
    }
}
