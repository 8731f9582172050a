//! The one way to start a command of an agent: behind the wall, on the leash, with a fresh
//! environment; it never starts one with less than was asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use aion_core::id::TeamId;
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::bubblewrap::{Bubblewrap, NETWORK_INSIDE, PROGRAM_INSIDE, TEMPORARY_INSIDE};
use super::guard::{Guard, Kept};
use super::inside::Orders;
use super::landlock::Reach;
use super::limits::Limits;
use super::placeholder::Placeholders;
use super::policy::{Grounds, Policy, sweep};
use super::violation::Violation;
use super::wall::{Mode, Wall};
use crate::leash::{self, Heard, LeashConfig, Leashed, LeashedCommand, Parting, Talk};
use crate::network::{Gate, Network, Opening};

/// What all commands of a house are run by.
#[derive(Debug)]
pub struct Sandbox {
    mode: Mode,
    /// Our own program, and the words that make it the helper.
    helper: Vec<OsString>,
    grounds: Grounds,
    limits: Limits,
    local_sockets: bool,
    network: Option<Arc<Network>>,
    wall: OnceLock<Wall>,
    /// Where teams work: closed to the commands of the others.
    workplaces: Mutex<BTreeMap<TeamId, PathBuf>>,
}

/// A program and its arguments, to which the command is added.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
}

/// A command behind its wall. Dropping it ends the command and all it began.
#[derive(Debug)]
pub struct Walled {
    leashed: Leashed,
    watch: Watch,
}

/// What has to be looked at when a command has ended.
#[derive(Debug, Default)]
struct Watch {
    guard: Option<Guard>,
    placeholders: Placeholders,
    opening: Option<Opening>,
    temporary: Option<TempDir>,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; 128 and more mean a signal.
    pub code: i32,
    /// What it was refused and what was put back, as far as it is not in its own words.
    pub violations: Vec<Violation>,
}

impl Sandbox {
    /// By this binary's own hidden command `__sandbox`.
    pub fn by_own_binary(mode: Mode, grounds: Grounds) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        Ok(Self::new(mode, vec![program.into(), "__sandbox".into()], grounds))
    }

    /// With a helper: a program that runs [`super::sandbox_main`], and what makes it do so.
    pub fn new(mode: Mode, helper: Vec<OsString>, grounds: Grounds) -> Self {
        Self {
            mode,
            helper,
            grounds,
            limits: Limits::default(),
            local_sockets: false,
            network: None,
            wall: OnceLock::new(),
            workplaces: Mutex::default(),
        }
    }

    /// None at all, by somebody's explicit word.
    pub fn off() -> Self {
        Self::new(Mode::Off, Vec::new(), Grounds::default())
    }

    /// With other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// With a way to the network.
    #[must_use]
    pub fn with_network(self, network: Arc<Network>) -> Self {
        Self { network: Some(network), ..self }
    }

    /// With sockets in the file system let through: whatever of the person's programs listens on one
    /// can then be reached.
    #[must_use]
    pub fn with_local_sockets(self, local_sockets: bool) -> Self {
        Self { local_sockets, ..self }
    }

    /// With a wall that was found already.
    #[must_use]
    pub fn with_wall(self, wall: Wall) -> Self {
        Self { wall: OnceLock::from(wall), ..self }
    }

    /// The wall, which is looked for once. It blocks at the first time.
    pub fn wall(&self) -> &Wall {
        self.wall.get_or_init(|| Wall::find(self.mode, &self.helper))
    }

    /// The wall, if it has been looked for.
    pub fn known_wall(&self) -> Option<&Wall> {
        self.wall.get()
    }

    /// The way to the network, if there is one.
    pub fn network(&self) -> Option<&Arc<Network>> {
        self.network.as_ref()
    }

    /// What nobody who works in a workspace opens, by a tool neither: the house's own data, settings
    /// and keys.
    pub fn sealed(&self, workspace: &Path) -> Vec<PathBuf> {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let apart = |path: &PathBuf| !workspace.starts_with(path);
        self.grounds.closed.iter().map(real).filter(apart).collect()
    }

    /// A team works there: its workspace is closed to the commands of other teams.
    pub fn works_in(&self, team: &TeamId, workspace: &Path) {
        let path = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
        let before = self.workplaces().insert(team.clone(), path.clone());
        if before.as_ref() != Some(&path) {
            sweep(&path);
        }
    }

    fn workplaces(&self) -> MutexGuard<'_, BTreeMap<TeamId, PathBuf>> {
        // Every change of it is one insertion.
        self.workplaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a command. What may be written comes from `workspace` alone, whatever directory the
    /// command begins in. Hosts that nobody decided about are asked for at the gate.
    pub async fn spawn(
        self: &Arc<Self>,
        leash: &LeashConfig,
        workspace: &Path,
        command: LeashedCommand,
        gate: Option<Gate>,
    ) -> io::Result<Walled> {
        Ok(self.start(leash, workspace, command, gate, None).await?.0)
    }

    /// Starts a command that is talked with: dropping what it reads kills it.
    pub async fn spawn_talking(
        self: &Arc<Self>,
        leash: &LeashConfig,
        workspace: &Path,
        command: LeashedCommand,
    ) -> io::Result<(Walled, Talk)> {
        let talks = Some(Parting::AT_ONCE);
        let (walled, talk) = self.start(leash, workspace, command, None, talks).await?;
        Ok((walled, talk.ok_or(io::ErrorKind::BrokenPipe)?))
    }

    async fn start(
        self: &Arc<Self>,
        leash: &LeashConfig,
        workspace: &Path,
        mut command: LeashedCommand,
        gate: Option<Gate>,
        talks: Option<Parting>,
    ) -> io::Result<(Walled, Option<Talk>)> {
        let sandbox = Arc::clone(self);
        // The first look for a wall takes a while.
        let wall =
            spawn_blocking(move || sandbox.wall().clone()).await.map_err(io::Error::other)?;
        match wall {
            Wall::Off | Wall::Missing { ask: true, .. } => {
                let (leashed, talk) = leash::start(leash, command, talks).await?;
                return Ok((Walled { leashed, watch: Watch::default() }, talk));
            }
            Wall::Missing { reason, ask: false } => {
                return Err(io::Error::other(format!(
                    "no sandbox works on this machine ({reason}). Install bubblewrap (apt install \
                     bubblewrap, dnf install bubblewrap), or let each command be asked for with \
                     `aion config set sandbox.mode ask`"
                )));
            }
            Wall::Bubblewrap(_) | Wall::Landlock { .. } => {}
        }
        let opening = match (&self.network, &wall) {
            (Some(network), Wall::Bubblewrap(_)) => Some(network.open(gate)?),
            _ => None,
        };
        let sandbox = Arc::clone(self);
        let (workspace, directory) = (workspace.to_owned(), command.directory.clone());
        let prepared =
            spawn_blocking(move || sandbox.prepare(&wall, &workspace, &directory, opening));
        let (plan, mut watch) = prepared.await.map_err(io::Error::other)??;
        let temporary = watch.temporary.as_ref().map_or(Path::new(TEMPORARY_INSIDE), TempDir::path);
        settle_environment(&mut command.environment, temporary);
        let inner = std::iter::once(command.program).chain(command.arguments);
        let arguments = plan.arguments.into_iter().chain(inner).collect();
        let command = LeashedCommand { program: plan.program, arguments, ..command };
        match leash::start(leash, command, talks).await {
            Ok((leashed, talk)) => Ok((Walled { leashed, watch }, talk)),
            Err(error) => {
                watch.guard.take();
                let _ = spawn_blocking(move || drop(watch)).await;
                Err(error)
            }
        }
    }

    /// Whether commands have been run behind a wall.
    pub fn stands(&self) -> bool {
        matches!(self.known_wall(), Some(Wall::Bubblewrap(_) | Wall::Landlock { .. }))
    }

    /// Whether commands run without a wall, each by the person's leave. It blocks at the first time.
    pub fn asks_for_each(&self) -> bool {
        matches!(self.wall(), Wall::Missing { ask: true, .. })
    }

    fn prepare(
        &self,
        wall: &Wall,
        workspace: &Path,
        directory: &Path,
        opening: Option<Opening>,
    ) -> io::Result<(Plan, Watch)> {
        let others: BTreeSet<PathBuf> = self.workplaces().values().cloned().collect();
        let mut policy = Policy::of(workspace, &self.grounds, &others)?;
        if policy.writable.iter().any(|root| root == Path::new("/")) {
            return Err(io::Error::other("the whole machine is no workspace"));
        }
        let socket = opening.as_ref().map(|opening| opening.socket().to_owned());
        let mut orders = Orders {
            limits: self.limits,
            reach: None,
            network: socket.as_ref().map(|_| PathBuf::from(NETWORK_INSIDE)),
            local_sockets: self.local_sockets,
        };
        let mut watch = Watch { opening, ..Watch::default() };
        let plan = match wall {
            Wall::Bubblewrap(found) => {
                let (placeholders, real) = Placeholders::put(&policy.absent)?;
                policy.fixed.extend(real);
                let placed: Vec<PathBuf> = placeholders.paths().cloned().collect();
                watch.placeholders = placeholders;
                let links = policy.fixed.iter().filter(|path| path.is_symlink());
                let whole = policy.watched.iter().chain(links).collect();
                watch.guard = Guard::begin(&Kept { whole, ..Kept::default() })?;
                let helper = &self.helper;
                Plan::bubblewrap(
                    found,
                    &policy,
                    &placed,
                    helper,
                    &orders,
                    socket.as_deref(),
                    directory,
                )
            }
            Wall::Landlock { .. } => {
                let temporary = tempfile::Builder::new().prefix("aion-tmp-").tempdir()?;
                orders.reach = Some(Reach::of(&policy, temporary.path()));
                watch.temporary = Some(temporary);
                let pinned = policy.pinned();
                watch.guard = Guard::begin(&Kept {
                    pinned: pinned.iter().collect(),
                    whole: policy
                        .watched
                        .iter()
                        .chain(&policy.absent)
                        .chain(&policy.fixed)
                        .collect(),
                    modes: policy.closed.iter().collect(),
                })?;
                Plan::landlock(&self.helper, &orders)
            }
            Wall::Off | Wall::Missing { .. } => return Err(io::Error::other("there is no wall")),
        };
        Ok((plan, watch))
    }
}

impl Plan {
    pub(super) fn bubblewrap(
        found: &Bubblewrap,
        policy: &Policy,
        placeholders: &[PathBuf],
        helper: &[OsString],
        orders: &Orders,
        network: Option<&Path>,
        directory: &Path,
    ) -> Self {
        let own = helper.first().map(PathBuf::from).unwrap_or_default();
        let limits = &orders.limits;
        let mut arguments = found.arguments(policy, placeholders, &own, network, directory, limits);
        arguments.push(PROGRAM_INSIDE.into());
        arguments.extend(helper.iter().skip(1).cloned());
        arguments.push(written(orders));
        Self { program: found.program.clone().into(), arguments }
    }

    pub(super) fn landlock(helper: &[OsString], orders: &Orders) -> Self {
        let mut words = helper.iter().cloned();
        let program = words.next().unwrap_or_default();
        let arguments = words.chain([written(orders)]).collect();
        Self { program, arguments }
    }
}

/// Orders that cannot be written are none, and the helper runs nothing without.
fn written(orders: &Orders) -> OsString {
    serde_json::to_string(orders).unwrap_or_default().into()
}

/// Temporary files and caches have a place that can be written.
fn settle_environment(environment: &mut Vec<(OsString, OsString)>, temporary: &Path) {
    let own =
        ["TMPDIR", "TMP", "TEMP", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "NPM_CONFIG_USERCONFIG"];
    environment.retain(|(name, _)| own.iter().all(|own| name != own));
    for name in ["TMPDIR", "TMP", "TEMP"] {
        environment.push((name.into(), temporary.into()));
    }
    environment.push(("XDG_CACHE_HOME".into(), temporary.join("cache").into()));
    // The person's own file holds tokens, and is closed.
    environment.push(("NPM_CONFIG_USERCONFIG".into(), "/dev/null".into()));
}

impl Walled {
    /// Has a token held until the command and all it began are gone.
    pub fn hold(&mut self, token: TaskTrackerToken) {
        self.leashed.hold(token);
    }

    /// The command's standard output and error. It ends when everything on the leash has.
    pub fn output(&mut self) -> &mut Heard {
        self.leashed.output()
    }

    /// Kills the command and all it began; [`Walled::wait`] then ends soon.
    pub fn kill(&mut self) {
        self.leashed.kill();
    }

    /// The same without the leash's helper, which somebody may have killed.
    pub async fn reap(&mut self) {
        self.leashed.reap().await;
    }

    /// Waits until the command and all it began are gone, and looks at what it left.
    pub async fn wait(&mut self) -> io::Result<Ended> {
        let code = self.leashed.wait().await?;
        let watch = std::mem::take(&mut self.watch);
        let violations = spawn_blocking(move || watch.end()).await.map_err(io::Error::other)?;
        Ok(Ended { code, violations })
    }
}

impl Watch {
    fn end(mut self) -> Vec<Violation> {
        let mut violations = self.opening.take().map(Opening::end).unwrap_or_default();
        violations.extend(self.guard.take().map(Guard::end).unwrap_or_default());
        violations
    }
}
