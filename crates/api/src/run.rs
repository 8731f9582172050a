//! What `aion run --json` writes: a beginning, events, and one result as the last line.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{EventLine, Exit, RequestRow};

/// The name and version of this stream's form.
pub const RUN_SCHEMA: &str = "aion.run/1";

/// One line of the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunLine {
    /// The first line.
    Start {
        /// Always [`RUN_SCHEMA`].
        schema: String,
        /// The team.
        team: String,
        /// Its name.
        name: String,
        /// The directory it works in.
        workspace: String,
        /// Where the start of the work tree is kept, in a git workspace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start_ref: Option<String>,
        /// The service that the lead thinks with, where the team is new.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<String>,
        /// Its model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// Something happened.
    Event(EventLine),
    /// Somebody has to decide something; the answer is waited for in this terminal.
    Needs(RequestRow),
    /// The last line.
    Result {
        /// How it ended.
        status: RunStatus,
        /// The team.
        team: String,
        /// Its tasks.
        tasks: TaskCounts,
        /// What the lead said last, as far as it is kept for notices.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        /// What it cost, in US dollars, for reading only; absent where no price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// The branch that holds the work, where it is not in the workspace itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// How long it took, by the wall clock.
        duration_ms: u64,
        /// Why, where it did not complete.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// All tasks are completed.
    Completed,
    /// It settled, or was stopped, before that.
    Incomplete,
    /// It could not go on.
    Failed,
    /// Only a person can go on.
    NeedsInput,
    /// The budget is used up.
    Budget,
}

impl RunStatus {
    /// The exit code that goes with it.
    pub fn exit(self) -> Exit {
        match self {
            Self::Completed => Exit::Success,
            Self::Incomplete => Exit::Incomplete,
            Self::Failed => Exit::Failure,
            Self::NeedsInput => Exit::NeedsInput,
            Self::Budget => Exit::Budget,
        }
    }
}

/// How many tasks stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskCounts {
    /// Done.
    pub completed: u64,
    /// Being worked on.
    pub in_progress: u64,
    /// Not begun.
    pub pending: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Actor;

    fn check(line: &RunLine, expect: &str) {
        let text = serde_json::to_string(line).unwrap();
        assert_eq!(text, expect);
        assert_eq!(&serde_json::from_str::<RunLine>(&text).unwrap(), line);
    }

    #[test]
    fn the_stream_has_a_beginning_events_and_a_result() {
        check(
            &RunLine::Start {
                schema: RUN_SCHEMA.to_owned(),
                team: "t1".to_owned(),
                name: "web".to_owned(),
                workspace: "/srv/web".to_owned(),
                start_ref: None,
                provider: None,
                model: None,
            },
            r#"{"type":"start","schema":"aion.run/1","team":"t1","name":"web","workspace":"/srv/web"}"#,
        );
        check(
            &RunLine::Event(EventLine {
                team: "t1".to_owned(),
                seq: 7,
                at: 1_200,
                version: 1,
                actor: Actor::Agent(2),
                event: json!({ "type": "team_ended" }),
            }),
            r#"{"type":"event","team":"t1","seq":7,"at":1200,"version":1,"actor":{"agent":2},"event":{"type":"team_ended"}}"#,
        );
        check(
            &RunLine::Result {
                status: RunStatus::NeedsInput,
                team: "t1".to_owned(),
                tasks: TaskCounts { completed: 2, in_progress: 1, pending: 0 },
                answer: None,
                cost_usd: Some(0.41),
                branch: None,
                duration_ms: 5_000,
                reason: Some("1 request waits for a person".to_owned()),
            },
            r#"{"type":"result","status":"needs_input","team":"t1","tasks":{"completed":2,"in_progress":1,"pending":0},"cost_usd":0.41,"duration_ms":5000,"reason":"1 request waits for a person"}"#,
        );
    }

    #[test]
    fn each_end_has_its_exit_code() {
        let codes = [
            RunStatus::Completed,
            RunStatus::Incomplete,
            RunStatus::Failed,
            RunStatus::NeedsInput,
            RunStatus::Budget,
        ]
        .map(|status| status.exit().code());
        assert_eq!(codes, [0, 3, 1, 5, 6]);
    }
}
