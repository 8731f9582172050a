//! The coding tools on real files and real processes.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use aion_agent::host::ToolOutput;
use aion_agent::sandbox::Sandbox;
use aion_agent::tools::{Surroundings, ToolConfig, Toolbox};
use aion_core::permission::ToolClass;
use serde_json::{Value, json};

use crate::fixture::{leash, png, toolbox};

/// Prepares and runs a call.
async fn call(tools: &Toolbox, tool: &str, input: Value) -> Result<String, String> {
    let prepared = tools.prepare(tool, &input)?;
    let ToolOutput { text, ok, .. } = tools.run(prepared, Surroundings::default()).await;
    if ok { Ok(text) } else { Err(text) }
}

fn class(tools: &Toolbox, tool: &str, input: &Value) -> (ToolClass, String) {
    let prepared = tools.prepare(tool, input).unwrap();
    (prepared.class, prepared.description)
}

fn write(dir: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[tokio::test]
async fn reading_numbers_lines_and_keeps_limits() {
    let dir = tempfile::tempdir().unwrap();
    let tools = toolbox(dir.path());
    let many: Vec<String> = (1..=2_500).map(|n| format!("line {n}")).collect();
    write(dir.path(), "many.txt", many.join("\n"));
    write(dir.path(), "long.txt", "x".repeat(3_000));
    write(dir.path(), "odd.txt", "a\x1b[31m\r\nb");
    write(dir.path(), "empty.txt", "");
    write(dir.path(), "data.bin", b"\x01\0\0");
    write(dir.path(), "cut.png", &png(1, 1)[..18]);
    write(dir.path(), "huge.png", png(8_001, 1));
    let mut heavy = png(1, 1);
    heavy.resize(4_000_000, 0);
    write(dir.path(), "heavy.png", heavy);
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let read = async |input: Value| call(&tools, "Read", input).await;

    let part = read(json!({ "file_path": "many.txt", "offset": 2, "limit": 2 })).await.unwrap();
    assert_eq!(part, "     2\tline 2\n     3\tline 3\n(lines 2 to 3 of 2500; go on with offset 4)");
    let all = read(json!({ "file_path": "many.txt" })).await.unwrap();
    assert!(all.ends_with("line 2000\n(lines 1 to 2000 of 2500; go on with offset 2001)"));
    let long = read(json!({ "file_path": "long.txt" })).await.unwrap();
    assert_eq!(long, format!("     1\t{}… (line cut)\n", "x".repeat(2_000)));
    let odd = read(json!({ "file_path": "odd.txt" })).await.unwrap();
    assert_eq!(odd, "     1\ta\u{1b}[31m\n     2\tb\n");
    assert_eq!(read(json!({ "file_path": "empty.txt" })).await.unwrap(), "empty.txt is empty.");
    for (input, error) in [
        (json!({ "file_path": "data.bin" }), "data.bin is a binary file of 3 bytes."),
        (
            json!({ "file_path": "cut.png" }),
            "cut.png begins as a png image, and cannot be read as one.",
        ),
        (
            json!({ "file_path": "huge.png" }),
            "huge.png is a png image of 8001 x 1 pixels; images with a side over 8000 pixels are not shown. Make a smaller copy of it.",
        ),
        (
            json!({ "file_path": "heavy.png" }),
            "heavy.png is a png image of 4000000 bytes; images over 3932160 bytes are not shown. Make a smaller copy of it.",
        ),
        (json!({ "file_path": "none.txt" }), "There is no file none.txt."),
        (json!({ "file_path": "." }), ". is a directory. List it with Glob."),
        (json!({ "file_path": "/dev/null" }), "/dev/null is no regular file."),
        (json!({ "file_path": "pipe" }), "pipe is no regular file."),
        (json!({ "file_path": "odd.txt", "offset": 9 }), "odd.txt has only 2 lines."),
        (json!({ "file_path": "" }), "The path is empty."),
        (json!({ "file_path": "a\0b" }), "A path cannot hold a NUL character."),
        (
            json!({ "path": "odd.txt" }),
            "Read: unknown field `path`, expected one of `file_path`, `offset`, `limit`; the fields are: file_path (required), limit, offset.",
        ),
        (
            json!({}),
            "Read: missing field `file_path`; the fields are: file_path (required), limit, offset.",
        ),
    ] {
        assert_eq!(read(input).await.unwrap_err(), error);
    }
}

#[tokio::test]
async fn nothing_is_changed_that_was_not_seen_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let tools = toolbox(dir.path());
    write(dir.path(), "a.txt", "one two two");
    fs::set_permissions(dir.path().join("a.txt"), fs::Permissions::from_mode(0o750)).unwrap();
    let content = || fs::read_to_string(dir.path().join("a.txt")).unwrap();
    let edit = async |edits: Value| {
        call(&tools, "Edit", json!({ "file_path": "a.txt", "edits": edits })).await
    };
    let one = |old: &str, new: &str| json!([{ "old_string": old, "new_string": new }]);

    let unread = "Read a.txt first: you have not seen what it holds.";
    assert_eq!(edit(one("one", "1")).await.unwrap_err(), unread);
    let overwrite = json!({ "file_path": "a.txt", "content": "x" });
    assert_eq!(call(&tools, "Write", overwrite.clone()).await.unwrap_err(), unread);

    call(&tools, "Read", json!({ "file_path": "a.txt" })).await.unwrap();
    assert_eq!(
        edit(one("two", "2")).await.unwrap_err(),
        "Nothing was changed in a.txt: edit 1 has an old_string that is in the file 2 times (lines 1, 1). Give more of its surroundings, or set replace_all."
    );
    assert_eq!(
        edit(json!([
            { "old_string": "one", "new_string": "1" },
            { "old_string": "three", "new_string": "3" },
        ]))
        .await
        .unwrap_err(),
        "Nothing was changed in a.txt: edit 2 has an old_string that is not in the file."
    );
    assert_eq!(content(), "one two two");
    let edits = json!([
        { "old_string": "one", "new_string": "1" },
        { "old_string": "two", "new_string": "2", "replace_all": true },
        { "old_string": "1 2", "new_string": "12" },
    ]);
    assert_eq!(edit(edits).await.unwrap(), "Edited a.txt (3 edits).");
    assert_eq!(content(), "12 2");
    assert_eq!(fs::metadata(dir.path().join("a.txt")).unwrap().permissions().mode() & 0o777, 0o750);

    write(dir.path(), "a.txt", "somebody else's");
    let stale = "a.txt has changed since you read it. Read it again, then change it.";
    assert_eq!(edit(one("else", "")).await.unwrap_err(), stale);
    assert_eq!(call(&tools, "Write", overwrite.clone()).await.unwrap_err(), stale);
    call(&tools, "Read", json!({ "file_path": "a.txt" })).await.unwrap();
    assert_eq!(call(&tools, "Write", overwrite).await.unwrap(), "Replaced a.txt (1 lines).");

    // A small file does not become one that fills the memory.
    write(dir.path(), "a.txt", "a".repeat(1 << 20));
    call(&tools, "Read", json!({ "file_path": "a.txt" })).await.unwrap();
    let grow =
        json!([{ "old_string": "a", "new_string": "b".repeat(1 << 16), "replace_all": true }]);
    assert_eq!(
        edit(grow).await.unwrap_err(),
        "Nothing was changed in a.txt: edit 1 would make the file larger than 16777216 bytes."
    );

    // What an agent wrote it has seen.
    let new = json!({ "file_path": "sub/dir/new.txt", "content": "a\nb\n" });
    assert_eq!(call(&tools, "Write", new).await.unwrap(), "Created sub/dir/new.txt (2 lines).");
    let again = json!({ "file_path": "sub/dir/new.txt", "content": "" });
    assert_eq!(call(&tools, "Write", again).await.unwrap(), "Replaced sub/dir/new.txt (0 lines).");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(
        call(&tools, "Edit", json!({ "file_path": "a.txt", "edits": [] })).await.unwrap_err(),
        "Edit: edits is empty; give at least one."
    );
}

#[tokio::test]
async fn an_edit_that_does_not_fit_says_where_it_nearly_does() {
    let dir = tempfile::tempdir().unwrap();
    let tools = toolbox(dir.path());
    let edit = async |file: &str, old: &str, new: &str| {
        call(&tools, "Read", json!({ "file_path": file })).await.unwrap();
        let edits = json!([{ "old_string": old, "new_string": new }]);
        call(&tools, "Edit", json!({ "file_path": file, "edits": edits })).await
    };

    // Lines that end as on Windows are shown like others, and stay as they are.
    write(dir.path(), "dos.txt", "one\r\ntwo\r\nthree\r\n");
    edit("dos.txt", "one\ntwo", "1\n1a\n2").await.unwrap();
    edit("dos.txt", "three", "3\n4").await.unwrap();
    let dos = fs::read_to_string(dir.path().join("dos.txt")).unwrap();
    assert_eq!(dos, "1\r\n1a\r\n2\r\n3\r\n4\r\n");
    write(dir.path(), "mixed.txt", "one\r\ntwo\n");
    edit("mixed.txt", "two", "2\n3").await.unwrap();
    let mixed = fs::read_to_string(dir.path().join("mixed.txt")).unwrap();
    assert_eq!(mixed, "one\r\n2\n3\n");

    write(dir.path(), "a.rs", "fn a() {}\n\nfn b() {\n\tc();\n}\n");
    assert_eq!(
        edit("a.rs", "fn b() {\n    c();\n}", "").await.unwrap_err(),
        "Nothing was changed in a.rs: edit 1 has an old_string that is not in the file: at line 3 the same words have other white space. Read it there, and give it exactly."
    );
    write(dir.path(), "many.txt", "x\n".repeat(9));
    assert_eq!(
        edit("many.txt", "x", "y").await.unwrap_err(),
        "Nothing was changed in many.txt: edit 1 has an old_string that is in the file 9 times (lines 1, 2, 3, 4, 5, …). Give more of its surroundings, or set replace_all."
    );
    // What an agent has seen is its process's: another start of it has to read again.
    let again = toolbox(dir.path());
    let edits = json!([{ "old_string": "1a", "new_string": "" }]);
    let input = json!({ "file_path": "dos.txt", "edits": edits });
    assert_eq!(
        call(&again, "Edit", input).await.unwrap_err(),
        "Read dos.txt first: you have not seen what it holds."
    );
}

#[tokio::test]
async fn the_class_says_where_a_path_really_leads() {
    let outside = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let tools = toolbox(&root);
    write(&root, "in/a.txt", "a");
    write(outside.path(), "secret", "s");
    symlink(outside.path(), root.join("out")).unwrap();
    symlink(root.join("in"), root.join("inner")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    fs::create_dir(root.join(".git")).unwrap();
    let read = |path: &str| class(&tools, "Read", &json!({ "file_path": path }));
    let edits = |path: &str| class(&tools, "Write", &json!({ "file_path": path, "content": "" }));

    assert_eq!(read("in/a.txt"), (ToolClass::Read, "Read in/a.txt".into()));
    assert_eq!(read("inner/../in/./a.txt"), (ToolClass::Read, "Read in/a.txt".into()));
    assert_eq!(read(root.join("in/a.txt").to_str().unwrap()).0, ToolClass::Read);
    for path in
        ["../x", "/etc/passwd", "out/secret", "in/../../x", "out/../x", "in/a.txt/../../../y"]
    {
        let (class, description) = read(path);
        assert_eq!(class, ToolClass::Execute, "{path}");
        assert!(description.ends_with(" (outside the workspace)"), "{description}");
        assert_eq!(edits(path).0, ToolClass::Execute, "{path}");
    }
    assert_eq!(edits("in/b.txt"), (ToolClass::Edit, "Write 0 bytes to in/b.txt".into()));
    assert_eq!(
        edits("in/../.git/hooks/pre-commit"),
        (
            ToolClass::Execute,
            "Write 0 bytes to .git/hooks/pre-commit (it decides what runs or what is allowed)"
                .into()
        )
    );
    for settings in [".aion/config.toml", ".claude/settings.json", ".mcp.json", ".GIT/config"] {
        assert_eq!(edits(settings).0, ToolClass::Execute, "{settings}");
    }
    assert_eq!(read(".git/config").0, ToolClass::Read);
    assert_eq!(
        class(&tools, "Glob", &json!({ "pattern": "*", "path": "out" })).0,
        ToolClass::Execute
    );
    assert_eq!(
        class(&tools, "Grep", &json!({ "pattern": "a", "path": ".." })).0,
        ToolClass::Execute
    );
    let error = tools.prepare("Read", &json!({ "file_path": "loop" })).unwrap_err();
    assert_eq!(error, "loop: too many symbolic links.");

    // What was judged inside does not run outside.
    let prepared = tools.prepare("Read", &json!({ "file_path": "in/a.txt" })).unwrap();
    fs::rename(root.join("in"), root.join("was")).unwrap();
    symlink(outside.path(), root.join("in")).unwrap();
    let output = tools.run(prepared, Surroundings::default()).await;
    assert_eq!(output.text, "in/a.txt leads somewhere else than when the call was judged.");
    assert!(!output.ok);
}

#[tokio::test]
async fn searches_leave_out_what_git_ignores() {
    let dir = tempfile::tempdir().unwrap();
    let tools = toolbox(dir.path());
    write(dir.path(), ".gitignore", "target\n");
    write(dir.path(), "target/a.rs", "fn hidden() {}");
    write(dir.path(), ".git/a.rs", "fn hidden() {}");
    write(dir.path(), "src/a.rs", "use x;\nfn alpha() {}\n// end\n");
    write(dir.path(), "src/b.rs", "fn Alpha() {}\nfn alpha2() {}\n");
    write(dir.path(), "src/deep/c.txt", "alpha");
    write(dir.path(), "bin", b"alpha\0alpha");
    let glob = async |input: Value| call(&tools, "Glob", input).await.unwrap();
    let grep = async |input: Value| call(&tools, "Grep", input).await.unwrap();

    assert_eq!(glob(json!({ "pattern": "**/*.rs" })).await, "src/a.rs\nsrc/b.rs");
    assert_eq!(glob(json!({ "pattern": "*.rs" })).await, "No file matches *.rs.");
    assert_eq!(glob(json!({ "pattern": "*.rs", "path": "src" })).await, "a.rs\nb.rs");
    assert_eq!(
        grep(json!({ "pattern": "alpha", "context": 1 })).await,
        "src/a.rs-1-use x;\nsrc/a.rs:2:fn alpha() {}\nsrc/a.rs-3-// end\n\
         src/b.rs-1-fn Alpha() {}\nsrc/b.rs:2:fn alpha2() {}\nsrc/deep/c.txt:1:alpha\n"
    );
    assert_eq!(
        grep(
            json!({ "pattern": "alpha", "ignore_case": true, "glob": "**/*.rs", "output": "count" })
        )
        .await,
        "src/a.rs:1\nsrc/b.rs:2\n"
    );
    assert_eq!(
        grep(json!({ "pattern": "^fn", "output": "files", "limit": 1 })).await,
        "src/a.rs\n(there is more; narrow the search or raise the limit)"
    );
    // What is given as null is not given.
    assert_eq!(
        grep(json!({
            "pattern": "omega",
            "path": null,
            "glob": null,
            "output": null,
            "ignore_case": null,
            "context": null,
            "limit": null,
        }))
        .await,
        "Nothing matches \"omega\"."
    );
    let named = |n: usize| format!("many/{}{n:03}", "x".repeat(200));
    (0..400).for_each(|n| write(dir.path(), &named(n), ""));
    let many = glob(json!({ "pattern": "many/*" })).await;
    assert!(many.len() < 66 * 1024 && many.ends_with("; there are more)"), "{}", many.len());
    assert_eq!(
        grep(json!({ "pattern": "alpha", "path": "src/deep/c.txt" })).await,
        "c.txt:1:alpha\n"
    );
    assert_eq!(grep(json!({ "pattern": "omega" })).await, "Nothing matches \"omega\".");
    let error = call(&tools, "Grep", json!({ "pattern": "(" })).await.unwrap_err();
    assert!(error.starts_with("Grep: the pattern is not valid"), "{error}");
}

#[tokio::test]
async fn commands_run_in_the_workspace_and_see_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let variables = [("PATH", std::env::var("PATH").unwrap()), ("API_KEY", "secret".to_owned())];
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    let config = ToolConfig::new(leash(None), Arc::new(Sandbox::off()), variables);
    let tools = Toolbox::new(root.clone(), std::sync::Arc::new(config));
    let bash = async |command: &str| call(&tools, "Bash", json!({ "command": command })).await;

    assert_eq!(bash("pwd").await.unwrap(), format!("{}\n", root.display()));
    assert_eq!(bash("echo [$API_KEY]").await.unwrap(), "[]\n");
    assert_eq!(bash("true").await.unwrap(), "(no output)");
    assert_eq!(
        bash("echo out; echo err >&2; exit 3").await.unwrap_err(),
        "Exit code 3\nout\nerr\n"
    );
    assert_eq!(bash("kill -9 $$").await.unwrap_err(), "Exit code 137\n");
    assert_eq!(bash("cat").await.unwrap(), "(no output)");
    let long = bash("head -c 100000 /dev/zero | tr '\\0' x; echo end").await.unwrap();
    assert!(
        long.len() < 31_000 && long.contains("[... 70004 bytes left out ...]"),
        "{}",
        long.len()
    );
    assert!(long.starts_with("xxx") && long.ends_with("xend\n"));
    assert_eq!(
        class(&tools, "Bash", &json!({ "command": "make a\n  echo b" })),
        (ToolClass::Execute, "Run make a ⏎ echo b".into())
    );
    // What only looks inside the workspace is a way of reading.
    let looks = |command: &str| class(&tools, "Bash", &json!({ "command": command })).0;
    assert_eq!(looks("echo a; ls ."), ToolClass::Read);
    assert_eq!(looks("cat /etc/passwd"), ToolClass::Execute);
    // What is not shown is not left unsaid.
    let padded = format!("ls {}; rm -r src", "x".repeat(300));
    let (_, description) = class(&tools, "Bash", &json!({ "command": padded }));
    assert!(description.ends_with(" bytes more)"), "{description}");
    let long = json!({ "command": "x".repeat(16 * 1024) });
    let error = tools.prepare("Bash", &long).unwrap_err();
    assert!(
        error.starts_with("Bash: the command takes 16398 bytes; over 16384 it cannot be shown")
    );
    for (input, error) in [
        (json!({ "command": " " }), "Bash: the command is empty."),
        (json!({ "command": "a\0" }), "Bash: a command cannot hold a NUL character."),
        (
            json!({ "command": "a", "timeout_seconds": 601 }),
            "Bash: timeout_seconds has to be from 1 to 600.",
        ),
    ] {
        assert_eq!(tools.prepare("Bash", &input).unwrap_err(), error);
    }
}

#[tokio::test]
async fn a_command_over_its_time_is_killed_with_all_it_began() {
    let dir = tempfile::tempdir().unwrap();
    let tools = toolbox(dir.path());
    // The command's grandchild holds a pipe: it ends when the grandchild is dead.
    let command = "echo begun; (setsid sleep 1000 &) ; sleep 1000";
    let input = json!({ "command": command, "timeout_seconds": 1 });
    let error = call(&tools, "Bash", input).await.unwrap_err();
    assert_eq!(error, "The command did not end within 1 seconds and was killed.\nbegun\n");
}

#[test]
fn every_schema_is_strict_and_every_tool_is_known() {
    let tools = toolbox(Path::new("/"));
    for spec in tools.specs() {
        assert!(tools.has(&spec.name));
        let schema = &spec.input_schema;
        assert_eq!(schema["additionalProperties"], json!(false), "{}", spec.name);
        for name in schema["required"].as_array().unwrap() {
            assert!(schema["properties"][name.as_str().unwrap()].is_object(), "{}", spec.name);
        }
    }
    assert!(!tools.has("SendMessage"));
}

#[tokio::test]
async fn a_command_that_nobody_waits_for_any_more_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let tools = toolbox(dir.path());
    let fifo = dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let input = json!({ "command": "exec >fifo; echo begun; (setsid sleep 1000 &); sleep 1000" });
    let prepared = tools.prepare("Bash", &input).unwrap();
    let running = tokio::spawn(tools.run(prepared, Surroundings::default()));
    // The stream ends when the last process that has the other end is dead.
    let stream = tokio::task::spawn_blocking(move || {
        let mut stream = BufReader::new(fs::File::open(fifo).unwrap());
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        (stream, line)
    });
    let (mut stream, line) = stream.await.unwrap();
    assert_eq!(line, "begun\n");
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    let mut rest = String::new();
    tokio::task::spawn_blocking(move || stream.read_to_string(&mut rest).unwrap()).await.unwrap();
}
