//! What nobody should send: each gives its own clear refusal and changes nothing.

use aion_core::agent::MemberSpec;
use aion_core::id::{AgentName, SlotId, TeamId};
use aion_core::message::Recipient;
use aion_core::permission::ToolClass;
use aion_core::{Caller, Command, Rejection};

use crate::world::{ANN, LEAD, USER, World, proposal, spec, task, text};

fn spawn(member: MemberSpec) -> Command {
    Command::SpawnAgent { member: Box::new(member) }
}

#[test]
fn names_that_are_taken_or_look_it_are_refused() {
    let mut w = World::new();
    for twin in ["ann", "bob", "b0b"] {
        assert_eq!(w.no(USER, &spawn(spec(twin))).code(), "name_taken", "{twin}");
    }
    let mut member = spec("carol");
    member.label = Some("Tеam Lеad".to_owned());
    assert_eq!(w.no(USER, &spawn(member)).code(), "bad_name");
    let as_lead = MemberSpec { name: AgentName::lead(), ..spec("carol") };
    assert_eq!(w.no(USER, &spawn(as_lead)).code(), "name_taken");
}

#[test]
fn the_sixteenth_member_is_the_last() {
    let mut w = World::new();
    for name in ["c", "d", "e", "f", "g", "h", "j", "k", "p", "q", "r", "s", "t"] {
        w.ok(USER, &spawn(spec(name)));
    }
    let refusal = w.no(USER, &spawn(spec("one-more")));
    assert_eq!(refusal, Rejection::Limit { limit: "members", allowed: 16, asked: 17 });
    assert_eq!(refusal.to_string(), "the limit \"members\" is 16, and this would make 17");
}

#[test]
fn empty_and_oversized_texts_are_refused() {
    let mut w = World::new();
    assert_eq!(w.no(USER, &text(Recipient::Lead, " \n ")), Rejection::Empty { what: "a message" });
    assert_eq!(w.no(USER, &task("", &[])), Rejection::Empty { what: "a task's title" });
    assert_eq!(w.no(USER, &task(&"x".repeat(201), &[])).code(), "limit");
    let plan = |text: String| Command::SubmitPlan { text };
    assert_eq!(w.no(Caller::Agent(ANN), &plan(String::new())).code(), "empty");
    assert_eq!(w.no(Caller::Agent(ANN), &plan("x".repeat(40_000))).code(), "limit");
    assert_eq!(w.no(USER, &Command::RenameTeam { name: "\u{7}".to_owned() }).code(), "bad_name");
    assert_eq!(w.no(USER, &Command::RenameTeam { name: "x".repeat(101) }).code(), "limit");
}

#[test]
fn strangers_and_speaking_to_oneself_are_refused() {
    let mut w = World::new();
    assert_eq!(w.no(Caller::Agent(SlotId(9)), &text(Recipient::Lead, "x")).code(), "unknown_agent");
    assert_eq!(w.no(Caller::Agent(ANN), &text(Recipient::Agent(ANN), "x")), Rejection::ToSelf);
    assert_eq!(w.no(Caller::Agent(LEAD), &text(Recipient::Lead, "x")), Rejection::ToSelf);
    assert_eq!(w.no(USER, &text(Recipient::User, "x")), Rejection::ToSelf);
    let turn = w.wake(ANN);
    assert_eq!(w.no(USER, &proposal(turn, "c", "Bash", ToolClass::Execute)).code(), "not_allowed");
}

#[test]
fn the_first_command_creates_the_team_and_the_second_does_not() {
    let mut w = World::empty();
    assert_eq!(w.no(USER, &text(Recipient::Lead, "x")), Rejection::NoTeam);
    assert_eq!(w.no(Caller::System, &Command::Tick), Rejection::NoTeam);
    let mut w = World::new();
    let again = Command::CreateTeam {
        team: TeamId::new("t-2").unwrap(),
        name: "again".to_owned(),
        owner: "me".to_owned(),
        workspace: "/w".to_owned(),
        solo: false,
        lead: Box::new(spec("x")),
        settings: Box::default(),
    };
    assert_eq!(w.no(USER, &again), Rejection::TeamExists);
}

#[test]
fn hosts_that_are_no_hosts_are_refused() {
    let mut w = World::new();
    w.ok(USER, &Command::SetMode { slot: ANN, mode: aion_core::mode::PermissionMode::AcceptEdits });
    let turn = w.wake(ANN);
    w.ok(Caller::Agent(ANN), &proposal(turn, "c", "Write", ToolClass::Edit));
    for host in ["", "evil.org\0.good.org", "a b", "http://x", &"x".repeat(254)] {
        let ask = Command::RequestNetwork {
            turn,
            call: "c".to_owned(),
            host: host.to_owned(),
            finding: None,
        };
        assert_eq!(w.no(Caller::Agent(ANN), &ask).code(), "bad_name", "{host:?}");
    }
}

#[test]
fn only_the_shell_reports_what_the_shell_reports() {
    let mut w = World::new();
    let exited = Command::AgentExited { slot: ANN, generation: 1, cause: "no".to_owned() };
    for caller in [USER, Caller::Agent(LEAD)] {
        assert_eq!(w.no(caller, &exited).code(), "not_allowed");
        assert_eq!(w.no(caller, &Command::Tick).code(), "not_allowed");
        let ready = Command::AgentReady { slot: ANN, generation: 1 };
        assert_eq!(w.no(caller, &ready).code(), "not_allowed");
    }
}

#[test]
fn limits_that_leave_no_room_and_words_without_end_are_refused() {
    let mut w = World::new();
    let mut settings = w.team.settings().clone();
    settings.limits.batch_messages = 0;
    let zero = w.no(USER, &Command::Configure { settings: Box::new(settings) });
    assert_eq!(zero.to_string(), "the limit \"batch_messages\" must be at least 1");
    let mut member = spec("carol");
    member.model = Some("m".repeat(201));
    assert_eq!(w.no(USER, &spawn(member)).code(), "limit");
    w.ok(Caller::Agent(ANN), &Command::AskUser { text: "?".to_owned(), options: vec![] });
    let answer = aion_core::request::Decision::Answer { text: "x".repeat(40_000) };
    let request = w.open_request();
    assert_eq!(w.no(USER, &Command::Decide { request, decision: answer }).code(), "limit");
}

#[test]
fn notes_on_a_task_have_a_limit_together() {
    let mut w = World::new();
    w.ok(USER, &task("a", &[]));
    let note = |key: &str| Command::UpdateTask {
        task: aion_core::id::TaskId(1),
        change: Box::new(aion_core::task::TaskChange {
            metadata: [(key.to_owned(), "x".repeat(20_000))].into(),
            ..Default::default()
        }),
        version: None,
    };
    w.ok(USER, &note("a"));
    assert_eq!(w.no(USER, &note("b")).code(), "limit");
}
