//! Agents of this process.

use std::sync::Arc;

use aion_agent::identity;
use aion_agent::leash::LeashConfig;
use aion_agent::provider::{
    Immediate, ModelEvent, ModelRequest, Provider, ProviderError, StopReason,
};
use aion_agent::sandbox::Sandbox;
use aion_agent::scripted::{Scenario, Scripted};
use aion_agent::tools::ToolConfig;
use aion_backends::{Backend, BackendKind, InProcessBackend, InProcessConfig, ProviderSource};
use aion_core::id::{TeamId, TurnId};
use aion_core::transcript::Content;
use aion_testkit::contract::{Bench, SCENARIO, keeps_the_contract};
use futures::StreamExt;
use futures::stream::{self, BoxStream};

fn backend(source: Arc<dyn ProviderSource>) -> InProcessBackend {
    // No command runs in these tests, so no helper is needed.
    let leash = LeashConfig { program: "/nonexistent".into(), arguments: Vec::new(), ledger: None };
    let tools = Arc::new(ToolConfig::new(leash, Arc::new(Sandbox::off()), []));
    InProcessBackend::new(source, InProcessConfig { runtime: Arc::default(), tools })
}

fn scripted() -> InProcessBackend {
    let scenario = Scenario::parse("contract.toml", SCENARIO).unwrap();
    backend(Arc::new(Arc::new(Scripted::new(scenario))))
}

#[tokio::test]
async fn in_process_agents_keep_the_contract() {
    let backend = scripted();
    assert_eq!((backend.kind(), backend.resumes_turns()), (BackendKind::InProcess, true));
    keeps_the_contract(&backend).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_several_threads_too() {
    keeps_the_contract(&scripted()).await;
}

#[tokio::test]
async fn handed_over_mail_is_read_before_the_next_step() {
    let mut bench = Bench::start(&scripted()).await;
    bench.turn(1, "say hello").unwrap();
    bench.session.deliver(TurnId(1), "mail one".to_owned()).unwrap();
    assert_eq!(bench.signal().await, "t1 done: mail one");
    let given = |text: &str| Content::Given { text: text.to_owned() };
    assert_eq!(bench.house.transcript()[2].content, given("mail one"));
}

/// A catalogue with one agent in it.
#[derive(Debug)]
struct Catalogue;

impl ProviderSource for Catalogue {
    fn provider(
        &self,
        _: &TeamId,
        agent_type: &str,
        model: Option<&str>,
    ) -> Result<Arc<dyn Provider>, String> {
        match (agent_type, model) {
            ("scripted", None) => Ok(Arc::new(Immediate::new("yes"))),
            _ => Err(format!("there is no agent {agent_type:?}; there is: scripted")),
        }
    }
}

#[tokio::test]
async fn an_idle_agent_is_small_and_has_no_task() {
    let backend = backend(Arc::new(Catalogue));
    let mut benches = Vec::new();
    for _ in 0..100 {
        benches.push(Bench::start(&backend).await);
    }
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks(), 0);
    for (number, bench) in benches.iter_mut().enumerate() {
        bench.turn(number as u64 + 1, "well?").unwrap();
    }
    assert_eq!(tasks(), 100);
    for (number, bench) in benches.iter_mut().enumerate() {
        assert_eq!(bench.signal().await, format!("t{} done: yes", number + 1));
    }
    tokio::task::yield_now().await;
    assert_eq!(tasks(), 0);
}

/// Answers in many pieces, each after a pause, and looks who it runs for.
#[derive(Debug)]
struct Witness;

impl Provider for Witness {
    fn stream(
        &self,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ProviderError>> {
        let pieces = stream::iter(0..100).then(move |number| {
            let agent = request.agent.clone();
            async move {
                tokio::task::yield_now().await;
                let seen = identity::current().map(|identity| identity.name);
                assert_eq!(seen, Some(agent));
                Ok(if number < 99 {
                    ModelEvent::Text(".".to_owned())
                } else {
                    ModelEvent::Stop(StopReason::EndTurn)
                })
            }
        });
        pieces.boxed()
    }
}

#[tokio::test(flavor = "current_thread")]
async fn agents_on_one_thread_never_see_each_others_identity() {
    let backend = backend(Arc::new(Arc::new(Witness)));
    let mut benches = Vec::new();
    for name in ["alice", "bob", "carol"] {
        benches.push(Bench::start_as(&backend, name).await);
    }
    for bench in &mut benches {
        bench.turn(1, "well?").unwrap();
    }
    for bench in &mut benches {
        assert_eq!(bench.signal().await, format!("t1 done: {}", ".".repeat(99)));
    }
    assert_eq!(identity::current(), None);
}
