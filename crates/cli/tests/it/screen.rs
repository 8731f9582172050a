//! What a person sees on a terminal, read off a screen that obeys the program's own sequences.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use nix::pty::{Winsize, openpty};

use crate::binary::{Home, in_both_ways};
use crate::run::ASKS;

const COLUMNS: u16 = 100;
const ROWS: u16 = 30;

/// A program on a terminal.
struct OnTerminal {
    child: Child,
    master: File,
    screen: Screen,
}

impl OnTerminal {
    fn start(mut command: Command) -> Self {
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        drop(command);
        Self { child, master: File::from(pty.master), screen: Screen::default() }
    }

    /// Reads until the screen shows a text.
    #[track_caller]
    fn until(&mut self, text: &str) {
        while !self.screen.text().contains(text) {
            assert!(self.read(), "it ended before it showed {text:?}:\n{}", self.screen.text());
        }
    }

    /// Reads a piece; false at the end.
    fn read(&mut self) -> bool {
        let mut piece = [0; 4096];
        // On Linux the end of a terminal is an error.
        match self.master.read(&mut piece) {
            Ok(0) | Err(_) => false,
            Ok(n) => {
                self.screen.write(&piece[..n]);
                true
            }
        }
    }

    fn type_line(&mut self, line: &str) {
        self.master.write_all(line.as_bytes()).unwrap();
        self.master.write_all(b"\n").unwrap();
    }

    /// Reads to the end; the exit code and what stands on the screen then.
    fn end(mut self) -> (Option<i32>, Vec<String>) {
        while self.read() {}
        (self.child.wait().unwrap().code(), self.screen.lines)
    }
}

/// As much of a terminal as the program uses. It does not scroll: lines may be as many as come.
#[derive(Default)]
struct Screen {
    lines: Vec<String>,
    row: usize,
    column: usize,
    saved: (usize, usize),
    /// Bytes of a character or sequence that has not come to its end.
    rest: Vec<u8>,
}

impl Screen {
    fn write(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let valid = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = String::from_utf8(self.rest[..valid].to_vec()).unwrap();
        let left = self.obey(&text);
        self.rest.drain(..valid - left);
    }

    /// Obeys a text; answers how many bytes at its end wait for more.
    fn obey(&mut self, text: &str) -> usize {
        let mut chars = text.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\r' => self.column = 0,
                '\n' => {
                    self.row += 1;
                    self.column = 0;
                }
                '\u{1b}' => match chars.next() {
                    None => return text.len() - at,
                    Some((_, '7')) => self.saved = (self.row, self.column),
                    Some((_, '8')) => (self.row, self.column) = self.saved,
                    Some((_, '[')) => {
                        let mut parameters = String::new();
                        let last = loop {
                            match chars.next() {
                                None => return text.len() - at,
                                Some((_, c)) if c.is_ascii_alphabetic() => break c,
                                Some((_, c)) => parameters.push(c),
                            }
                        };
                        self.control(last, &parameters);
                    }
                    Some((_, other)) => panic!("an unknown sequence: {other:?}"),
                },
                c => self.put(c),
            }
        }
        0
    }

    fn control(&mut self, last: char, parameters: &str) {
        let n = parameters.parse().unwrap_or(1);
        match last {
            'A' => self.row = self.row.checked_sub(n).unwrap(),
            'B' => self.row += n,
            'K' => self.cut_line(),
            'J' => {
                self.cut_line();
                self.lines.truncate(self.row + 1);
            }
            'm' => {}
            other => panic!("an unknown sequence: {parameters}{other}"),
        }
    }

    fn cut_line(&mut self) {
        let column = self.column;
        let kept = self.line().chars().take(column).collect();
        *self.line() = kept;
    }

    fn line(&mut self) -> &mut String {
        while self.lines.len() <= self.row {
            self.lines.push(String::new());
        }
        // Lines are kept by character, one column each: tests use no wide ones.
        &mut self.lines[self.row]
    }

    fn put(&mut self, c: char) {
        let column = self.column;
        assert!(
            column < usize::from(COLUMNS),
            "a line is wider than the terminal: {:?}",
            self.line()
        );
        let mut chars: Vec<char> = self.line().chars().collect();
        while chars.len() <= column {
            chars.push(' ');
        }
        chars[column] = c;
        *self.line() = chars.into_iter().collect();
        self.column += 1;
    }

    fn text(&self) -> String {
        self.lines.join("\n")
    }
}

#[test]
fn a_tree_is_drawn_in_place_and_asks_below_itself() {
    in_both_ways(|| {
        let home = Home::new();
        let script = home.scenario(ASKS);
        let script = script.to_str().unwrap();
        let mut on = OnTerminal::start(home.command(["run", "Write hello", "--script", script]));
        on.until("n no · or type why not\n> ");
        let shown = on.screen.text();
        assert!(shown.contains("▲ Team Lead  needs you: Write 6 bytes to hello.txt"), "{shown}");
        assert!(shown.contains("0/1   1 waiting for an answer"), "{shown}");
        on.type_line("y");
        let (code, lines) = on.end();
        let shown = lines.join("\n");
        assert_eq!(code, Some(0), "{shown}");
        let titles = lines.iter().filter(|line| line.starts_with("write-hello  ·")).count();
        assert_eq!(titles, 1, "{shown}");
        assert!(lines.iter().any(|line| line.starts_with(" ○ Team Lead  no task")), "{shown}");
        assert!(lines.iter().any(|line| line.starts_with(" tasks ████████████ 1/1")), "{shown}");
        assert!(!shown.contains("type why not"), "{shown}");
        assert!(shown.contains("completed  ·  1 of 1 task(s) completed"), "{shown}");
    });
}

#[test]
fn the_demo_asks_a_person_and_tells_above_the_question() {
    in_both_ways(|| {
        let home = Home::new();
        let mut on = OnTerminal::start(home.command(["demo"]));
        on.until("Write 217 bytes to TEAM.md");
        on.until("\n  > ");
        on.type_line("t");
        on.until("▲ designer asks (permission):");
        // The builder's crash comes while the person thinks: it is told above the question.
        on.until("is started again (start 2)");
        // The question is drawn again below it, which may come as a piece of its own.
        on.until("▲ designer asks (permission):");
        let shown = on.screen.text();
        let question = shown.find("▲ designer asks (permission):").unwrap();
        assert!(shown.find("is started again (start 2)").unwrap() < question, "{shown}");
        on.type_line("y");
        on.until("▲ builder asks (permission):");
        on.type_line("y");
        let (code, lines) = on.end();
        let shown = lines.join("\n");
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains("✓ sh test.sh: OK: 33 checks passed"), "{shown}");
        assert!(shown.contains(" 0 lost"), "{shown}");
    });
}

#[test]
fn a_no_ends_the_demo_calmly_and_keeps_it() {
    in_both_ways(|| {
        let home = Home::new();
        let dir = home.path("demo");
        let mut on = OnTerminal::start(home.command(["demo", "--dir", dir.to_str().unwrap()]));
        on.until("\n  > ");
        on.type_line("n");
        let (code, lines) = on.end();
        let shown = lines.join("\n");
        assert_eq!(code, Some(1), "{shown}");
        assert!(shown.contains("You said no, and I know no other way."), "{shown}");
        assert!(
            shown.contains("✗ the team did not complete its tasks: nobody could go on"),
            "{shown}"
        );
        assert!(!dir.join("site/TEAM.md").exists());
        assert!(dir.join("data").exists());
    });
}

#[test]
fn no_color_means_no_colour() {
    in_both_ways(|| {
        let home = Home::new();
        let script = home.scenario(ASKS);
        let script = script.to_str().unwrap();
        let run = |colour: &str| {
            let mut command = home.command(["team", "ls"]);
            command.env("NO_COLOR", colour);
            command
        };
        home.aion(["run", "Write hello", "--script", script, "--yes"]).code(0);
        let raw = |command: Command| {
            let mut on = OnTerminal::start(command);
            let mut all = Vec::new();
            let mut piece = [0; 4096];
            while let Ok(n) = on.master.read(&mut piece)
                && n > 0
            {
                all.extend_from_slice(&piece[..n]);
            }
            on.child.wait().unwrap();
            String::from_utf8(all).unwrap()
        };
        let mut show = home.command(["team", "show"]);
        show.env("NO_COLOR", "1");
        assert!(!raw(show).contains('\u{1b}'));
        assert!(raw(home.command(["team", "show"])).contains("\u{1b}[1m"));
        assert!(!raw(run("1")).contains('\u{1b}'));
    });
}

#[test]
fn only_what_was_agreed_to_is_undone_and_nobody_works_meanwhile() {
    let home = Home::with_repository();
    let script = home.scenario(ASKS);
    let script = script.to_str().unwrap();
    home.aion(["run", "Write hello", "--script", script, "--yes"]).code(0);
    let mut on = OnTerminal::start(home.command(["team", "undo", "write-hello"]));
    on.until("as they were? [y/N] ");
    let ran = home.aion(["run", "--resume", "write-hello", "--json"]).code(7);
    assert_eq!(ran.error_code(), "data_dir.locked");
    std::fs::write(home.work().join("late.txt"), "late\n").unwrap();
    on.type_line("y");
    let (code, lines) = on.end();
    assert_eq!(code, Some(8), "{lines:?}");
    assert!(home.work().join("late.txt").exists());
    assert!(home.work().join("hello.txt").exists());
}
