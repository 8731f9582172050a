//! The command line: words, options and their help; it carries nothing out.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use aion_core::rule::Rule;
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::agent::{AddAgent, Agent, Detect, KillAgent, Mode, RenameAgent, TestAgent};
pub(crate) use self::approve::{
    Agree, AnswerRequest, Approve, ListRequests, OneRequest, Refuse, Scope,
};
pub(crate) use self::auth::{Auth, Login, Logout, Models, Providers};
pub(crate) use self::config::{Config, GetSetting, SetSetting};
pub(crate) use self::daemon::{OfTeam, Open, Reach, Serve, Status, Stop};
pub(crate) use self::follow::{Attach, By, Cost, Log};
pub(crate) use self::mcp::{Install, Mcp, McpClient};
pub(crate) use self::message::{ListMessages, Message, Redeliver, SendMessage, Urgency};
pub(crate) use self::task::{AddTask, AssignTask, CancelTask, Column, OneTask, Task};
pub(crate) use self::team::{CreateTeam, EndTeam, RenameTeam, Team, WantedTeam};
pub(crate) use self::trust::TrustDirectory;
pub(crate) use self::upkeep::{Backup, Completions, Doctor, Man, Restore};

mod agent;
mod approve;
mod auth;
mod config;
mod daemon;
mod follow;
mod mcp;
mod message;
mod task;
mod team;
mod trust;
mod upkeep;

/// Makes coding agents work as one team.
#[derive(Debug, Parser)]
#[command(
    name = "aion",
    version,
    about = "Makes coding agents work as one team",
    long_about = "Makes coding agents work as one team: a lead splits the work, teammates do it side \
                  by side, they write to each other, and you watch, answer and steer. What was \
                  accepted is never lost.",
    after_help = "Begin with:  aion demo\nExit codes:  aion help exit-codes",
    disable_help_subcommand = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Write JSON: one object, or one object a line. Errors are one object on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// How the log is written. `AION_LOG` says how much of it: error, warn, info, debug, or a filter
    #[arg(long, global = true, value_name = "FORMAT", hide_short_help = true)]
    pub(crate) log_format: Option<LogFormat>,
}

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Where the data is.
#[derive(Clone, Debug, Args)]
pub(crate) struct DataDir {
    /// The directory that holds the teams [default: `$AION_HOME`, else `$XDG_DATA_HOME/aion`, else `~/.local/share/aion`]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Watch a whole team do a real piece of work, offline and without any key
    Demo(Demo),
    /// Let a team do a task
    Run(Run),
    /// Serve teams over HTTP and WebSocket, until a signal stops it
    Serve(Serve),
    /// Say whether a daemon serves, and what it does
    Status(Status),
    /// Stop the daemon; the teams are kept
    Stop(Stop),
    /// Sign a browser in to the daemon
    Open(Open),
    /// Follow a team or one member, and write to it
    Attach(Attach),
    /// Write to members, and read what is written
    #[command(subcommand)]
    Message(Message),
    /// Answer what waits for your decision
    #[command(subcommand)]
    Approve(Approve),
    /// Make, show, steer, end or undo teams
    #[command(subcommand)]
    Team(Team),
    /// Bring members in, show, steer and end them
    #[command(subcommand)]
    Agent(Agent),
    /// Show and change the tasks of a team
    #[command(subcommand)]
    Task(Task),
    /// Show what happened in a team
    Log(Log),
    /// Show what a team has used
    Cost(Cost),
    /// Show a team as it was at a point of its log
    Replay(Replay),
    /// Write a team's log to a file
    Export(Export),
    /// The team's tools for programs that speak MCP
    #[command(subcommand)]
    Mcp(Mcp),
    /// Look whether all that a team needs is here and well
    Doctor(Doctor),
    /// Copy all teams, while they work
    Backup(Backup),
    /// Put a copy in the place of the teams that are there
    Restore(Restore),
    /// Keep the keys of the models' services
    #[command(subcommand)]
    Auth(Auth),
    /// Show which services of models can be used, and why others cannot
    Providers(Providers),
    /// Show models, and what they cost
    Models(Models),
    /// Show and change settings
    #[command(subcommand)]
    Config(Config),
    /// Trust a directory: its own instructions and what its settings allow count then
    Trust(TrustDirectory),
    /// Write completions for a shell
    Completions(Completions),
    /// Write the manual page
    Man(Man),
    /// Show help for a command, or for `exit-codes`
    Help(Help),
    /// Holds a child process on a leash.
    #[command(name = "__leash", hide = true, disable_help_flag = true)]
    Leash(Leash),
}

/// `aion demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Answer the team's requests by itself
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Keep the repository and the team's data, and say where they are
    #[arg(long)]
    pub(crate) keep: bool,
    /// Work in this directory instead of a temporary one; it must be empty or not exist. Implies --keep
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Host the team in this process; no daemon is used
    #[arg(long, env = "AION_NO_DAEMON", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) no_daemon: bool,
}

/// `aion run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The task, in your words
    #[arg(required_unless_present = "resume", conflicts_with = "resume")]
    pub(crate) task: Option<String>,
    /// Which agent the lead is: see `aion agent detect` [default: the best that can be used]
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["script", "resume"])]
    pub(crate) agent: Option<String>,
    /// The service that the lead thinks with: see `aion providers`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["script", "resume", "agent"])]
    pub(crate) provider: Option<String>,
    /// The lead's model: see `aion models` [default: the agent's own choice]
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["script", "resume"])]
    pub(crate) model: Option<String>,
    /// Play a scenario file instead of asking a model
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// Go on with a team that was stopped, or whose process died: its id, its name, or their beginning
    #[arg(long, value_name = "TEAM")]
    pub(crate) resume: Option<String>,
    /// Bring a teammate in from the start, for example ann or ann:anthropic; may be given several times
    #[arg(long, value_name = "NAME[:AGENT[:MODEL]]")]
    pub(crate) member: Vec<String>,
    /// What the team is called [default: made from the task]
    #[arg(long, conflicts_with = "resume")]
    pub(crate) name: Option<String>,
    /// The directory that the team works in [default: the current one]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub(crate) workspace: Option<PathBuf>,
    /// Stop the team after this time, for example 90s, 30m or 2h [default: 60m without a terminal]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) max_time: Option<Duration>,
    /// What becomes of requests that only a person can decide [default: wait on a terminal, else fail]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) on_approval: Option<OnApproval>,
    /// Answer every request with yes, without asking. The team can then run any command
    #[arg(long, short = 'y', conflicts_with = "on_approval")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) rights: Rights,
    /// Stop the team after so many turns of its members
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// How to show what happens
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) progress: Option<Progress>,
    /// Begin, and return; the daemon goes on
    #[arg(long)]
    pub(crate) detach: bool,
    /// Host the team in this process, which has to stay; no daemon is used
    #[arg(long, env = "AION_NO_DAEMON", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) no_daemon: bool,
    #[command(flatten)]
    pub(crate) data: DataDir,
}

/// What a team that is begun may do.
#[derive(Debug, Args)]
pub(crate) struct Rights {
    /// How much the team may do without asking [default: default]
    #[arg(long, value_enum, value_name = "MODE", conflicts_with = "resume")]
    pub(crate) mode: Option<Mode>,
    /// Let calls that a rule fits run without asking, for example 'Bash(cargo test:*)'; may be given several times
    #[arg(long, value_name = "RULE", value_parser = crate::config::read_rule, conflicts_with = "resume")]
    pub(crate) allow: Vec<Rule>,
    /// Ask for calls that a rule fits, whatever the mode
    #[arg(long, value_name = "RULE", value_parser = crate::config::read_rule, conflicts_with = "resume")]
    pub(crate) ask: Vec<Rule>,
    /// Let no call run that a rule fits, for example 'Read(./secrets/**)'
    #[arg(long, value_name = "RULE", value_parser = crate::config::read_rule, conflicts_with = "resume")]
    pub(crate) deny: Vec<Rule>,
    /// Trust the workspace: what its own settings allow counts, as after `aion trust`
    #[arg(long, conflicts_with = "resume")]
    pub(crate) trust: bool,
    /// Stop the team when it has spent this much, in US dollars, for example 2 or 0.50
    #[arg(long, value_name = "USD", value_parser = dollars, conflicts_with = "resume")]
    pub(crate) budget: Option<u64>,
}

/// What becomes of requests that only a person can decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnApproval {
    /// They wait. Answers are read from standard input, a line each; at its end the run ends when only a person can go on
    Wait,
    /// They are denied
    Deny,
    /// The first one ends the run
    Fail,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    /// A tree on a terminal, plain lines elsewhere
    #[default]
    Auto,
    /// Who does what, drawn again with each change
    Tree,
    /// One line for each change
    Plain,
    /// The same as --json
    Json,
    /// Nothing but the result
    None,
}

/// A command about all teams.
#[derive(Debug, Args)]
pub(crate) struct Everything {
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// A command about one team.
#[derive(Debug, Args)]
pub(crate) struct OneTeam {
    /// The team: its id, its name, or their beginning [default: the one that was active last]
    pub(crate) team: Option<String>,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// `aion team undo`.
#[derive(Debug, Args)]
pub(crate) struct Undo {
    /// The team: its id, its name, or their beginning
    pub(crate) team: String,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) data: DataDir,
}

/// `aion replay`.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// A file of events, one JSON object a line, or a team: its id, its name, or their beginning
    #[arg(value_name = "FILE|TEAM")]
    pub(crate) source: String,
    /// Show the team as it was after this event [default: the last one]
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    #[command(flatten)]
    pub(crate) data: DataDir,
}

/// `aion export`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The team: its id, its name, or their beginning
    pub(crate) team: String,
    /// `jsonl`: every event, as `aion replay` reads it. `md`: a report for people
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// The file to write; it must not exist [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) data: DataDir,
}

/// The form of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Every event, one JSON object a line
    #[default]
    Jsonl,
    /// A report for people
    Md,
}

/// `aion help`.
#[derive(Debug, Args)]
pub(crate) struct Help {
    /// A command, with its own commands, or `exit-codes`
    pub(crate) topic: Vec<String>,
}

/// `aion __leash`.
#[derive(Debug, Args)]
pub(crate) struct Leash {
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

/// Reads `90s`, `30m`, `2h`, or a number of seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no time; write it like 90s, 30m or 2h");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| bad())?;
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(bad()),
    };
    match number.checked_mul(unit) {
        None | Some(0) => Err(bad()),
        Some(seconds) => Ok(Duration::from_secs(seconds)),
    }
}

/// Reads an amount of dollars with up to six decimals, as millionths.
fn dollars(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is no amount; write it like 2 or 0.50");
    let text = text.trim_start_matches('$');
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 6 || (whole.is_empty() && part.is_empty()) {
        return Err(bad());
    }
    let number = |text: &str| if text.is_empty() { Ok(0) } else { text.parse::<u64>() };
    let whole = number(whole).map_err(|_| bad())?.checked_mul(1_000_000).ok_or_else(bad)?;
    let part = number(&format!("{part:0<6}")).map_err(|_| bad())?;
    match whole + part {
        0 => Err(bad()),
        amount => Ok(amount),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn dollars_are_read() {
        for (text, expect) in
            [("2", 2_000_000), ("0.5", 500_000), ("$1.25", 1_250_000), (".1", 100_000)]
        {
            assert_eq!(dollars(text), Ok(expect), "{text}");
        }
        for bad in ["", ".", "0", "0.0", "-1", "1e3", "1.0000001", "two", "99999999999999999999"] {
            assert!(dollars(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_read() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("2h"), Ok(Duration::from_hours(2)));
        assert_eq!(duration("5"), Ok(Duration::from_secs(5)));
        for bad in ["", "m", "0", "1d", "-1s", "1.5h", "99999999999999999999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
