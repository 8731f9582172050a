//! `aion serve`: the real daemon, called by a program that knows nothing but its API.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::binary::{Going, Home, Ran};

const IDLE: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = "." }]
say = "Done."
"#;

pub(crate) fn serve(home: &Home, script: &Path) -> (Going, Value) {
    let script = script.to_str().unwrap();
    let mut going =
        Going::start(home.command(["serve", "--script", script, "--port", "0", "--json"]));
    let line = going.until(|line| line["type"] == "serving");
    (going, line)
}

/// The demo's repository and its scenario, in this home.
fn demo(home: &Home) -> std::path::PathBuf {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo");
    let mut scenario = fs::read_to_string(demo.join("scenario.toml")).unwrap();
    for part in fs::read_dir(demo.join("parts")).unwrap() {
        let part = part.unwrap();
        let text = fs::read_to_string(part.path()).unwrap();
        scenario = scenario.replace(&format!("@@{}@@", part.file_name().to_str().unwrap()), &text);
    }
    for name in ["README.md", "test.sh"] {
        fs::copy(demo.join("site").join(name), home.work().join(name)).unwrap();
    }
    home.scenario(&scenario)
}

#[test]
fn the_whole_demo_goes_through_the_api_alone() {
    let home = Home::new();
    let (going, line) = serve(&home, &demo(&home));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/whole_demo.py");
    let message = "Make the page for the open day of Harbour Garden. The edition code is 5eed01; \
                   it has to stand on every page. The accent colour is #2f6f4f. README.md says \
                   what the page needs.";
    let ran = Command::new("python3")
        .arg(script)
        .args([line["url"].as_str().unwrap(), line["token_file"].as_str().unwrap()])
        .args([home.work().to_str().unwrap(), message])
        .output()
        .unwrap();
    let ran = Ran::from(ran).code(0);
    let result = ran.json();
    assert_eq!(result["completed"], 4, "{ran:#?}");
    assert_eq!(result["dead"], 0);
    assert!(result["decided"].as_u64().unwrap() > 0);
    let check = Command::new("sh").args(["test.sh", "5eed01"]).current_dir(home.work()).output();
    let check = Ran::from(check.unwrap()).code(0);
    assert!(check.stdout.contains("checks passed"), "{check:#?}");
    going.signal(Signal::SIGTERM);
    going.end().code(0);
    // What was served can be read without the daemon.
    let view = home.aion(["team", "show", "open-day", "--json"]).code(0).json();
    assert_eq!(view["task_counts"]["completed"], 4);
}

#[test]
fn a_daemon_is_one_a_data_directory_and_only_for_this_machine() {
    let home = Home::new();
    let script = home.scenario(IDLE);
    let shown = script.to_str().unwrap();
    let check = |args: &[&str], code: i32, error: &str| {
        let all = ["serve", "--json"].iter().chain(args);
        assert_eq!(home.aion(all).code(code).error_code(), error, "{args:?}");
    };
    check(&["--script", shown, "--host", "0.0.0.0"], 2, "serve.not_loopback");
    check(&["--script", shown, "--host", "192.0.2.1"], 2, "serve.not_loopback");

    let (going, line) = serve(&home, &script);
    let token = line["token_file"].as_str().unwrap();
    assert_eq!(fs::metadata(token).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!line.to_string().contains(&fs::read_to_string(token).unwrap()));
    check(&["--script", shown, "--port", "0"], 7, "data_dir.locked");
    let other = Home::new();
    let port = line["url"].as_str().unwrap().rsplit(':').next().unwrap();
    let taken = other.aion(["serve", "--json", "--script", shown, "--port", port]).code(7);
    assert_eq!(taken.error_code(), "serve.address");
    going.signal(Signal::SIGINT);
    going.end().code(0);

    fs::set_permissions(token, fs::Permissions::from_mode(0o644)).unwrap();
    check(&["--script", shown, "--port", "0"], 7, "serve.token");
}
