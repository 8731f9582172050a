//! Rules of permission as the edge meets them; what they mean is known to the agent alone.

use aion_agent::permission::Rulebook;
use aion_core::rule::Rule;

/// Why a rule cannot be used, if it cannot.
pub fn check_rule(rule: &Rule) -> Result<(), String> {
    Rulebook::check(rule)
}
