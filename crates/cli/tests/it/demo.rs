//! The demo: everything it promises, and what is left of it.

use std::fs;

use serde_json::Value;

use crate::binary::{Going, Home, Ran, in_both_ways};

#[test]
fn the_demo_does_what_it_promises_and_leaves_nothing() {
    in_both_ways(|| {
        let home = Home::new();
        let tmp = home.path("tmp");
        fs::create_dir(&tmp).unwrap();
        let ran = home.command(["demo", "--yes", "--json"]).env("TMPDIR", &tmp).output().unwrap();
        let ran = crate::binary::Ran::from(ran).code(0);
        let lines = ran.lines();
        assert_eq!(lines[0]["schema"], "aion.run/1");
        let totals = ran.last();
        let expected = [
            "ok",
            "turns",
            "messages_accepted",
            "messages_acknowledged",
            "messages_dead",
            "tasks_completed",
            "requests_decided",
            "restarts",
            "files",
        ];
        let last = ran.stdout.lines().last().unwrap();
        let keys: Vec<&str> = last
            .trim_matches(['{', '}'])
            .split(',')
            .map(|field| field.split(':').next().unwrap().trim_matches('"'))
            .collect();
        assert_eq!(keys, expected);
        assert_eq!(totals["ok"], true);
        assert_eq!(totals["messages_dead"], 0);
        assert_eq!(totals["tasks_completed"], 4);
        assert_eq!(totals["requests_decided"], 9);
        assert_eq!(totals["restarts"], 1);
        assert_eq!(totals["files"], 5);
        assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0, "something is left in {tmp:?}");
    });
}

#[test]
fn a_kept_demo_can_be_looked_at_in_every_way() {
    in_both_ways(|| {
        let home = Home::new();
        let dir = home.path("demo");
        let shown = dir.to_str().unwrap();
        let ran = home.aion(["demo", "--yes", "--dir", shown]).code(0);
        assert!(ran.stdout.contains("checks passed"), "{ran:#?}");
        assert!(!ran.stdout.contains('\u{1b}'), "colour without a terminal");
        let data = dir.join("data");
        let data = data.to_str().unwrap();

        let teams = home.aion(["team", "ls", "--json", "--data-dir", data]).code(0).json();
        let id = teams[0]["id"].as_str().unwrap().to_owned();
        assert_eq!(teams[0]["name"], "open-day");
        let view = home.aion(["team", "show", "open", "--json", "--data-dir", data]).code(0).json();
        assert_eq!(view["task_counts"]["completed"], 4);
        assert_eq!(view["changes"].as_array().unwrap().len(), 5);
        let names = |view: &Value| -> Vec<String> {
            let agents = view["agents"].as_array().unwrap();
            agents.iter().map(|agent| agent["agent_name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&view), ["team-lead", "builder"]);
        let owners: Vec<&str> = view["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["owner"].as_str().unwrap())
            .collect();
        assert_eq!(owners, ["writer", "designer", "builder", "writer"], "also of those who left");

        // The export counts to the same totals as the store, and folds to the same state.
        let file = home.path("export.jsonl");
        let file = file.to_str().unwrap();
        home.aion(["export", &id, "-o", file, "--data-dir", data]).code(0);
        let replayed = home.aion(["replay", file, "--json"]).code(0).json();
        for key in ["turns", "messages_accepted", "messages_acknowledged", "requests_decided"] {
            assert_eq!(replayed["totals"][key], view["totals"][key], "{key}");
        }
        assert_eq!(replayed["agents"], view["agents"]);
        assert_eq!(replayed["tasks"], view["tasks"]);
        assert_eq!(replayed["mail"], serde_json::json!([]));
        let by_name = home.aion(["replay", &id, "--json", "--data-dir", data]).code(0).json();
        assert_eq!(by_name, replayed);

        // In the middle of the log it looks different, and the same again from the team itself.
        let middle = home.aion(["replay", file, "--at", "30", "--json"]).code(0).json();
        assert_eq!(middle["seq"], 30);
        assert_ne!(middle["tasks"], replayed["tasks"]);
        let again = home.aion(["replay", &id, "--at", "30", "--json", "--data-dir", data]).code(0);
        assert_eq!(again.json(), middle);

        // The log has each event once, in order, and can be entered anywhere.
        let log = home.aion(["log", &id, "--json", "--data-dir", data]).code(0).lines();
        let seqs: Vec<u64> = log.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=replayed["last_seq"].as_u64().unwrap()).collect::<Vec<_>>());
        let tail = home.aion(["log", &id, "--json", "--since", "30", "--data-dir", data]).code(0);
        assert_eq!(tail.lines(), log[30..]);

        let report =
            home.aion(["export", "open-day", "--format", "md", "--data-dir", data]).code(0);
        assert!(report.stdout.contains("# open-day"), "{report:#?}");
        assert!(report.stdout.contains("- [x] #4 Proofread the pages (writer)"), "{report:#?}");
        let again = home.aion(["export", &id, "-o", file, "--data-dir", data]).code(8);
        assert!(again.stderr.contains("exists already"), "{again:#?}");

        // All of it is taken back, and nothing else.
        let undone = home.aion(["team", "undo", &id, "--yes", "--data-dir", data]).code(0);
        assert!(undone.stdout.contains("5 file(s)"), "{undone:#?}");
        let mut left: Vec<_> = fs::read_dir(dir.join("site"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [".git", "README.md", "test.sh"]);
    });
}

#[test]
fn without_a_terminal_and_without_yes_the_demo_says_so() {
    let home = Home::new();
    let ran = home.aion(["demo", "--json"]).code(5);
    assert_eq!(ran.error_code(), "demo.nobody_there");
    fs::write(home.work().join("mine"), "").unwrap();
    let ran = home.aion(["demo", "--yes", "--json", "--dir", "."]).code(8);
    assert_eq!(ran.error_code(), "demo.not_empty");
}

#[test]
fn a_killed_demo_is_completed_by_a_resumed_run() {
    in_both_ways(|| {
        // Killed early, in the middle, and after the crash of one agent: nothing that was accepted is
        // lost, and what had begun is not done twice.
        for point in ["agent_spawned", "request_decided", "agent_failed"] {
            let home = Home::new();
            let dir = home.path("demo");
            let mut demo = Going::start(home.command([
                "demo",
                "--yes",
                "--json",
                "--dir",
                dir.to_str().unwrap(),
            ]));
            demo.until_event(point);
            demo.signal(nix::sys::signal::Signal::SIGKILL);
            assert_eq!(demo.end().code, None);
            let data = dir.join("data");
            let data = data.to_str().unwrap();
            let ran =
                home.aion(["run", "--resume", "open-day", "--yes", "--json", "--data-dir", data]);
            let ran = ran.code(0);
            assert_eq!(ran.last()["status"], "completed", "{point}: {ran:#?}");
            let view = home.aion(["team", "show", "--json", "--data-dir", data]).code(0).json();
            assert_eq!(view["totals"]["messages_dead"], 0, "{point}: {view:#?}");
            assert_eq!(view["totals"]["tasks_completed"], 4, "{point}: {view:#?}");
            let check = std::process::Command::new("sh")
                .arg("test.sh")
                .current_dir(dir.join("site"))
                .output()
                .unwrap();
            assert!(check.status.success(), "{point}: {}", String::from_utf8_lossy(&check.stdout));
        }
    });
}

#[test]
fn a_demo_that_nobody_reads_to_its_end_is_no_success() {
    in_both_ways(|| {
        let home = Home::new();
        let dir = home.path("demo");
        let mut going =
            Going::start(home.command(["demo", "--yes", "--json", "--dir", dir.to_str().unwrap()]));
        going.until(|line| line["type"] == "start");
        let ran = Ran::from(going.leave().wait_with_output().unwrap()).code(1);
        assert_eq!(ran.error_code(), "output.gone");
        assert!(dir.join("data").exists());
    });
}
