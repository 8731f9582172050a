//! What rules say about a call, and what follows from it.

use aion_core::agent::PermissionMode;
use aion_core::command::ToolProposal;
use aion_core::id::{GrantId, TurnId};
use aion_core::permission::{GrantRule, GrantScope, ToolClass};
use aion_core::request::{ActionHash, Decision, RequestKind};
use aion_core::rule::{Finding, Rule, RuleScope, RuleWord, SessionRules};
use aion_core::turn::ToolVerdict;
use aion_core::{Caller, Command, Event};

use crate::world::{ANN, BOB, LEAD, USER, World};

fn finding(says: RuleWord, scope: RuleScope) -> Finding {
    Finding { says, rule: "Bash(make:*)".to_owned(), scope, grant: None }
}

fn call(turn: TurnId, id: &str, class: ToolClass, finding: Option<Finding>) -> Command {
    Command::ProposeTool(Box::new(ToolProposal {
        turn,
        call: id.to_owned(),
        tool: "Bash".to_owned(),
        class,
        action: ActionHash::of_text("make"),
        description: "Run make".to_owned(),
        input: "{}".to_owned(),
        cwd: "/w".to_owned(),
        kin: Vec::new(),
        finding,
        suggestion: Some(rule()),
    }))
}

fn rule() -> Rule {
    "Bash(make:*)".parse().unwrap()
}

fn word(events: &[Event]) -> &'static str {
    match &events[0] {
        Event::ToolProposed { verdict: ToolVerdict::Run, .. } => "run",
        Event::ToolProposed { verdict: ToolVerdict::Ask { .. }, .. } => "ask",
        Event::ToolProposed { verdict: ToolVerdict::Refused { .. }, .. } => "refused",
        other => panic!("{other:?}"),
    }
}

#[test]
fn deny_counts_more_than_ask_more_than_allow_more_than_the_mode() {
    use PermissionMode::{AcceptEdits, BypassPermissions, Default, DontAsk, Plan};
    use RuleWord::{Allow, Ask, Deny};
    use ToolClass::{Edit, Execute, Read};
    for (mode, class, says, expect) in [
        (Default, Execute, Allow, "run"),
        (Default, Edit, Allow, "run"),
        (Default, Execute, Ask, "ask"),
        (Default, Execute, Deny, "refused"),
        (Default, Read, Ask, "ask"),
        (Default, Read, Deny, "refused"),
        (AcceptEdits, Edit, Ask, "ask"),
        (AcceptEdits, Edit, Deny, "refused"),
        (BypassPermissions, Execute, Ask, "ask"),
        (BypassPermissions, Execute, Deny, "refused"),
        (DontAsk, Execute, Allow, "run"),
        (DontAsk, Execute, Ask, "refused"),
        (DontAsk, Read, Ask, "refused"),
        (Plan, Execute, Allow, "refused"),
        (Plan, Edit, Allow, "refused"),
        (Plan, Read, Allow, "run"),
        (Plan, Read, Deny, "refused"),
    ] {
        let mut w = World::new();
        w.ok(USER, &Command::SetMode { slot: ANN, mode });
        let turn = w.wake(ANN);
        let found = Some(finding(says, RuleScope::User));
        let events = w.ok(Caller::Agent(ANN), &call(turn, "c", class, found));
        assert_eq!(word(&events), expect, "{mode:?} {class:?} {says:?}");
    }
}

#[test]
fn a_refusal_names_the_rule_and_whose_it_is() {
    let mut w = World::new();
    let turn = w.wake(ANN);
    let found = Some(finding(RuleWord::Deny, RuleScope::Project));
    let events = w.ok(Caller::Agent(ANN), &call(turn, "c", ToolClass::Execute, found));
    let Event::ToolProposed { verdict: ToolVerdict::Refused { reason }, .. } = &events[0] else {
        panic!("{events:?}")
    };
    assert_eq!(
        reason,
        "the rule deny Bash(make:*) in the project's settings forbids this; do not look for another way to do the same, and if the work needs it ask with team_ask_user"
    );
}

#[test]
fn a_rule_of_the_team_that_is_gone_allows_nothing() {
    let mut w = World::with(|settings| {
        settings.rules = SessionRules { allow: vec![rule()], ..SessionRules::default() };
    });
    let turn = w.wake(ANN);
    let found = || Some(finding(RuleWord::Allow, RuleScope::Session));
    let cite = |id: &str| call(turn, id, ToolClass::Execute, found());
    assert_eq!(word(&w.ok(Caller::Agent(ANN), &cite("a"))), "run");
    let mut settings = w.team.settings().clone();
    settings.rules = SessionRules::default();
    w.ok(USER, &Command::Configure { settings: Box::new(settings) });
    assert_eq!(word(&w.ok(Caller::Agent(ANN), &cite("b"))), "ask");
    // A permission that nobody gave is none.
    let invented =
        Finding { grant: Some(GrantId(9)), ..finding(RuleWord::Allow, RuleScope::Session) };
    let turn = w.wake(BOB);
    let events = w.ok(Caller::Agent(BOB), &call(turn, "c", ToolClass::Execute, Some(invented)));
    assert_eq!(word(&events), "ask");
}

#[test]
fn always_gives_the_rule_that_the_person_chose_and_tells_the_team() {
    let mut w = World::new();
    let turn = w.wake(ANN);
    w.ok(Caller::Agent(ANN), &call(turn, "c", ToolClass::Execute, None));
    let request = w.open_request();
    let (open, _) = w.team.requests().find(|(open, _)| open.id == request).unwrap();
    assert!(
        matches!(&open.kind, RequestKind::Permission(ask) if ask.suggestion == Some(rule())),
        "{open:?}"
    );
    let allow = |scope, rule: &str| Command::Decide {
        request,
        decision: Decision::Allow { scope, rule: Some(rule.parse().unwrap()) },
    };
    for (scope, rule) in [(GrantScope::Team, "Edit(src/**)"), (GrantScope::Once, "Bash(make:*)")] {
        assert_eq!(w.no(USER, &allow(scope, rule)).code(), "unfit_rule");
    }
    assert_eq!(
        w.no(Caller::Agent(LEAD), &allow(GrantScope::Team, "Bash(make:*)")).code(),
        "not_allowed"
    );
    let events = w.ok(USER, &allow(GrantScope::Team, "Bash(make:*)"));
    let grant = events
        .iter()
        .find_map(|event| match event {
            Event::GrantAdded { grant } => Some(grant.clone()),
            _ => None,
        })
        .unwrap();
    assert_eq!((grant.slot, &grant.rule), (None, &GrantRule::Pattern(rule())));
    let told = format!("{events:?}");
    assert!(told.contains("Bash(make:*) is allowed for every member without asking"), "{told}");
    // Another member's call that cites it runs; one that cites nothing is asked for.
    let turn = w.wake(BOB);
    let cited = Finding { grant: Some(grant.id), ..finding(RuleWord::Allow, RuleScope::Session) };
    let events =
        w.ok(Caller::Agent(BOB), &call(turn, "d", ToolClass::Execute, Some(cited.clone())));
    assert_eq!(word(&events), "run");
    w.ok(USER, &Command::RevokeGrant { grant: grant.id });
    let events = w.ok(Caller::Agent(BOB), &call(turn, "e", ToolClass::Execute, Some(cited)));
    assert_eq!(word(&events), "ask");
}

#[test]
fn what_was_denied_runs_by_no_rule_and_through_nobody_else() {
    let mut w = World::new();
    let turn = w.wake(ANN);
    w.ok(Caller::Agent(ANN), &call(turn, "c", ToolClass::Execute, None));
    let request = w.open_request();
    let deny = Decision::Deny { reason: String::new() };
    w.ok(USER, &Command::Decide { request, decision: deny });
    let turn = w.wake(BOB);
    let found = Some(finding(RuleWord::Allow, RuleScope::User));
    let events = w.ok(Caller::Agent(BOB), &call(turn, "d", ToolClass::Execute, found));
    assert_eq!(word(&events), "ask");
}

#[test]
fn what_was_denied_is_known_in_other_words() {
    let part = |text: &str| ActionHash::of_text(text);
    let proposal = |turn, id: &str, kin: &[&str]| {
        let found = Some(finding(RuleWord::Allow, RuleScope::User));
        match call(turn, id, ToolClass::Execute, found) {
            Command::ProposeTool(proposal) => Command::ProposeTool(Box::new(ToolProposal {
                action: ActionHash::of_text(id),
                kin: kin.iter().map(|text| part(text)).collect(),
                ..*proposal
            })),
            other => other,
        }
    };
    let mut w = World::new();
    let turn = w.wake(ANN);
    let asked = match proposal(turn, "a", &["rm x"]) {
        Command::ProposeTool(proposal) => {
            Command::ProposeTool(Box::new(ToolProposal { finding: None, ..*proposal }))
        }
        other => other,
    };
    w.ok(Caller::Agent(ANN), &asked);
    let deny = Decision::Deny { reason: String::new() };
    w.ok(USER, &Command::Decide { request: w.open_request(), decision: deny });
    w.ok(Caller::Agent(ANN), &Command::StartTool { turn, call: "a".to_owned() });
    // Somebody else does the same among other things, by a rule that allows it.
    let turn = w.wake(BOB);
    let other = proposal(turn, "b", &["make", "rm x"]);
    assert_eq!(word(&w.ok(Caller::Agent(BOB), &other)), "ask");
    assert_eq!(word(&w.ok(Caller::Agent(BOB), &proposal(turn, "c", &["make"]))), "run");
    // The person judges it anew.
    w.ok(USER, &Command::Decide { request: w.open_request(), decision: Decision::ONCE });
    assert_eq!(word(&w.ok(Caller::Agent(BOB), &proposal(turn, "d", &["rm x"]))), "run");
}

#[test]
fn rules_are_about_the_hosts_that_commands_reach_too() {
    use PermissionMode::{BypassPermissions, Default, DontAsk, Plan};
    use RuleWord::{Allow, Ask, Deny};
    for (mode, says, expect) in [
        (Default, None, "ask"),
        (Default, Some(Allow), "run"),
        (Default, Some(Deny), "refused"),
        (DontAsk, None, "refused"),
        (DontAsk, Some(Allow), "run"),
        (DontAsk, Some(Ask), "refused"),
        (BypassPermissions, None, "run"),
        (BypassPermissions, Some(Ask), "ask"),
        (BypassPermissions, Some(Deny), "refused"),
        (Plan, Some(Allow), "refused"),
    ] {
        let mut w = World::new();
        let turn = w.wake(ANN);
        w.ok(Caller::Agent(ANN), &call(turn, "c", ToolClass::Read, None));
        w.ok(USER, &Command::SetMode { slot: ANN, mode });
        let reach = Command::RequestNetwork {
            turn,
            call: "c".to_owned(),
            host: "docs.rs".to_owned(),
            finding: says.map(|says| finding(says, RuleScope::User)),
        };
        let got = match w.try_it(Caller::Agent(ANN), &reach) {
            None => "refused",
            Some(events) if events.is_empty() => "run",
            Some(_) => "ask",
        };
        assert_eq!(got, expect, "{mode:?} {says:?}");
    }
}

#[test]
fn what_a_rule_wants_to_be_asked_for_is_the_persons_alone() {
    let mut w = World::with(|settings| {
        settings.delegation.tools.insert("Bash".to_owned());
    });
    let turn = w.wake(ANN);
    let found = Some(finding(RuleWord::Ask, RuleScope::Managed));
    w.ok(Caller::Agent(ANN), &call(turn, "c", ToolClass::Execute, found));
    let request = w.open_request();
    let yes = Command::Decide { request, decision: Decision::ONCE };
    assert_eq!(w.no(Caller::Agent(LEAD), &yes).code(), "not_allowed");
    w.ok(USER, &yes);
}

#[test]
fn teammates_begin_in_the_mode_that_was_set_and_never_wider_than_the_lead() {
    let mut w = World::with(|settings| settings.member_mode = Some(PermissionMode::AcceptEdits));
    let mode = |w: &World| w.team.agents().last().unwrap().mode();
    let member = |name: &str| Command::SpawnAgent { member: Box::new(crate::world::spec(name)) };
    w.ok(USER, &member("eve"));
    assert_eq!(mode(&w), PermissionMode::AcceptEdits);
    w.ok(Caller::Agent(LEAD), &member("joe"));
    assert_eq!(mode(&w), PermissionMode::Default);
}
