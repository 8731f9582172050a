//! Limits as refusals that name them.

use crate::agent::MemberSpec;
use crate::command::{Caller, Settings};
use crate::id::{InvalidName, SlotId};
use crate::rejection::Rejection;
use crate::rule::RULES;
use crate::time::Timestamp;

use super::Team;

/// The longest short text that comes from a model or a configuration: a tool's name, a colour.
pub(super) const WORD_BYTES: u64 = 200;
/// The longest path.
const PATH_BYTES: u64 = 4_096;
/// The most files that go along with one message.
pub(super) const FILES: u64 = 20;

/// Refuses more than is allowed.
pub(super) fn within(limit: &'static str, allowed: u64, asked: u64) -> Result<(), Rejection> {
    if asked > allowed { Err(Rejection::Limit { limit, allowed, asked }) } else { Ok(()) }
}

/// Refuses a word that is longer than any word is.
pub(super) fn word(limit: &'static str, text: &str) -> Result<(), Rejection> {
    within(limit, WORD_BYTES, text.len() as u64)
}

/// Refuses a path that no system knows.
pub(super) fn path(limit: &'static str, text: &str) -> Result<(), Rejection> {
    within(limit, PATH_BYTES, text.len() as u64)
}

/// Refuses settings with which a team cannot work.
pub(super) fn settings(settings: &Settings) -> Result<(), Rejection> {
    within("rules", RULES as u64, settings.rules.len() as u64)?;
    let limits = &settings.limits;
    let needed: [(&'static str, u64); 11] = [
        ("members", limits.members.into()),
        ("unread", limits.unread.into()),
        ("unread_bytes", limits.unread_bytes),
        ("message_bytes", limits.message_bytes.into()),
        ("text_bytes", limits.text_bytes.into()),
        ("subject_chars", limits.subject_chars.into()),
        ("open_tasks", limits.open_tasks.into()),
        ("open_requests", limits.open_requests.into()),
        ("batch_messages", limits.batch_messages.into()),
        ("batch_bytes", limits.batch_bytes),
        ("attempts", limits.attempts.into()),
    ];
    match needed.into_iter().find(|(_, value)| *value == 0) {
        Some((limit, _)) => Err(Rejection::ZeroLimit { limit }),
        None => Ok(()),
    }
}

pub(super) fn team_name(name: &str) -> Result<(), Rejection> {
    let name = name.trim();
    if name.is_empty() {
        return Err(Rejection::Empty { what: "a team's name" });
    }
    within("team_name_chars", 100, name.chars().count() as u64)?;
    match name.chars().find(|c| c.is_control()) {
        Some(bad) => Err(Rejection::BadName(InvalidName::BadCharacter(bad))),
        None => Ok(()),
    }
}

/// Refuses a member whose description is no description.
pub(super) fn member_words(member: &MemberSpec) -> Result<(), Rejection> {
    word("agent_type_bytes", &member.agent_type)?;
    for (limit, text) in [
        ("model_bytes", &member.model),
        ("color_bytes", &member.color),
        ("parent_call_bytes", &member.parent_call),
    ] {
        word(limit, text.as_deref().unwrap_or_default())?;
    }
    Ok(())
}

impl Team {
    /// For what the shell alone reports.
    pub(super) fn shell(caller: Caller, what: &'static str) -> Result<(), Rejection> {
        match caller {
            Caller::System => Ok(()),
            Caller::User | Caller::Agent(_) => {
                Err(Rejection::NotAllowed { what, who: "the system" })
            }
        }
    }

    /// Whether mail of `bytes` from the caller fits into each mailbox, and the caller may send that
    /// many now. The person is not shut out by what members have sent: a tenth is kept for it.
    pub(super) fn check_mail(
        &self,
        now: Timestamp,
        caller: Caller,
        recipients: &[SlotId],
        bytes: u64,
    ) -> Result<(), Rejection> {
        let limits = &self.settings.limits;
        if let Caller::Agent(slot) = caller {
            let agent = self.member(slot)?;
            let n = u32::try_from(recipients.len().max(1)).unwrap_or(u32::MAX);
            // A broadcast larger than the whole allowance goes through a full bucket.
            let n = n.min(limits.messages_per_minute.max(1));
            if !agent.bucket.allows(now, n, limits.messages_per_minute) {
                return Err(Rejection::Limit {
                    limit: "messages_per_minute",
                    allowed: limits.messages_per_minute.into(),
                    asked: u64::from(limits.messages_per_minute) + u64::from(n),
                });
            }
        }
        let kept = |of: u64| if matches!(caller, Caller::Agent(_)) { of } else { of + of / 10 + 1 };
        for slot in recipients {
            let agent = self.member(*slot)?;
            let full = agent.mailbox.unread() as u64 >= kept(limits.unread.into())
                || agent.mailbox.bytes() + bytes > kept(limits.unread_bytes);
            if full {
                return Err(Rejection::InboxFull {
                    name: agent.name.clone(),
                    allowed: limits.unread.into(),
                });
            }
        }
        Ok(())
    }
}
