//! Which agents and models can be had here; given by the composition root, never looked up.

use aion_backends::Availability;

/// All agents that are known here.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// The agents, the best first.
    pub agents: Vec<CatalogueAgent>,
}

/// One agent that a member can be.
#[derive(Clone, Debug)]
pub struct CatalogueAgent {
    /// Its key: what a member's `agent_type` names.
    pub agent_type: String,
    /// What it is, in a few words.
    pub description: String,
    /// Whether it can be used here.
    pub availability: Availability,
    /// The models it can run, its own choice first.
    pub models: Vec<CatalogueModel>,
}

/// One model of an agent.
#[derive(Clone, Debug)]
pub struct CatalogueModel {
    /// Its key.
    pub id: String,
    /// What it is good for, in a few words.
    pub description: String,
}

impl Catalogue {
    /// Checks an agent and a model that were asked for. An empty catalogue knows no better.
    pub fn check(&self, agent_type: &str, model: Option<&str>) -> Result<(), String> {
        if self.agents.is_empty() {
            return Ok(());
        }
        let Some(agent) = self.agents.iter().find(|agent| agent.agent_type == agent_type) else {
            let usable = self.usable().map(|agent| agent.agent_type.as_str());
            return Err(format!(
                "there is no agent {agent_type:?} here; agent_type is one of: {}",
                join(usable)
            ));
        };
        if let Availability::Unavailable { reason } = &agent.availability {
            let usable = self.usable().map(|agent| agent.agent_type.as_str());
            return Err(format!(
                "the agent {agent_type:?} cannot be used: {reason}; usable are: {}",
                join(usable)
            ));
        }
        match model {
            Some(model)
                if !agent.models.is_empty() && agent.models.iter().all(|m| m.id != model) =>
            {
                Err(format!(
                    "the agent {agent_type:?} has no model {model:?}; its models are: {}",
                    join(agent.models.iter().map(|m| m.id.as_str()))
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The agents that can be used here, the best first.
    pub fn usable(&self) -> impl Iterator<Item = &CatalogueAgent> {
        self.agents.iter().filter(|agent| agent.availability == Availability::Available)
    }
}

pub(super) fn join<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = items.collect();
    if all.is_empty() { "(none)".to_owned() } else { all.join(", ") }
}
