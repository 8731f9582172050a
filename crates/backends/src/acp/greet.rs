//! From a program to an agent that said who it is, and that lets us in; it opens no session.

use std::path::Path;
use std::time::Duration;

use aion_agent::leash::{LeashConfig, Parting};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::exchange::{CallError, Exchange, LOGIN_NEEDED};
use super::limits::AcpLimits;
use super::process::{Process, Start};
use super::profile::{Launchable, Profile};

/// The version of the protocol.
const VERSION: u64 = 1;

/// What an agent said of itself.
#[derive(Debug)]
pub(super) struct Greeting(Value);

/// A process that was greeted.
#[derive(Debug)]
pub(super) struct Greeted<'a> {
    launch: &'a Launchable,
    limits: &'a AcpLimits,
    pub(super) exchange: Exchange,
    pub(super) greeting: Greeting,
    /// It was asked to let us in already.
    let_in: bool,
}

/// What an agent is started with.
#[derive(Clone, Copy, Debug)]
pub(super) struct House<'a> {
    pub(super) leash: &'a LeashConfig,
    pub(super) limits: &'a AcpLimits,
    pub(super) processes: &'a TaskTracker,
}

/// What went wrong with an agent that was greeted.
#[derive(Debug)]
pub(super) enum Fault {
    /// A request was not answered as it was meant.
    Call(&'static str, CallError),
    /// A person has to sign in.
    Login,
    /// Whatever else.
    Said(String),
}

/// Why there is no agent, in words.
#[derive(Debug)]
pub(super) enum Failure {
    /// A person has to sign in, and how.
    Login(String),
    /// The process did not do what it began: another one may.
    Lost(String),
    /// Whatever else.
    Other(String),
}

impl Failure {
    pub(super) fn into_words(self) -> String {
        match self {
            Self::Login(words) | Self::Lost(words) | Self::Other(words) => words,
        }
    }
}

/// What a person has to do to sign in.
pub(super) fn login_needed(profile: &Profile) -> String {
    match &profile.login {
        Some(command) => format!("login needed: run {command}"),
        None => format!("login needed: sign in with {} itself", profile.name),
    }
}

impl Greeting {
    /// Whether it says that it can do something. Abilities are objects: their presence counts.
    pub(super) fn can(&self, ability: &str) -> bool {
        let found = self.0["agentCapabilities"].pointer(ability);
        found.is_some_and(|found| !matches!(found, Value::Null | Value::Bool(false)))
    }

    /// Whether it takes text in the middle of a turn.
    pub(super) fn steers(&self) -> bool {
        let places = ["/_meta/steering/supported", "/agentCapabilities/_meta/steering/supported"];
        places.iter().any(|place| self.0.pointer(place) == Some(&Value::Bool(true)))
    }

    /// Its own name.
    pub(super) fn name(&self) -> Option<String> {
        let info = &self.0["agentInfo"];
        info["title"].as_str().or_else(|| info["name"].as_str()).map(str::to_owned)
    }

    /// Its own version.
    pub(super) fn version(&self) -> Option<String> {
        self.0["agentInfo"]["version"].as_str().map(str::to_owned)
    }

    /// The way to be let in that can be tried: the profile's, else the only one without a terminal.
    fn way_in(&self, profile: &Profile) -> Option<&str> {
        let methods = self.0["authMethods"].as_array().map(Vec::as_slice).unwrap_or_default();
        let by_itself = |method: &&Value| {
            method["type"].as_str().is_none_or(|kind| kind == "agent")
                && method["_meta"]["terminal-auth"].is_null()
        };
        let mut ways = methods.iter().filter(by_itself).filter_map(|method| method["id"].as_str());
        match &profile.authenticate {
            Some(wanted) => ways.find(|way| way == wanted),
            None => ways.next().filter(|_| ways.next().is_none()),
        }
    }
}

impl<'a> Greeted<'a> {
    /// Starts the program and greets it.
    pub(super) async fn start(
        launch: &'a Launchable,
        model: Option<&str>,
        directory: &Path,
        house: House<'a>,
    ) -> Result<Self, Failure> {
        let House { leash, limits, processes } = house;
        let mut arguments = launch.args.clone();
        arguments.extend(launch.profile.model_arguments(model));
        let start = Start {
            program: launch.program.clone(),
            arguments,
            directory: directory.to_owned(),
            environment: launch.environment.clone(),
        };
        // At the end of its input it may end by itself, then it is told to.
        let parting = Parting { input: limits.leave.0, told: limits.leave.1 };
        let process =
            Process::start(leash, start, parting, processes).await.map_err(Failure::Other)?;
        let (exchange, greeting) = (Exchange::new(process), Greeting(Value::Null));
        let mut greeted = Self { launch, limits, exchange, greeting, let_in: false };
        match greeted.greet().await {
            Ok(()) => Ok(greeted),
            Err(fault) => Err(greeted.fail(fault).await),
        }
    }

    async fn greet(&mut self) -> Result<(), Fault> {
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {
                "fs": { "readTextFile": false, "writeTextFile": false },
                "terminal": false,
            },
            "clientInfo": { "name": "aion", "title": "aion", "version": env!("CARGO_PKG_VERSION") },
        });
        let said = self.call("initialize", &params, self.limits.start).await?;
        if said["protocolVersion"].as_u64() != Some(VERSION) {
            let version = &said["protocolVersion"];
            return Err(Fault::Said(format!(
                "the agent speaks version {version} of ACP, and only {VERSION} is understood here"
            )));
        }
        self.greeting = Greeting(said);
        Ok(())
    }

    /// Asks for something.
    pub(super) async fn call(
        &mut self,
        method: &'static str,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, Fault> {
        let answer = self.exchange.call(method, params, limit).await;
        answer.map_err(|error| Fault::Call(method, error))
    }

    /// Asks for something that an agent may want a login for, which is tried once.
    pub(super) async fn call_let_in(
        &mut self,
        method: &'static str,
        params: &Value,
    ) -> Result<Value, Fault> {
        let limit = self.limits.open;
        let wants_login = |error: &CallError| matches!(error, CallError::Refused(refusal) if refusal.code == LOGIN_NEEDED);
        match self.exchange.call(method, params, limit).await {
            Err(error) if wants_login(&error) && !self.let_in => {}
            Err(error) if wants_login(&error) => return Err(Fault::Login),
            answer => return answer.map_err(|error| Fault::Call(method, error)),
        }
        self.let_in = true;
        let way = self.greeting.way_in(&self.launch.profile).ok_or(Fault::Login)?;
        let way = json!({ "methodId": way });
        match self.exchange.call("authenticate", &way, limit).await {
            Ok(_) => {}
            Err(CallError::Refused(_)) => return Err(Fault::Login),
            Err(error) => return Err(Fault::Call("authenticate", error)),
        }
        match self.exchange.call(method, params, limit).await {
            Err(error) if wants_login(&error) => Err(Fault::Login),
            answer => answer.map_err(|error| Fault::Call(method, error)),
        }
    }

    /// Ends the agent and says why it is of no use.
    pub(super) async fn fail(self, fault: Fault) -> Failure {
        let Self { launch, exchange, .. } = self;
        let words = exchange.words();
        let process = exchange.into_process();
        if matches!(fault, Fault::Call(_, CallError::Gone)) {
            return Failure::Lost(process.obituary().await);
        }
        process.kill().await;
        match fault {
            Fault::Login => Failure::Login(login_needed(&launch.profile)),
            Fault::Call(method, CallError::Refused(refusal)) => {
                Failure::Other(format!("the agent refused {method}: {refusal}{words}"))
            }
            Fault::Call(method, error) => {
                Failure::Lost(format!("the agent {error} ({method}){words}"))
            }
            Fault::Said(said) => Failure::Other(format!("{said}{words}")),
        }
    }
}
