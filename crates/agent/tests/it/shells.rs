//! Commands that chance writes: whatever they are, they are read to an end, and rules are not passed.

use std::path::Path;

use aion_agent::permission::{Script, Subject};
use aion_core::rule::RuleWord;
use proptest::prelude::*;

use crate::rules::{book, class, command};

#[test]
fn the_same_in_other_words_is_known_for_the_same() {
    let root = Path::new("/nowhere");
    let kin = |text: &str| command(root, text).kin("/w");
    let one = kin("rm -rf x");
    assert_eq!(one.len(), 1);
    for same in [
        "rm  -rf   x",
        "'rm' -rf \"x\"",
        "r\\m -rf x",
        "# note\nrm -rf x",
        "(rm -rf x)",
        "env A=1 rm -rf x",
        "bash -c 'rm -rf x'",
    ] {
        assert_eq!(kin(same), one, "{same}");
    }
    for with_more in ["make; rm -rf x", "echo $(rm -rf x)", "if make; then rm -rf x; fi"] {
        assert!(kin(with_more).contains(&one[0]), "{with_more}");
    }
    for other in ["rm -rf y", "rm x -rf", "make"] {
        assert!(!kin(other).contains(&one[0]), "{other}");
    }
    assert_eq!(kin("ls; cat x"), []);
    assert_ne!(command(root, "rm -rf x").kin("/other"), one);
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "cargo test",
        "rm x",
        " ",
        "\n",
        ";",
        "&&",
        "||",
        "|",
        "&",
        "(",
        ")",
        "{ ",
        "; }",
        "$(",
        "`",
        "\"",
        "'",
        "\\",
        "<(",
        ">",
        "<",
        "<<E\n",
        "E\n",
        "$X",
        "${",
        "}",
        "if ",
        "then ",
        "fi",
        "do ",
        "done",
        "for x in ",
        "case ",
        "esac",
        "[[ ",
        " ]]",
        "((",
        "))",
        "#",
        "eval ",
        "env ",
        "xargs ",
        "timeout 1 ",
        "bash -c ",
        "find . -exec ",
        "\\;",
        "=",
        "*",
        "~",
        "!",
        "\r",
        "\u{200b}",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    /// Whatever a text is, it is read to an end.
    #[test]
    fn no_text_fails_to_be_read(text in ".{0,200}") {
        let script = Script::read(&text);
        prop_assert!(script.parts.len() <= 50);
    }

    /// What is allowed holds no command that no rule fits.
    #[test]
    fn an_allowed_command_holds_nothing_else(text in pieces()) {
        let root = Path::new("/nowhere");
        let allowed = book(root, &["allow Bash(cargo test:*)"]);
        let subject = command(root, &text);
        let found = allowed.judge("Bash", &subject, class(&subject));
        if found.is_some() {
            let Subject::Command { script, looks } = &subject else { unreachable!() };
            prop_assert!(script.is_known(), "{text:?}");
            for (part, looks) in script.parts.iter().zip(looks) {
                let fits = part.words.first().and_then(|w| w.plain()) == Some("cargo")
                    && part.words.get(1).and_then(|w| w.plain()) == Some("test");
                prop_assert!(*looks || fits || part.only_runs || part.words.is_empty(), "{text:?}: {part:?}");
            }
            // Said independently of the grammar: what removes files is nowhere in it but as a word of
            // the allowed command.
            let bare: String = text.replace("\\\n", "").chars().filter(|c| !"'\"\\".contains(*c)).collect();
            let begins = bare.split(['\n', ';', '|', '&', '(', '{', '`']).any(|part| {
                part.trim_start().starts_with("rm x")
            });
            let quoted = text.contains(['\'', '"', '\\', '#']) || text.contains("<<");
            prop_assert!(!begins || quoted, "{text:?}");
        }
    }

    /// A rule that denies meets every command that the grammar finds, or what holds it is not allowed.
    #[test]
    fn a_denied_command_is_never_let_through(before in pieces(), after in pieces()) {
        let root = Path::new("/nowhere");
        let text = format!("{before}\nrm x\n{after}");
        let denied = book(root, &["allow Bash", "deny Bash(rm:*)"]);
        let subject = command(root, &text);
        let found = denied.judge("Bash", &subject, class(&subject));
        let hidden = before.contains(['\'', '"', '\\', '`', '#']) || before.contains("<<") || before.contains("${");
        let allowed = found.is_none_or(|finding| finding.says == RuleWord::Allow);
        prop_assert!(!allowed || hidden, "{text:?}");
    }
}
