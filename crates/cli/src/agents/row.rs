//! An agent that was found, as the catalogue has it; it looks at nothing itself.

use aion_runtime::Availability;
use aion_runtime::tools::{AgentKind, CatalogueAgent, CatalogueModel, Program, SignedIn};

use super::found::{Found, Standing};
use super::programs::Heard;

/// How good a choice an agent is where nobody names one; the least is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Choice {
    /// It is installed, and somebody has signed in.
    Ready,
    /// It is installed.
    Installed,
    /// It has to be fetched first.
    Fetched,
    /// It cannot be used.
    None,
}

impl Found {
    /// How good a choice it is.
    pub(crate) fn choice(&self) -> Choice {
        match (self.problem(), self.is_installed(), self.signed_in()) {
            (Some(_), _, _) => Choice::None,
            (None, true, Standing::Seen(_)) => Choice::Ready,
            (None, true, Standing::NotSeen | Standing::Unknown) => Choice::Installed,
            (None, false, _) => Choice::Fetched,
        }
    }

    /// As the catalogue has it, with what was heard of its last start.
    pub(crate) fn row(&self, heard: &Heard) -> CatalogueAgent {
        let profile = self.profile();
        let problem = self.problem();
        let login = match self.signed_in() {
            Standing::Seen(_) | Standing::Unknown => None,
            Standing::NotSeen => profile.login.clone(),
        };
        let program = Program {
            name: profile.name.clone(),
            path: self.program().map(|program| program.display().to_string()),
            version: self.version().map(str::to_owned),
            node: self.node().map(str::to_owned),
            signed_in: match self.signed_in() {
                Standing::Seen(by) => SignedIn::Seen(by.clone()),
                Standing::NotSeen => SignedIn::NotSeen,
                Standing::Unknown => SignedIn::Unknown,
            },
            downloads: self.downloads().map(str::to_owned),
            fix: problem.map_or(login, |problem| problem.fix.clone()),
            any_model: !profile.model_args.is_empty(),
            last_error: heard.error.clone(),
        };
        CatalogueAgent {
            agent_type: profile.id.clone(),
            description: match self.downloads() {
                Some(package) => format!("{}; its first start downloads {package}", profile.name),
                None => profile.name.clone(),
            },
            availability: match problem {
                None => Availability::Available,
                Some(problem) => Availability::Unavailable { reason: problem.why.clone() },
            },
            kind: AgentKind::Program(Box::new(program)),
            models: heard.models.iter().map(|id| model(id)).collect(),
        }
    }
}

/// A model as an agent offers it. What it costs the agent does not say.
fn model(id: &str) -> CatalogueModel {
    CatalogueModel { id: id.to_owned(), description: "offered by the agent".into(), priced: false }
}
