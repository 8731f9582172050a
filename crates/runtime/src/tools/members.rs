//! Tools about the members: who there is, and the lead's care for them.

use std::fmt::Write;

use aion_backends::Availability;
use aion_core::agent::{MemberSpec, PermissionMode, Role};
use aion_core::command::Command;
use aion_core::event::{Event, Recorded};
use aion_core::id::{AgentName, ConversationId, SlotId};
use aion_core::team::Team;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::call::{Answer, Call, Failure, done, in_line, receipt, told};
use super::registry::{Tool, tool};
use super::schema::{choice, flag, text};

pub(super) const MODES: [&str; 5] =
    ["plan", "dontAsk", "default", "acceptEdits", "bypassPermissions"];

pub(super) fn tools() -> Vec<Tool> {
    let agent = || text("agent", "The member's name or slot id.").required();
    let prompt = || {
        text(
            "prompt",
            "What it is to be and to do; its first message. It knows nothing else of what you know.",
        )
        .required()
    };
    vec![
        tool!(
            Members,
            "team_members",
            "Show the members of your team: name, role, status, and what each is doing.",
            [],
            members
        ).reads(),
        tool!(
            Members,
            "team_whoami",
            "Show who you are in this team, and what you may do.",
            [],
            whoami
        ).reads(),
        tool!(
            Lead,
            "team_spawn_agent",
            "Bring a teammate in. Answers at once; the teammate starts meanwhile and mails you when it falls idle. Beyond your allowance the person has to agree first.",
            [
                text("name", "Its name: letters, digits and hyphens, for example \"writer\".")
                    .required(),
                prompt(),
                text(
                    "agent_type",
                    "Which agent it is (see team_list_models); the same as you if not said."
                ),
                text("model", "Which model; the agent's own choice if not said."),
                text("color", "A colour to show, by name."),
                flag("plan_mode_required", "Whether it may only read until its plan is approved."),
            ],
            spawn
        ),
        tool!(
            Lead,
            "Agent",
            "Bring a teammate in. The same as team_spawn_agent.",
            [
                text("description", "What it is for, in 3 to 5 words.").required(),
                prompt(),
                text("name", "Its name: letters, digits and hyphens.").required(),
                text("subagent_type", "Which agent it is; the same as you if not said."),
                text("model", "Which model; the agent's own choice if not said."),
                choice("mode", "\"plan\" if it may only read until its plan is approved.", &MODES),
            ],
            spawn_named
        ),
        tool!(
            Lead,
            "team_rename_agent",
            "Give a teammate another name.",
            [
                agent(),
                text("name", "The new name.").required(),
                text("label", "A label to show instead of the name."),
            ],
            rename
        ),
        tool!(
            Lead,
            "team_interrupt_agent",
            "End a teammate's running turn. It stays in the team and reads its mail next.",
            [agent()],
            interrupt
        ),
        tool!(
            Lead,
            "team_set_mode",
            "Set a teammate's permission mode. You can only make it tighter than it is; the person can widen it.",
            [agent(), choice("mode", "The mode.", &MODES).required()],
            set_mode
        ),
        tool!(
            Lead,
            "team_list_models",
            "Show which agents and models a teammate can be.",
            [],
            list_models
        ).reads(),
        tool!(
            Lead,
            "TeamDelete",
            "End the team. Refused while a teammate is in a turn; otherwise the person is asked to agree.",
            [],
            delete
        ).ends(),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

async fn members(call: Call<'_>, _: Nothing) -> Answer {
    let own = call.own_slot().ok();
    Ok(told(call.query(move |team| roster(team, own)).await?))
}

fn roster(team: &Team, own: Option<SlotId>) -> String {
    let lines: Vec<String> = team
        .agents()
        .map(|agent| {
            let slot = agent.slot();
            let role = role(agent.role());
            let you = if own == Some(slot) { " (you)" } else { "" };
            let status = team.status(slot).map_or_else(
                || "unknown".to_owned(),
                |(status, reason)| format!("{} ({})", word(&status), word(&reason)),
            );
            let tasks: Vec<String> = team
                .board()
                .open()
                .values()
                .filter(|task| task.owner() == Some(slot))
                .map(|task| task.id().to_string())
                .collect();
            let tasks = if tasks.is_empty() {
                String::new()
            } else {
                format!(", tasks {}", tasks.join(", "))
            };
            let model =
                agent.model().map_or_else(String::new, |model| format!(" with {}", in_line(model)));
            format!(
                "- {}{you} ({slot}): {role}, {status}, {}{model}, mode {}{tasks}",
                agent.name(),
                in_line(agent.agent_type()),
                agent.mode().as_str()
            )
        })
        .collect();
    format!("Team {:?}:\n{}", in_line(team.name()), lines.join("\n"))
}

/// The wire word of a plain enum.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Lead => "lead",
        Role::Teammate => "teammate",
        Role::Solo => "solo",
    }
}

async fn whoami(call: Call<'_>, _: Nothing) -> Answer {
    let slot = call.own_slot()?;
    let text = call
        .query(move |team| {
            let agent = team.agent(slot)?;
            let id = team.id().map_or_else(String::new, |id| format!("{}@{id}", agent.name()));
            let spawns = match agent.role() {
                Role::Lead => format!("\nspawns left without asking: {}", team.spawns_left()),
                Role::Teammate | Role::Solo => String::new(),
            };
            Some(format!(
                "name: {}\nagent id: {id}\nslot: {slot}\nrole: {}\nteam: {}\nworkspace: {}\nmode: {}\nunread messages: {}{spawns}",
                agent.name(),
                role(agent.role()),
                in_line(team.name()),
                in_line(team.workspace()),
                agent.mode().as_str(),
                agent.mailbox().unread(),
            ))
        })
        .await?;
    text.map(told).ok_or_else(|| Failure::Say("you are not in this team any more".to_owned()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spawn {
    name: String,
    prompt: String,
    #[serde(default)]
    agent_type: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    color: Option<String>,
    #[serde(default)]
    plan_mode_required: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpawnNamed {
    #[serde(default, rename = "description")]
    _description: Option<String>,
    prompt: String,
    name: String,
    #[serde(default)]
    subagent_type: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    mode: Option<PermissionMode>,
    /// Accepted and without effect, as in the client that has them.
    #[serde(default, rename = "team_name")]
    _team_name: Option<String>,
    #[serde(default, rename = "run_in_background")]
    _run_in_background: Option<bool>,
}

async fn spawn_named(call: Call<'_>, input: SpawnNamed) -> Answer {
    let spawning = Spawn {
        name: input.name,
        prompt: input.prompt,
        agent_type: input.subagent_type,
        model: input.model,
        color: None,
        plan_mode_required: input.mode == Some(PermissionMode::Plan),
    };
    spawn(call, spawning).await
}

async fn spawn(call: Call<'_>, input: Spawn) -> Answer {
    let name = AgentName::parse(&input.name).map_err(|why| why.to_string())?;
    let own = call.own_slot().unwrap_or(SlotId::LEAD);
    let (parent, capped) = call
        .query(move |team| {
            let parent = team.agent(own).map(|agent| {
                let who = (agent.agent_type().to_owned(), agent.model().map(str::to_owned));
                (who, agent.conversation().clone())
            });
            (parent, team.budget().cap().is_some_and(|cap| cap.most.micro_usd > 0))
        })
        .await?;
    let (own, parent_conversation) = parent.unzip();
    let (own_type, own_model) = own.unzip();
    let wanted = input.agent_type.filter(|agent_type| !agent_type.trim().is_empty());
    let model = input.model.filter(|model| !model.trim().is_empty());
    // A member of the same agent thinks with the same model, unless another is asked for.
    let same = wanted.is_none() || wanted == own_type;
    let model = model.or(own_model.flatten().filter(|_| same));
    let agent_type = wanted
        .or(own_type)
        .ok_or_else(|| Failure::Say("say in `agent_type` which agent it is".to_owned()))?;
    let catalogue = call.catalogue.catalogue();
    catalogue.check(&agent_type, model.as_deref())?;
    if capped {
        catalogue.check_price(&agent_type, model.as_deref())?;
    }
    let mode =
        if input.plan_mode_required { PermissionMode::Plan } else { PermissionMode::Default };
    let member = MemberSpec {
        name: name.clone(),
        label: None,
        agent_type,
        model,
        color: input.color,
        prompt: input.prompt,
        mode,
        conversation: conversation_of(&call)?,
        parent_call: Some(call.context.key.clone()),
        parent_conversation,
    };
    let committed = call.submit(Command::SpawnAgent { member: Box::new(member) }).await?;
    let made = receipt(&committed);
    Ok(done(match (made.slot, made.request) {
        (Some(slot), _) => format!(
            "{name} is registered and starting (agent_id {name}@{}, slot_id {slot}, ticket {slot}:1). It mails you when it falls idle.",
            call.handle.team()
        ),
        (None, Some(request)) => format!(
            "Your allowance of spawns is used up: the person has been asked whether {name} may be brought in (ticket {request}). The answer comes as mail."
        ),
        (None, None) => format!("{name} is registered and starting."),
    }))
}

/// Where the new member's transcript is kept. Derived from the call, so that its repetition asks for
/// the same; the team's handle in it keeps it from being guessed.
fn conversation_of(call: &Call<'_>) -> Result<ConversationId, Failure> {
    let who = serde_json::to_string(&call.context.caller).unwrap_or_default();
    let mut digest = Sha256::new();
    for part in [call.handle.team().as_str(), &who, &call.context.key] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let hex = digest.finalize()[..16].iter().fold(String::with_capacity(32), |mut out, byte| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    });
    ConversationId::new(hex).map_err(|invalid| Failure::Say(invalid.to_string()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rename {
    agent: String,
    name: String,
    #[serde(default)]
    label: Option<String>,
}

async fn rename(call: Call<'_>, input: Rename) -> Answer {
    let (slot, old) = call.member(&input.agent).await?;
    let name = AgentName::parse(&input.name).map_err(|why| why.to_string())?;
    let command = Command::RenameAgent { slot, name: name.clone(), label: input.label };
    call.submit(command).await?;
    Ok(done(format!("{old} is called {name} from here on.")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    agent: String,
}

async fn interrupt(call: Call<'_>, input: Named) -> Answer {
    let (slot, name) = call.member(&input.agent).await?;
    let committed = call.submit(Command::Interrupt { slot }).await?;
    let begun = |recorded: &Recorded| matches!(recorded.event, Event::InterruptRequested { .. });
    if committed.events.iter().any(begun) {
        return Ok(done(format!("{name}'s turn is being ended.")));
    }
    let in_turn = call
        .query(move |team| team.agent(slot).is_some_and(|agent| agent.turn().is_some()))
        .await?;
    Ok(told(if in_turn {
        format!("{name}'s turn is being ended already.")
    } else {
        format!("{name} is in no turn, so there is nothing to interrupt.")
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetMode {
    agent: String,
    mode: PermissionMode,
}

async fn set_mode(call: Call<'_>, input: SetMode) -> Answer {
    let (slot, name) = call.member(&input.agent).await?;
    call.submit(Command::SetMode { slot, mode: input.mode }).await?;
    Ok(done(format!("{name} is in mode {} from here on.", input.mode.as_str())))
}

async fn list_models(call: Call<'_>, _: Nothing) -> Answer {
    let catalogue = call.catalogue.catalogue();
    let agents = &catalogue.agents;
    if agents.is_empty() {
        return Ok(told("No catalogue is known here; leave agent_type and model out."));
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    for agent in agents {
        let _ = write!(text, "- agent_type {}: {}", agent.agent_type, agent.description);
        if let Availability::Unavailable { reason } = &agent.availability {
            let _ = write!(text, " (cannot be used: {reason})");
        }
        for model in &agent.models {
            let _ = write!(text, "\n  - model {}: {}", model.id, model.description);
        }
        text.push('\n');
    }
    Ok(told(text.trim_end()))
}

async fn delete(call: Call<'_>, _: Nothing) -> Answer {
    let committed = call.submit(Command::EndTeam).await?;
    Ok(done(match receipt(&committed).request {
        Some(request) => {
            format!("The person has been asked whether the team may end (request {request}).")
        }
        None => "The team has ended.".to_owned(),
    }))
}
