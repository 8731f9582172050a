//! The rules that count for a workspace, from the files of the machine, the person and the project;
//! it decides nothing about a call.

use std::path::Path;

use aion_agent::mcp::Wanted;
use aion_agent::permission::{Layer, Policy};
use aion_core::rule::{RuleScope, RuleWord};

use crate::config::{Paths, Written, written};
use crate::servers::wanted;
use crate::trust::{Trust, place};

/// The rules of files. What a project allows counts only where the person trusts it, as it was when
/// it was trusted; what it denies or wants to be asked for counts always.
#[derive(Debug)]
pub(crate) struct Files {
    trust: Trust,
}

impl Files {
    /// With the trust that a data directory keeps.
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self { trust: Trust::of(data_dir) }
    }
}

impl Policy for Files {
    fn rules(&self, workspace: &Path) -> Result<Vec<Layer>, String> {
        let rules = Paths::of_workspace(workspace)
            .and_then(|paths| written(&paths))
            .map_err(|failure| failure.message().to_owned())?;
        let allows =
            |rule: &Written| rule.scope == RuleScope::Project && rule.word == RuleWord::Allow;
        let place = place(workspace);
        // A file above what was trusted was not trusted with it.
        let own: Vec<Written> = rules
            .iter()
            .filter(|rule| rule.scope == RuleScope::Project && rule.file.starts_with(&place))
            .cloned()
            .collect();
        let trusted = own.iter().any(allows) && self.trust.trusts_with(workspace, &own);
        let counts = |rule: &Written| !allows(rule) || (trusted && rule.file.starts_with(&place));
        let layer = |Written { word, rule, scope, .. }| Layer { word, rule, scope, grant: None };
        Ok(rules.into_iter().filter(counts).map(layer).collect())
    }

    fn servers(&self, workspace: &Path) -> Wanted {
        wanted(workspace, &self.trust)
    }

    fn trusted(&self, workspace: &Path) -> bool {
        self.trust.trusts(workspace)
    }
}
