//! `aion demo`: a whole team makes a small web page, offline, by the same engine as any other team.
//!
//! Only the agents' words come from a scenario. Messages, tasks, requests, the crash and the files
//! are real, and at the end the work is judged from outside: by the repository's own check, and by
//! counting the exported log.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aion_api::{Exit, FileChange};
use aion_core::agent::PermissionMode;
use aion_core::command::Settings;
use aion_core::event::Recorded;
use aion_core::id::{Seq, TeamId};
use aion_core::permission::GrantScope;
use aion_core::request::{Decision, RequestKind};
use aion_store::EventStore;
use tempfile::TempDir;

use self::account::{Account, count};
use super::team::print_changes;
use crate::answer::{self, Answer, Decider, Typed};
use crate::args::Demo;
use crate::client::{Client, Look, Start, Target, end, look};
use crate::daemon::SCRIPTED;
use crate::exit::{Failure, Outcome};
use crate::follow::{End, Follow};
use crate::git::Repository;
use crate::history::read_all;
use crate::hosting::{Hosting, Opened, Plan, Who};
use crate::interrupt::Signals;
use crate::progress::{JsonLines, StoryTeller, Watcher};
use crate::scenarios;
use crate::terminal::{Paint, clean_line};
use crate::{counts, output};

mod account;

const SCENARIO: &str = include_str!("../../demo/scenario.toml");
/// The files that the team writes; the scenario names them between `@@`.
const PARTS: [(&str, &str); 5] = [
    ("@@TEAM.md@@", include_str!("../../demo/parts/TEAM.md")),
    ("@@content.md@@", include_str!("../../demo/parts/content.md")),
    ("@@style.css@@", include_str!("../../demo/parts/style.css")),
    ("@@index.html@@", include_str!("../../demo/parts/index.html")),
    ("@@programme.html@@", include_str!("../../demo/parts/programme.html")),
];
const README: &str = include_str!("../../demo/site/README.md");
const CHECK: &str = include_str!("../../demo/site/test.sh");
/// What the repository's own check is called.
const CHECK_FILE: &str = "test.sh";
/// The team's name.
const NAME: &str = "open-day";
/// Where a person answers there is no hurry.
const MOST: Duration = Duration::from_mins(10);
/// The demo's daemon ends by itself after this long, should nobody end it.
const ALONE: Duration = Duration::from_mins(1);
/// Accent colours that can be read on the page's paper.
const ACCENTS: [&str; 6] = ["#2f6f4f", "#8a3b12", "#1f5f8b", "#7a2e5d", "#5b5b00", "#9a1f40"];

pub(super) async fn run(args: Demo, json: bool) -> Outcome {
    let somebody = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !args.yes && !somebody {
        return Err(Failure::new(
            Exit::NeedsInput,
            "demo.nobody_there",
            "the team will ask for permissions, and there is no terminal to ask on",
        )
        .with_hint("aion demo --yes answers by itself"));
    }
    let mut signals = Signals::listen()?;
    let place = Place::make(&args)?;
    let (code, accent) = drawn()?;
    set_up(&place.site)?;
    let text =
        PARTS.iter().fold(SCENARIO.to_owned(), |text, (name, part)| text.replace(name, part));
    let hosting = if args.no_daemon {
        Hosting::here(&place.data, Some(scenarios::parse("demo/scenario.toml", &text)?))?
    } else {
        // A daemon of its own, that ends with the demo; it takes no port that others look for.
        let arguments = vec!["--port".to_owned(), "0".to_owned()];
        let start = Start { idle_exit: Some(ALONE), arguments };
        let target = Target::Local { dir: place.data.clone(), start };
        Hosting::there(Client::reach(target).await?, &place.data)?
    };
    let goal = format!(
        "Make the page for the open day of Harbour Garden. The edition code is {code}; it has to \
         stand on every page. The accent colour is {accent}. README.md says what the page needs."
    );
    let plan = Plan {
        settings: Settings::default(),
        name: NAME,
        workspace: &place.site,
        task: goal,
        lead: Who { agent_type: SCRIPTED.to_owned(), model: None },
        scenario: Some(&text),
        members: &[],
        mode: PermissionMode::Default,
    };
    let Opened { id: team, line, beginning, from, last } = hosting.begin(&place.data, plan).await?;
    if !json {
        introduce(&place, &args)?;
    }
    let mut watcher: Box<dyn Watcher> =
        if json { Box::<JsonLines>::default() } else { Box::new(StoryTeller::new(!args.yes)) };
    watcher.begin(&beginning)?;
    let decider =
        if args.yes { Decider::Auto(demo_answer) } else { Decider::Person(Typed::read()) };
    let mut follow =
        Follow::new(line, watcher.as_mut(), decider, &mut signals, from, last.as_ref());
    let ended = follow.run(Some(MOST)).await;
    // It holds on to what is closed later.
    drop(follow);
    let judged = match ended {
        Ok(End::Killed(signalled)) => {
            // Nothing runs on after an exit: the daemon and what is temporary go before it.
            finish(&hosting, &place.data).await;
            drop(place);
            std::process::exit(i32::from(signalled.exit().code()))
        }
        Ok(end) => judge(hosting.store(), &place, &team, &code, end).await,
        Err(failure) => Err(failure),
    };
    finish(&hosting, &place.data).await;
    hosting.close().await;
    let judged = match judged {
        Ok(judged) => judged,
        Err(failure) => {
            place.keep();
            return Err(failure.aloud());
        }
    };
    let exit = match judged.end {
        End::Stopped(signalled) => signalled.exit(),
        End::Left => Exit::Terminated,
        End::NeedsPerson(_) => Exit::NeedsInput,
        _ if judged.account.ok() => Exit::Success,
        _ => Exit::Failure,
    };
    if json {
        output::json(&judged.totals())?;
    } else {
        report(&judged)?;
    }
    place.leave(args.keep || exit != Exit::Success, json)?;
    Ok(exit)
}

/// Ends the demo's own daemon.
async fn finish(hosting: &Hosting, data: &Path) {
    if let (Hosting::There(..), Look::There(file)) = (hosting, look(data)) {
        // One that does not end by now ends by itself soon.
        let _ = end(&file).await;
    }
}

/// Where the demo works.
struct Place {
    /// The repository.
    site: PathBuf,
    /// The team's data.
    data: PathBuf,
    /// Thrown away at the end, unless it is kept.
    temporary: Option<TempDir>,
}

impl Place {
    fn make(args: &Demo) -> Result<Self, Failure> {
        let (root, temporary) = if let Some(dir) = &args.dir {
            (empty_dir(dir)?, None)
        } else {
            let temporary = tempfile::Builder::new()
                .prefix("aion-demo-")
                .tempdir()
                .map_err(|error| Failure::io("make a temporary directory", &error))?;
            (canonical(temporary.path())?, Some(temporary))
        };
        Ok(Self { site: root.join("site"), data: root.join("data"), temporary })
    }

    /// Keeps everything, whatever comes.
    fn keep(mut self) {
        if let Some(temporary) = self.temporary.take() {
            let _path = temporary.keep();
        }
    }

    fn leave(self, keep: bool, json: bool) -> Result<(), Failure> {
        if self.temporary.is_some() && !keep {
            if !json {
                let paint = Paint::of_stdout();
                output::line(&paint.dim("  Nothing is left behind; --keep leaves it to look at."))?;
            }
            return Ok(());
        }
        if !json {
            let data = self.data.display();
            output::line(&format!("  the site  {}", self.site.display()))?;
            output::line(&format!("  the team  aion team show --data-dir {data}"))?;
            output::line(&format!("  its log   aion log --data-dir {data}"))?;
        }
        self.keep();
        Ok(())
    }
}

fn canonical(dir: &Path) -> Result<PathBuf, Failure> {
    dir.canonicalize().map_err(|error| Failure::io(dir.display(), &error))
}

/// A directory that is there, and empty.
fn empty_dir(dir: &Path) -> Result<PathBuf, Failure> {
    let fail = |error: std::io::Error| Failure::io(dir.display(), &error);
    fs::create_dir_all(dir).map_err(fail)?;
    if fs::read_dir(dir).map_err(fail)?.next().is_some() {
        let message = format!("{} is not empty", dir.display());
        return Err(Failure::new(Exit::Conflict, "demo.not_empty", message));
    }
    canonical(dir)
}

/// An edition code and an accent colour that nobody can know beforehand.
fn drawn() -> Result<(String, &'static str), Failure> {
    let mut bytes = [0_u8; 4];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new(Exit::Failure, "random", format!("draw a random number: {error}"))
    })?;
    let [a, b, c, d] = bytes;
    Ok((format!("{a:02x}{b:02x}{c:02x}"), ACCENTS[usize::from(d) % ACCENTS.len()]))
}

/// Makes the repository that the team finds.
fn set_up(site: &Path) -> Result<(), Failure> {
    let write = |name: &str, text: &str| {
        let path = site.join(name);
        fs::write(&path, text).map_err(|error| Failure::io(path.display(), &error))
    };
    fs::create_dir(site).map_err(|error| Failure::io(site.display(), &error))?;
    write("README.md", README)?;
    write(CHECK_FILE, CHECK)?;
    let person = ["-c", "user.name=You", "-c", "user.email=you@localhost"];
    git(site, &["init", "--quiet"])?;
    git(site, &["add", "."])?;
    let message = "A brief and a check, and no page yet";
    git(site, &[&person[..], &["commit", "--quiet", "--no-verify", "-m", message]].concat())
}

fn git(site: &Path, args: &[&str]) -> Result<(), Failure> {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    let output = command
        .current_dir(site)
        .args(["-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false"])
        .args(["-c", "init.defaultBranch=main"])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            let message =
                format!("the demo works in a git repository, and git cannot be run: {error}");
            Failure::new(Exit::Failure, "git.missing", message)
        })?;
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    let message = format!("git {}: {}", args.first().unwrap_or(&""), error.trim());
    Err(Failure::new(Exit::Failure, "git.failed", message))
}

/// The answer that lets the demo go on by itself: files for the whole team, everything else once.
fn demo_answer(kind: &RequestKind) -> Answer {
    match kind {
        RequestKind::Permission(ask) if ask.tool == "Write" => {
            Answer::Decide(Decision::Allow { scope: GrantScope::Team, rule: None })
        }
        other => answer::yes(other),
    }
}

fn introduce(place: &Place, args: &Demo) -> Result<(), Failure> {
    let paint = Paint::of_stdout();
    output::line("")?;
    output::line(&format!(
        "  {}",
        paint.bold("A team makes a web page: a lead, a writer, a designer and a builder")
    ))?;
    let place = place.site.display();
    output::line(&paint.dim(&format!(
        "  Their words are a script; mail, tasks, requests, crash and files are real:\n  {place}"
    )))?;
    if !args.yes {
        output::line(&paint.dim(
            "  They will ask you: y allows once, t lets the whole team use that tool. Ctrl+C stops.",
        ))?;
    }
    output::line("")
}

/// What came of it.
struct Judged {
    end: End,
    account: Account,
    totals: aion_store::Totals,
    changes: Vec<FileChange>,
    check: Check,
}

impl Judged {
    fn totals(&self) -> aion_api::Totals {
        counts::wire(self.totals, self.account.ok(), self.changes.len() as u64)
    }
}

/// What the repository's own check said.
struct Check {
    passed: bool,
    said: String,
}

async fn judge(
    store: &Arc<dyn EventStore>,
    place: &Place,
    team: &TeamId,
    code: &str,
    end: End,
) -> Result<Judged, Failure> {
    let totals = store.totals(team).await?;
    let exported = exported(store, team).await?;
    let check = check(&place.site, code)?;
    let changes = match Repository::around(&place.site) {
        Some(repository) => repository.changes(team)?,
        None => Vec::new(),
    };
    let mut account = Account::of(&exported);
    let completed = end == (End::Settled { all_tasks_completed: true });
    account.expect(completed && totals.tasks_completed > 0, || {
        format!("the team did not complete its tasks: {}", why(&end))
    });
    account.expect(check.passed, || format!("the check failed: {}", check.said));
    account.expect(totals == counts::count(&exported), || {
        "the store's totals are not those of the export".to_owned()
    });
    let settled = totals.messages_acknowledged + totals.messages_superseded + totals.messages_dead;
    account.expect(totals.messages_accepted == settled, || {
        format!("{} messages were accepted, and {settled} have an end", totals.messages_accepted)
    });
    account.expect(totals.messages_dead == 0, || {
        format!("{} message(s) could not be delivered", totals.messages_dead)
    });
    Ok(Judged { end, account, totals, changes, check })
}

/// The log as a file of `aion export` holds it.
async fn exported(store: &Arc<dyn EventStore>, team: &TeamId) -> Result<Vec<Recorded>, Failure> {
    let text = super::export::jsonl(&read_all(store, team, Seq(0)).await?)?;
    text.lines()
        .map(|line| serde_json::from_str(line).map_err(|error| std::io::Error::from(error).into()))
        .collect()
}

fn why(end: &End) -> String {
    match end {
        End::Settled { .. } => "nobody could go on".to_owned(),
        End::Failed(why) | End::NeedsPerson(why) => why.clone(),
        End::Interrupted => "the lead was interrupted".to_owned(),
        End::Budget => "the budget is used up".to_owned(),
        End::Stopped(_) | End::Killed(_) | End::Left => "it was stopped".to_owned(),
        End::TimeUp => "the time was up".to_owned(),
        End::TurnsUp => "the turns were used up".to_owned(),
    }
}

/// Runs the repository's own check, as a person would.
fn check(site: &Path, code: &str) -> Result<Check, Failure> {
    let output = Command::new("sh")
        .current_dir(site)
        .args([CHECK_FILE, code])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::io(format!("run sh {CHECK_FILE}"), &error))?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(Check { passed: output.status.success(), said: clean_line(&said, 200) })
}

fn report(judged: &Judged) -> Result<(), Failure> {
    let paint = Paint::of_stdout();
    output::line("")?;
    output::line(&format!("  {}", paint.bold("What was made")))?;
    print_changes(&judged.changes)?;
    output::line("")?;
    output::line(&format!("  {}", paint.bold("What everybody did")))?;
    for line in judged.account.members() {
        let name = paint.member(&line.colour, &format!("{:<10}", line.name));
        output::line(&format!("  {name} {}", line.did))?;
    }
    output::line("")?;
    let mark = if judged.check.passed { paint.good("✓") } else { paint.bad("✗") };
    output::line(&format!("  {mark} sh {CHECK_FILE}: {}", judged.check.said))?;
    let totals = &judged.totals;
    let mark = if totals.messages_dead == 0 { paint.good("✓") } else { paint.bad("✗") };
    output::line(&format!(
        "  {mark} {} accepted, {} read, {} replaced by newer notices, {} lost",
        count(totals.messages_accepted, "message"),
        totals.messages_acknowledged,
        totals.messages_superseded,
        totals.messages_dead
    ))?;
    output::line(&format!(
        "    {}, {} completed, {} decided, {}",
        count(totals.turns, "turn"),
        count(totals.tasks_completed, "task"),
        count(totals.requests_decided, "request"),
        count(totals.restarts, "restart"),
    ))?;
    for problem in judged.account.problems() {
        output::line(&format!("  {} {}", paint.bad("✗"), clean_line(&problem, 300)))?;
    }
    output::line("")
}
