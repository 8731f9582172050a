//! The start of a work tree: recorded beside the history, shown, and put back.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::binary::{Home, in_both_ways};

/// A lead that runs one command.
fn does(command: &str) -> String {
    format!(
        r#"
[[agent.team-lead.rule]]
when = [{{ given = "Work" }}]
call = [{{ tool = "Bash", input = {{ command = '''{command}''' }} }}]
then = "Done."
"#
    )
}

fn work(home: &Home, command: &str) {
    let script = home.scenario(&does(command));
    let script = script.to_str().unwrap();
    home.aion(["run", "Work", "--script", script, "--yes"]).code(0);
}

fn changes(home: &Home) -> Vec<(String, String)> {
    let view = home.aion(["team", "show", "work", "--json"]).code(0).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let changes = view["changes"].as_array().unwrap();
    changes.iter().map(|change| (text(&change["path"]), text(&change["change"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(path, kind)| ((*path).to_owned(), (*kind).to_owned())).collect()
}

fn read(home: &Home, name: &str) -> String {
    fs::read_to_string(home.work().join(name)).unwrap()
}

#[test]
fn everything_that_changed_goes_back_and_nothing_else() {
    in_both_ways(|| {
        let home = Home::with_repository();
        let dir = home.work();
        fs::write(dir.join(".gitignore"), "ignored/\n*.log\n").unwrap();
        fs::write(dir.join("untracked.txt"), "mine\n").unwrap();
        fs::write(dir.join("staged.txt"), "staged\n").unwrap();
        home.git(["add", "staged.txt"]);
        fs::create_dir(dir.join("ignored")).unwrap();
        fs::write(dir.join("ignored/secret"), "keep me\n").unwrap();
        fs::write(dir.join("run.sh"), "#!/bin/sh\n").unwrap();
        let status = home.git(["status", "--porcelain"]);
        let head = home.git(["rev-parse", "HEAD"]);

        work(
            &home,
            "echo after > changed.txt; rm deleted.txt; mkdir -p new/deep; echo n > new/deep/file; \
         mv untracked.txt renamed.txt; chmod +x run.sh; echo x > ignored/secret; echo l > a.log; \
         rm kept.txt; mkdir kept.txt; echo in > kept.txt/in; echo '' > .gitignore",
        );
        assert_eq!(
            changes(&home),
            pairs(&[
                (".gitignore", "modified"),
                ("a.log", "added"),
                ("changed.txt", "modified"),
                ("deleted.txt", "deleted"),
                ("kept.txt", "deleted"),
                ("kept.txt/in", "added"),
                ("new/deep/file", "added"),
                ("renamed.txt", "added"),
                ("run.sh", "modified"),
                ("untracked.txt", "deleted"),
            ])
        );

        // Nobody is asked where there is no terminal, and then nothing happens.
        let ran = home.aion(["team", "undo", "work", "--json"]).code(5);
        assert_eq!(ran.error_code(), "undo.unconfirmed");
        assert!(!dir.join("deleted.txt").exists());

        let undone = home.aion(["team", "undo", "work", "--yes", "--json"]).code(0).json();
        assert_eq!(read(&home, "changed.txt"), "before\n");
        assert_eq!(read(&home, "deleted.txt"), "here\n");
        assert_eq!(read(&home, "kept.txt"), "kept\n");
        assert_eq!(read(&home, "untracked.txt"), "mine\n");
        assert_eq!(read(&home, ".gitignore"), "ignored/\n*.log\n");
        assert!(!dir.join("new").exists());
        assert!(!dir.join("renamed.txt").exists());
        assert_eq!(fs::metadata(dir.join("run.sh")).unwrap().permissions().mode() & 0o111, 0);
        // What git ignores is not recorded, so it is left alone.
        assert_eq!(read(&home, "ignored/secret"), "x\n");
        assert_eq!(changes(&home), pairs(&[]));

        // The person's own view of the repository is as it was.
        assert_eq!(home.git(["status", "--porcelain"]), status);
        assert_eq!(home.git(["rev-parse", "HEAD"]), head);
        let kept = undone["kept_at"].as_str().unwrap();
        assert_eq!(home.git(["show", &format!("{kept}:changed.txt")]), "after\n");
        let again = home.aion(["team", "undo", "work", "--yes", "--json"]).code(0).json();
        assert_eq!(again["kept_at"], Value::Null);
        assert_eq!(again["restored"], json!([]));
    });
}

#[test]
fn a_repository_without_a_commit_is_put_back_too() {
    in_both_ways(|| {
        let home = Home::new();
        home.git(["init", "--quiet"]);
        fs::write(home.work().join("draft.txt"), "first\n").unwrap();
        work(&home, "echo second > draft.txt; echo x > new.txt");
        assert_eq!(changes(&home), pairs(&[("draft.txt", "modified"), ("new.txt", "added")]));
        home.aion(["team", "undo", "work", "--yes"]).code(0);
        assert_eq!(read(&home, "draft.txt"), "first\n");
        assert!(!home.work().join("new.txt").exists());
        assert_eq!(home.git(["status", "--porcelain"]), "?? draft.txt\n");
    });
}

#[test]
fn commits_that_a_team_makes_stay_and_its_files_go_back() {
    in_both_ways(|| {
        let home = Home::with_repository();
        work(
            &home,
            "echo after > changed.txt && git -c user.name=A -c user.email=a@localhost commit -qam second",
        );
        let head = home.git(["rev-parse", "HEAD"]);
        assert_eq!(changes(&home), pairs(&[("changed.txt", "modified")]));
        home.aion(["team", "undo", "work", "--yes"]).code(0);
        assert_eq!(read(&home, "changed.txt"), "before\n");
        assert_eq!(home.git(["rev-parse", "HEAD"]), head);
    });
}

#[test]
fn submodules_and_nested_repositories_are_left_alone() {
    in_both_ways(|| {
        let home = Home::with_repository();
        let other = Home::with_repository();
        let from = other.work();
        home.git([
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            from.to_str().unwrap(),
            "sub",
        ]);
        home.git(["commit", "--quiet", "-m", "with a submodule"]);
        fs::create_dir(home.work().join("nested")).unwrap();
        work(
            &home,
            "echo changed > sub/changed.txt; git init -q nested; echo x > nested/x; echo y > y.txt",
        );
        assert_eq!(changes(&home), pairs(&[("y.txt", "added")]));
        home.aion(["team", "undo", "work", "--yes"]).code(0);
        assert_eq!(read(&home, "sub/changed.txt"), "changed\n");
        assert_eq!(read(&home, "nested/x"), "x\n");
        assert!(!home.work().join("y.txt").exists());
    });
}

#[test]
fn only_the_workspace_is_put_back_and_the_surroundings_of_git_do_not_matter() {
    in_both_ways(|| {
        let home = Home::with_repository();
        fs::create_dir(home.work().join("part")).unwrap();
        fs::write(home.work().join("part/own.txt"), "own\n").unwrap();
        let script = home.scenario(&does("echo x > own.txt; echo x > ../outside.txt"));
        let script = script.to_str().unwrap();
        let ran = home
            .command(["run", "Work", "--script", script, "--yes", "--workspace", "part"])
            .env("GIT_DIR", "/nonexistent")
            .env("GIT_INDEX_FILE", "/nonexistent/index")
            .env("GIT_WORK_TREE", "/")
            // A sandbox would not let it write there.
            .env("AION_SANDBOX", "off")
            .output()
            .unwrap();
        crate::binary::Ran::from(ran).code(0);
        assert_eq!(changes(&home), pairs(&[("own.txt", "modified")]));
        home.aion(["team", "undo", "work", "--yes"]).code(0);
        assert_eq!(read(&home, "part/own.txt"), "own\n");
        assert_eq!(read(&home, "outside.txt"), "x\n");
    });
}

#[test]
fn outside_of_git_there_is_nothing_to_undo_and_that_is_said() {
    let home = Home::new();
    work(&home, "echo x > x.txt");
    let view = home.aion(["team", "show", "--json"]).code(0).json();
    assert_eq!(view["changes"], Value::Null);
    let ran = home.aion(["team", "undo", "work", "--yes", "--json"]).code(9);
    assert_eq!(ran.error_code(), "undo.no_start");
}

#[test]
fn an_ignored_file_that_would_be_lost_stops_the_undoing_before_it_begins() {
    in_both_ways(|| {
        let home = Home::with_repository();
        fs::write(home.work().join(".gitignore"), "*.log\nlink\n").unwrap();
        fs::write(home.work().join("docs"), "a file\n").unwrap();
        fs::create_dir(home.work().join("link")).unwrap();
        fs::write(home.work().join("link/page"), "a page\n").unwrap();
        home.git(["add", "--force", "."]);
        work(
            &home,
            "echo after > changed.txt; rm docs; mkdir docs; echo p > docs/precious.log; \
         rm -r link; echo f > link",
        );
        let ran = home.aion(["team", "undo", "work", "--yes", "--json"]).code(8);
        assert_eq!(ran.error_code(), "undo.in_the_way");
        assert!(ran.stderr.contains("are: docs/precious.log, link;"), "{ran:#?}");
        assert_eq!(read(&home, "docs/precious.log"), "p\n");
        assert_eq!(read(&home, "changed.txt"), "after\n");
        assert_eq!(read(&home, "link"), "f\n");
        fs::remove_file(home.work().join("docs/precious.log")).unwrap();
        fs::remove_file(home.work().join("link")).unwrap();
        home.aion(["team", "undo", "work", "--yes"]).code(0);
        assert_eq!(read(&home, "docs"), "a file\n");
        assert_eq!(read(&home, "link/page"), "a page\n");
    });
}

#[test]
fn each_undoing_keeps_what_it_found() {
    in_both_ways(|| {
        let home = Home::with_repository();
        work(&home, "echo first > changed.txt");
        let undo = || {
            let undone = home.aion(["team", "undo", "work", "--yes", "--json"]).code(0).json();
            undone["kept_at"].as_str().unwrap().to_owned()
        };
        let first = undo();
        fs::write(home.work().join("changed.txt"), "second\n").unwrap();
        let second = undo();
        assert_ne!(first, second);
        assert_eq!(home.git(["show", &format!("{first}:changed.txt")]), "first\n");
        assert_eq!(home.git(["show", &format!("{second}:changed.txt")]), "second\n");
    });
}

#[test]
fn data_inside_the_work_tree_is_refused() {
    let home = Home::with_repository();
    fs::create_dir(home.work().join("part")).unwrap();
    let script = home.scenario(&does("echo x > x.txt"));
    let script = script.to_str().unwrap();
    let run = |data: &str, workspace: &str| {
        let at = ["--data-dir", data, "--workspace", workspace];
        home.aion(["run", "Work", "--script", script, "--yes", "--json"].iter().chain(&at))
    };
    for (data, workspace) in [(".data", "."), (".data", "part"), ("part/deep/data", "part")] {
        assert_eq!(run(data, workspace).code(2).error_code(), "data_dir.in_workspace");
        assert!(!home.work().join(data).exists());
    }
    assert_eq!(home.git(["for-each-ref", "refs/aion"]), "");

    // A team whose data got there later is neither gone on with nor undone.
    work(&home, "echo after > changed.txt");
    fs::rename(home.data(), home.work().join(".data")).unwrap();
    let at = ["--data-dir", ".data", "--json"];
    let ran = home.aion(["team", "undo", "work", "--yes"].iter().chain(&at)).code(2);
    assert_eq!(ran.error_code(), "data_dir.in_workspace");
    let ran = home.aion(["run", "--resume", "work"].iter().chain(&at)).code(2);
    assert_eq!(ran.error_code(), "data_dir.in_workspace");
    assert_eq!(read(&home, "changed.txt"), "after\n");
}
