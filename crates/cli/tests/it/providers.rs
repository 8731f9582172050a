//! Runs with a model of a service: who is called with whose key, and what it costs. The service is
//! a stand-in that speaks over real sockets.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::process::Stdio;

use aion_agent::scripted::Scenario;
use aion_testkit::model_server::{Format, ModelServer, Script};
use tokio::runtime::Runtime;

use crate::binary::{Home, Ran, in_both_ways};
use crate::run::ASKS;

/// The key that the service wants.
pub(crate) const KEY: &str = "canary-5f1c-key";

/// A service that runs beside the test.
pub(crate) struct Service {
    runtime: Runtime,
    server: Option<ModelServer>,
}

impl Service {
    pub(crate) fn start(scenario: &str, key: Option<&str>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let mut script = Script::new(Scenario::parse("service", scenario).unwrap());
        script.key = key.map(str::to_owned);
        let server = runtime.block_on(ModelServer::start(script)).unwrap();
        Self { runtime, server: Some(server) }
    }

    pub(crate) fn server(&self) -> &ModelServer {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn url(&self, format: Format) -> String {
        self.server().base_url(format)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _guard = self.runtime.enter();
        drop(self.server.take());
    }
}

/// Runs the binary with variables.
pub(crate) fn with<'a>(
    home: &Home,
    args: impl IntoIterator<Item = &'a str>,
    variables: &[(&str, &str)],
) -> Ran {
    let mut command = home.command(args);
    command.envs(variables.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value))));
    Ran::from(command.output().unwrap())
}

/// Runs it with something on its standard input.
fn typed(home: &Home, args: &[&str], variables: &[(&str, &str)], input: &str) -> Ran {
    let mut command = home.command(args);
    command.envs(variables.iter().copied()).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Ran::from(child.wait_with_output().unwrap())
}

const TASK: &[&str] = &["run", "Write hello", "--yes", "--json"];

#[test]
fn a_run_thinks_with_the_service_whose_key_is_there() {
    let check = |format: Format, provider: &str, model: &str, place: &str, key: Option<&str>| {
        let service = Service::start(ASKS, key.map(|_| KEY));
        let home = Home::new();
        let url = service.url(format);
        let mut variables = vec![(place, url.as_str())];
        variables.extend(key.map(|name| (name, KEY)));
        let options: &[&str] =
            if provider == "openai-responses" { &["--provider", provider] } else { &[] };
        let ran = with(&home, TASK.iter().chain(options).copied(), &variables).code(0);
        let start = &ran.lines()[0];
        assert_eq!((&start["provider"], &start["model"]), (&provider.into(), &model.into()));
        assert_eq!(ran.last()["status"], "completed");
        assert_eq!(ran.last()["answer"], "It is written.");
        assert_eq!(fs::read_to_string(home.work().join("hello.txt")).unwrap(), "hello\n");
        assert_eq!(service.server().violations(), Vec::<String>::new());
        assert!(service.server().seen().iter().all(|seen| seen.agent == "team-lead"));
    };
    in_both_ways(|| {
        let (anthropic, openai) = (Some("ANTHROPIC_API_KEY"), Some("OPENAI_API_KEY"));
        check(Format::Anthropic, "anthropic", "claude-sonnet-5-5", "ANTHROPIC_BASE_URL", anthropic);
        check(Format::Chat, "openai", "gpt-6.1-sol", "OPENAI_BASE_URL", openai);
        check(Format::Responses, "openai-responses", "gpt-6.1-sol", "OPENAI_BASE_URL", openai);
        check(Format::Ollama, "ollama", "stand-in", "OLLAMA_HOST", None);
    });
}

#[test]
fn a_service_is_what_the_settings_say() {
    in_both_ways(|| {
        for (format, provider, model) in [
            (Format::Chat, "compatible", "stand-in"),
            (Format::Gemini, "gemini", "gemini-3.8-flash"),
        ] {
            let service = Service::start(ASKS, Some(KEY));
            let home = Home::new();
            let set = |key: &str, value: &str| {
                let key = format!("providers.{provider}.{key}");
                home.aion(["config", "set", &key, value]).code(0);
            };
            set("base_url", &service.url(format));
            set("key", "env:OWN_KEY");
            let ran = with(&home, TASK.iter().copied(), &[]).code(4);
            assert_eq!(ran.error_code(), "provider.missing");
            let ran = with(&home, TASK.iter().copied(), &[("OWN_KEY", KEY)]).code(0);
            let start = &ran.lines()[0];
            assert_eq!((&start["provider"], &start["model"]), (&provider.into(), &model.into()));
            fs::remove_file(home.work().join("hello.txt")).unwrap();
            set("model", "another");
            let ran = with(&home, TASK.iter().copied(), &[("OWN_KEY", KEY)]).code(0);
            assert_eq!(ran.lines()[0]["model"], "another");
        }
    });
}

#[test]
fn a_key_that_is_wrong_is_told_and_not_shown() {
    in_both_ways(|| {
        let service = Service::start(ASKS, Some("another"));
        let url = service.url(Format::Anthropic);
        let home = Home::new();
        let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", url.as_str())];
        let ran = with(&home, TASK.iter().copied(), &variables).code(5);
        let reason = ran.last()["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains("401") && reason.contains("invalid api key"), "{reason}");
        assert!(!format!("{ran:?}").contains(KEY));
    });
}

#[test]
fn a_daemon_reads_kept_keys_at_once_and_says_that_it_lacks_others() {
    let service = Service::start(ASKS, Some(KEY));
    let home = Home::served();
    let url = service.url(Format::Anthropic);
    let https = "https://api.anthropic.com";
    home.aion(["serve", "--detach", "--port", "0"]).code(0);
    let ran = with(&home, TASK.iter().copied(), &[("ANTHROPIC_API_KEY", KEY)]).code(4);
    assert!(ran.stderr.contains("the daemon was started without it"), "{ran:#?}");
    let ran = with(&home, ["providers"], &[("ANTHROPIC_API_KEY", KEY)]).code(0);
    assert!(ran.stdout.contains("started without: anthropic (ANTHROPIC_API_KEY)"), "{ran:#?}");
    let json = with(&home, ["providers", "--json"], &[]).code(0).json();
    assert_eq!(json["providers"][0]["base_url"], https);
    assert_eq!(json["providers"][0]["available"], false);

    home.aion(["config", "set", "providers.anthropic.base_url", &url]).code(0);
    let login = ["auth", "login", "anthropic", "--json"];
    let refused = typed(&home, &login, &[], "wrong\n").code(4);
    assert_eq!(refused.error_code(), "auth.refused");
    let kept = typed(&home, &login, &[], &format!("{KEY}\n")).code(0);
    assert!(!format!("{kept:?}").contains(KEY));
    // The one that runs has it.
    let ran = with(&home, TASK.iter().copied(), &[]).code(0);
    assert_eq!(ran.lines()[0]["provider"], "anthropic");
    let row = |ran: Ran| ran.json()[0].clone();
    let listed = row(home.aion(["auth", "ls", "--json"]).code(0));
    assert_eq!((&listed["key_from"], &listed["kept"]), (&"aion auth".into(), &true.into()));
    home.aion(["auth", "rm", "anthropic"]).code(0);
    assert_eq!(home.aion(["auth", "rm", "anthropic", "--json"]).code(9).error_code(), "auth.none");
    let listed = row(home.aion(["auth", "ls", "--json"]).code(0));
    assert_eq!((&listed["key_from"], &listed["kept"]), (&serde_json::Value::Null, &false.into()));
}

#[test]
fn a_project_does_not_say_where_keys_are_sent() {
    in_both_ways(|| {
        let home = Home::new();
        let service = Service::start(ASKS, None);
        fs::create_dir(home.work().join(".aion")).unwrap();
        let text =
            format!("[providers.anthropic]\nbase_url = {:?}\n", service.url(Format::Anthropic));
        fs::write(home.work().join(".aion/config.toml"), text).unwrap();
        let ran = with(&home, TASK.iter().copied(), &[("ANTHROPIC_API_KEY", KEY)]).code(2);
        assert_eq!(ran.error_code(), "config.not_in_projects");
        assert!(service.server().seen().is_empty());
    });
}

/// A lead that works step by step; each of its calls costs 0.06 dollars at the price below.
const STEPS: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = "Work" }]
call = [{ tool = "team_members", input = {} }]
usage = { output = 1000 }

[[agent.team-lead.rule]]
repeat = true
when = [{ result = ".", tool = "team_members" }]
call = [{ tool = "team_members", input = {} }]
usage = { output = 1000 }
"#;

/// Six cents for the most that one call writes, and next to nothing for what it reads.
const PRICE: &str = r#"
[[model]]
service = "compatible"
id = "known"
context = 200000
output = 1000
price = { input = 0.001, output = 60 }

[[model]]
service = "compatible"
id = "unknown"
"#;

#[test]
fn a_budget_stops_before_the_call_that_could_be_too_much() {
    in_both_ways(|| {
        let service = Service::start(STEPS, None);
        let home = Home::new();
        let url = service.url(Format::Chat);
        home.aion(["config", "set", "providers.compatible.base_url", &url]).code(0);
        fs::write(home.path(".config/aion/prices.toml"), PRICE).unwrap();
        let run = |model: &str, budget: &str| {
            let model = format!("compatible/{model}");
            let options = ["--model", &model, "--budget", budget, "--max-time", "60s"];
            with(&home, ["run", "Work", "--yes", "--json"].into_iter().chain(options), &[])
        };
        let ran = run("known", "0.10").code(6);
        assert_eq!(ran.last()["status"], "budget");
        // The second call could have cost as much again.
        assert_eq!(service.server().seen().len(), 1);
        assert_eq!(ran.last()["cost_usd"], 0.06);
        let ran = run("known", "0.20").code(6);
        assert_eq!(ran.last()["cost_usd"], 0.18);
        assert_eq!(service.server().seen().len(), 4);

        let refused = run("unknown", "2").code(2);
        assert_eq!(refused.error_code(), "budget.price_unknown");
        assert_eq!(service.server().seen().len(), 4);
    });
}

/// A lead that brings one teammate in of another service and one of its own, and hears of both.
const CREW: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = "Share it" }]
call = [
  { tool = "team_spawn_agent", input = { name = "bob", prompt = "Say hello.", agent_type = "openai" } },
  { tool = "team_spawn_agent", input = { name = "cid", prompt = "Say hello." } },
]

[[agent.team-lead.rule]]
repeat = true
when = [{ result = "." }]
say = "They are here."

[[agent.team-lead.rule]]
otherwise = true
when = [{ given = "." }]
say = "I heard."

[[agent."*".rule]]
otherwise = true
when = [{ given = "." }]
say = "Hello."
"#;

#[test]
fn a_lead_brings_in_whoever_can_be_used() {
    in_both_ways(|| {
        let one = Service::start(CREW, None);
        let other = Service::start(CREW, Some(KEY));
        let home = Home::new();
        let (ollama, openai) = (one.url(Format::Ollama), other.url(Format::Chat));
        let variables = [
            ("OLLAMA_HOST", ollama.as_str()),
            ("OPENAI_BASE_URL", &openai),
            ("OPENAI_API_KEY", KEY),
        ];
        let options = ["--provider", "ollama", "--member", "ann:openai:gpt-5.2", "--member", "dan"];
        let ran = with(
            &home,
            ["run", "Share it", "--yes", "--json"].into_iter().chain(options),
            &variables,
        );
        ran.code(0);
        let who = |service: &Service| {
            let seen = service.server().seen();
            let model = |seen: &aion_testkit::model_server::Seen| {
                let model = seen.body["model"].as_str().unwrap_or_default().to_owned();
                format!("{} {model}", seen.agent)
            };
            seen.iter().map(model).collect::<BTreeSet<_>>()
        };
        let at_ollama = ["cid stand-in", "team-lead stand-in"].map(str::to_owned);
        assert_eq!(who(&one), at_ollama.into());
        assert_eq!(who(&other), ["bob gpt-6.1-sol".to_owned()].into());
        let members: Vec<(String, String)> = home
            .aion(["agent", "ls", "--json"])
            .code(0)
            .json()
            .as_array()
            .unwrap()
            .iter()
            .map(|row| (row["agent_name"].to_string(), row["agent_type"].to_string()))
            .collect();
        assert_eq!(members.len(), 5, "{members:?}");
        let refused = with(&home, ["run", "x", "--member", "eve:nobody", "--json"], &variables);
        assert_eq!(refused.code(2).error_code(), "usage");
    });
}

#[test]
fn models_and_prices_are_shown() {
    let home = Home::new();
    let service = Service::start(ASKS, None);
    let url = service.url(Format::Ollama);
    let ran = with(&home, ["models", "ollama", "--json"], &[("OLLAMA_HOST", &url)]).code(0).json();
    assert_eq!(ran["models"][0]["model"], "stand-in");
    assert_eq!(ran["models"][0]["price"]["input"], 0);
    let all = home.aion(["models"]).code(0);
    assert!(all.stdout.contains("claude-sonnet-5-5") && all.stdout.contains("as of 2026-12-01"));
    let none = home.aion(["models", "gemini", "--json"]).code(4);
    assert_eq!(none.error_code(), "provider.missing");
    let checked = with(&home, ["providers", "--check", "--json"], &[("OLLAMA_HOST", &url)]);
    let rows = checked.code(0).json();
    assert_eq!(rows["providers"][0]["provider"], "ollama");
    assert_eq!(rows["providers"][0]["checked"]["models"], 1);
}
