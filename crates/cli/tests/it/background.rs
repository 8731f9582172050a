//! Commands that run on when their call is answered, and a daemon that is killed under them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use nix::sys::stat::Mode;

use crate::binary::{Going, Home};

const SCENARIO: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = "Begin" }]
call = [{ tool = "Bash", input = { command = "exec 3> life; echo $$ >&3; cat held", run_in_background = true }, outcome = "ok" }]
then = "It runs."

[[agent.team-lead.rule]]
when = [{ given = '\[bash_\w+ ended: the program that it ran under was stopped' }]
say = "Then it is gone."
"#;

#[test]
fn a_command_in_the_background_dies_with_a_killed_daemon_and_the_agent_is_told() {
    let home = Home::served();
    for pipe in ["life", "held"] {
        nix::unistd::mkfifo(&home.work().join(pipe), Mode::S_IRWXU).unwrap();
    }
    let script = home.scenario(SCENARIO);
    let script = script.to_str().unwrap();
    let going = Going::start(home.command(["run", "Begin", "--script", script, "--yes", "--json"]));
    let mut life = BufReader::new(File::open(home.work().join("life")).unwrap());
    let mut pid = String::new();
    life.read_line(&mut pid).unwrap();
    let ran = going.end().code(0);
    assert_eq!(ran.last()["answer"], "It runs.");
    // The turn is over, and the command goes on.
    assert!(std::path::Path::new(&format!("/proc/{}", pid.trim())).exists());
    home.kill_daemon();
    let mut rest = Vec::new();
    life.read_to_end(&mut rest).unwrap();

    home.aion(["message", "send", "lead", "Go on", "--team", "begin"]).code(0);
    home.aion(["run", "--resume", "begin", "--yes", "--json"]).code(0);
    let log = home.aion(["log", "begin", "--json"]).code(0);
    assert!(log.stdout.contains("Then it is gone."), "{log:#?}");
}
