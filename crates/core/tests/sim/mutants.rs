//! Planted faults: each breaks one rule in the simulated session or in its events, and has to be caught.

mod mail;
mod members;
mod rights;

use aion_core::event::{Event, Recorded};
use aion_core::id::Seq;
use aion_core::team::Team;
use aion_core::{Caller, Command};

use crate::model::Model;
use crate::rng::Rng;

macro_rules! mutants {
    ($($name:ident $rule:literal $text:literal,)*) => {
        /// One planted fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Mutant { $($name),* }

        impl Mutant {
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];

            /// The rules that may name it, separated by `|`.
            pub(crate) fn rule(self) -> &'static str {
                match self { $(Self::$name => $rule),* }
            }

            pub(crate) fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

mutants! {
    DropAcknowledged "INV-01" "forget one message when a turn ends",
    DeliverTwice "INV-01" "deliver a message that another turn has",
    LoseOnRemoval "INV-01" "remove a member without dead letters for its mail",
    ReplyBeforeCommit "INV-02" "say \"accepted\" before the append",
    KeepAfterFailure "INV-01|INV-02|INV-36|INV-04|STATE|INV-09|INV-10|INV-13|EFFECT" "keep the state after a failed append",
    ForgetKey "INV-02" "forget the idempotency key of a send",
    AcknowledgeFailure "INV-03" "acknowledge the mail of a turn that failed",
    CountLostTurn "INV-03" "count an attempt when the house fell",
    EarlyDeadLetter "INV-03" "give up a message before its last attempt",
    Reorder "INV-04" "deliver a batch in another order",
    SkipOldest "INV-04" "leave the oldest message out of a batch",
    BroadcastToSender "INV-06" "send a broadcast to its sender too",
    BroadcastMissing "INV-06" "leave one member out of a broadcast",
    WrongMailbox "INV-06" "put a message into another mailbox",
    LostWake "INV-08" "forget to start a turn",
    StartHeld "INV-08|INV-16" "start a turn although the member is held",
    SecondTurn "INV-09" "start a second turn of a busy member",
    LateResult "INV-09" "take a result of a turn that is over",
    StealTask "INV-10" "claim a task that somebody has",
    KeepDeadOwner "INV-10" "leave the tasks of a dead member with it",
    BeginBlocked "INV-11" "begin a task that waits for another",
    Circle "INV-11" "let two tasks wait for each other",
    ForgetDeadline "INV-12" "never escalate a shutdown",
    StrangerAnswers "INV-12" "let a third party answer a shutdown",
    PersonSpeaks "INV-12" "let the person answer a shutdown in the member's name",
    DecideTwice "INV-13" "decide a request a second time",
    HangingRequest "INV-13" "leave a request open when its turn ends",
    AskerDecides "INV-14" "let the asker decide",
    ReuseGrant "INV-14" "use a single-use permission twice",
    RunUnasked "INV-14" "run a tool that has to be asked for",
    ForgetFailure "INV-15" "do not tell the lead of a death",
    LeadDownGoesOn "INV-16" "start turns while the lead is down",
    SecondLead "INV-16" "remove the lead",
    ForgetLostTurn "INV-22" "forget a live turn at the opening",
    WallClock "INV-23" "let the wall clock drive the team's time",
    EarlyRelease "INV-23" "release a provider hold before its time",
    TwinName "INV-28" "let in a name that looks like another",
    TooManyMembers "INV-31" "exceed the limit of members",
    RestartForEver "INV-31" "restart a member beyond the allowed intensity",
    OverBudget "INV-31" "reserve more than the cap allows",
    NoCircleCut "INV-31" "never hold members that go in circles",
    LeakKey "INV-32" "write an idempotency key into the log",
    LeakInput "INV-32" "write the input of a harmless call into the log",
    SequenceGap "INV-36" "leave a gap in the sequence",
    NoCredential "INV-36" "record an event without its credential",
    EmptyTurn "NO-INPUT" "start a turn without anything new",
    OfferAgain "NO-INPUT" "offer a declined task again",
    StaleClaim "INV-10" "claim a task that has changed since it was read",
    SwapAction "INV-14" "run another action than the one that was allowed",
    ForgetInFlight "EFFECT|INV-13" "perform an effect that is under way",
    Flood "INV-31" "accept any number of messages",
    EffectsBeforeAppend "EFFECT" "perform effects before the append",
    KeepAcknowledged "STATE" "keep acknowledged mail in the state",
}

impl Mutant {
    /// Changes the events of one command; says whether it did.
    pub(crate) fn mangle(
        self,
        events: &mut Vec<Event>,
        before: &Team,
        model: &Model,
        caller: Caller,
        rng: &mut Rng,
    ) -> bool {
        self.in_mail(events, model, rng)
            || self.in_members(events, before, model, caller, rng)
            || self.in_rights(events, model)
    }

    /// Changes a command on its way in.
    pub(crate) fn mangle_command(self, command: Command) -> Command {
        match command {
            Command::ClaimTask { task, .. } if self == Self::StaleClaim => {
                Command::ClaimTask { task, version: None }
            }
            other => other,
        }
    }

    /// Changes one record; says whether it did.
    pub(crate) fn mangle_record(self, recorded: &mut Recorded, rng: &mut Rng) -> bool {
        match self {
            Self::SequenceGap if rng.permille(10) => {
                recorded.seq = Seq(recorded.seq.0 + 1);
                true
            }
            Self::NoCredential if recorded.actor != Caller::System => {
                recorded.credential = None;
                true
            }
            _ => false,
        }
    }
}

/// Puts messages back that the state has let go of.
pub(crate) fn keep_messages(team: &mut Team, before: &Team) -> bool {
    let mut now = serde_json::to_value(&*team).expect("a team is serialised");
    let then = serde_json::to_value(before).expect("a team is serialised");
    let (Some(kept), Some(gone)) = (now["messages"].as_object_mut(), then["messages"].as_object())
    else {
        return false;
    };
    let count = kept.len();
    for (id, message) in gone {
        kept.entry(id.clone()).or_insert_with(|| message.clone());
    }
    let more = kept.len() > count;
    if more {
        *team = serde_json::from_value(now).expect("a team is read back");
    }
    more
}
