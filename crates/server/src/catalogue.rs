//! The catalogue in the words of the wire; it chooses nothing.

use aion_api::{AgentKindRow, CatalogueAgentRow, ProgramRow, ProviderRow, SignedInRow};
use aion_runtime::Availability;
use aion_runtime::tools::{AgentKind, Catalogue, CatalogueAgent, Program, SignedIn};

/// All agents of a catalogue, the best first.
pub fn catalogue_rows(catalogue: &Catalogue) -> Vec<CatalogueAgentRow> {
    catalogue.agents.iter().map(row).collect()
}

fn row(agent: &CatalogueAgent) -> CatalogueAgentRow {
    let reason = match &agent.availability {
        Availability::Available => None,
        Availability::Unavailable { reason } => Some(reason.clone()),
    };
    let (kind, provider, program) = match &agent.kind {
        AgentKind::Scenario => (AgentKindRow::Scenario, None, None),
        AgentKind::Service { place, key, others_priced: _ } => {
            let provider = ProviderRow { base_url: place.clone(), key_from: key.clone() };
            (AgentKindRow::Service, Some(provider), None)
        }
        AgentKind::Program(program) => (AgentKindRow::Program, None, Some(self::program(program))),
    };
    CatalogueAgentRow {
        agent_type: agent.agent_type.clone(),
        description: agent.description.clone(),
        kind,
        available: reason.is_none(),
        reason,
        provider,
        program,
        models: agent.models.iter().map(|model| model.id.clone()).collect(),
    }
}

fn program(program: &Program) -> ProgramRow {
    let program = program.clone();
    let (signed_in, signed_in_by) = match program.signed_in {
        SignedIn::Seen(by) => (SignedInRow::Seen, Some(by)),
        SignedIn::NotSeen => (SignedInRow::NotSeen, None),
        SignedIn::Unknown => (SignedInRow::Unknown, None),
    };
    ProgramRow {
        name: program.name,
        path: program.path,
        version: program.version,
        node: program.node,
        signed_in,
        signed_in_by,
        downloads: program.downloads,
        fix: program.fix,
        last_error: program.last_error,
    }
}
