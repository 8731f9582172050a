//! The settings that there are: what each means, what it may be, and who may set it.

use std::time::Duration;

use crate::args::duration;

/// One setting.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name: a table and a field.
    pub(crate) name: &'static str,
    /// What it may be.
    pub(crate) kind: Kind,
    /// What it is where nobody set it.
    pub(crate) built_in: Option<&'static str>,
    /// Whether the files of a project may set it.
    pub(crate) in_projects: bool,
    /// The variable that sets it.
    pub(crate) variable: Option<&'static str>,
    /// What it means.
    pub(crate) about: &'static str,
}

/// What a setting may be.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A time such as 90s, 30m or 2h.
    Time,
    /// The same, or `never`.
    TimeOrNever,
    /// A port.
    Port,
    /// One of some words.
    OneOf(&'static [&'static str]),
    /// A list of texts; in a variable and on the command line, with commas between them.
    List,
    /// A name without blanks.
    Name,
    /// Where a service is called.
    Url,
    /// Where a secret stands: `env:NAME`; never the secret.
    Reference,
}

/// The settings of one service: its key, its place and its model.
macro_rules! provider {
    ($name:literal) => {
        [
            Key {
                name: concat!("providers.", $name, ".base_url"),
                kind: Kind::Url,
                built_in: None,
                in_projects: false,
                variable: None,
                about: "Where the service is called, if not at its usual place.",
            },
            Key {
                name: concat!("providers.", $name, ".key"),
                kind: Kind::Reference,
                built_in: None,
                in_projects: false,
                variable: None,
                about: "The variable that holds the key, as env:NAME; never the key itself.",
            },
            Key {
                name: concat!("providers.", $name, ".model"),
                kind: Kind::Name,
                built_in: None,
                in_projects: false,
                variable: None,
                about: "The model where none is asked for.",
            },
        ]
    };
}

/// The settings of the models' services.
const PROVIDERS: [[Key; 3]; 6] = [
    provider!("anthropic"),
    provider!("compatible"),
    provider!("gemini"),
    provider!("ollama"),
    provider!("openai-responses"),
    provider!("openai"),
];

/// All settings, by name.
pub(crate) fn keys() -> impl Iterator<Item = &'static Key> {
    let at = KEYS.partition_point(|key| key.name < "providers");
    KEYS[..at].iter().chain(PROVIDERS.iter().flatten()).chain(&KEYS[at..])
}

/// Those of no service.
const KEYS: &[Key] = &[
    Key {
        name: "daemon.agents",
        kind: Kind::OneOf(&["fetch", "installed", "none"]),
        built_in: Some("fetch"),
        in_projects: false,
        variable: Some("AION_AGENTS"),
        about: "Which agents that are programs there are: also those whose package npx or uvx \
                fetches at their first start, those that are installed, or none.",
    },
    Key {
        name: "daemon.idle_exit",
        kind: Kind::TimeOrNever,
        built_in: Some("10m"),
        in_projects: false,
        variable: Some("AION_IDLE_EXIT"),
        about: "How long a daemon that a command started stays without work.",
    },
    Key {
        name: "daemon.port",
        kind: Kind::Port,
        built_in: Some("7717"),
        in_projects: false,
        variable: Some("AION_PORT"),
        about: "The port that a daemon listens on; one that a command started takes another where \
                it is in use.",
    },
    Key {
        name: "network.allow",
        kind: Kind::List,
        built_in: None,
        in_projects: false,
        variable: Some("AION_NETWORK_ALLOW"),
        about: "Hosts that commands reach without asking: example.org, *.example.org, example.org:22.",
    },
    Key {
        name: "network.deny",
        kind: Kind::List,
        built_in: None,
        in_projects: false,
        variable: Some("AION_NETWORK_DENY"),
        about: "Hosts that no command reaches, and none asks for.",
    },
    Key {
        name: "network.private",
        kind: Kind::List,
        built_in: None,
        in_projects: false,
        variable: Some("AION_NETWORK_PRIVATE"),
        about: "Hosts that may lie in your own network; they are asked for like others.",
    },
    Key {
        name: "run.agent",
        kind: Kind::Name,
        built_in: None,
        in_projects: false,
        variable: Some("AION_AGENT"),
        about: "The agent that leads a run, unless --agent or --provider says otherwise.",
    },
    Key {
        name: "run.max_time",
        kind: Kind::Time,
        built_in: None,
        in_projects: true,
        variable: Some("AION_MAX_TIME"),
        about: "After this time a run stops its team; without it 60m where there is no terminal.",
    },
    Key {
        name: "run.model",
        kind: Kind::Name,
        built_in: None,
        in_projects: false,
        variable: Some("AION_MODEL"),
        about: "The model that a run's lead thinks with, unless --model says otherwise.",
    },
    Key {
        name: "run.on_approval",
        kind: Kind::OneOf(&["wait", "deny", "fail"]),
        built_in: None,
        in_projects: true,
        variable: Some("AION_ON_APPROVAL"),
        about: "What becomes of requests that only a person can decide, in a run.",
    },
    Key {
        name: "run.progress",
        kind: Kind::OneOf(&["auto", "tree", "plain", "json", "none"]),
        built_in: Some("auto"),
        in_projects: true,
        variable: Some("AION_PROGRESS"),
        about: "How a run shows what happens.",
    },
    Key {
        name: "run.provider",
        kind: Kind::OneOf(&[
            "anthropic",
            "openai",
            "openai-responses",
            "gemini",
            "ollama",
            "compatible",
        ]),
        built_in: None,
        in_projects: false,
        variable: Some("AION_PROVIDER"),
        about: "The service that a run's lead thinks with, unless --provider says otherwise.",
    },
    Key {
        name: "sandbox.local_sockets",
        kind: Kind::OneOf(&["closed", "open"]),
        built_in: Some("closed"),
        in_projects: false,
        variable: Some("AION_SANDBOX_LOCAL_SOCKETS"),
        about: "Whether commands may use sockets in the file system, and so reach your programs that \
                listen on one.",
    },
    Key {
        name: "sandbox.mode",
        kind: Kind::OneOf(&["required", "ask", "off"]),
        built_in: Some("required"),
        in_projects: false,
        variable: Some("AION_SANDBOX"),
        about: "What becomes of commands where no sandbox works: none runs, or each is asked for; or \
                there is no sandbox at all.",
    },
    Key {
        name: "sandbox.writable",
        kind: Kind::List,
        built_in: None,
        in_projects: false,
        variable: Some("AION_SANDBOX_WRITABLE"),
        about: "Directories beside the workspace that commands may write to, such as ~/.cargo.",
    },
];

/// The setting of a name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    keys().find(|key| key.name == name)
}

/// The setting whose name is nearest to a word that is none.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    keys()
        .map(|key| (distance(key.name, name), key.name))
        .min()
        .filter(|(distance, _)| *distance <= 4)
        .map(|(_, name)| name)
}

impl Key {
    /// Whether a text is a value of it; otherwise what is.
    pub(crate) fn check(&self, text: &str) -> Result<(), String> {
        match &self.kind {
            Kind::TimeOrNever if text == "never" => Ok(()),
            Kind::Time => duration(text).map(|_| ()),
            Kind::TimeOrNever => {
                duration(text).map(|_| ()).map_err(|why| format!("{why}, or never"))
            }
            Kind::Port => match text.parse::<u16>() {
                Ok(_) => Ok(()),
                Err(_) => Err(format!("{text:?} is no port; it is a number from 0 to 65535")),
            },
            Kind::OneOf(words) if words.contains(&text) => Ok(()),
            Kind::OneOf(words) => Err(format!("{text:?} is none of {}", words.join(", "))),
            Kind::List if Self::list(text).is_some() => Ok(()),
            Kind::List => Err(format!("{text:?} is no list of texts")),
            Kind::Name if is_name(text) => Ok(()),
            Kind::Name => Err(format!("{text:?} is no name; it has no blanks")),
            Kind::Url => place(text).map(|_| ()),
            // What stands there may be the secret itself: it is not repeated.
            Kind::Reference if reference(text).is_some() => Ok(()),
            Kind::Reference => {
                Err("it has to be env:NAME, the name of a variable; a key itself is \
                                    kept by aion auth login"
                    .to_owned())
            }
        }
    }

    /// A value as a list.
    pub(crate) fn list(text: &str) -> Option<Vec<String>> {
        let parts = |text: &str| {
            let parts = text.split(',').map(|part| part.trim().to_owned());
            parts.filter(|part| !part.is_empty()).collect()
        };
        if !text.trim_start().starts_with('[') {
            return Some(parts(text));
        }
        let table: toml::Table = format!("list = {text}").parse().ok()?;
        table["list"].as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
    }

    /// A value that was checked, as a time; none for `never`.
    pub(crate) fn time(text: &str) -> Option<Duration> {
        duration(text).ok()
    }
}

/// The variable that a reference names.
pub(crate) fn reference(text: &str) -> Option<&str> {
    let name = text.strip_prefix("env:")?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(fits) && !name.starts_with(|c: char| c.is_ascii_digit()))
        .then_some(name)
}

/// An address of a service, as it is called: without a slash at its end.
pub(crate) fn place(text: &str) -> Result<String, String> {
    let bad = || "it has to begin with http:// or https://, and has no login, ? or #".to_owned();
    let url = reqwest::Url::parse(text).map_err(|_| bad())?;
    let usable = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if usable { Ok(text.trim_end_matches('/').to_owned()) } else { Err(bad()) }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 200 && text.chars().all(|c| c.is_ascii_graphic())
}

/// How many letters one word is away from another (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, c) in one.chars().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (place, d) in other.iter().enumerate() {
            let change = before + usize::from(c != *d);
            before = row[place + 1];
            row[place + 1] = change.min(before + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_values_are_values() {
        for key in keys() {
            if let Some(text) = key.built_in {
                assert_eq!(key.check(text), Ok(()), "{}", key.name);
            }
        }
    }

    #[test]
    fn names_are_in_order_and_each_is_there_once() {
        let names: Vec<&str> = keys().map(|key| key.name).collect();
        assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
    }

    #[test]
    fn a_secret_in_the_place_of_a_reference_is_not_repeated() {
        let key = find("providers.openai.key").unwrap();
        assert!(!key.check("canary-1234").unwrap_err().contains("canary"));
    }

    #[test]
    fn a_word_that_is_none_has_a_neighbour() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(nearest("run.on_aproval"), Some("run.on_approval"));
        assert_eq!(nearest("daemon.ports"), Some("daemon.port"));
        assert_eq!(nearest("something.else.entirely"), None);
    }

    #[test]
    fn values_are_checked() {
        let check = |name: &str, text: &str, expect: bool| {
            assert_eq!(find(name).unwrap().check(text).is_ok(), expect, "{name} {text}");
        };
        check("daemon.port", "0", true);
        check("daemon.port", "65536", false);
        check("daemon.idle_exit", "never", true);
        check("run.max_time", "never", false);
        check("run.max_time", "30m", true);
        check("run.on_approval", "yes", false);
        check("network.allow", "a.org, b.org", true);
        check("network.allow", "[1]", false);
        check("providers.openai.base_url", "http://127.0.0.1:8000/v1", true);
        for bad in
            ["127.0.0.1:8000", "ftp://a", "http://ada:pw@a", "https://a?key=1", "https://a#b"]
        {
            check("providers.openai.base_url", bad, false);
        }
        check("providers.gemini.key", "env:GEMINI_API_KEY", true);
        for bad in ["env:", "env:1A", "env:A B", "AIza", "env:A=B"] {
            check("providers.gemini.key", bad, false);
        }
        check("providers.ollama.model", "qwen3:8b", true);
        check("run.model", "two words", false);
        let two = Some(vec!["a.org".to_owned(), "b.org".to_owned()]);
        assert_eq!(
            (Key::list("a.org, b.org"), Key::list("[\"a.org\", \"b.org\"]")),
            (two.clone(), two)
        );
        assert_eq!(Key::list(""), Some(Vec::new()));
    }
}
