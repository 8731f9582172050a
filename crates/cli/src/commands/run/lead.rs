//! Who is in a team that a run begins: the lead by what can be used here, and the members that the
//! command line names; it begins nothing.

use std::collections::BTreeSet;
use std::env;

use aion_agent::models::Service;
use aion_api::Exit;
use aion_core::id::AgentName;

use super::super::auth::models_of;
use crate::args::Run;
use crate::config::Settings;
use crate::daemon::{self, SCRIPTED};
use crate::exit::Failure;
use crate::hosting::{Hosting, Member, Who};
use crate::services::{Chosen, Kind, Offer, Surroundings, Wanted, catalogue, choose};
use crate::terminal::clean_line;

/// Who leads a new team.
pub(super) async fn lead(
    args: &Run,
    settings: &Settings,
    hosting: &Hosting,
    members: &[Member],
) -> Result<Who, Failure> {
    let offers = hosting.offers().await?;
    members.iter().try_for_each(|member| known(member, &offers))?;
    served(args, members, &offers)?;
    if args.script.is_some() {
        return Ok(Who { agent_type: SCRIPTED.to_owned(), model: None });
    }
    let chosen = choice(args, settings, &offers)?;
    if args.no_daemon && matches!(chosen.kind, Kind::Program { .. }) {
        return Err(needs_daemon(&chosen.agent_type));
    }
    let model = match (&chosen.kind, chosen.model.clone()) {
        (_, Some(model)) => Some(model),
        // A program makes its own choice.
        (Kind::Program { .. } | Kind::Scenario, None) => None,
        (Kind::Service { place, .. }, None) => Some(first_model(&chosen, place).await?),
    };
    Ok(Who { agent_type: chosen.agent_type, model })
}

/// Programs reach their team through the daemon: without one nobody brings them in.
fn served(args: &Run, members: &[Member], offers: &[Offer]) -> Result<(), Failure> {
    let is_program = |name: &str| {
        let mut named = offers.iter().filter(|offer| offer.agent_type == name);
        named.any(|offer| matches!(offer.kind, Kind::Program { .. }))
    };
    let wanted = members.iter().filter_map(|member| member.agent_type.as_deref());
    match wanted.filter(|_| args.no_daemon).find(|name| is_program(name)) {
        Some(name) => Err(needs_daemon(name)),
        None => Ok(()),
    }
}

fn needs_daemon(agent_type: &str) -> Failure {
    let message =
        format!("{agent_type} is a program of its own, and reaches its team by the daemon");
    Failure::usage(message).with_hint("run it without --no-daemon")
}

/// Whether somebody can lead a team that is hosted by what is started from here.
pub(super) fn possible(args: &Run, settings: &Settings, members: &[Member]) -> Result<(), Failure> {
    let offers = Offer::all(&catalogue(&daemon::programs()?, false));
    members.iter().try_for_each(|member| known(member, &offers))?;
    if args.script.is_some() {
        return Ok(());
    }
    choice(args, settings, &offers).map(drop)
}

fn choice(args: &Run, settings: &Settings, offers: &[Offer]) -> Result<Chosen, Failure> {
    let here = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let set = |name: &str| settings.text(name).map(str::to_owned);
    let (agent, provider, model) = (args.agent.clone(), args.provider.clone(), args.model.clone());
    if agent.is_none() && provider.is_none() && model.is_none() {
        let (agent, provider) = (set("run.agent"), set("run.provider"));
        choose(offers, &Wanted { agent, provider, model: set("run.model") }, here)
    } else {
        let asked = Wanted { agent, provider, model };
        choose(offers, &asked, here).or_else(|failure| {
            // A model that nobody knows is one of the service that the person usually calls.
            let named = asked.provider.is_some() || asked.agent.is_some();
            let usual = set("run.provider").filter(|_| !named);
            match usual {
                Some(usual) if failure.code() == "usage" => {
                    choose(offers, &Wanted { provider: Some(usual), ..asked.clone() }, here)
                }
                Some(_) | None => Err(failure),
            }
        })
    }
}

/// The first model that a service says it has.
async fn first_model(chosen: &Chosen, place: &str) -> Result<String, Failure> {
    let name = &chosen.agent_type;
    let failed = |why: String| {
        let message = format!("{name}: no model was named, and it lists none: {why}");
        Failure::new(Exit::Authentication, "provider.no_model", message)
            .with_hint(format!("name one: --provider {name} --model MODEL"))
    };
    let service = Service::from_name(name).ok_or_else(|| failed("it is no service".to_owned()))?;
    let mut found = Surroundings::read()?.find(service);
    if found.place != place {
        // A key goes to the place that it was given for alone.
        found.key = None;
        place.clone_into(&mut found.place);
    }
    let models = models_of(&found).await.map_err(|why| failed(why.to_string()))?;
    models.into_iter().next().ok_or_else(|| match service {
        Service::Ollama => Failure::new(
            Exit::Authentication,
            "provider.no_model",
            format!("the Ollama at {place} has no model yet"),
        )
        .with_hint("ollama pull qwen3, for example; then run it again"),
        Service::Anthropic
        | Service::OpenAi
        | Service::OpenAiResponses
        | Service::Gemini
        | Service::Compatible => failed("its list is empty".to_owned()),
    })
}

fn known(member: &Member, offers: &[Offer]) -> Result<(), Failure> {
    let Some(wanted) = &member.agent_type else { return Ok(()) };
    let refused = |why: String| {
        let message = format!("--member {:?}: {why}", member.name.as_str());
        let usable = offers.iter().filter(|offer| offer.problem.is_none());
        let names: Vec<&str> = usable.map(|offer| offer.agent_type.as_str()).collect();
        Failure::usage(message)
            .with_hint(format!("agents that can be used here: {}", names.join(", ")))
    };
    match offers.iter().find(|offer| offer.agent_type == *wanted) {
        None => Err(refused(format!("there is no agent {:?} here", clean_line(wanted, 40)))),
        Some(Offer { problem: Some(problem), .. }) => {
            Err(refused(format!("{wanted} cannot be used: {problem}")))
        }
        Some(_) => Ok(()),
    }
}

/// Reads `name[:agent[:model]]`.
pub(super) fn members(given: &[String]) -> Result<Vec<Member>, Failure> {
    let mut looks = BTreeSet::new();
    let read = |text: &String| {
        let mut parts = text.splitn(3, ':');
        let name = parts.next().unwrap_or_default();
        let name = AgentName::parse(name)
            .map_err(|why| Failure::usage(format!("--member {:?}: {why}", clean_line(text, 80))))?;
        let mut part = || parts.next().filter(|part| !part.is_empty()).map(str::to_owned);
        Ok(Member { name, agent_type: part(), model: part() })
    };
    let members: Vec<Member> = given.iter().map(read).collect::<Result<_, Failure>>()?;
    for member in &members {
        if !looks.insert(member.name.look_alike()) {
            let message =
                format!("--member {:?}: the name is taken by another member", member.name.as_str());
            return Err(Failure::new(Exit::Usage, "team.name_taken", message));
        }
    }
    Ok(members)
}
