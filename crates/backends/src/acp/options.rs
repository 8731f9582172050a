//! What can be set in a session: its mode and its model, by whichever of the protocol's ways the
//! agent offers; it sets nothing itself.

use serde_json::{Value, json};

/// The most values of one option that are kept.
const VALUES: usize = 512;
/// How many values an error names.
const NAMED: usize = 20;

/// One option of a session, with a list of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigOption {
    id: String,
    category: Option<String>,
    current: Option<String>,
    values: Vec<String>,
}

/// What can be set, and what is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    modes: Option<Choice>,
    models: Option<Choice>,
    config: Vec<ConfigOption>,
}

/// A list with one value that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice {
    current: Option<String>,
    values: Vec<String>,
}

/// What is to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Mode,
    Model,
}

/// How something comes to be set.
#[derive(Debug, PartialEq)]
pub(super) enum Way {
    /// It is set already.
    IsSet,
    /// By this request, to whose parameters the session's id belongs.
    Request {
        /// The method.
        method: &'static str,
        /// Its parameters.
        params: Value,
    },
    /// Not at all, and what could be set instead.
    None {
        /// The values.
        offered: Vec<String>,
    },
}

impl Setting {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Model => "model",
        }
    }
}

impl ConfigOption {
    /// The options with a list of values among what an agent tells.
    pub(super) fn all(told: &Value) -> Vec<Self> {
        let options = told.as_array().map(Vec::as_slice).unwrap_or_default();
        options.iter().filter_map(Self::read).collect()
    }

    fn read(told: &Value) -> Option<Self> {
        let text = |field: &str| told[field].as_str().map(str::to_owned);
        // Values stand in a list, or in groups of lists.
        let listed = told["options"].as_array()?;
        let grouped = listed.iter().flat_map(|entry| match entry["options"].as_array() {
            Some(group) => group.as_slice(),
            None => std::slice::from_ref(entry),
        });
        let values = grouped.filter_map(|entry| entry["value"].as_str().map(str::to_owned));
        Some(Self {
            id: text("id")?,
            category: text("category"),
            current: text("currentValue"),
            values: values.take(VALUES).collect(),
        })
    }

    fn is(&self, setting: Setting) -> bool {
        self.category.as_deref().unwrap_or(&self.id) == setting.word()
    }
}

impl Options {
    /// What the answer says that opened a session.
    pub(super) fn read(opened: &Value) -> Self {
        Self {
            modes: Choice::read(&opened["modes"], "currentModeId", "availableModes", "id"),
            models: Choice::read(&opened["models"], "currentModelId", "availableModels", "modelId"),
            config: ConfigOption::all(&opened["configOptions"]),
        }
    }

    /// All options anew.
    pub(super) fn replace(&mut self, config: Vec<ConfigOption>) {
        self.config = config;
    }

    /// What the answer to a setting says, if it says anything.
    pub(super) fn learn(&mut self, answer: &Value) {
        if answer["configOptions"].is_array() {
            self.replace(ConfigOption::all(&answer["configOptions"]));
        }
    }

    /// The agent is in another mode.
    pub(super) fn mode_is(&mut self, mode: &str) {
        self.note(Setting::Mode, mode);
    }

    /// How a value is set.
    pub(super) fn way(&self, setting: Setting, value: &str) -> Way {
        let of_config = self.config.iter().find(|option| option.is(setting));
        if let Some(option) = of_config
            && option.values.iter().any(|known| known == value)
        {
            if option.current.as_deref() == Some(value) {
                return Way::IsSet;
            }
            let params = json!({ "configId": option.id, "value": value });
            return Way::Request { method: "session/set_config_option", params };
        }
        let choice = self.choice(setting);
        if let Some(choice) = choice
            && choice.values.iter().any(|known| known == value)
        {
            if choice.current.as_deref() == Some(value) {
                return Way::IsSet;
            }
            let (method, field) = match setting {
                Setting::Mode => ("session/set_mode", "modeId"),
                Setting::Model => ("session/set_model", "modelId"),
            };
            return Way::Request { method, params: json!({ field: value }) };
        }
        let offered = of_config.map(|option| &option.values).or(choice.map(|c| &c.values));
        Way::None { offered: offered.cloned().unwrap_or_default() }
    }

    /// A value was set.
    pub(super) fn note(&mut self, setting: Setting, value: &str) {
        let known = |values: &[String]| values.iter().any(|known| known == value);
        for option in self.config.iter_mut().filter(|option| option.is(setting)) {
            if known(&option.values) {
                option.current = Some(value.to_owned());
            }
        }
        let choice = match setting {
            Setting::Mode => &mut self.modes,
            Setting::Model => &mut self.models,
        };
        if let Some(choice) = choice.as_mut().filter(|choice| known(&choice.values)) {
            choice.current = Some(value.to_owned());
        }
    }

    /// The values that a session offers, the one that counts first.
    pub(super) fn offered(&self, setting: Setting) -> Vec<String> {
        let config = self.config.iter().find(|option| option.is(setting));
        let (current, values) = match (config, self.choice(setting)) {
            (Some(option), _) => (&option.current, &option.values),
            (None, Some(choice)) => (&choice.current, &choice.values),
            (None, None) => return Vec::new(),
        };
        let others = values.iter().filter(|value| Some(*value) != current.as_ref());
        current.iter().chain(others).cloned().collect()
    }

    fn choice(&self, setting: Setting) -> Option<&Choice> {
        match setting {
            Setting::Mode => self.modes.as_ref(),
            Setting::Model => self.models.as_ref(),
        }
    }
}

impl Choice {
    fn read(told: &Value, current: &str, list: &str, id: &str) -> Option<Self> {
        let values = told[list].as_array()?.iter();
        let values = values.filter_map(|entry| entry[id].as_str().map(str::to_owned));
        let current = told[current].as_str().map(str::to_owned);
        Some(Self { current, values: values.take(VALUES).collect() })
    }
}

/// Values in words, for an error.
pub(super) fn in_words(values: &[String]) -> String {
    match values {
        [] => "it offers none".to_owned(),
        [first @ .., _] if first.len() >= NAMED => {
            format!("it offers {} and {} more", first[..NAMED].join(", "), values.len() - NAMED)
        }
        all => format!("it offers {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claude() -> Options {
        Options::read(&json!({
            "sessionId": "s",
            "modes": {
                "currentModeId": "auto",
                "availableModes": [{ "id": "auto", "name": "Auto" }, { "id": "default" }, { "id": 7 }],
            },
            "configOptions": [
                { "id": "model", "category": "model", "type": "select", "currentValue": "opus",
                  "options": [{ "group": "all", "options": [{ "value": "opus" }, { "value": "haiku" }] }] },
                { "id": "fast", "type": "boolean", "currentValue": false },
                "odd",
            ],
        }))
    }

    #[test]
    fn a_value_is_set_by_the_way_that_the_agent_offers() {
        let mut options = claude();
        let way = options.way(Setting::Mode, "default");
        let params = json!({ "modeId": "default" });
        assert_eq!(way, Way::Request { method: "session/set_mode", params });
        options.note(Setting::Mode, "default");
        assert_eq!(options.way(Setting::Mode, "default"), Way::IsSet);
        let way = options.way(Setting::Model, "haiku");
        let params = json!({ "configId": "model", "value": "haiku" });
        assert_eq!(way, Way::Request { method: "session/set_config_option", params });
        assert_eq!(options.way(Setting::Model, "opus"), Way::IsSet);
        options.mode_is("plan");
        assert_eq!(options.way(Setting::Mode, "default"), Way::IsSet);
        options.mode_is("auto");
        assert_ne!(options.way(Setting::Mode, "default"), Way::IsSet);
    }

    #[test]
    fn what_is_not_offered_is_said_with_what_is() {
        let Way::None { offered } = claude().way(Setting::Model, "gpt") else {
            panic!("it is set")
        };
        assert_eq!(in_words(&offered), "it offers opus, haiku");
        assert_eq!(
            claude().way(Setting::Mode, "plan"),
            Way::None { offered: vec!["auto".to_owned(), "default".to_owned()] }
        );
        let many: Vec<String> = (0..30).map(|number| number.to_string()).collect();
        assert!(in_words(&many).ends_with("18, 19 and 10 more"));
        assert_eq!(in_words(&[]), "it offers none");
    }

    #[test]
    fn an_older_agent_has_models_of_its_own_kind() {
        let options = Options::read(&json!({
            "models": { "currentModelId": "a", "availableModels": [{ "modelId": "a" }, { "modelId": "b" }] },
        }));
        assert_eq!(options.offered(Setting::Model), ["a", "b"]);
        let params = json!({ "modelId": "b" });
        assert_eq!(
            options.way(Setting::Model, "b"),
            Way::Request { method: "session/set_model", params }
        );
        assert_eq!(Options::read(&Value::Null), Options::default());
    }
}
