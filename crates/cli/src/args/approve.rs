//! The words of `aion approve`.

use clap::{Args, Subcommand, ValueEnum};

use super::Reach;

/// `aion approve`.
#[derive(Debug, Subcommand)]
pub(crate) enum Approve {
    /// List what waits for your decision, in all teams
    Ls(ListRequests),
    /// Show a request whole
    Show(OneRequest),
    /// Agree
    Yes(Agree),
    /// Refuse
    No(Refuse),
    /// Answer a question
    Answer(AnswerRequest),
}

/// `aion approve ls`.
#[derive(Debug, Args)]
pub(crate) struct ListRequests {
    /// Only this team's: its id, its name, or their beginning
    #[arg(long, short, value_name = "TEAM", env = "AION_TEAM", hide_env_values = true)]
    pub(crate) team: Option<String>,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// `aion approve show`.
#[derive(Debug, Args)]
pub(crate) struct OneRequest {
    /// The request, as `aion approve ls` names it, or its end like r7 where that is plain
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// `aion approve yes`.
#[derive(Debug, Args)]
pub(crate) struct Agree {
    /// The requests, as `aion approve ls` names them
    #[arg(required = true)]
    pub(crate) ids: Vec<String>,
    /// For what else a permission counts
    #[arg(long, value_enum, value_name = "SCOPE", conflicts_with = "always")]
    pub(crate) scope: Option<Scope>,
    /// Allow what the suggested rule fits, for the whole team; `aion approve show` shows the rule
    #[arg(long)]
    pub(crate) always: bool,
    /// Allow what this rule fits, instead of the suggested one, for example 'Bash(cargo test:*)'
    #[arg(long, value_name = "RULE")]
    pub(crate) rule: Option<String>,
    /// Keep the rule in your own settings too, for all teams
    #[arg(long)]
    pub(crate) save: bool,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// For what a permission counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// This one call
    #[default]
    Once,
    /// The same action, whoever does it again
    Action,
    /// The same tool or host, for this member
    Member,
    /// The same tool or host, for the whole team
    Team,
}

/// `aion approve no`.
#[derive(Debug, Args)]
pub(crate) struct Refuse {
    /// The requests, as `aion approve ls` names them
    #[arg(required = true)]
    pub(crate) ids: Vec<String>,
    /// Why, for the member to read; what a plan lacks
    #[arg(long, short = 'm', value_name = "WHY")]
    pub(crate) message: Option<String>,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// `aion approve answer`.
#[derive(Debug, Args)]
pub(crate) struct AnswerRequest {
    /// The question, as `aion approve ls` names it
    pub(crate) id: String,
    /// The answer, or the number of one of its options
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) reach: Reach,
}
