//! The coding tools: what each call would do, and doing it; whether it may is judged elsewhere.
//!
//! A call is first [prepared](Toolbox::prepare): its input is read, its paths are resolved, and its
//! class and description come out, for the one who judges it. Then it [runs](Toolbox::run).

mod background;
mod bash;
mod edit;
mod fetch;
mod files;
mod glob;
mod grep;
mod image;
mod input;
mod output;
mod page;
mod place;
mod project;
mod read;
mod search;
mod shells;
mod write;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use aion_core::permission::ToolClass;
use aion_core::transcript::Item;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::task::TaskTracker;

use self::files::Seen;
use self::place::Root;
use self::shells::Shells;
use crate::host::{Rules, ToolOutput, ToolSpec};
use crate::identity::blocking_as;
use crate::leash::LeashConfig;
use crate::mcp::{self, ReadClient, Servers, Wanted};
use crate::network::{Gate, Web};
use crate::permission::{Rulebook, Subject};
use crate::sandbox::{Sandbox, Violation};

pub(crate) use self::image::shown_image;
pub(crate) use self::place::is_guarded;
pub use self::project::INSTRUCTIONS;

/// The variables of our own environment that a command may see. Everything else may be a secret.
pub const VISIBLE_VARIABLES: [&str; 8] =
    ["PATH", "HOME", "LANG", "LC_ALL", "TERM", "TMPDIR", "USER", "SHELL"];

/// Bytes of a call's input that are kept, for the one who judges it. What does something that cannot
/// be seen in its result has to fit in whole.
const SHOWN_INPUT_BYTES: usize = 16 * 1024;

/// A call's input as the one who judges it sees it: whole, or with the number of bytes that are
/// missing.
pub fn shown_input(input: &serde_json::Value) -> String {
    shown(input.to_string(), SHOWN_INPUT_BYTES)
}

/// A text within a limit; one that is cut says how many bytes are missing.
fn shown(mut text: String, limit: usize) -> String {
    let note = |missing: usize| format!("… ({missing} bytes more)");
    if text.len() <= limit {
        return text;
    }
    let end = text.floor_char_boundary(limit.saturating_sub(note(text.len()).len()));
    let note = note(text.len() - end);
    text.truncate(end);
    text + &note
}

/// What the coding tools of all agents have in common.
#[derive(Clone, Debug)]
pub struct ToolConfig {
    /// How child processes are kept.
    pub leash: LeashConfig,
    /// The environment of commands, complete.
    pub environment: Vec<(OsString, OsString)>,
    /// What commands are run by.
    pub sandbox: Arc<Sandbox>,
    /// The way to pages of the web, if there is one.
    pub web: Option<Arc<Web>>,
    /// What calls MCP servers, if there may be any.
    pub mcp: Option<ReadClient>,
}

/// What a running call has around it.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Where hosts are asked for that nobody decided about; without it they are refused.
    pub gate: Option<Gate>,
    /// Where it is told what the sandbox refused.
    pub refused: Arc<Mutex<Vec<Violation>>>,
    /// What holds a token of it still runs.
    pub running: TaskTracker,
}

/// How long processes that were killed are waited for.
const DYING: Duration = Duration::from_secs(2);

impl ToolConfig {
    /// With the visible part of an environment.
    pub fn new(
        leash: LeashConfig,
        sandbox: Arc<Sandbox>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let environment = environment
            .into_iter()
            .filter(|(name, _)| VISIBLE_VARIABLES.iter().any(|visible| name == visible))
            .collect();
        Self { leash, environment, sandbox, web: None, mcp: None }
    }

    /// With MCP servers, and what calls those that are reached by HTTP.
    #[must_use]
    pub fn with_mcp(self, client: ReadClient) -> Self {
        Self { mcp: Some(client), ..self }
    }

    /// With a way to pages of the web.
    #[must_use]
    pub fn with_web(self, web: Arc<Web>) -> Self {
        Self { web: Some(web), ..self }
    }
}

/// One agent's coding tools.
#[derive(Debug)]
pub struct Toolbox {
    workspace: PathBuf,
    config: Arc<ToolConfig>,
    seen: Arc<Mutex<Seen>>,
    /// The processes of its calls.
    running: TaskTracker,
    /// The team's MCP servers, if it may have some.
    servers: Option<Arc<Servers>>,
    /// What the agent was told of them.
    faults: Mutex<Vec<String>>,
    /// The project's instructions, as they were shown last.
    instructions: Arc<project::Shown>,
    /// Those of them that run on when their call is answered.
    shells: Arc<Shells>,
    /// The rules that were made ready last.
    book: Mutex<Option<(Rules, Arc<Rulebook>)>>,
}

/// A call that is ready to be judged, and then to run.
#[derive(Debug)]
pub struct Prepared {
    /// What it can do.
    pub class: ToolClass,
    /// What it would do, in one line.
    pub description: String,
    /// What it is about, for the rules.
    pub subject: Subject,
    action: Action,
}

impl Prepared {
    /// The same call, for which files that a rule keeps from being read are not there, and hosts
    /// that a rule denies are not reached.
    #[must_use]
    pub fn hiding(mut self, book: &Arc<Rulebook>) -> Self {
        match &mut self.action {
            Action::Glob(call) if book.hides_some() => call.hide(Arc::clone(book)),
            Action::Grep(call) if book.hides_some() => call.hide(Arc::clone(book)),
            Action::WebFetch(call) => call.obey(book),
            Action::Glob(_)
            | Action::Grep(_)
            | Action::Read(_)
            | Action::Write(_)
            | Action::Edit(_)
            | Action::Bash(_)
            | Action::BashOutput(_)
            | Action::KillShell(_)
            | Action::Mcp(_) => {}
        }
        self
    }
}

/// What a call does.
#[derive(Debug)]
enum Action {
    Read(read::Read),
    Write(write::Write),
    Edit(edit::Edit),
    Glob(glob::Glob),
    Grep(grep::Grep),
    Bash(bash::Bash),
    BashOutput(background::Output),
    KillShell(background::Kill),
    WebFetch(fetch::Fetch),
    Mcp(mcp::Call),
}

static SPECS: LazyLock<Vec<Arc<ToolSpec>>> = LazyLock::new(|| {
    let all = [
        read::spec(),
        write::spec(),
        edit::spec(),
        glob::spec(),
        grep::spec(),
        bash::spec(),
        background::output_spec(),
        background::kill_spec(),
    ];
    all.into_iter().map(Arc::new).collect()
});

static FETCH: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| Arc::new(fetch::spec()));

impl Toolbox {
    /// The tools for a workspace.
    pub fn new(workspace: PathBuf, config: Arc<ToolConfig>) -> Self {
        Self {
            workspace,
            config,
            seen: Arc::default(),
            running: TaskTracker::new(),
            servers: None,
            faults: Mutex::default(),
            instructions: Arc::default(),
            shells: Arc::default(),
            book: Mutex::default(),
        }
    }

    /// With the team's MCP servers.
    #[must_use]
    pub fn with_servers(self, servers: Option<Arc<Servers>>) -> Self {
        Self { servers, ..self }
    }

    /// Has the team's MCP servers begun that are wanted, and those ended that are not.
    pub(crate) async fn settle_servers(&self, wanted: Wanted) {
        let Some(servers) = &self.servers else { return };
        let mut faults: Vec<String> = wanted.fault.into_iter().collect();
        servers.settle(wanted.servers).await;
        faults.extend(servers.faults());
        // Every change of it is one assignment.
        let mut told = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let news: Vec<String> =
            faults.iter().filter(|fault| !told.contains(fault)).cloned().collect();
        *told = faults;
        drop(told);
        self.shells.note(news.into_iter().map(|fault| format!("[{fault}]")));
    }

    /// The tools as a model sees them.
    pub fn specs(&self) -> Vec<Arc<ToolSpec>> {
        let web = self.config.web.is_some().then(|| Arc::clone(&FETCH));
        let servers = self.servers.iter().flat_map(|servers| servers.specs());
        SPECS.iter().cloned().chain(web).chain(servers).collect()
    }

    /// Whether a tool of this name is one of them.
    pub fn has(&self, tool: &str) -> bool {
        SPECS.iter().any(|spec| spec.name == tool)
            || (tool == FETCH.name && self.config.web.is_some())
            || (tool.starts_with("mcp__") && self.servers.is_some())
    }

    /// Whether a tool only looks, as long as it looks inside the workspace.
    pub fn is_reader(tool: &str) -> bool {
        matches!(tool, "Read" | "Glob" | "Grep" | "BashOutput")
    }

    /// The directory they work in.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Rules made ready for calls here: patterns begin at the workspace as the file system knows it,
    /// and at the home directory of commands. The same rules are made ready once.
    pub fn book(&self, rules: Rules) -> Arc<Rulebook> {
        // Every change of it is one assignment.
        let mut kept = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, book)) = &*kept
            && *known == rules
        {
            return Arc::clone(book);
        }
        let root = self.workspace.canonicalize().unwrap_or_else(|_| self.workspace.clone());
        let home = self.config.environment.iter().find(|(name, _)| name == "HOME");
        let home = home.map(|(_, home)| PathBuf::from(home));
        let sealed = self.config.sandbox.sealed(&root);
        let book = Rulebook::new(rules.layers.clone(), root, home).sealing(sealed);
        let book = Arc::new(match &rules.fault {
            Some(why) => book.unreadable(why),
            None => book,
        });
        *kept = Some((rules, Arc::clone(&book)));
        book
    }

    /// The project's own instructions as a model reads them, but for those that a rule keeps from
    /// being read. Whether they count is for the one who asks to know.
    pub async fn instructions(&self, rules: Rules) -> Option<String> {
        let (shown, book) = (Arc::clone(&self.instructions), self.book(rules));
        let workspace = self.workspace.clone();
        let reading = blocking_as(move || shown.read(&Root::open(&workspace).ok()?, &book));
        reading.await.ok().flatten()
    }

    /// Reads a call's input and says what it would do. An error is for the model.
    pub fn prepare(&self, tool: &str, input: &serde_json::Value) -> Result<Prepared, String> {
        let root = Root::open(&self.workspace)?;
        match tool {
            "Read" => read::prepare(&root, input),
            "Write" => write::prepare(&root, input),
            "Edit" => edit::prepare(&root, input),
            "Glob" => glob::prepare(&root, input),
            "Grep" => grep::prepare(&root, input),
            "Bash" => bash::prepare(&root, input),
            "BashOutput" => background::prepare_output(input),
            "KillShell" => background::prepare_kill(input),
            "WebFetch" => fetch::prepare(input),
            mcp if mcp.starts_with("mcp__") => self.prepare_mcp(mcp, input),
            other => Err(format!("There is no coding tool {other:?}.")),
        }
    }

    fn prepare_mcp(&self, tool: &str, input: &serde_json::Value) -> Result<Prepared, String> {
        let unknown = || format!("There is no tool {tool:?}.");
        let servers = self.servers.as_ref().ok_or_else(unknown)?;
        let bytes = input.to_string().len();
        if bytes > SHOWN_INPUT_BYTES {
            return Err(format!(
                "{tool}: the input takes {bytes} bytes; over {SHOWN_INPUT_BYTES} it cannot be shown in whole to the one who has to allow it."
            ));
        }
        let call = servers.prepare(tool, input)?;
        Ok(Prepared {
            // What a server says of its tools is no ground to let one run.
            class: ToolClass::Execute,
            subject: Subject::Other,
            description: call.description(),
            action: Action::Mcp(call),
        })
    }

    /// Whether a command would run without a wall, because none works and the person wants to be
    /// asked for each.
    pub async fn runs_without_wall(&self) -> bool {
        let sandbox = Arc::clone(&self.config.sandbox);
        match sandbox.known_wall() {
            Some(_) => sandbox.asks_for_each(),
            // The first look for a wall takes a while.
            None => blocking_as(move || sandbox.asks_for_each()).await.unwrap_or(true),
        }
    }

    /// Whether commands run in the background, or may.
    pub fn is_busy(&self) -> bool {
        !self.running.is_empty()
    }

    /// Looks in the agent's transcript, once, for commands in the background that an earlier start of
    /// it began, so that it is told that they are gone.
    pub(crate) fn find_lost(&self, items: &[Item]) {
        self.shells.find_lost(items);
    }

    /// What the agent is to be told of its commands in the background without having asked, once.
    pub(crate) fn news(&self) -> Vec<String> {
        self.shells.news()
    }

    /// Ends what runs in the background, and waits until the processes of calls are gone; not for
    /// long. Nothing is run afterwards.
    pub async fn quiet(&self) {
        self.shells.end_all();
        self.running.close();
        // What does not die in this time is its leash's to end.
        let _ = tokio::time::timeout(DYING, self.running.wait()).await;
    }

    /// Runs a call. Dropping the future ends it, with every process it began.
    pub fn run(&self, prepared: Prepared, around: Surroundings) -> BoxFuture<'static, ToolOutput> {
        let seen = Arc::clone(&self.seen);
        match prepared.action {
            Action::Bash(call) => {
                let around = Surroundings { running: self.running.clone(), ..around };
                let shells = Arc::clone(&self.shells);
                call.run(self.workspace.clone(), Arc::clone(&self.config), shells, around).boxed()
            }
            Action::BashOutput(call) => {
                call.run(Arc::clone(&self.shells), self.config.sandbox.stands(), around).boxed()
            }
            Action::KillShell(call) => {
                call.run(Arc::clone(&self.shells), self.config.sandbox.stands(), around).boxed()
            }
            Action::Mcp(call) => {
                let servers = self.servers.clone();
                async move {
                    match servers {
                        Some(servers) => servers.run(call).await,
                        None => ToolOutput::failed("There are no MCP servers here."),
                    }
                }
                .boxed()
            }
            Action::WebFetch(call) => call.run(self.config.web.clone(), around).boxed(),
            Action::Read(call) => blocking(move || call.run(&seen)),
            Action::Write(call) => blocking(move || call.run(&seen)),
            Action::Edit(call) => blocking(move || call.run(&seen)),
            Action::Glob(call) => search::stoppable(move |stop| call.run(stop)),
            Action::Grep(call) => search::stoppable(move |stop| call.run(stop)),
        }
    }
}

/// Runs file work where it may block.
fn blocking(
    work: impl FnOnce() -> Result<ToolOutput, String> + Send + 'static,
) -> BoxFuture<'static, ToolOutput> {
    async move {
        match blocking_as(work).await {
            Ok(Ok(output)) => output,
            Ok(Err(reason)) => ToolOutput::failed(reason),
            Err(error) => ToolOutput::failed(format!("The tool failed: {error}.")),
        }
    }
    .boxed()
}
