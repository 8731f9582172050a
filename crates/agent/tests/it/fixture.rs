//! What the tests have in common.

use std::path::Path;
use std::sync::Arc;

use aion_agent::leash::{LeashConfig, LeashLedger};
use aion_agent::provider::Provider;
use aion_agent::runtime::{AgentRuntime, Controls, RuntimeConfig, TurnEnd, TurnInput};
use aion_agent::sandbox::Sandbox;
use aion_agent::scripted::{Scenario, Scripted};
use aion_agent::tools::{ToolConfig, Toolbox};
use aion_core::agent::PermissionMode;
use aion_core::id::{AgentName, RequestId, TurnId};
use aion_core::request::Decision;
use aion_core::transcript::{Content, Item};
use aion_core::turn::TurnOutcome;
use aion_testkit::house::House;
use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;

/// The program that is its own leash.
pub(crate) const PROBE: &str = env!("CARGO_BIN_EXE_aion-leash-probe");

pub(crate) fn leash(ledger: Option<Arc<dyn LeashLedger>>) -> LeashConfig {
    LeashConfig { program: PROBE.into(), arguments: vec!["leash".into()], ledger }
}

pub(crate) fn toolbox(workspace: &Path) -> Toolbox {
    let config = ToolConfig::new(leash(None), Arc::new(Sandbox::off()), std::env::vars_os());
    Toolbox::new(workspace.to_path_buf(), Arc::new(config))
}

pub(crate) fn scripted(scenario: &str) -> Arc<Scripted> {
    Arc::new(Scripted::new(Scenario::parse("test.toml", scenario).unwrap()))
}

pub(crate) fn runtime(
    provider: Arc<dyn Provider>,
    house: &Arc<House>,
    workspace: &Path,
) -> AgentRuntime {
    AgentRuntime {
        agent: AgentName::parse("bob").unwrap(),
        model: None,
        provider,
        host: Arc::<House>::clone(house),
        tools: Arc::new(toolbox(workspace)),
        config: Arc::new(RuntimeConfig::default()),
    }
}

pub(crate) fn input(turn: u64, opening: &str) -> TurnInput {
    TurnInput {
        turn: TurnId(turn),
        system: "You are bob.".to_owned(),
        mode: PermissionMode::Default,
        opening: opening.to_owned(),
        budgeted: false,
        resume: None,
    }
}

/// Runs a turn while a person answers every request.
pub(crate) async fn play(
    runtime: &AgentRuntime,
    requests: &mut UnboundedReceiver<RequestId>,
    input: TurnInput,
) -> TurnEnd {
    let controls = Controls::default();
    let turn = runtime.run(input, &controls);
    tokio::pin!(turn);
    loop {
        tokio::select! {
            biased;
            end = &mut turn => return end,
            request = requests.next() => {
                let decision = Decision::ONCE;
                controls.answers.put(request.unwrap(), decision);
            }
        }
    }
}

pub(crate) fn done(text: &str) -> TurnEnd {
    let last_text = (!text.is_empty()).then(|| text.to_owned());
    TurnEnd::Ended { outcome: TurnOutcome::Done { last_text }, usage: None }
}

pub(crate) fn fault(end: &TurnEnd) -> &str {
    match end {
        TurnEnd::Ended { outcome: TurnOutcome::AgentFault { error }, .. } => error,
        other => panic!("no fault: {other:?}"),
    }
}

/// A transcript in one line per item.
pub(crate) fn lines(items: &[Item]) -> Vec<String> {
    items
        .iter()
        .map(|Item { turn, step, content }| {
            let what = match content {
                Content::Given { text } => format!("given {text}"),
                Content::Said { text } => format!("said {text}"),
                Content::Summary { text, .. } => format!("summary {text}"),
                Content::Thought { text, .. } => format!("thought {text}"),
                Content::Called { call, tool, .. } => format!("called {call} {tool}"),
                Content::Got { call, output, ok, .. } => {
                    let ok = if *ok { "ok" } else { "failed" };
                    format!("got {call} {ok} {}", output.lines().next().unwrap_or_default())
                }
            };
            format!("{turn}.{step} {what}")
        })
        .collect()
}

/// The beginning of a PNG of so many pixels.
pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    png.extend(width.to_be_bytes());
    png.extend(height.to_be_bytes());
    png
}
