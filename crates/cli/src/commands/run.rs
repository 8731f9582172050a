//! `aion run`: hosts a team in this process until it settles, or goes on with one that stopped.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aion_agent::scripted::Scenario;
use aion_api::{Exit, RunLine, RunStatus};
use aion_core::agent::PermissionMode;
use aion_core::command::{Caller, Command, SendMessage};
use aion_core::id::{AgentName, TeamId};
use aion_core::message::{Recipient, Urgency};
use aion_core::team::Team;

use crate::answer::{self, Decider, Typed};
use crate::args::{OnApproval, Progress, Run};
use crate::daemon::{self, Daemon, SCRIPTED};
use crate::exit::{Failure, Outcome};
use crate::follow::{End, Follow};
use crate::git::Repository;
use crate::history::find;
use crate::hosting::{self, Opened, begin, resume, submit_failure};
use crate::interrupt::Signals;
use crate::paths::data_dir;
use crate::progress::{Beginning, JsonLines, Plain, Quiet, Tree, Watcher};
use crate::scenarios::{self, Scenarios};
use crate::terminal::{clean_line, is_screen};
use crate::{output, view};

/// The longest run where nobody watches, unless another time is given.
const UNWATCHED: Duration = Duration::from_hours(1);
pub(super) async fn run(args: Run, json: bool) -> Outcome {
    let began = Instant::now();
    let progress = chosen(args.progress, json);
    let dir = data_dir(args.data.data_dir.as_deref())?;
    let members = members(&args.member)?;
    let mut signals = Signals::listen()?;
    let resumed = match &args.resume {
        Some(wanted) => Some(known_team(&dir, wanted).await?),
        None => None,
    };
    let (scenario, text) = scenario(&args, &dir, resumed.as_ref())?;
    let goal = match resumed {
        Some(_) => None,
        None => Some(goal(&args)?),
    };
    if let Some(goal) = &goal {
        Repository::refuse_data_inside(&goal.workspace, &dir)?;
    }
    let daemon = Daemon::open(&dir, Arc::new(Scenarios::one(&dir, scenario)))?;
    let opened = match (&resumed, goal) {
        (Some(team), _) => resume(&daemon, team, &dir).await,
        (None, Some(goal)) => start(&daemon, goal, &members).await,
        (None, None) => Err(Failure::usage("there is nothing to do")),
    };
    let ready = match opened {
        Ok(opened) => prepare(&daemon, &opened, &dir, text.as_deref(), &members, resumed.is_some())
            .await
            .map(|()| opened),
        Err(failure) => Err(failure),
    };
    let Opened { handle, beginning, from, last } = match ready {
        Ok(opened) => opened,
        Err(failure) => {
            daemon.close().await;
            return Err(failure);
        }
    };
    let mut watcher = watcher(progress);
    watcher.begin(&beginning)?;
    let decider = decider(&args);
    let most = args.max_time.or_else(|| (!is_screen()).then_some(UNWATCHED));
    let mut follow =
        Follow::new(handle.clone(), watcher.as_mut(), decider, &mut signals, from, last.as_ref());
    let end = follow.run(most).await;
    let result = end.and_then(|end| {
        let team = follow.team();
        let other = args.data.data_dir.as_deref();
        conclude(&end, team, &beginning, progress, began, other)?;
        Ok(end)
    });
    match result {
        Ok(End::Killed(signalled)) => {
            // Every child process hangs on a leash that ends with this process.
            std::process::exit(i32::from(signalled.exit().code()));
        }
        Ok(end) => {
            daemon.close().await;
            Ok(exit(&end))
        }
        Err(failure) => {
            daemon.close().await;
            Err(failure.aloud())
        }
    }
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
        Some(OnApproval::Fail) => Decider::Fail,
        Some(OnApproval::Wait) => Decider::Person(Typed::read()),
        None if std::io::stdin().is_terminal() => Decider::Person(Typed::read()),
        None => Decider::Nobody,
    }
}

/// The scenario to play, with its text where it is a new one.
fn scenario(
    args: &Run,
    dir: &Path,
    resumed: Option<&TeamId>,
) -> Result<(Scenario, Option<String>), Failure> {
    if let Some(path) = &args.script {
        let (scenario, text) = scenarios::scenario(path)?;
        return Ok((scenario, Some(text)));
    }
    let kept = resumed.map(|team| scenarios::kept(dir, team)).filter(|path| path.exists());
    match kept {
        Some(path) => Ok((scenarios::scenario(&path)?.0, None)),
        None => Err(scenarios::no_provider()),
    }
}

async fn known_team(dir: &Path, wanted: &str) -> Result<TeamId, Failure> {
    let teams = match daemon::reading(dir)? {
        Some(store) => store.teams().await?,
        None => Vec::new(),
    };
    Ok(find(&teams, Some(wanted))?.team.clone())
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

/// A member from the command line, with its model.
type Member = (AgentName, Option<String>);

/// Begins a team. With members of the person's own the task follows once they are there: the lead's
/// first prompt names them.
async fn start(daemon: &Daemon, goal: Goal, members: &[Member]) -> Result<Opened, Failure> {
    let Goal { name, workspace, task } = goal;
    let mode = PermissionMode::Default;
    if members.is_empty() {
        return begin(daemon, &name, &workspace, task, mode).await;
    }
    let opened = begin(daemon, &name, &workspace, String::new(), mode).await?;
    let told = async {
        bring_in(daemon, &opened, members).await?;
        let message = SendMessage {
            to: Recipient::Lead,
            text: task,
            summary: None,
            urgency: Urgency::Wake,
            files: Vec::new(),
            key: None,
        };
        let message = Command::SendMessage(Box::new(message));
        opened.handle.submit(Caller::User, None, message).await.map_err(submit_failure)
    };
    if let Err(failure) = told.await {
        // A team that was never told its task is none; that it ends is all that can be done.
        let _ = opened.handle.submit(Caller::User, None, Command::EndTeam).await;
        return Err(failure);
    }
    Ok(opened)
}

async fn bring_in(daemon: &Daemon, opened: &Opened, members: &[Member]) -> Result<(), Failure> {
    for (name, model) in members {
        let mode = PermissionMode::Default;
        let (name, model) = (name.clone(), model.clone());
        let member = Box::new(hosting::member(daemon, name, model, String::new(), mode));
        let spawn = Command::SpawnAgent { member };
        opened.handle.submit(Caller::User, None, spawn).await.map_err(submit_failure)?;
    }
    Ok(())
}

/// What an open team needs before it is followed.
async fn prepare(
    daemon: &Daemon,
    opened: &Opened,
    dir: &Path,
    text: Option<&str>,
    members: &[Member],
    resumed: bool,
) -> Result<(), Failure> {
    if let Some(text) = text {
        scenarios::keep(dir, opened.handle.team(), text)?;
    }
    if resumed { bring_in(daemon, opened, members).await } else { Ok(()) }
}

/// Reads `name:agent[:model]`.
fn members(given: &[String]) -> Result<Vec<Member>, Failure> {
    let mut looks = BTreeSet::new();
    let members: Vec<Member> = given
        .iter()
        .map(|text| {
            let mut parts = text.splitn(3, ':');
            let name = parts.next().unwrap_or_default();
            let name = AgentName::parse(name).map_err(|why| {
                Failure::usage(format!("--member {:?}: {why}", clean_line(text, 80)))
            })?;
            let agent_type = parts.next().filter(|agent| !agent.is_empty()).unwrap_or(SCRIPTED);
            if agent_type != SCRIPTED {
                let message = format!(
                    "--member {:?}: there is no agent {:?} in this version",
                    clean_line(text, 80),
                    clean_line(agent_type, 40)
                );
                return Err(Failure::usage(message).with_hint(format!(
                    "the agent that is here is {SCRIPTED:?}: NAME:{SCRIPTED}"
                )));
            }
            let model = parts.next().filter(|model| !model.is_empty());
            Ok((name, model.map(str::to_owned)))
        })
        .collect::<Result<_, Failure>>()?;
    for (name, _) in &members {
        if !looks.insert(name.look_alike()) {
            let message =
                format!("--member {:?}: the name is taken by another member", name.as_str());
            return Err(Failure::new(Exit::Usage, "team.name_taken", message));
        }
    }
    Ok(members)
}

fn exit(end: &End) -> Exit {
    match end {
        End::Settled { .. }
        | End::Failed(_)
        | End::Interrupted
        | End::NeedsPerson(_)
        | End::Budget
        | End::TimeUp => status(end).exit(),
        End::Stopped(signalled) | End::Killed(signalled) => signalled.exit(),
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
        | End::Killed(_) => RunStatus::Incomplete,
        End::NeedsPerson(_) => RunStatus::NeedsInput,
        End::Budget => RunStatus::Budget,
    }
}

/// Says how it ended, and how to go on.
fn conclude(
    end: &End,
    team: &Team,
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
        End::Killed(_) => Some("ended at once".to_owned()),
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
            cost_usd,
            branch: None,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            reason,
        });
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
    let place = data_dir.map_or(String::new(), |dir| format!(" --data-dir {}", dir.display()));
    match end {
        End::Settled { all_tasks_completed: true } => {}
        End::Settled { .. }
        | End::Failed(_)
        | End::Interrupted
        | End::NeedsPerson(_)
        | End::Budget
        | End::Stopped(_)
        | End::TimeUp
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
