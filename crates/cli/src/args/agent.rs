//! The words of `aion agent`.

use clap::{Args, Subcommand, ValueEnum};

use super::{OfTeam, Reach};

/// `aion agent`.
#[derive(Debug, Subcommand)]
pub(crate) enum Agent {
    /// Show which agents are on this machine: where, which version, whether somebody has signed in
    Detect(Detect),
    /// Try an agent: it is started, introduces itself, opens a session, and is ended; it costs nothing
    Test(TestAgent),
    /// Bring a member in
    Add(AddAgent),
    /// List the members of a team
    Ls(OfTeam),
    /// Show a member
    Show(OneAgent),
    /// Give a member another name
    Rename(RenameAgent),
    /// Let a member use another model from its next turn on
    Model(ModelOfAgent),
    /// Set how much a member may do without asking
    Mode(ModeOfAgent),
    /// End a member's running turn; it reads its mail next
    Interrupt(OneAgent),
    /// Start a failed member again
    Restart(OneAgent),
    /// Let a member start no more turns
    Pause(OneAgent),
    /// Let a member start turns again
    Resume(OneAgent),
    /// Let a program of yours act as a member, by the team's tools: makes a credential and shows it once
    Connect(OneAgent),
    /// Ask a member to leave; it answers
    Shutdown(ShutdownAgent),
    /// End a member at once and take it out of the team
    Kill(KillAgent),
}

/// `aion agent detect`.
#[derive(Debug, Args)]
pub(crate) struct Detect {
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// `aion agent test`.
#[derive(Debug, Args)]
pub(crate) struct TestAgent {
    /// Which agent: see `aion agent detect`
    pub(crate) agent: String,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// `aion agent add`.
#[derive(Debug, Args)]
pub(crate) struct AddAgent {
    /// Its name: letters a-z, digits and hyphens
    pub(crate) name: String,
    /// What it is to be and to do; its first message
    #[arg(long, short)]
    pub(crate) prompt: String,
    /// Which agent it is [default: the same as the lead]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Which model [default: the agent's own choice]
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// The colour to show it in
    #[arg(long)]
    pub(crate) color: Option<String>,
    /// It may only read until its plan is approved
    #[arg(long)]
    pub(crate) plan: bool,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}

/// A command about one member.
#[derive(Debug, Args)]
pub(crate) struct OneAgent {
    /// The member: its name or its beginning, its slot like s2, or `lead`
    pub(crate) member: String,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}

/// `aion agent rename`.
#[derive(Debug, Args)]
pub(crate) struct RenameAgent {
    /// The member: its name or its beginning, its slot like s2, or `lead`
    pub(crate) member: String,
    /// Its name from now on: letters a-z, digits and hyphens
    pub(crate) name: String,
    /// A label to show instead of the name
    #[arg(long)]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}

/// `aion agent model`.
#[derive(Debug, Args)]
pub(crate) struct ModelOfAgent {
    /// The member: its name or its beginning, its slot like s2, or `lead`
    pub(crate) member: String,
    /// The model [default: the agent's own choice]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}

/// `aion agent mode`.
#[derive(Debug, Args)]
pub(crate) struct ModeOfAgent {
    /// The member: its name or its beginning, its slot like s2, or `lead`
    pub(crate) member: String,
    /// How much it may do without asking
    #[arg(value_enum)]
    pub(crate) mode: Mode,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}

/// How much a member may do without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// It may only read until its plan is approved
    Plan,
    /// What it would have to ask for is refused
    #[value(alias = "dontAsk")]
    DontAsk,
    /// It asks before it changes anything
    #[value(alias = "default")]
    Ask,
    /// It may change files, and asks before it runs commands
    #[value(alias = "acceptEdits")]
    Edits,
    /// It may do everything that no rule denies or wants to be asked for
    #[value(alias = "bypassPermissions")]
    Bypass,
}

/// `aion agent shutdown`.
#[derive(Debug, Args)]
pub(crate) struct ShutdownAgent {
    /// The member: its name or its beginning, or its slot like s2
    pub(crate) member: String,
    /// Why, for the member to read
    #[arg(long, short = 'm', value_name = "WHY")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}

/// `aion agent kill`.
#[derive(Debug, Args)]
pub(crate) struct KillAgent {
    /// The member: its name or its beginning, or its slot like s2
    pub(crate) member: String,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}
