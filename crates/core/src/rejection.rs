//! Every refusal, as a value for people and models: what is wrong, and what is possible instead.

use std::fmt;

use crate::id::CallId;
use crate::id::{AgentName, GrantId, InvalidName, RequestId, SlotId, TurnId};
use crate::task::TaskRefusal;

/// What a caller may not do, or why a command does not fit the state. A value for people and models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The log has no team yet, or has one already.
    NoTeam,
    /// The team has already been created.
    TeamExists,
    /// The team has ended.
    TeamEnded,
    /// The caller's role does not allow it.
    NotAllowed {
        /// What.
        what: &'static str,
        /// Who may.
        who: &'static str,
    },
    /// No member has that slot.
    UnknownAgent {
        /// The slot.
        slot: SlotId,
        /// The names there are.
        known: Vec<AgentName>,
    },
    /// The member left.
    RecipientGone {
        /// The slot.
        slot: SlotId,
    },
    /// A name is taken or looks like one that is.
    NameTaken {
        /// The name that was asked for.
        name: AgentName,
        /// The name it collides with.
        taken: AgentName,
    },
    /// A name cannot be used.
    BadName(InvalidName),
    /// The lead stays while the team lives.
    LeadStays,
    /// A member writes to itself.
    ToSelf,
    /// A text is empty.
    Empty {
        /// Which.
        what: &'static str,
    },
    /// A limit is met.
    Limit {
        /// Its name in the configuration.
        limit: &'static str,
        /// Its value.
        allowed: u64,
        /// What was asked for.
        asked: u64,
    },
    /// A limit that cannot be zero.
    ZeroLimit {
        /// Its name in the configuration.
        limit: &'static str,
    },
    /// A higher budget is asked for where nothing caps it, or no higher than it is.
    NoRaise,
    /// The recipient's mailbox is full.
    InboxFull {
        /// Whose.
        name: AgentName,
        /// How many are allowed.
        allowed: u64,
    },
    /// The key was used for something else.
    KeyReused,
    /// The turn is not the caller's live turn.
    NoSuchTurn {
        /// The turn.
        turn: TurnId,
    },
    /// The tool call is not where the command expects it.
    NoSuchCall {
        /// The call.
        call: CallId,
    },
    /// The call is not decided yet.
    NotDecided {
        /// The request.
        request: RequestId,
    },
    /// There is no such request.
    UnknownRequest {
        /// The request.
        request: RequestId,
    },
    /// Somebody was faster, or it closed.
    AlreadyDecided {
        /// The request.
        request: RequestId,
    },
    /// The decision does not answer this kind of request.
    WrongDecision {
        /// The kind.
        kind: &'static str,
        /// What answers it.
        choices: &'static [&'static str],
    },
    /// Nobody decides his own request.
    OwnRequest,
    /// A rule of permission forbids it.
    DeniedByRule {
        /// Which, whose, and what to do instead.
        reason: String,
    },
    /// A rule does not go with the decision.
    UnfitRule {
        /// The rule.
        rule: String,
    },
    /// The board refuses.
    Task(TaskRefusal),
    /// The member is not in the state that the command needs.
    WrongState {
        /// The member.
        slot: SlotId,
        /// The state it needs.
        needs: &'static str,
    },
    /// The budget does not allow another call.
    OverBudget,
    /// The start does not exist any more.
    StaleGeneration {
        /// The member.
        slot: SlotId,
        /// The start it is at.
        current: u32,
    },
    /// There is no such permission.
    UnknownGrant {
        /// The permission.
        grant: GrantId,
    },
    /// A shutdown of the member is already asked for.
    AlreadyAsked {
        /// The request.
        request: RequestId,
    },
}

impl Rejection {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoTeam => "no_team",
            Self::TeamExists => "team_exists",
            Self::TeamEnded => "team_ended",
            Self::NotAllowed { .. } => "not_allowed",
            Self::UnknownAgent { .. } => "unknown_agent",
            Self::RecipientGone { .. } => "recipient_gone",
            Self::NameTaken { .. } => "name_taken",
            Self::BadName(_) => "bad_name",
            Self::LeadStays => "lead_stays",
            Self::ToSelf => "to_self",
            Self::Empty { .. } => "empty",
            Self::Limit { .. } => "limit",
            Self::ZeroLimit { .. } => "zero_limit",
            Self::NoRaise => "no_raise",
            Self::InboxFull { .. } => "inbox_full",
            Self::KeyReused => "key_reused",
            Self::NoSuchTurn { .. } => "no_such_turn",
            Self::NoSuchCall { .. } => "no_such_call",
            Self::NotDecided { .. } => "not_decided",
            Self::UnknownRequest { .. } => "unknown_request",
            Self::AlreadyDecided { .. } => "already_decided",
            Self::WrongDecision { .. } => "wrong_decision",
            Self::OwnRequest => "own_request",
            Self::DeniedByRule { .. } => "denied_by_rule",
            Self::UnfitRule { .. } => "unfit_rule",
            Self::Task(refusal) => match refusal {
                TaskRefusal::Unknown(_) => "unknown_task",
                TaskRefusal::Closed(_) => "task_closed",
                TaskRefusal::Stale { .. } => "task_changed",
                TaskRefusal::Taken { .. } => "task_taken",
                TaskRefusal::Blocked { .. } => "task_blocked",
                TaskRefusal::Cycle { .. } => "task_cycle",
                TaskRefusal::NoOwner(_) => "task_without_owner",
            },
            Self::WrongState { .. } => "wrong_state",
            Self::OverBudget => "over_budget",
            Self::StaleGeneration { .. } => "stale_generation",
            Self::UnknownGrant { .. } => "unknown_grant",
            Self::AlreadyAsked { .. } => "already_asked",
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTeam => f.write_str("there is no team yet; create it first"),
            Self::TeamExists => f.write_str("the team exists already"),
            Self::TeamEnded => f.write_str("the team has ended; create a new one"),
            Self::NotAllowed { what, who } => write!(f, "only {who} may {what}"),
            Self::UnknownAgent { slot, known } => {
                write!(f, "nobody in this team has slot {slot}; the members are {}", list(known))
            }
            Self::RecipientGone { slot } => {
                write!(f, "the member in slot {slot} has left the team")
            }
            Self::NameTaken { name, taken } if name == taken => {
                write!(f, "the name {name:?} is taken", name = name.as_str())
            }
            Self::NameTaken { name, taken } => {
                write!(
                    f,
                    "the name {:?} looks like {:?}, which is taken",
                    name.as_str(),
                    taken.as_str()
                )
            }
            Self::BadName(why) => why.fmt(f),
            Self::ToSelf => {
                f.write_str("a member cannot write to itself; keep it in mind, or make it a task")
            }
            Self::LeadStays => {
                f.write_str("the lead stays while the team lives; end the team instead")
            }
            Self::Empty { what } => write!(f, "{what} must not be empty"),
            Self::Limit { limit, allowed, asked } => {
                write!(f, "the limit \"{limit}\" is {allowed}, and this would make {asked}")
            }
            Self::ZeroLimit { limit } => {
                write!(f, "the limit \"{limit}\" must be at least 1")
            }
            Self::NoRaise => {
                f.write_str("this raises nothing: name a cap that stands, and more than it is")
            }
            Self::InboxFull { name, allowed } => write!(
                f,
                "{name}'s mailbox is full ({allowed} unread); wait until some of it is read"
            ),
            Self::KeyReused => f.write_str("this idempotency key was used for a different message"),
            Self::NoSuchTurn { turn } => write!(f, "turn {turn} is not running"),
            Self::NoSuchCall { call } => {
                write!(f, "the tool call {call:?} is not waiting or running in this turn")
            }
            Self::NotDecided { request } => write!(f, "request {request} is not decided yet"),
            Self::UnknownRequest { request } => write!(f, "there is no request {request}"),
            Self::AlreadyDecided { request } => {
                write!(f, "request {request} is already decided or closed")
            }
            Self::WrongDecision { kind, choices } => {
                write!(f, "a {kind} request is answered by one of: {}", choices.join(", "))
            }
            Self::OwnRequest => f.write_str("nobody decides his own request"),
            Self::DeniedByRule { reason } => f.write_str(reason),
            Self::UnfitRule { rule } => write!(
                f,
                "the rule {rule} does not go with this decision: it has to be about the tool that was asked for, for the member or the team"
            ),
            Self::Task(refusal) => refusal.fmt(f),
            Self::WrongState { slot, needs } => {
                write!(f, "the member in slot {slot} is not {needs}")
            }
            Self::OverBudget => {
                f.write_str("the budget does not allow another model call; raise the cap to go on")
            }
            Self::StaleGeneration { slot, current } => {
                write!(f, "the member in slot {slot} was started again since (start {current})")
            }
            Self::UnknownGrant { grant } => write!(f, "there is no permission {grant}"),
            Self::AlreadyAsked { request } => {
                write!(f, "its shutdown is already asked for by request {request}")
            }
        }
    }
}

impl std::error::Error for Rejection {}

impl fmt::Display for TaskRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(task) => write!(f, "there is no task {task}"),
            Self::Closed(task) => write!(f, "task {task} is completed or deleted"),
            Self::Stale { task, current } => {
                write!(
                    f,
                    "task {task} has changed since you read it (version {current}); read it again"
                )
            }
            Self::Taken { task, owner } => {
                write!(f, "task {task} belongs to the member in slot {owner}")
            }
            Self::Blocked { task, by } => write!(f, "task {task} waits for {}", list(by)),
            Self::Cycle { task, on } => {
                write!(f, "task {task} cannot wait for {on}, which waits for it")
            }
            Self::NoOwner(task) => {
                write!(f, "task {task} needs an owner before it can be in progress")
            }
        }
    }
}

impl From<TaskRefusal> for Rejection {
    fn from(refusal: TaskRefusal) -> Self {
        Self::Task(refusal)
    }
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
