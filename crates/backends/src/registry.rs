//! Which backend an agent gets: one pure function over what is known; it looks at nothing itself.
//!
//! The rule, the first that fits: without a person at a terminal agents run in this process, and a
//! setting that asks for a pane is then an error; a setting; an earlier fallback of the team stays;
//! a pane of the terminal that the person sits at; this process. Only the backends that this build
//! has are chosen, so a setting that names another one is an error that names them.

use std::fmt;

use super::BackendKind;

/// What the choice rests on. The client sends it, since the daemon's own surroundings mean nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Whether a person sits at a terminal.
    pub tty: bool,
    /// The value of `TMUX`, inside a session of tmux.
    pub tmux: Option<String>,
    /// The value of `ITERM_SESSION_ID`, inside iTerm2.
    pub iterm_session: Option<String>,
    /// Whether nobody watches, by the person's own word.
    pub headless: bool,
    /// The backend that the settings name; `auto` is the same as none.
    pub setting: Option<String>,
    /// Why this team fell back to agents in this process before, if it did.
    pub earlier_fallback: Option<String>,
}

/// A backend, and why it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendChoice {
    /// The backend.
    pub kind: BackendKind,
    /// The reason, for the person.
    pub reason: String,
}

/// The setting names a backend that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use the backend {setting:?}: {why}; available: {available}")]
pub struct NoBackend {
    /// The setting.
    pub setting: String,
    /// Why not.
    pub why: String,
    /// What could be set instead.
    pub available: String,
}

/// The backends of this build that a setting can name. Agents that speak ACP have theirs by what they
/// are.
const AVAILABLE: [BackendKind; 1] = [BackendKind::InProcess];

/// Chooses.
pub fn choose(environment: &Environment) -> Result<BackendChoice, NoBackend> {
    let in_process = |reason: String| Ok(BackendChoice { kind: BackendKind::InProcess, reason });
    let setting = environment.setting.as_deref().filter(|setting| *setting != "auto");
    if let Some(setting) = setting {
        return match BackendKind::named(setting) {
            Some(kind) => Ok(BackendChoice { kind, reason: "the settings name it".to_owned() }),
            None => Err(no_backend(setting, environment)),
        };
    }
    if environment.headless || !environment.tty {
        return in_process("nobody sits at a terminal".to_owned());
    }
    if let Some(why) = &environment.earlier_fallback {
        return in_process(format!("this team fell back to it before: {why}"));
    }
    let terminal = match (&environment.tmux, &environment.iterm_session) {
        (Some(_), _) => "panes of tmux are not part of this build",
        (None, Some(_)) => "panes of iTerm2 are not part of this build",
        (None, None) => "the terminal has no panes",
    };
    in_process(terminal.to_owned())
}

fn no_backend(setting: &str, environment: &Environment) -> NoBackend {
    let why = if environment.headless || !environment.tty {
        "nobody sits at a terminal, and it is no backend of this build"
    } else {
        "it is no backend of this build"
    };
    let available: Vec<&str> = AVAILABLE.iter().map(|kind| kind.as_str()).chain(["auto"]).collect();
    NoBackend { setting: setting.to_owned(), why: why.to_owned(), available: available.join(", ") }
}

impl BackendKind {
    /// The word for settings and lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProcess => "in-process",
            Self::Acp => "acp",
        }
    }

    fn named(word: &str) -> Option<Self> {
        AVAILABLE.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal() -> Environment {
        Environment { tty: true, ..Environment::default() }
    }

    fn check(environment: &Environment, reason: &str) {
        let choice = choose(environment).unwrap();
        let expected = BackendChoice { kind: BackendKind::InProcess, reason: reason.to_owned() };
        assert_eq!(choice, expected);
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let tmux = Environment { tmux: Some("/tmp/tmux,1,0".into()), ..terminal() };
        let iterm = Environment { iterm_session: Some("w0t0p0".into()), ..terminal() };
        check(&Environment::default(), "nobody sits at a terminal");
        check(&Environment { headless: true, ..tmux.clone() }, "nobody sits at a terminal");
        check(
            &Environment { setting: Some("in-process".into()), ..tmux.clone() },
            "the settings name it",
        );
        check(
            &Environment { setting: Some("auto".into()), ..terminal() },
            "the terminal has no panes",
        );
        check(
            &Environment { earlier_fallback: Some("the pane closed".into()), ..tmux.clone() },
            "this team fell back to it before: the pane closed",
        );
        check(&tmux, "panes of tmux are not part of this build");
        check(&iterm, "panes of iTerm2 are not part of this build");
        check(&terminal(), "the terminal has no panes");
    }

    #[test]
    fn a_setting_that_cannot_be_had_names_those_that_can() {
        let setting = Some("tmux".to_owned());
        let error = choose(&Environment { setting: setting.clone(), ..terminal() }).unwrap_err();
        assert_eq!(
            error.to_string(),
            "use the backend \"tmux\": it is no backend of this build; available: in-process, auto"
        );
        let error = choose(&Environment { setting, ..Environment::default() }).unwrap_err();
        assert_eq!(
            error.to_string(),
            "use the backend \"tmux\": nobody sits at a terminal, and it is no backend of this \
             build; available: in-process, auto"
        );
    }
}
