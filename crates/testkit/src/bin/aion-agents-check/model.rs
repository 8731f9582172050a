//! What the model says: a scenario that depends on words which only the delivered mail holds.

use std::fmt::Write;

use aion_agent::scripted::Scenario;
use aion_testkit::model_server::{Callers, ModelServer, Script};
use anyhow::{Context, Result};
use serde_json::Value;

use crate::recipe::Recipe;

/// Words of the mail, each followed by a word that nobody else knows.
pub(crate) const PING: &str = "PING";
pub(crate) const RUN: &str = "RUN";
pub(crate) const WAIT: &str = "WAIT";
pub(crate) const REMEMBER: &str = "REMEMBER";
pub(crate) const RECALL: &str = "RECALL";

/// The command that an agent runs where it is told to.
fn command() -> String {
    "touch ran-{{word}}".to_owned()
}

/// A model that is talked to by one agent, or by several.
pub(crate) async fn start(recipe: &Recipe) -> Result<ModelServer> {
    let mut rules = vec![
        rule(PING, Some(("team_send_message", mail("pong {{word}}"))), None),
        rule(RECALL, Some(("team_send_message", mail("recalled {{word}}"))), None),
        rule(REMEMBER, None, Some("I keep {{word}} in mind.")),
    ];
    if let Some(shell) = recipe.shell {
        rules.push(rule(RUN, Some(shell(&command())), None));
    }
    let rules: String = rules.concat();
    let text = format!(
        "{rules}\n[[agent.\"*\".rule]]\nwhen = [{{ given = \"{WAIT} [0-9a-f]{{16}}\" }}]\n\
         fail = \"hang\"\n\n[[agent.\"*\".rule]]\notherwise = true\nsay = \"Noted.\"\n"
    );
    let scenario = Scenario::parse("agents", &text).context("read the scenario")?;
    let script = Script { callers: Callers::Others, ..Script::new(scenario) };
    ModelServer::start(script).await.context("start the model server")
}

fn mail(text: &str) -> Value {
    serde_json::json!({ "to": "user", "message": text })
}

/// One rule: what is called, or said, where a word of the mail is followed by one that is captured.
fn rule(word: &str, call: Option<(&str, Value)>, say: Option<&str>) -> String {
    let mut text = format!(
        "[[agent.\"*\".rule]]\nwhen = [{{ given = \"{word} (?P<word>[0-9a-f]{{16}})\" }}]\n"
    );
    if let Some((tool, input)) = call {
        let fields = input.as_object().into_iter().flatten();
        let fields: Vec<String> = fields.map(|(name, value)| format!("{name} = {value}")).collect();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "call = [{{ tool = \"{tool}\", input = {{ {} }}, outcome = \"any\" }}]\n\
             then = \"Done with {{{{word}}}}.\"\n",
            fields.join(", ")
        );
    }
    if let Some(say) = say {
        let _ = writeln!(text, "say = \"{say}\"");
    }
    text + "\n"
}
