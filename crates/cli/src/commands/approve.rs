//! `aion approve`: what waits for the person in all teams, and the person's word on it; which words
//! fit is said by the request.

use aion_api::{
    ApprovalListResponse, ApprovalResponse, CommandAcceptedResponse, DecisionParams, Exit,
    ScopeParam,
};
use serde_json::{Value, json};

use crate::args::{Agree, AnswerRequest, Approve, ListRequests, OneRequest, Refuse, Scope};
use crate::client::{Client, connect, find_team};
use crate::config::{Paths, allow, read_rule};
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::terminal::{clean_line, clean_text};

pub(super) async fn run(command: Approve, json: bool) -> Outcome {
    match command {
        Approve::Ls(args) => list(&args, json).await,
        Approve::Show(args) => show(&args, json).await,
        Approve::Yes(args) => yes(&args, json).await,
        Approve::No(args) => no(&args, json).await,
        Approve::Answer(args) => answer(&args, json).await,
    }
}

async fn list(args: &ListRequests, json: bool) -> Outcome {
    let client = connect(&args.reach).await?;
    let mut open = open(&client).await?;
    if let Some(wanted) = &args.team {
        let team = find_team(&client, Some(wanted)).await?;
        open.retain(|request| request.row.team == team.id);
    }
    if json {
        output::json(&open)?;
        return Ok(Exit::Success);
    }
    if open.is_empty() {
        output::line("nothing waits for you")?;
        return Ok(Exit::Success);
    }
    let names = names(&client).await?;
    let rows: Vec<Vec<String>> = open
        .iter()
        .map(|request| {
            vec![
                short(request),
                format!("{}/{}", name_of(&names, &request.row.team), request.row.from),
                waiting(request.row.waiting_ms),
                request.row.kind.replace('_', " "),
                clean_line(&request.row.what, 100),
            ]
        })
        .collect();
    output::table(&["ID", "TEAM/FROM", "WAITING", "FOR", "WHAT"], &rows)?;
    Ok(Exit::Success)
}

async fn show(args: &OneRequest, json: bool) -> Outcome {
    let client = connect(&args.reach).await?;
    let open = open(&client).await?;
    let request = find(&open, &args.id)?;
    if json {
        output::json(request)?;
        return Ok(Exit::Success);
    }
    let names = names(&client).await?;
    let row = &request.row;
    let field = |name: &str, text: &str| output::line(&format!("{name:<9} {}", clean_text(text)));
    field("id", &request.request_id)?;
    field("team", &name_of(&names, &row.team))?;
    field("from", &row.from)?;
    field("for", &row.kind.replace('_', " "))?;
    field("waiting", &waiting(row.waiting_ms))?;
    field("what", &row.what)?;
    for (name, value) in [
        ("tool", &row.tool),
        ("input", &row.input),
        ("in", &row.cwd),
        ("asked by", &row.asked_by),
        ("always", &row.suggestion),
    ] {
        if let Some(value) = value {
            field(name, value)?;
        }
    }
    if let Some(Value::Array(options)) = request.detail.pointer("/options") {
        for (index, option) in options.iter().filter_map(Value::as_str).enumerate() {
            field(&format!("  {}", index + 1), option)?;
        }
    }
    field("answers", &row.choices.join(", "))?;
    if row.delegated {
        output::line("the lead may decide it too")?;
    }
    Ok(Exit::Success)
}

async fn yes(args: &Agree, json: bool) -> Outcome {
    let lasting = args.always || args.rule.is_some() || args.save;
    let scope = match args.scope {
        None if lasting => ScopeParam::Team,
        None | Some(Scope::Once) => ScopeParam::Once,
        Some(Scope::Action) => ScopeParam::Action,
        Some(Scope::Member) => ScopeParam::Member,
        Some(Scope::Team) => ScopeParam::Team,
    };
    if lasting && matches!(scope, ScopeParam::Once | ScopeParam::Action) {
        return Err(Failure::usage("a rule counts for the member or the team")
            .with_hint("--scope member, --scope team, or --always"));
    }
    let client = connect(&args.reach).await?;
    let agree = |request: &ApprovalResponse| {
        let rule = match &args.rule {
            Some(rule) => Some(rule.clone()),
            None if lasting => Some(suggested(request)?),
            None => None,
        };
        agreed(request, scope, rule)
    };
    let saved: Vec<String> = if args.save {
        let open = open(&client).await?;
        let each = args.ids.iter().map(|id| match &args.rule {
            Some(rule) => Ok(rule.clone()),
            None => suggested(find(&open, id)?),
        });
        each.collect::<Result<_, Failure>>()?
    } else {
        Vec::new()
    };
    let done = decide(&client, &args.ids, agree, json).await?;
    if saved.is_empty() {
        return Ok(done);
    }
    let file = Paths::here()?.user;
    for rule in &saved {
        let rule = read_rule(rule).map_err(Failure::usage)?;
        allow(&file, &rule)?;
        if !json {
            output::line(&format!("{rule} is allowed in {}", file.display()))?;
        }
    }
    Ok(done)
}

/// The rule that goes with a request.
fn suggested(request: &ApprovalResponse) -> Result<String, Failure> {
    request.row.suggestion.clone().ok_or_else(|| {
        let id = short(request);
        Failure::usage(format!(
            "no rule is suggested for {id}: one that fits it would fit much more"
        ))
        .with_hint(format!("aion approve yes {id}, or name a rule with --rule"))
    })
}

fn agreed(
    request: &ApprovalResponse,
    scope: ScopeParam,
    rule: Option<String>,
) -> Result<DecisionParams, Failure> {
    let fits = |choice: &str| request.row.choices.iter().any(|known| known == choice);
    if fits("allow") {
        Ok(DecisionParams::Allow { scope, rule })
    } else if rule.is_some() {
        let id = short(request);
        Err(Failure::usage(format!("{id} is no permission, and no rule goes with it")))
    } else if fits("approve_plan") {
        Ok(DecisionParams::ApprovePlan { mode: None })
    } else if fits("approve_shutdown") {
        Ok(DecisionParams::ApproveShutdown {})
    } else if fits("force_shutdown") {
        Ok(DecisionParams::ForceShutdown {})
    } else if fits("consent") {
        Ok(DecisionParams::Consent {})
    } else {
        let id = short(request);
        Err(Failure::usage(format!("{id} is a question, and yes is no answer to it"))
            .with_hint(format!("aion approve answer {id} \"…\"")))
    }
}

async fn no(args: &Refuse, json: bool) -> Outcome {
    let client = connect(&args.reach).await?;
    let refuse = |request: &ApprovalResponse| refused(request, args.message.as_deref());
    decide(&client, &args.ids, refuse, json).await
}

fn refused(request: &ApprovalResponse, why: Option<&str>) -> Result<DecisionParams, Failure> {
    let fits = |choice: &str| request.row.choices.iter().any(|known| known == choice);
    let given = why.map(str::to_owned);
    if fits("deny") {
        Ok(DecisionParams::Deny { reason: given.unwrap_or_default() })
    } else if fits("return_plan") {
        let Some(feedback) = given else {
            return Err(Failure::usage("a plan that goes back says what has to change")
                .with_hint("add -m \"what has to change\""));
        };
        Ok(DecisionParams::ReturnPlan { feedback })
    } else if fits("reject_shutdown") {
        let reason = given.unwrap_or_else(|| "the person wants it to stay".to_owned());
        Ok(DecisionParams::RejectShutdown { reason })
    } else if fits("withdraw") {
        Ok(DecisionParams::Withdraw {})
    } else {
        Ok(DecisionParams::Decline { reason: given })
    }
}

async fn answer(args: &AnswerRequest, json: bool) -> Outcome {
    let client = connect(&args.reach).await?;
    let decision = |request: &ApprovalResponse| {
        let chosen = args.text.trim().parse::<usize>().ok().and_then(|number| {
            let options = request.detail.pointer("/options")?.as_array()?;
            options.get(number.checked_sub(1)?)?.as_str().map(str::to_owned)
        });
        Ok(DecisionParams::Answer { text: chosen.unwrap_or_else(|| args.text.clone()) })
    };
    decide(&client, std::slice::from_ref(&args.id), decision, json).await
}

/// Decides requests, all of which have to be there.
async fn decide(
    client: &Client,
    ids: &[String],
    decision: impl Fn(&ApprovalResponse) -> Result<DecisionParams, Failure>,
    json: bool,
) -> Outcome {
    let open = open(client).await?;
    let mut decided = Vec::new();
    for id in ids {
        let request = find(&open, id)?;
        decided.push((request, decision(request)?));
    }
    for (request, decision) in decided {
        let path = format!("/api/approvals/{}", request.request_id);
        let accepted: CommandAcceptedResponse = client.persist(&path, &decision).await?;
        if json {
            output::json(&json!({
                "request_id": request.request_id, "decision": decision, "seq": accepted.seq,
            }))?;
        } else {
            let what = clean_line(&request.row.what, 100);
            let said = match decision {
                DecisionParams::Allow { .. }
                | DecisionParams::ApprovePlan { .. }
                | DecisionParams::ApproveShutdown {}
                | DecisionParams::ForceShutdown {}
                | DecisionParams::Consent {} => "yes",
                DecisionParams::Answer { .. } => "answered",
                DecisionParams::Deny { .. }
                | DecisionParams::ReturnPlan { .. }
                | DecisionParams::RejectShutdown { .. }
                | DecisionParams::Withdraw {}
                | DecisionParams::Decline { .. } => "no",
            };
            output::line(&format!("{said}  {}  {}: {what}", short(request), request.row.from))?;
        }
    }
    Ok(Exit::Success)
}

async fn open(client: &Client) -> Result<Vec<ApprovalResponse>, Failure> {
    let list: ApprovalListResponse = client.get("/api/approvals").await?;
    Ok(list.approvals)
}

async fn names(client: &Client) -> Result<Vec<(String, String)>, Failure> {
    let list: aion_api::TeamListResponse = client.get("/api/teams").await?;
    Ok(list.teams.into_iter().map(|team| (team.id, team.name)).collect())
}

fn name_of(names: &[(String, String)], id: &str) -> String {
    names
        .iter()
        .find(|(known, _)| known == id)
        .map_or_else(String::new, |(_, name)| clean_line(name, 40))
}

/// A request's id as a person reads and types it.
fn short(request: &ApprovalResponse) -> String {
    let team: String = request.row.team.chars().take(8).collect();
    format!("{team}.r{}", request.row.id)
}

/// The request that is meant: its id, with its team's beginning, or its end alone.
fn find<'a>(open: &'a [ApprovalResponse], wanted: &str) -> Result<&'a ApprovalResponse, Failure> {
    let (team, end) = wanted.rsplit_once('.').unwrap_or(("", wanted));
    let fits = |request: &&ApprovalResponse| {
        format!("r{}", request.row.id) == end && request.row.team.starts_with(team)
    };
    let found: Vec<&ApprovalResponse> = open.iter().filter(fits).collect();
    let shown = clean_line(wanted, 60);
    match found.as_slice() {
        [request] => Ok(request),
        [] => Err(Failure::new(
            Exit::NotFound,
            "team.unknown_request",
            format!("no request {shown:?} waits"),
        )
        .with_hint("aion approve ls shows those that do")),
        several => {
            let ids: Vec<String> = several.iter().map(|request| short(request)).collect();
            let message = format!("{shown:?} may be any of {} requests", several.len());
            Err(Failure::new(Exit::Usage, "team.ambiguous_request", message)
                .with_hint(format!("say which: {}", ids.join(", "))))
        }
    }
}

/// A time of waiting, for people.
fn waiting(ms: u64) -> String {
    let seconds = ms / 1_000;
    if seconds < 3_600 {
        format!("{}:{:02}", seconds / 60, seconds % 60)
    } else {
        format!("{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use aion_api::RequestRow;

    use super::*;

    fn request(team: &str, id: u64, choices: &[&str]) -> ApprovalResponse {
        let row = RequestRow {
            id,
            team: team.to_owned(),
            kind: "permission".to_owned(),
            from: "bob".to_owned(),
            what: "run make".to_owned(),
            tool: None,
            input: None,
            cwd: None,
            asked_by: None,
            suggestion: None,
            choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
            delegated: false,
            waiting_ms: 42_000,
        };
        ApprovalResponse { request_id: format!("{team}.r{id}"), row, detail: Value::Null }
    }

    #[test]
    fn a_request_is_found_by_its_end_where_that_is_plain() {
        let open = [request("aa11", 7, &[]), request("aa22", 7, &[]), request("aa22", 8, &[])];
        let check = |wanted: &str, expect: Result<&str, Exit>| {
            let found = find(&open, wanted).map(|request| request.request_id.as_str());
            assert_eq!(found.map_err(|failure| failure.exit()), expect, "{wanted}");
        };
        check("aa22.r7", Ok("aa22.r7"));
        check("aa1.r7", Ok("aa11.r7"));
        check("r8", Ok("aa22.r8"));
        check("r7", Err(Exit::Usage));
        check("aa.r7", Err(Exit::Usage));
        check("r9", Err(Exit::NotFound));
        check("7", Err(Exit::NotFound));
    }

    #[test]
    fn a_word_becomes_the_decision_that_fits() {
        let yes = |choices: &[&str]| {
            agreed(&request("t", 1, choices), ScopeParam::Team, None)
                .map_err(|failure| failure.exit())
        };
        assert_eq!(
            yes(&["allow", "deny"]),
            Ok(DecisionParams::Allow { scope: ScopeParam::Team, rule: None })
        );
        assert_eq!(yes(&["force_shutdown", "withdraw"]), Ok(DecisionParams::ForceShutdown {}));
        assert_eq!(yes(&["consent", "decline"]), Ok(DecisionParams::Consent {}));
        assert_eq!(yes(&["answer", "decline"]), Err(Exit::Usage));
        let no = |choices: &[&str], why: Option<&str>| {
            refused(&request("t", 1, choices), why).map_err(|failure| failure.exit())
        };
        assert_eq!(no(&["approve_plan", "return_plan"], None), Err(Exit::Usage));
        assert_eq!(
            no(&["approve_plan", "return_plan"], Some("smaller steps")),
            Ok(DecisionParams::ReturnPlan { feedback: "smaller steps".to_owned() })
        );
        assert_eq!(no(&["force_shutdown", "withdraw"], None), Ok(DecisionParams::Withdraw {}));
        assert_eq!(no(&["answer", "decline"], None), Ok(DecisionParams::Decline { reason: None }));
    }

    #[test]
    fn waiting_is_told_in_minutes() {
        assert_eq!(waiting(42_000), "0:42");
        assert_eq!(waiting(310_000), "5:10");
        assert_eq!(waiting(3_661_000), "1:01:01");
    }
}
