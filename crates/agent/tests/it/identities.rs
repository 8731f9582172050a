//! Agents that share a thread never see each other's identity.

use aion_agent::identity::{Identity, blocking_as, current, spawn_as};
use aion_core::id::{AgentName, SlotId, TeamId};

fn identity(number: u32) -> Identity {
    Identity {
        team: TeamId::new(format!("team-{number}")).unwrap(),
        slot: SlotId(number),
        name: AgentName::parse(&format!("worker-{number}")).unwrap(),
    }
}

#[tokio::test(flavor = "current_thread")]
async fn interleaved_agents_keep_their_own_identity() {
    let agents: Vec<_> = (1..=8)
        .map(|number| {
            spawn_as(identity(number), async move {
                let thread = std::thread::current().id();
                for _ in 0..100 {
                    assert_eq!(current(), Some(identity(number)));
                    tokio::task::yield_now().await;
                }
                let inner = spawn_as(identity(number + 100), async { current() }).await;
                assert_eq!(inner.unwrap(), Some(identity(number + 100)));
                let blocking = blocking_as(current).await.unwrap();
                assert_eq!(blocking, Some(identity(number)));
                assert_eq!(tokio::spawn(async { current() }).await.unwrap(), None);
                thread
            })
        })
        .collect();
    for agent in agents {
        assert_eq!(agent.await.unwrap(), std::thread::current().id());
    }
    assert_eq!(current(), None);
}
