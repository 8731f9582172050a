//! `aion run`: lets a team do a task and follows it until it settles, or goes on with one that stopped.

mod lead;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aion_agent::scripted::Scenario;
use aion_api::{Exit, RunLine, RunStatus};
use aion_core::agent::PermissionMode;
use aion_core::budget::{Amount, Cap};
use aion_core::command::Settings as TeamSettings;
use aion_core::id::TeamId;
use aion_core::rule::SessionRules;
use aion_core::team::Team;

use clap::ValueEnum;
use serde_json::json;

use self::lead::{lead, members};
use super::trust::before_a_run;
use crate::answer::{self, Decider, Typed};
use crate::args::{Mode, OnApproval, Progress, Run};
use crate::client::{Look, connect_local, look};
use crate::config::{Key, Settings};
use crate::daemon;
use crate::exit::{Failure, Outcome};
use crate::follow::{End, Follow};
use crate::git::Repository;
use crate::history::find;
use crate::hosting::{Hosting, Opened, Plan};
use crate::interrupt::Signals;
use crate::paths::data_dir;
use crate::progress::{Beginning, JsonLines, Plain, Quiet, Tree, Watcher};
use crate::scenarios;
use crate::terminal::{clean_line, clean_text, is_screen};
use crate::{output, view};

/// The longest run where nobody watches, unless another time is given.
const UNWATCHED: Duration = Duration::from_hours(1);

pub(super) async fn run(args: Run, json: bool) -> Outcome {
    let began = Instant::now();
    let settings = Settings::load()?;
    let (args, progress) = settled(args, &settings);
    let progress = chosen(progress, json);
    let dir = data_dir(args.data.data_dir.as_deref())?;
    let members = members(&args.member)?;
    if args.detach && args.no_daemon {
        return Err(Failure::usage(
            "--detach leaves the team to the daemon, and --no-daemon uses none",
        ));
    }
    if std::env::var_os("AION_URL").is_some_and(|url| !url.is_empty()) && !args.no_daemon {
        let message =
            "AION_URL names a daemon elsewhere, and a run works in a directory of this machine";
        return Err(Failure::usage(message)
            .with_hint("aion team create makes a team there; unset AION_URL to run one here"));
    }
    let mut signals = Signals::listen()?;
    let resumed = match &args.resume {
        Some(wanted) => Some(known_team(&dir, wanted).await?),
        None => None,
    };
    let (scenario, text) = scenario(&args)?.unzip();
    let goal = match resumed {
        Some(_) => None,
        None => Some(goal(&args)?),
    };
    if let Some(goal) = &goal {
        Repository::refuse_data_inside(&goal.workspace, &dir)?;
        before_a_run(&dir, &goal.workspace, args.rights.trust, json)?;
    }
    let started = matches!(look(&dir), Look::There(_)) && !args.no_daemon;
    if goal.is_some() && !started {
        // What is to be started from here has what is here: without it nothing is started.
        lead::possible(&args, &settings, &members)?;
    }
    let hosting = if args.no_daemon {
        Hosting::here(&dir, scenario)?
    } else {
        Hosting::there(connect_local(&dir).await?, &dir)?
    };
    let opened = match (&resumed, &goal) {
        (Some(team), _) => hosting.resume(team, &dir, text.as_deref(), &members).await,
        (None, Some(goal)) => match lead(&args, &settings, &hosting, &members).await {
            Err(failure) => Err(failure),
            Ok(lead) => {
                let plan = Plan {
                    lead,
                    name: &goal.name,
                    workspace: &goal.workspace,
                    task: goal.task.clone(),
                    scenario: text.as_deref(),
                    members: &members,
                    mode: mode(&args),
                    settings: team_settings(&args),
                };
                hosting.begin(&dir, plan).await
            }
        },
        (None, None) => Err(Failure::usage("there is nothing to do")),
    };
    let Opened { line, beginning, from, last, .. } = match opened {
        Ok(opened) => opened,
        Err(failure) => {
            hosting.close().await;
            return Err(failure);
        }
    };
    if args.detach {
        return left(&beginning, &args, json);
    }
    let mut watcher = watcher(progress);
    watcher.begin(&beginning)?;
    let decider = decider(&args);
    let most = args.max_time.or_else(|| (!is_screen()).then_some(UNWATCHED));
    let mut follow =
        Follow::new(line, watcher.as_mut(), decider, &mut signals, from, last.as_ref());
    follow.limit_turns(args.max_turns);
    let end = follow.run(most).await;
    let result = end.and_then(|end| {
        if end == End::Left {
            // There is nobody to tell.
            return Ok(end);
        }
        let (team, answer) = (follow.team(), follow.last_words());
        let other = args.data.data_dir.as_deref();
        conclude(&end, team, answer, &beginning, progress, began, other)?;
        Ok(end)
    });
    // It holds on to what is closed next.
    drop(follow);
    match result {
        Ok(End::Killed(signalled)) => {
            // Every child process of this one hangs on a leash that ends with it; a daemon's go on
            // until they have stopped.
            std::process::exit(i32::from(signalled.exit().code()));
        }
        Ok(end) => {
            hosting.close().await;
            Ok(exit(&end))
        }
        Err(failure) => {
            let here = matches!(hosting, Hosting::Here(_));
            hosting.close().await;
            Err(if here { failure.aloud() } else { failure.aloud_beside_a_daemon() })
        }
    }
}

/// The team works on without anybody watching.
fn left(beginning: &Beginning, args: &Run, json: bool) -> Outcome {
    let short: String = beginning.team.chars().take(8).collect();
    if json {
        output::json(&json!({ "team": beginning.team, "name": beginning.name }))?;
        return Ok(Exit::Success);
    }
    let place = place(args.data.data_dir.as_deref());
    let thinks = beginning.thinks().map_or(String::new(), |(provider, model)| {
        format!(", with {provider} {}", clean_line(model.unwrap_or_default(), 60))
    });
    output::line(&format!("{} is at work{thinks}", clean_line(&beginning.name, 60)))?;
    output::line(&format!("follow it      aion attach {short}{place}"))?;
    output::line(&format!("what it asks   aion approve ls{place}"))?;
    output::line(&format!("stop it        aion team stop {short}{place}"))?;
    Ok(Exit::Success)
}

fn place(data_dir: Option<&Path>) -> String {
    data_dir.map_or(String::new(), |dir| format!(" --data-dir {}", dir.display()))
}

/// What the person did not say on the command line, as it is set.
fn settled(mut args: Run, settings: &Settings) -> (Run, Progress) {
    args.max_time = args.max_time.or_else(|| Key::time(settings.text("run.max_time")?));
    let set = settings.text("run.on_approval");
    let set = set.and_then(|text| OnApproval::from_str(text, false).ok());
    if !args.yes {
        args.on_approval = args.on_approval.or(set);
    }
    let set = settings.text("run.progress").and_then(|text| Progress::from_str(text, false).ok());
    let progress = args.progress.or(set).unwrap_or_default();
    (args, progress)
}

fn chosen(progress: Progress, json: bool) -> Progress {
    match progress {
        _ if json => Progress::Json,
        // What is drawn again in place needs a terminal.
        Progress::Auto | Progress::Tree if is_screen() => Progress::Tree,
        Progress::Auto | Progress::Tree => Progress::Plain,
        given => given,
    }
}

fn watcher(progress: Progress) -> Box<dyn Watcher> {
    match progress {
        Progress::Tree => Box::new(Tree::new()),
        Progress::Plain | Progress::Auto => Box::<Plain>::default(),
        Progress::Json => Box::<JsonLines>::default(),
        Progress::None => Box::new(Quiet),
    }
}

fn decider(args: &Run) -> Decider {
    match args.on_approval {
        _ if args.yes => Decider::Auto(answer::yes),
        Some(OnApproval::Deny) => Decider::Auto(answer::no),
        Some(OnApproval::Wait) => Decider::Person(Typed::read()),
        None if std::io::stdin().is_terminal() => Decider::Person(Typed::read()),
        None | Some(OnApproval::Fail) => Decider::Fail,
    }
}

fn mode(args: &Run) -> PermissionMode {
    match args.rights.mode {
        None | Some(Mode::Ask) => PermissionMode::Default,
        Some(Mode::Plan) => PermissionMode::Plan,
        Some(Mode::DontAsk) => PermissionMode::DontAsk,
        Some(Mode::Edits) => PermissionMode::AcceptEdits,
        Some(Mode::Bypass) => PermissionMode::BypassPermissions,
    }
}

/// What the command line says about the team. A mode is the whole team's; a plan is the lead's.
fn team_settings(args: &Run) -> TeamSettings {
    let (allow, ask, deny) =
        (args.rights.allow.clone(), args.rights.ask.clone(), args.rights.deny.clone());
    let mode = mode(args);
    TeamSettings {
        rules: SessionRules { allow, ask, deny },
        member_mode: Some(mode)
            .filter(|mode| !matches!(mode, PermissionMode::Default | PermissionMode::Plan)),
        cap: args.rights.budget.map(|micro_usd| Cap {
            most: Amount { tokens: 0, micro_usd },
            per_call: Amount::default(),
        }),
        ..TeamSettings::default()
    }
}

/// The scenario to play, with its text, where the command line names one.
fn scenario(args: &Run) -> Result<Option<(Scenario, String)>, Failure> {
    args.script.as_deref().map(scenarios::scenario).transpose()
}

async fn known_team(dir: &Path, wanted: &str) -> Result<TeamId, Failure> {
    let teams = match daemon::reading(dir)? {
        Some(store) => store.teams().await?,
        None => Vec::new(),
    };
    let row = find(&teams, Some(wanted))?;
    Repository::refuse_data_inside(Path::new(&row.workspace), dir)?;
    Ok(row.team.clone())
}

/// What a new team is to do, and where.
struct Goal {
    name: String,
    workspace: PathBuf,
    task: String,
}

fn goal(args: &Run) -> Result<Goal, Failure> {
    let task = args.task.clone().unwrap_or_default();
    if task.trim().is_empty() {
        return Err(
            Failure::usage("the task is empty").with_hint("aion run \"what is to be done\"")
        );
    }
    let workspace = workspace(args.workspace.as_deref())?;
    let name = args.name.clone().unwrap_or_else(|| name_from(&task));
    Ok(Goal { name, workspace, task })
}

fn workspace(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let chosen = given.map_or_else(|| PathBuf::from("."), Path::to_owned);
    let full = chosen.canonicalize().map_err(|error| {
        Failure::new(Exit::NotFound, "workspace.missing", format!("{}: {error}", chosen.display()))
    })?;
    if !full.is_dir() {
        let message = format!("{} is not a directory", full.display());
        return Err(Failure::new(Exit::NotFound, "workspace.missing", message));
    }
    if full.to_str().is_none() {
        return Err(Failure::usage(format!("{} is not written in UTF-8", full.display())));
    }
    Ok(full)
}

/// A short name out of a task.
fn name_from(task: &str) -> String {
    let words: Vec<String> = task
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(5)
        .map(str::to_lowercase)
        .collect();
    let name: String = words.join("-").chars().take(40).collect();
    if name.is_empty() { "team".to_owned() } else { name }
}

fn exit(end: &End) -> Exit {
    match end {
        End::Settled { .. }
        | End::Failed(_)
        | End::Interrupted
        | End::NeedsPerson(_)
        | End::Budget
        | End::TimeUp
        | End::TurnsUp => status(end).exit(),
        End::Stopped(signalled) | End::Killed(signalled) => signalled.exit(),
        End::Left => Exit::Terminated,
    }
}

fn status(end: &End) -> RunStatus {
    match end {
        End::Settled { all_tasks_completed: true } => RunStatus::Completed,
        End::Failed(_) => RunStatus::Failed,
        End::Settled { all_tasks_completed: false }
        | End::Interrupted
        | End::Stopped(_)
        | End::TimeUp
        | End::TurnsUp
        | End::Left
        | End::Killed(_) => RunStatus::Incomplete,
        End::NeedsPerson(_) => RunStatus::NeedsInput,
        End::Budget => RunStatus::Budget,
    }
}

/// Says how it ended, and how to go on.
fn conclude(
    end: &End,
    team: &Team,
    answer: Option<&str>,
    beginning: &Beginning,
    progress: Progress,
    began: Instant,
    data_dir: Option<&Path>,
) -> Result<(), Failure> {
    let reason = match end {
        End::Settled { all_tasks_completed: true } => None,
        End::Settled { all_tasks_completed: false } => {
            Some("nobody goes on, and tasks are open".to_owned())
        }
        End::Failed(why) | End::NeedsPerson(why) => Some(why.clone()),
        End::Interrupted => Some("the lead was interrupted, and did not go on".to_owned()),
        End::Budget => Some("the budget is used up".to_owned()),
        End::Stopped(_) => Some("stopped".to_owned()),
        End::TimeUp => Some("the time was up".to_owned()),
        End::TurnsUp => Some("the turns were used up".to_owned()),
        End::Killed(_) => Some("ended at once".to_owned()),
        End::Left => Some("nobody watches any more".to_owned()),
    };
    let tasks = view::task_counts(team);
    let usage = team.budget().usage();
    if progress == Progress::Json {
        #[expect(clippy::cast_precision_loss, reason = "for reading only; the log has the integer")]
        let cost_usd = (usage.micro_usd > 0).then_some(usage.micro_usd as f64 / 1_000_000.0);
        return output::json(&RunLine::Result {
            status: status(end),
            team: beginning.team.clone(),
            tasks,
            answer: answer.map(str::to_owned),
            cost_usd,
            branch: None,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            reason,
        });
    }
    if let Some(answer) = answer {
        output::line(&format!("\n{}\n", clean_text(answer)))?;
    }
    let all = tasks.completed + tasks.in_progress + tasks.pending;
    let seconds = began.elapsed().as_secs();
    let how = match &reason {
        None => "completed".to_owned(),
        Some(reason) => format!("{}: {}", view::word(&status(end)), clean_line(reason, 300)),
    };
    output::line(&format!(
        "{how}  ·  {} of {all} task(s) completed  ·  {seconds}s",
        tasks.completed
    ))?;
    let short: String = beginning.team.chars().take(8).collect();
    let place = place(data_dir);
    match end {
        End::Settled { all_tasks_completed: true } => {}
        End::Settled { .. }
        | End::Failed(_)
        | End::Interrupted
        | End::NeedsPerson(_)
        | End::Budget
        | End::Stopped(_)
        | End::TimeUp
        | End::TurnsUp
        | End::Left
        | End::Killed(_) => {
            output::line(&format!("go on with   aion run --resume {short}{place}"))?;
        }
    }
    output::line(&format!("look at it   aion team show {short}{place}"))?;
    if beginning.start_ref.is_some() {
        output::line(&format!("take it back aion team undo {short}{place}"))?;
    }
    Ok(())
}
