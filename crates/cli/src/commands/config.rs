//! `aion config`: shows and changes settings; what they do is the business of those who read them.

use std::path::{Path, PathBuf};
use std::process::Command;

use aion_api::Exit;
use serde_json::json;

use crate::args::{Config, GetSetting, SetSetting};
use crate::config::{Key, Paths, Settings, Written, find, keys, nearest, schema, set, written};
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::replace::{Within, replace};

pub(super) fn run(command: &Config, json: bool) -> Outcome {
    match command {
        Config::Get(args) => get(args, json),
        Config::Set(args) => change(args, json),
        Config::Edit => edit(),
        Config::Path => paths(json),
        Config::Schema => {
            let text = serde_json::to_string_pretty(&schema()).map_err(std::io::Error::from)?;
            output::line(&text)?;
            Ok(Exit::Success)
        }
    }
}

fn get(args: &GetSetting, json: bool) -> Outcome {
    let settings = Settings::load()?;
    let rules = written(&Paths::here()?)?;
    if let Some(word) = args.key.as_deref().and_then(|key| key.strip_prefix("permissions."))
        && ["allow", "ask", "deny"].contains(&word)
    {
        return get_rules(&rules, word, args.origin, json);
    }
    let wanted: Vec<&Key> = match &args.key {
        Some(name) => vec![known(name)?],
        None => keys().collect(),
    };
    let one = args.key.is_some();
    let rows: Vec<(&str, Option<&str>, String)> = wanted
        .iter()
        .map(|key| match settings.get(key) {
            Some((text, origin)) => (key.name, Some(text), origin.to_string()),
            None => (key.name, None, "not set".to_owned()),
        })
        .collect();
    if json {
        let all: Vec<_> = rows
            .iter()
            .map(|(key, value, origin)| json!({ "key": key, "value": value, "origin": origin }))
            .chain(rules.iter().filter(|_| !one).map(as_json))
            .collect();
        match all.as_slice() {
            [only] if one => output::json(only)?,
            all => output::json(&all)?,
        }
    } else if let ([(_, value, origin)], true) = (rows.as_slice(), one) {
        let value = value.unwrap_or_default();
        output::line(&if args.origin { format!("{value}  ({origin})") } else { value.to_owned() })?;
    } else {
        let cells: Vec<Vec<String>> = rows
            .into_iter()
            .map(|(key, value, origin)| {
                vec![key.to_owned(), value.unwrap_or("-").to_owned(), origin]
            })
            .chain(rules.iter().map(|rule| {
                let key = format!("permissions.{}", rule.word.as_str());
                vec![key, rule.rule.to_string(), rule.file.display().to_string()]
            }))
            .collect();
        output::table(&["SETTING", "VALUE", "FROM"], &cells)?;
    }
    Ok(Exit::Success)
}

fn as_json(rule: &Written) -> serde_json::Value {
    let key = format!("permissions.{}", rule.word.as_str());
    json!({ "key": key, "value": rule.rule, "origin": rule.file.display().to_string() })
}

/// The rules under one word, one a line.
fn get_rules(rules: &[Written], word: &str, origin: bool, json: bool) -> Outcome {
    let rules: Vec<&Written> = rules.iter().filter(|rule| rule.word.as_str() == word).collect();
    if json {
        output::json(&rules.into_iter().map(as_json).collect::<Vec<_>>())?;
        return Ok(Exit::Success);
    }
    for rule in rules {
        let from = if origin { format!("  ({})", rule.file.display()) } else { String::new() };
        output::line(&format!("{}{from}", rule.rule))?;
    }
    Ok(Exit::Success)
}

fn change(args: &SetSetting, json: bool) -> Outcome {
    let key = known(&args.key)?;
    if let Some(value) = &args.value {
        key.check(value).map_err(|why| Failure::usage(format!("{}: {why}", key.name)))?;
    }
    if (args.project || args.local) && !key.in_projects {
        let message = format!("only your own file may set {}", key.name);
        return Err(Failure::usage(message));
    }
    let paths = Paths::here()?;
    let path = if args.project || args.local {
        let here = PathBuf::from(".aion/config.toml");
        let local = PathBuf::from(".aion/local/config.toml");
        if args.local { paths.local.unwrap_or(local) } else { paths.project.unwrap_or(here) }
    } else {
        paths.user
    };
    let root = path.ancestors().find(|at| at.ends_with(".aion")).and_then(Path::parent);
    let within = match root {
        Some(root) if args.project || args.local => Within::Project(root),
        Some(_) | None => Within::Own,
    };
    set(&path, within, key, args.value.as_deref())?;
    if json {
        output::json(&json!({ "key": key.name, "value": args.value, "file": path }))?;
    } else {
        let value = args.value.as_deref().unwrap_or("not set any more");
        output::line(&format!("{} is {value} in {}", key.name, path.display()))?;
    }
    Ok(Exit::Success)
}

fn edit() -> Outcome {
    let path = Paths::here()?.user;
    if !path.exists() {
        let fail = |error: std::io::Error| Failure::io(format!("make {}", path.display()), &error);
        let file = Within::Own.file(&path).map_err(fail)?;
        replace(&file, template().as_bytes(), 0o666).map_err(fail)?;
    }
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty()))
        .ok_or_else(|| {
            Failure::usage("neither VISUAL nor EDITOR names an editor")
                .with_hint(format!("the file is {}", path.display()))
        })?;
    let mut words = editor.split_whitespace();
    let status = Command::new(words.next().unwrap_or_default())
        .args(words)
        .arg(&path)
        .status()
        .map_err(|error| Failure::io(format!("start {editor}"), &error))?;
    if !status.success() {
        let message = format!("{editor} ended with {status}");
        return Err(Failure::new(Exit::Failure, "config.editor", message));
    }
    // What was written is read once, so that a mistake is said now.
    Settings::load()?;
    Ok(Exit::Success)
}

/// All settings as comments.
fn template() -> String {
    let mut text = "# Settings of aion; `aion config get` shows what counts.\n".to_owned();
    let mut last = "";
    for key in keys() {
        let (table, field) = key.name.rsplit_once('.').unwrap_or(("", key.name));
        if table != last {
            text.extend(["\n[", table, "]\n"]);
            last = table;
        }
        let value = key.built_in.unwrap_or("…");
        let quoted =
            if value.parse::<u16>().is_ok() { value.to_owned() } else { format!("{value:?}") };
        text.extend(["# ", key.about, "\n# ", field, " = ", &quoted, "\n"]);
    }
    text.push_str(
        "\n[permissions]\n# What runs without asking; see also ask and deny.\n# allow = [\"Bash(cargo test:*)\"]\n",
    );
    text
}

fn paths(json: bool) -> Outcome {
    let paths = Paths::here()?;
    let all: Vec<(&str, PathBuf)> = [
        ("managed", Some(paths.managed)),
        ("user", Some(paths.user)),
        ("project", paths.project),
        ("project, local", paths.local),
    ]
    .into_iter()
    .filter_map(|(what, path)| Some((what, path?)))
    .collect();
    let there = |path: &Path| path.is_file();
    if json {
        let all: Vec<_> = all
            .iter()
            .map(|(what, path)| json!({ "layer": what, "path": path, "exists": there(path) }))
            .collect();
        output::json(&all)?;
        return Ok(Exit::Success);
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|(what, path)| {
            let state = if there(path) { "read" } else { "not there" };
            vec![(*what).to_owned(), state.to_owned(), path.display().to_string()]
        })
        .collect();
    output::table(&["LAYER", "STATE", "FILE"], &rows)?;
    Ok(Exit::Success)
}

fn known(name: &str) -> Result<&'static Key, Failure> {
    find(name).ok_or_else(|| {
        let near = nearest(name).map_or(String::new(), |near| format!("is it {near}? "));
        Failure::usage(format!("there is no setting {name:?}"))
            .with_hint(format!("{near}aion config get lists them"))
    })
}
